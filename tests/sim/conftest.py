"""Simulations of the test masters."""

import numpy as np
import pytest

from headrace.sim.memory import MemoryOptions
from headrace.sim.simulation import Simulation
from tests.sim.masters import Copier, Puppet, to_verilog
from tests.sim.strings import Strings


MEMORY_BYTES = 1 << 18


@pytest.fixture
def memory():
    """Storage full of random bytes."""
    return np.random.default_rng(7).integers(0, 256, MEMORY_BYTES, dtype=np.uint8)


@pytest.fixture
def simulate(memory):
    """Make a simulation of a master with given memory options, closed after the test."""
    opened = []

    def make(master, data_bits, base=0, **options):
        simulation = Simulation(to_verilog(master, data_bits), memory, MemoryOptions(**options),
                                base=base)
        opened.append(simulation)
        return simulation

    yield make
    for simulation in opened:
        simulation.close()


@pytest.fixture
def copier(simulate):
    """A simulation of a Copier, by port width, base and memory options."""
    return lambda data_bits=64, **options: simulate(Copier, data_bits, **options)


@pytest.fixture
def puppet(simulate):
    """A Strings around a simulation of a Puppet, by base and memory options."""
    return lambda **options: Strings(simulate(Puppet, 64, **options))
