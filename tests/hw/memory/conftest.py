"""Fixtures of the memory system's tests."""

import random

import pytest
from amaranth.hdl import Shape
from amaranth.lib import memory


@pytest.fixture(autouse=True)
def garbage_in_memories(monkeypatch):
    """Fill every SRAM with random bits: nothing may depend on what it holds at the start."""
    original = memory.Memory.__init__
    rng = random.Random(3)

    def fill(self, *args, **options):
        if "depth" in options and not options.get("init"):
            width = Shape.cast(options["shape"]).width
            options["init"] = [rng.getrandbits(width) for _ in range(options["depth"])]
        original(self, *args, **options)

    monkeypatch.setattr(memory.Memory, "__init__", fill)
