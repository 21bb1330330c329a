"""Estimates of boards, and the pages that are written from them."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.boards import pages
from headrace.boards.catalogue import BOARDS, find_board
from headrace.boards.estimate import MODELS, bandwidth, estimate, example
from headrace.hw.config import PRESETS
from headrace.sw.cli import app
from headrace.sw.errors import HeadraceError


DOCS = Path(__file__).parents[2] / "docs"
ROUTED = {
    "board": "ulx3s", "config": "ulx3s", "fingerprint": 1, "tools": {"yosys": "Yosys 1"},
    "seconds": {"routing": 61.4}, "peak_bytes": 2_100_000_000, "bitstream": "ulx3s.bit",
    "routing": {"used": {"LUT4": 41820}, "available": {"LUT4": 83640}, "seed": 7, "met": False,
                "seconds": 61.4,
                "clocks": [{"name": "clk", "goal_mhz": 50.0, "fmax_mhz": 49.5, "met": False,
                            "path": ["a.b", "a.c"], "logic_ns": 1.0, "routing_ns": 2.0}],
                "crossings": [{"start": "clk", "end": "fast", "delay_ns": 3.0, "limit_ns": 10.0,
                               "met": True, "path": []}]}}


@pytest.mark.parametrize("name, limit", [
    ("ulx3s", 4 * 32.5e6), ("orangecrab", 600e6), ("pynq-z2", 8 * 100e6), ("kv260", 16 * 200e6),
    ("zcu104", 16 * 200e6)])
def test_bandwidth_is_the_least_of_three(name, limit):
    board = find_board(name)
    assert bandwidth(board, board.config) == limit
    # A narrower port takes less, a wider one gets no more than memory brings.
    tiny, wide = board.fit(PRESETS["tiny"]), board.fit(PRESETS["wide"])
    assert bandwidth(board, tiny) == min(limit, 4 * board.clk_hz)
    assert bandwidth(board, wide) <= board.memory.peak_bytes


def test_estimate_is_bytes_over_bandwidth():
    board = find_board("orangecrab")
    found = estimate(board, example("SmolLM2-135M"), "w4a", 512)
    # By hand: 134.5 M weights in blocks of 32 with a scale and a minimum, 20 bytes each; 3 K/V
    # heads of 64 bytes and a scale, twice, in 30 layers, for each token.
    weights = 30 * (576 * 576 * 2 + 2 * 576 * 192 + 3 * 576 * 1536) + 49152 * 576
    cache = 30 * 3 * 2 * (64 + 2)
    assert found.token_bytes == weights * 20 // 32 + 512 * cache
    assert found.tokens_per_second == 600e6 / found.token_bytes
    assert found.largest_context == 8192 and not found.reason
    deeper = estimate(board, example("SmolLM2-135M"), "w4a", 8192)
    assert deeper.token_bytes - found.token_bytes == (8192 - 512) * cache
    assert 0 < deeper.tokens_per_second < found.tokens_per_second


def test_what_does_not_fit():
    small = estimate(find_board("ulx3s"), example("SmolLM2-135M"), "w4a", 512)
    assert small.tokens_per_second == 0 and "bytes, but ulx3s has 33,554,432" in small.reason
    large = estimate(find_board("ulx3s"), example("Llama-3.2-1B"), "w4", 512)
    assert large.tokens_per_second == 0 and "table_elems" in large.reason
    far = estimate(find_board("orangecrab"), example("SmolLM2-135M"), "w4a", 9000)
    assert far.tokens_per_second == 0 and far.largest_context == 8192
    with pytest.raises(HeadraceError, match="context 0: expected at least 1 token"):
        estimate(find_board("ulx3s"), example("demo"), "w8", 0)


def test_command():
    done = CliRunner().invoke(app.app, ["boards", "ulx3s", "--model", "demo", "--quant", "w8",
                                        "--context", "100", "--json"])
    row, = json.loads(done.stdout)
    assert row["tokens_per_second"] == 130e6 / row["token_bytes"] and row["context"] == 100
    table = CliRunner().invoke(app.app, ["boards", "--model", "demo"]).stdout
    assert all(name in table for name in BOARDS) and table.count("at most") == len(BOARDS)
    assert "estimated" in CliRunner().invoke(app.app, ["boards", "kv260"]).stdout


@pytest.mark.parametrize("board", BOARDS.values(), ids=lambda board: board.name)
def test_pages_are_up_to_date(board):
    kept = pages._kept(DOCS / "boards" / "built", board)
    text = (DOCS / "boards" / f"{board.name}.md").read_text(encoding="utf-8")
    assert text == pages.board_page(board, kept), "run: python -m headrace.boards.pages docs"
    assert all(model in text for model in MODELS)
    assert max(map(len, text.splitlines())) < 400


def test_figures_of_a_build(tmp_path):
    built = tmp_path / "build.json"
    built.write_text(json.dumps(ROUTED))
    pages.write_pages(tmp_path, [built])
    text = (tmp_path / "boards" / "ulx3s.md").read_text()
    assert "| LUT4 | 41,820 | 83,640 | 50 % |" in text
    assert "| `clk` | 50 MHz | 49.5 MHz | missed |" in text
    assert "| `clk` to `fast` | 10.0 ns | 3.0 ns | met |" in text
    assert "--seed 7" in text and "routing 61 s" in text and "2.1 GB" in text
    assert "a.b\na.c" in text
    # They are kept, and other pages are as they were.
    pages.write_pages(tmp_path, [])
    assert (tmp_path / "boards" / "ulx3s.md").read_text() == text
    assert "Not yet measured" in (tmp_path / "boards" / "orangecrab.md").read_text()
    built.write_text(json.dumps({"board": "pynq-z2", "config": "pynq-z2", "fingerprint": 2,
                                 "resources": {"used": {"LUT": 26600}, "seconds": 100.2}}))
    pages.write_pages(tmp_path, [built])
    text = (tmp_path / "boards" / "pynq-z2.md").read_text()
    assert "| LUT | 26,600 | 53,200 | 50 % |" in text and "Estimated with Yosys" in text


def test_figures_that_are_none(tmp_path):
    built = tmp_path / "build.json"
    for text, message in (("{}", "expected build.json of"), ("{", "--built .*build.json: "),
                          ('{"board": "x", "config": "", "fingerprint": 1, "resources": '
                           '{"used": {}, "seconds": 1}}', "no board 'x'")):
        built.write_text(text)
        with pytest.raises(HeadraceError, match=message):
            pages.write_pages(tmp_path, [built])
    with pytest.raises(HeadraceError, match="--built .*none.json"):
        pages.write_pages(tmp_path, [tmp_path / "none.json"])
