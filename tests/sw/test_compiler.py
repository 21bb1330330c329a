"""Compiler and image: sizes, memory map, program, traffic, files, and what does not fit."""

import dataclasses
import hashlib
import json

import numpy as np
import pytest

from headrace.hw.config import PRESETS, Config
from headrace.hw.isa import Format, Op
from headrace.hw.regmap import COUNTERS
from headrace.sw.checkpoint import SyntheticCheckpoint
from headrace.sw.compiler import Sizes, compile_model, load_image
from headrace.sw.driver import Session
from headrace.sw.errors import HeadraceError
from headrace.sw.golden_device import GoldenDevice
from headrace.sw.quantiser import Policy

from .models import CONFIGS, ODD, compiled, ids, prefill, shape


TINY = PRESETS["tiny"]


def test_program_of_a_layer():
    names = [code["op"].name for code in compiled(TINY).program]
    layer = ["NORM", "MATMUL", "STORE", "MATMUL", "APPEND", "STORE", "ROPE", "ATTN", "ATTN_OUT",
             "QUANT", "MATMUL", "ADD", "NORM", "MATMUL", "GLU", "QUANT", "MATMUL", "ADD"]
    assert names == ["EMBED", *layer, *layer, "NORM", "MATMUL", "LOGITS", "END"]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_every_post_meets_a_wait(config):
    tokens = 0
    for code in compiled(config).program:
        tokens += code.get("post_a", 0) - code.get("wait_a", 0)
        assert tokens in (0, 1)
    assert tokens == 0


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_memory_map(config):
    image = compiled(config)
    assert list(image.regions) == ["program", "tables", "weights", "cache", "tokens", "logits",
                                   "records"]
    end = 0
    for region in image.regions.values():
        assert region.begin % 64 == 0 and region.begin == end
        end = region.end
    assert end == image.total_bytes
    assert all(part.begin % 64 == 0 for part in image.parts.values())
    assert image.instructions * 32 <= image.regions["program"].size
    weights = sum(code["words"] * config.stride for code in image.program
                  if code["op"] == Op.MATMUL)
    assert 0 <= image.regions["weights"].size - weights < 64 * 11


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_chunk_is_the_largest_that_fits(config):
    image = compiled(config)
    sizes = image.sizes
    pieces = sizes.plan[1]
    assert all(d.need <= d.have for d in sizes.demands(image.chunk, pieces))
    assert image.chunk == config.chunk_positions or any(
        d.need > d.have for d in sizes.demands(image.chunk + 1, pieces))
    assert image.prefill_chunk % config.rows == 0
    assert image.chunk - config.rows < image.prefill_chunk <= image.chunk


@pytest.mark.parametrize("ffn", [480, 300])
def test_mlp_in_pieces_allows_more_positions_and_changes_nothing(ffn):
    large = compiled(TINY, ffn=ffn)
    small = compiled(dataclasses.replace(TINY, x_bytes=4 * 8 * (64 + 96)), ffn=ffn)
    assert len(large.sizes.pieces) == 1 and large.chunk == 8
    assert len(small.sizes.pieces) > 1 and small.chunk == 8
    assert sum(small.sizes.pieces) == small.sizes.ffn
    glu = [code for code in small.program if code["op"] == Op.GLU]
    assert [code["limit"] for code in glu] == 2 * small.sizes.pieces
    assert small.regions["weights"].size == large.regions["weights"].size
    for one, other in zip(prefill(small, ids(19)), prefill(large, ids(19))):
        assert (one == other).all()


def test_repeated_layers_read_the_same_weights():
    once, twice = (compile_model(SyntheticCheckpoint(shape(layers=1)), TINY, repeat=repeat)
                   for repeat in (1, 2))
    *layer, norm, matmul, logits, end = once.program[1:]
    assert [code["op"] for code in twice.program[1:]] == [
        code["op"] for code in (*layer, *layer, norm, matmul, logits, end)]
    assert once.regions["weights"].size == twice.regions["weights"].size
    layer_macs = (twice.expected_traffic(0, 1, True).macs - once.expected_traffic(0, 1, True).macs)
    assert layer_macs == once.expected_traffic(0, 1, False).macs


def test_small_sram_makes_the_chunk_small():
    config = dataclasses.replace(TINY, x_bytes=4 * 3 * (64 + 64))
    assert compiled(config).chunk == 3
    config = dataclasses.replace(TINY, streams=12, chunk_positions=8)
    assert compiled(config, kv_heads=1).chunk == 3


