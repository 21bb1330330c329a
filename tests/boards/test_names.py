"""Names of cells, from the signals that they compute."""

from headrace.boards.names import name_cells


def cell(kind, inputs=(), outputs=()):
    ports = {**{f"I{i}": [bit] for i, bit in enumerate(inputs)},
             **{f"O{i}": [bit] for i, bit in enumerate(outputs)}}
    return {"type": kind, "connections": ports,
            "port_directions": {port: "output" if port[0] == "O" else "input" for port in ports}}


def test_cells_are_named_for_signals_near_them():
    module = {
        "netnames": {
            "top.unit.sum": {"hide_name": 0, "bits": [5]},
            "top.unit.part.sum_of_all": {"hide_name": 0, "bits": [5]},
            "$hidden": {"hide_name": 1, "bits": [3]},
            "top.other.go": {"hide_name": 0, "bits": ["0", 9]},
        },
        "cells": {
            "memory": cell("RAM", outputs=[1]),
            "$driver": cell("FF", [4], [5]),        # of a named signal, by its shorter name
            "$before": cell("LUT4", [2, 3], [4]),
            "$more": cell("LUT4", [1], [2]),
            "$twin": cell("LUT4", ["x"], [3]),
            "$behind": cell("LUT4", [5], [6]),      # nothing named reads it
            "$last": cell("LUT4", [6], [7]),
            "$alone": cell("LUT4", [20], [21]),
            "$other": cell("FF", [5], [9]),
        },
    }
    names = name_cells(module)
    assert names["memory"] == "memory"
    assert names["$driver"] == "top.unit.sum_FF" and names["$other"] == "top.other.go_FF"
    assert sorted(names[name] for name in ("$before", "$more", "$twin")) == [
        "top.unit.sum_LUT4", "top.unit.sum_LUT4_2", "top.unit.sum_LUT4_3"]
    assert names["$behind"].startswith("top.unit.sum_LUT4") and names["$last"] != names["$behind"]
    assert names["$alone"] == "$alone"
    assert len(set(names.values())) == len(names) == len(module["cells"])
