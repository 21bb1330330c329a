"""Host code that drives the test masters through either driver of a simulation."""

from typing import Any


__all__ = ["copy", "copy_twice"]


def copy(simulation, source: int, target: int, bursts: int, beats: int,
         max_cycles: int = 100_000) -> dict[str, int]:
    """Let a Copier copy; returns its own counts of cycles and of error responses."""
    for register, value in enumerate((source, target, bursts, beats)):
        simulation.write_csr(4 * register, value)
    simulation.write_csr(0x10, 1)
    assert simulation.run(max_cycles), "the copy does not end"
    return {"cycles": simulation.read_csr(0x14), "errors": simulation.read_csr(0x18)}


def copy_twice(simulation) -> dict[str, Any]:
    """Everything that must be equal under both drivers."""
    first = copy(simulation, 0, 1 << 16, 50, 16)
    idle = simulation.run(37, until_irq=False)
    still = simulation.run(10)
    second = copy(simulation, 1 << 16, 1 << 17, 25, 4)
    before_reset = simulation.cycles
    simulation.reset()
    third = copy(simulation, 1 << 17, 0, 3, 16)
    return {"copies": [first, second, third], "idle": idle, "still": still,
            "before_reset": before_reset, "cycles": simulation.cycles,
            "statistics": simulation.statistics}