def test_kv_buffer_holds_whole_blocks():
    image = compiled(TINY, layers=3, kv_heads=4)
    block = image.cache.block_units
    assert image.kv_pinned % block == 0
    assert image.kv_pinned * 64 <= TINY.kv_bytes < image.kv_pinned * 64 + block * 64
    assert compiled(dataclasses.replace(TINY, kv_bytes=0)).kv_pinned == 0
    whole = compiled(PRESETS["wide"])
    assert whole.kv_pinned * 64 == whole.regions["cache"].size


#: Columns of a matrix with 64 and of one with 37, padded.
COLUMNS = {"tiny": (64, 40), "ecp5": (64, 40), "edge": (64, 48), "wide": (64, 64), "3x5": (65, 40)}


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_traffic_of_a_pass(config):
    image = compiled(config)
    beat = config.port_bytes
    found = image.expected_traffic(40, 3, True, True)
    up = lambda size: -(-size // beat) * beat     # noqa: E731
    matmuls = [code for code in image.program if code["op"] == Op.MATMUL]
    scales = sum(code["k_groups"] * (2 * code["tiles"] - (code["narrow"] > 0)) * config.stride
                 for code in matmuls)
    assert found.read["scales"] == scales
    assert found.read["weights"] == sum(up(code["words"] * config.stride)
                                        for code in matmuls) - scales
    assert found.read["tables"] == 3 * 256 + 5 * 256 + 2 * 3 * 64
    assert found.read["activations"] == 3 * max(4, beat)
    assert found.read["program"] == up(32 * image.instructions)
    blocks = 2 * 2 * 2                                  # layers, K/V heads, blocks of 32 tokens
    assert found.kv_hits + found.kv_misses == blocks * (128 + 64 * 16)
    assert found.read["kv"] == found.kv_misses
    assert found.written["kv"] == 3 * 2 * 2 * 2 * (16 + 2)
    assert found.written["activations"] == 8 * len(COUNTERS) + 4 + 4 * 37
    without = image.expected_traffic(40, 3, False)
    assert without.written["activations"] == 8 * len(COUNTERS)
    head = matmuls[-1]
    both = ("weights", "scales")
    assert (sum(found.read[name] - without.read[name] for name in both)
            == up(head["words"] * config.stride))
    # k and v, q, o and down have 64 columns, as gate and up.
    full = config.cols * -(-64 // config.cols)
    per_layer = [64 * COLUMNS[config.name][0]] * 4 + [64 * 2 * full]
    attended = 2 * 2 * 64 * (41 + 42 + 43)
    assert without.macs == 3 * 2 * sum(per_layer) + attended
    assert found.macs == without.macs + 64 * COLUMNS[config.name][1]


def test_useful_work_has_no_padding():
    image = compiled(TINY)
    layer = 48 * 64 + 48 * 64 + 64 * 48 + 3 * 48 * 44
    weights = 2 * layer + 48 * 37
    attention = 2 * 2 * 64 * (11 + 12 + 13)
    assert image.useful_macs(10, 3, True) == 3 * 2 * layer + 48 * 37 + attention
    assert image.useful_macs(10, 3, False) == 3 * 2 * layer + attention
    scales = 2 * (2 * (2 * 64 + 2 * 64 + 2 * 48 + 2 * 88 + 2 * 48)) + 2 * 2 * 37
    assert image.least_bytes(0, 1, True) == weights + scales
    assert image.least_bytes(0, 1, False) == weights + scales - 48 * 37 - 4 * 37
    unpinned = dataclasses.replace(image, kv_pinned=0)
    assert (unpinned.least_bytes(10, 1, True)
            == weights + scales + 10 * 2 * 2 * 2 * (16 + 2))


def test_context_may_be_shortened():
    image = compile_model(SyntheticCheckpoint(shape()), TINY, context=33)
    assert image.context == 33 and image.regions["cache"].size == 64 * 2 * 2 * 2 * 18
    with pytest.raises(HeadraceError, match="context 81: expected 1 to 80"):
        compile_model(SyntheticCheckpoint(shape()), TINY, context=81)


def test_progress_names_every_part():
    seen = []
    image = compile_model(SyntheticCheckpoint(shape()), TINY, progress=seen.append)
    assert sorted(seen) == sorted(image.parts)


@pytest.mark.parametrize("fmt", [Format.W4, Format.W4A])
def test_int4_gives_the_same_bits_everywhere(fmt):
    results = []
    for config in (TINY, ODD, PRESETS["edge"]):
        image = compile_model(SyntheticCheckpoint(shape()), config,
                              policy=Policy(default=fmt, tensors=(("head", Format.W8),)))
        results.append(prefill(image, ids(9)))
    for other in results[1:]:
        assert np.array_equal(results[0][0], other[0])
        assert np.array_equal(results[0][1], other[1])
    assert not np.array_equal(results[0][0], prefill(compiled(TINY), ids(9))[0])


@pytest.mark.parametrize("group", [16, 48, 64, 128])
def test_groups_of_every_size_give_the_same_bits_everywhere(group):
    configs = [dataclasses.replace(config, group=limit, ring_bytes=1 << 16)
               for config, limit in ((TINY, group), (ODD, group), (ODD, 128))]
    for fmt in Format:
        results = [prefill(compile_model(SyntheticCheckpoint(shape(dim=80, ffn=100), seed=1),
                                         config, policy=Policy(default=fmt, group=group)), ids(9))
                   for config in configs]
        for other in results[1:]:
            assert np.array_equal(results[0][0], other[0])
            assert np.array_equal(results[0][1], other[1])


@pytest.mark.parametrize("group", [0, 8, 24, 144])
def test_group_is_a_multiple_of_16(group):
    with pytest.raises(HeadraceError, match=f"quantisation group {group}: expected a multiple of "
                                            f"16, from 16 to 128"):
        compile_model(SyntheticCheckpoint(shape()), TINY, policy=Policy(group=group))


def test_int4_on_one_column():
    one = Config(name="one column", cols=1)
    for fmt in (Format.W4, Format.W4A):
        found = [prefill(compile_model(SyntheticCheckpoint(shape()), config,
                                       policy=Policy(default=fmt)), ids(9))
                 for config in (TINY, one)]
        assert np.array_equal(found[0][0], found[1][0])


def test_padding_of_the_weight_stream():
    # 64 = 2 groups and 8 tiles of 8 columns: nothing is padding.
    even = {"dim": 64, "ffn": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "vocab": 64}
    assert compiled(TINY, **even).stream_waste == {"columns": 0, "all": 0}
    found = compiled(ODD, **even).stream_waste
    # 13 tiles of 5 columns for 64, each stored as 8; 34 bytes of a column for 32 values.
    stored = 13 * 8 * 34 * 2
    assert found == {"columns": 0.375, "all": pytest.approx(1 - 64 * 34 * 2 / stored)}
    assert found["all"] > 0.375


# What does not fit.

@pytest.mark.parametrize("config, changes, text", [
    ({"memory_bytes": 65536}, {},
     r"model 'synthetic' is larger than the memory of configuration 'tiny': [\d,]+ bytes are "
     r"needed \([\d,]+ and a cache of 13,824 for 80 positions\), but there are 65,536 "
     r"\(memory_bytes\)"),
    ({"x_bytes": 508}, {}, r"one position of fp32 vectors takes up 512 bytes, but there are 508 "
                           r"\(x_bytes\)"),
    ({"a_bytes": 128}, {}, r"one position of int8 activations takes up 256 bytes, but there are "
                           r"128 \(a_bytes\)"),
    ({"head_dim": 16}, {"head_dim": 18}, r"a head \(padded to 16\) takes up 32 elements, but there "
                                         r"are 16 \(head_dim\)"),
    ({"table_elems": 48}, {}, r"a row of norm gains takes up 64 elements, but there are 48 "
                              r"\(table_elems\)"),
    ({"streams": 3, "chunk_positions": 3}, {"heads": 4, "kv_heads": 1},
     r"one position of attention streams takes up 4 streams, but there are 3 \(streams\)"),
    ({"group": 16}, {}, r"a quantisation group takes up 32 values, but there are 16 \(group\)"),
])
def test_model_that_does_not_fit(config, changes, text):
    with pytest.raises(HeadraceError, match=text):
        compiled(dataclasses.replace(TINY, **config), **changes)


def test_model_beyond_the_instruction_set():
    wide = Config(name="big", table_elems=70000, x_bytes=1 << 18)
    with pytest.raises(HeadraceError, match="width of the MLP 70016 .padded.: the instruction set "
                                            "ends at 65535"):
        Sizes(shape(ffn=70000), wide).check()


def test_damaged_weights_are_named(monkeypatch):
    source = SyntheticCheckpoint(shape())
    huge = source.tensor("model.layers.1.self_attn.k_proj.weight") * 1e9
    original = source.tensor
    monkeypatch.setattr(source, "tensor", lambda name: huge if "1.self_attn.k" in name
                        else original(name))
    with pytest.raises(HeadraceError, match="tensor 'layers.1.kv': a weight of .* needs a scale"):
        compile_model(source, TINY)


# Files.

def test_file_round_trip(tmp_path):
    image = compiled(ODD)
    image.save(tmp_path / "image")
    found = load_image(tmp_path / "image")
    assert [path.name for path in tmp_path.iterdir()] == ["image"]
    assert np.array_equal(found.content, image.content)
    for field in dataclasses.fields(image):
        if field.name != "content":
            assert getattr(found, field.name) == getattr(image, field.name)
    with GoldenDevice(found.config, memory_bytes=found.total_bytes) as device:
        assert Session(device, found).prefill(ids(4)) >= 0


def test_missing_file(tmp_path):
    with pytest.raises(HeadraceError, match="none: cannot be read: No such file"):
        load_image(tmp_path / "none")


def test_file_that_cannot_be_written(tmp_path):
    with pytest.raises(HeadraceError, match="cannot be written: No such file"):
        compiled(TINY).save(tmp_path / "none" / "image")
    (tmp_path / "folder").mkdir()
    with pytest.raises(HeadraceError, match="cannot be written"):
        compiled(TINY).save(tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def _header(path, change):
    """Rewrite the header of an image file; lengths and hash are right again."""
    raw = path.read_bytes()
    begin = raw.index(b"\n") + 1
    length = int.from_bytes(raw[begin:begin + 8], "little")
    header = json.loads(raw[begin + 48:begin + 48 + length])
    change(header)
    text = json.dumps(header).encode()
    body = text + raw[begin + 48 + length:]
    path.write_bytes(raw[:begin] + len(text).to_bytes(8, "little")
                     + len(body).to_bytes(8, "little") + hashlib.sha256(body).digest() + body)


@pytest.mark.parametrize("damage, text", [
    (lambda path: path.write_bytes(b"something"), "not an image of headrace"),
    (lambda path: path.write_bytes(path.read_bytes()[:-5]), "truncated"),
    (lambda path: path.write_bytes(path.read_bytes()[:100]), "truncated, 100 of"),
    (lambda path: path.write_bytes(path.read_bytes()[:20]), "truncated, 20 of"),
    (lambda path: path.write_bytes(path.read_bytes()[:-5] + b"\x55\xaa\x55\xaa\x55"),
     "its checksum is wrong"),
    (lambda path: _header(path, lambda h: h.update(file_version=9)), "file version 9: expected 3"),
    (lambda path: _header(path, lambda h: h.update(isa_version=0x20000)),
     "instruction set version 0x20000"),
    (lambda path: _header(path, lambda h: h["config"].update(rows=2)),
     "the image was made for fingerprint"),
    (lambda path: _header(path, lambda h: h["config"].update(rows=0)), "its header is wrong"),
    (lambda path: _header(path, lambda h: h.pop("chunk")), "its header is wrong"),
    (lambda path: _header(path, lambda h: h["parts"].update(head=[0, 1 << 40])), "part head is"),
    (lambda path: _header(path, lambda h: h["regions"].pop("cache")), "its header is wrong"),
    (lambda path: _header(path, lambda h: h["regions"]["weights"].__setitem__(1, 64)),
     "the memory map does not end where the content does"),
    (lambda path: _header(path, lambda h: h.update(tokenizer={"bytes": 9})), "of memory"),
], ids=range(14))
def test_damaged_file(tmp_path, damage, text):
    path = tmp_path / "image"
    compiled(TINY).save(path)
    damage(path)
    with pytest.raises(HeadraceError, match=text):
        load_image(path)


def test_image_of_the_first_version_is_named(tmp_path):
    path = tmp_path / "image"
    header = b'{"file_version": 1}'
    path.write_bytes(b"HEADRACE IMAGE\n" + len(header).to_bytes(8, "little") + header + bytes(99))
    with pytest.raises(HeadraceError, match="file version 1: expected 3"):
        load_image(path)
