"""The compiled loop: control port, interrupt, time."""

import re

import numpy as np
import pytest

from headrace.sim.simulation import ControlError, Simulation
from headrace.sw.errors import HeadraceError
from tests.sim.hosts import copy
from tests.sim.masters import Copier, to_verilog


def test_device_without_control_port():
    verilog = to_verilog(Copier, 64).replace("ctrl__arvalid", "other")
    with pytest.raises(HeadraceError, match="device 'headrace' has no port 'ctrl__arvalid'"):
        Simulation(verilog, np.zeros(64, np.uint8))


def test_unknown_register(copier):
    simulation = copier()
    with pytest.raises(ControlError, match="read of control register 0xffc: the device answered "
                                           "DECERR"):
        simulation.read_csr(0xFFC)
    with pytest.raises(ControlError, match="write of control register 0x014: the device answered "
                                           "DECERR"):
        simulation.write_csr(0x14, 0)


def test_control_port_hangs(memory):
    # A device that never takes a write address.
    verilog = re.sub(r"assign ctrl__awready = [^;]*;", "assign ctrl__awready = 1'h0;",
                     to_verilog(Copier, 64))
    assert verilog != to_verilog(Copier, 64)
    with Simulation(verilog, memory) as simulation:
        with pytest.raises(ControlError, match="write of control register 0x000: no answer within "
                                               "10000 cycles; the device hangs"):
            simulation.write_csr(0, 0)


def test_registers_keep_all_bits(puppet):
    master = puppet(latency=1)
    master.accept()
    for word in (0xFFFFFFFF, 0x80000001, 0):
        master.address(True, 0x100)
        master.data(word)
        master.wait()
        master.address(False, 0x100)
        master.wait()
        assert master.last_data == word


def test_run_counts_cycles(copier):
    simulation = copier()
    start = simulation.cycles
    assert not simulation.run(123, until_irq=False)
    assert simulation.cycles == start + 123
    assert not simulation.run(0)
    assert not simulation.run(50)
    assert simulation.cycles == start + 173


def test_run_stops_at_the_interrupt(copier):
    simulation = copier()
    took = copy(simulation, 0, 0x10000, 4, 4)["cycles"]
    start = simulation.cycles
    assert simulation.run(1000)  # still high
    assert simulation.cycles == start
    simulation.write_csr(0x10, 1)
    start = simulation.cycles
    assert not simulation.run(took // 2)
    assert simulation.cycles == start + took // 2
    assert simulation.run(1000)
    assert simulation.cycles < start + took + 5


def test_progress_and_speed(copier):
    simulation = copier()
    seen = []
    simulation.run(600_000, progress=seen.append)
    assert seen == [262144, 524288, 600000]
    assert simulation.simulated_hz > 20_000


def test_two_simulations_do_not_meet(copier, memory):
    fast, slow = copier(latency=1), copier(latency=500)
    first = copy(fast, 0, 0x8000, 4, 4)["cycles"]
    second = copy(slow, 0, 0x10000, 4, 4)["cycles"]
    assert second > first + 400
    assert copy(fast, 0, 0x18000, 4, 4)["cycles"] == first
    assert fast.statistics["read"]["beats"] == 32
    assert slow.statistics["read"]["beats"] == 16


def test_storage_is_a_shared_file(tmp_path):
    path = tmp_path / "memory.bin"
    mapped = np.memmap(path, np.uint8, "w+", shape=1 << 17)
    with Simulation(to_verilog(Copier, 64), mapped) as simulation:
        with open(path, "r+b") as file:
            file.write(b"written through the file")
        copy(simulation, 0, 0x10000, 1, 16)
    assert path.read_bytes()[0x10000:0x10018] == b"written through the file"


def test_trace(memory, tmp_path):
    path = tmp_path / "trace.vcd"
    with Simulation(to_verilog(Copier, 64), memory, trace=path) as simulation:
        copy(simulation, 0, 0x10000, 1, 4)
    assert "axi__araddr" in path.read_text()


def test_close_twice(memory):
    simulation = Simulation(to_verilog(Copier, 64), memory)
    simulation.close()
    simulation.close()
