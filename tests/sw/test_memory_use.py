"""Loading and packing need the packed size and at most twice the largest tensor besides."""

import json
import tracemalloc

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type

from headrace.hw.config import PRESETS
from headrace.sw.checkpoint import SyntheticCheckpoint, load_checkpoint
from headrace.sw.compiler import compile_model, load_image
from headrace.sw.policies import parse_policy

from .model_files import write_gguf, write_llama2c
from .models import shape


EDGE = PRESETS["edge"]

# The embedding table has 25 MB as float32; all that stands for "small" is far below.
SHAPE = {"dim": 512, "ffn": 2048, "layers": 2, "vocab": 12288, "heads": 8, "kv_heads": 2,
         "head_dim": 64, "context": 64}


def _folder(path, source):
    """A folder in BF16 and two shards, written without the library."""
    path.mkdir()
    names, s = list(source.shape.tensors()), source.shape
    weight_map = {}
    for part in range(2):
        header, chunks, at = {}, [], 0
        for name in names[part::2]:
            values = source.tensor(name)
            raw = (values.view(np.uint32) >> np.uint32(16)).astype("<u2").tobytes()
            header[name] = {"dtype": "BF16", "shape": list(values.shape),
                            "data_offsets": [at, at + len(raw)]}
            chunks.append(raw)
            at += len(raw)
            weight_map[name] = f"part{part}.safetensors"
        text = json.dumps(header).encode()
        (path / f"part{part}.safetensors").write_bytes(
            len(text).to_bytes(8, "little") + text + b"".join(chunks))
    (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (path / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "hidden_size": s.dim, "intermediate_size": s.ffn,
        "num_hidden_layers": s.layers, "num_attention_heads": s.heads,
        "num_key_value_heads": s.kv_heads, "head_dim": s.head_dim, "vocab_size": s.vocab,
        "max_position_embeddings": s.context, "rms_norm_eps": s.eps, "rope_theta": s.theta,
        "tie_word_embeddings": s.tied}))
    return path


@pytest.mark.parametrize("kind, quant", [("bf16", "w8"), ("bf16", "w4a"), ("q4_1", "native"),
                                         ("q8_0", "w4"), ("q5_1", "native"), ("bin", "w8")])
def test_peak_of_loading_and_packing(tmp_path, kind, quant):
    source = SyntheticCheckpoint(shape(**SHAPE))
    if kind == "bf16":
        path = _folder(tmp_path / "m", source)
    elif kind == "bin":
        path = write_llama2c(tmp_path / "m.bin", source)
    else:
        path = write_gguf(tmp_path / "m.gguf", source, Type[kind.upper()], tokens=[])
    largest = 4 * SHAPE["dim"] * SHAPE["vocab"]
    tracemalloc.start()
    try:
        image = compile_model(load_checkpoint(path), EDGE, policy=parse_policy(quant))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert image.content.size > 3e7
    # NumPy's arrays are traced: the content is among what was counted.
    assert image.content.size < peak < image.content.size + 2 * largest
    if kind == "q4_1":
        image.save(tmp_path / "image")
        tracemalloc.start()
        try:
            assert load_image(tmp_path / "image").total_bytes == image.total_bytes
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < image.content.size + largest
