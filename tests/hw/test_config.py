"""Configurations: refusals with reasons, files, fingerprints."""

from dataclasses import replace

import pytest

from headrace.hw.config import PRESETS, Config, ConfigError, load_config


@pytest.mark.parametrize("change, message", [
    ({"rows": 0}, "rows must be between 1 and 64, not 0"),
    ({"rows": 33}, "rows must not exceed group, but 33 > 32"),
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
])
def test_refused(change, message):
    with pytest.raises(ConfigError) as info:
        Config(**change)
    assert message in str(info.value)


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
