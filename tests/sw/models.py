"""Small models and machines that the tests of the host side share."""

import numpy as np

from headrace.hw.config import PRESETS, Config
from headrace.sw.checkpoint import ModelShape, Rope, SyntheticCheckpoint
from headrace.sw.compiler import Image, compile_model
from headrace.sw.driver import Session
from headrace.sw.golden_device import GoldenDevice
from headrace.sw.quantiser import Policy


#: A machine whose sizes are odd and not square.
ODD = Config(name="3x5", rows=3, cols=5, ring_bytes=8192, chunk_positions=7, streams=30)

CONFIGS = [*PRESETS.values(), ODD]


def shape(**changes) -> ModelShape:
    """A tiny model: two layers, grouped queries, and an FFN that is no multiple of anything."""
    values = {"dim": 48, "ffn": 44, "layers": 2, "vocab": 37, "heads": 4, "kv_heads": 2,
              "head_dim": 16, "context": 80, "eps": 1e-5, "theta": 10000.0, "tied": True,
              **changes}
    return ModelShape(**values)


#: Features of architectures other than Llama: what their layers do differently.
FEATURES = {
    "bias": {"qkv_bias": True},
    "head norms": {"qk_norm": True},
    "post norms, GELU": {"post_norms": True, "gain_offset": 1.0, "activation": "gelu",
                         "embedding_scale": 6.5, "score_scale": 0.2},
    "window": {"window_of": (20, 0)},
    "window of one": {"window_of": (1, 33)},
    "some layers not rotated": {"ropes": (Rope(theta=500.0), Rope(kind="none")),
                                "rope_of": (1, 0)},
    "everything": {"qkv_bias": True, "qk_norm": True, "post_norms": True, "gain_offset": 1.0,
                   "activation": "gelu", "window_of": (0, 36), "rope_of": (0, 1),
                   "ropes": (Rope(theta=1e6, kind="linear", factor=8.0), Rope(theta=1e4))},
}


def compiled(config: Config, *, seed: int = 0, group: int = 32, **changes) -> Image:
    """The tiny model with random weights, compiled."""
    return compile_model(SyntheticCheckpoint(shape(**changes), seed=seed), config,
                         policy=Policy(group=group))


def ids(count: int, vocab: int = 37, seed: int = 0) -> list[int]:
    """A random prompt."""
    return np.random.default_rng(seed).integers(0, vocab, count).tolist()


def prefill(image: Image, prompt: list[int], *, chunk: int | None = None, fill: int = 0xff
            ) -> tuple[np.ndarray, np.ndarray]:
    """Bits of the logits after a prompt, and the keys and values of the cache.

    The cache is read back element by element, so that configurations with different tiles can be
    compared.
    """
    with GoldenDevice(image.config, memory_bytes=image.total_bytes, fill=fill) as device:
        session = Session(device, image, chunk=chunk)
        session.prefill(prompt, logits=True)
        return session.logits().view(np.uint32), cache_elements(image, session)


def cache_elements(image: Image, session: Session) -> np.ndarray:
    """Every byte of every token in the cache: ``[layer, head, token, byte]``."""
    layout, raw = image.cache, session.cache_bytes()
    unit = 64 * layout.block_units
    tokens = []
    for position in range(session.position):
        block, token = divmod(position, 32)
        offsets = [2 * token, 2 * token + 1, 64 + 2 * token, 65 + 2 * token]
        offsets += [layout.k_offset(k, token) for k in range(layout.head_dim)]
        offsets += [layout.v_offset(d, token) for d in range(layout.head_dim)]
        begin = 64 * layout.unit(block, 0, 0)
        heads = raw[begin:begin + layout.layers * layout.kv_heads * unit].reshape(
            layout.layers, layout.kv_heads, unit)
        tokens.append(heads[..., offsets])
    return np.stack(tokens, axis=2)
