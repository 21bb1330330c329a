"""Configurations: refusals with reasons, files, fingerprints."""

from dataclasses import replace

import pytest

from headrace.hw.config import PRESETS, Config, ConfigError, load_config


@pytest.mark.parametrize("change, message", [
    ({"rows": 0}, "rows must be between 1 and 64, not 0"),
    ({"rows": 2.0}, "rows must be a whole number, not 2.0"),
    ({"cols": 129}, "cols must be between 1 and 128, not 129"),
    ({"port_bits": 48}, "port_bits must be 32, 64, 128, 256 or 512, not 48"),
    ({"lanes": 3}, "lanes must be 1, 2, 4, 8 or 16, not 3"),
    ({"cols": 5, "lanes": 2}, "lanes must divide cols, but 2 does not divide 5"),
    ({"softmax_lanes": 3}, "softmax_lanes must be 1, 2 or 4, not 3"),
    ({"attn_lead": 0}, "attn_lead must be between 1 and 7, not 0"),
    ({"attn_lead": 8}, "attn_lead must be between 1 and 7, not 8"),
    ({"group": 24}, "group must be a multiple of 16, not 24"),
    ({"head_dim": 24}, "head_dim must be a multiple of 16, not 24"),
    ({"port_bits": 512, "burst_beats": 65, "ring_bytes": 65536}, "the AXI boundary"),
    ({"streams": 4}, "streams must be at least chunk_positions, but 4 < 8"),
    ({"ring_bytes": 512}, "ring_bytes must be at least 1088, four blocks"),
    ({"x_bytes": 24578}, "x_bytes must be a multiple of 4"),
    ({"cols": 8, "lanes": 8, "table_elems": 1004, "x_bytes": 32768},
     "table_elems must be a multiple of lanes"),
    # Attention needs blocks of 32 rows whatever the group of the weights.
    ({"group": 16, "ring_bytes": 1080}, "ring_bytes must be at least 1088, four blocks of 32"),
    ({"cols": 1, "head_dim": 256}, "head_dim 256 needs at least 2 cols, not 1"),
    ({"kv_bytes": -64}, "kv_bytes must not be negative, but is -64"),
    ({"x_bytes": 0}, "x_bytes must be at least 4, not 0"),
    ({"a_bytes": 3}, "a_bytes must be at least 4, not 3"),
    ({"table_elems": 0}, "table_elems must be at least 16, not 0"),
    ({"x_bytes": 1 << 19}, "x_bytes must be at most 262144, not 524288"),
    ({"rows": 1, "a_bytes": 65537}, "a_bytes must be at most 65536, not 65537"),
    ({"rows": 64, "lanes": 8, "a_bytes": 1 << 21}, "a_bytes must be at most 1048576"),
])
def test_refused(change, message):
    with pytest.raises(ConfigError) as info:
        Config(**change)
    assert message in str(info.value)


@pytest.mark.parametrize("change", [
    {"group": 16}, {"rows": 64}, {"rows": 64, "group": 16}, {"cols": 1, "head_dim": 240},
    {"cols": 128, "lanes": 16, "ring_bytes": 17408, "port_bits": 512},
    {"streams": 1, "chunk_positions": 1, "outstanding": 1, "burst_beats": 1, "kv_bytes": 0},
    {"x_bytes": 1 << 18}, {"group": 16, "ring_bytes": 1088},
])
def test_accepted(change):
    config = Config(**change)
    assert config.block == max(config.group, 32) and config.sum_bits >= 20


def test_stream_waste():
    found = {cols: Config(cols=cols, ring_bytes=32768).stream_waste for cols in (1, 5, 96, 128)}
    assert found == {1: 0, 5: 0.375, 96: 0.25, 128: 0}


def test_fingerprint_is_of_the_hardware_only():
    config = PRESETS["tiny"]
    assert replace(config, name="other", clk_hz=1).fingerprint == config.fingerprint
    assert replace(config, rows=3).fingerprint != config.fingerprint
    assert replace(config, attn_lead=2).fingerprint != config.fingerprint
    assert len({preset.fingerprint for preset in PRESETS.values()}) == len(PRESETS)


def test_on_chip_memory_of_the_presets():
    limits = {"tiny": 96 << 10, "ecp5": 320 << 10, "edge": 1 << 20, "wide": 5 << 19}
    for name, limit in limits.items():
        assert PRESETS[name].sram_bytes <= limit


def test_file_changes_a_preset(tmp_path):
    path = tmp_path / "odd.toml"
    path.write_text('preset = "tiny"\nrows = 3\ncols = 5\n')
    config = load_config(str(path))
    assert (config.name, config.rows, config.cols, config.stride) == ("odd", 3, 5, 8)


@pytest.mark.parametrize("text, message", [
    ("rows = [", "not a TOML file"),
    ("height = 3", "unknown field 'height'"),
    ('preset = "huge"', "no preset 'huge'"),
    ("cols = 500", "cols must be between 1 and 128, not 500"),
])
def test_bad_file(tmp_path, text, message):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as info:
        load_config(str(path))
    assert message in str(info.value) and str(path) in str(info.value)


def test_missing():
    with pytest.raises(ConfigError, match="no configuration 'nope': expected a preset"):
        load_config("nope")
