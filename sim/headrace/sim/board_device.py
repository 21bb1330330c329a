"""A simulated board behind the driver's interface: the shipping link, on simulated wires."""

from collections.abc import Callable

import numpy as np

from headrace.boards.catalogue import Board
from headrace.boards.dram.training import start_memory
from headrace.hw.config import Config
from headrace.sw.errors import HeadraceError
from headrace.sw.links.board import BoardDevice
from headrace.sw.links.uart import UartBus

from .board import BoardSimulation, build_simulator
from .uart_loop import BIT_CYCLES


__all__ = ["SimulatedBoard", "SimulatedPort", "SimulatedUart"]


#: Cycles that starting the DRAM may take.
_START_CYCLES = 1_000_000

#: Cycles between two looks at a run.
_POLL_CYCLES = 20_000

#: Cycles after which an answer is missed: that of a long operation of memory comes at once.
_ANSWER_CYCLES = 2_000_000


class SimulatedPort:
    """The serial port of a simulated board, with the calls of pyserial that the link makes.

    The board runs while an answer is awaited; what is written waits until then.
    """

    def __init__(self, simulation: BoardSimulation):
        self._simulation = simulation

    def write(self, data: bytes) -> int:
        """Let bytes wait for their way to the board."""
        self._simulation.write(data)
        return len(data)

    def read(self, size: int) -> bytes:
        """Bytes from the board; fewer if they do not come in time."""
        simulation = self._simulation
        # What was written first takes its own time.
        simulation.settle(0, received=size)
        return simulation.read(size, _ANSWER_CYCLES)

    @property
    def in_waiting(self) -> int:
        """Bytes that have come."""
        return self._simulation.received

    def reset_input_buffer(self) -> None:
        """Forget what has come."""
        self._simulation.read(self._simulation.received, 0)

    def close(self) -> None:
        """Nothing: the simulation belongs to the device."""


class SimulatedUart(UartBus):
    """The UART link over the wires of a simulated board."""

    def __init__(self, simulation: BoardSimulation):
        super().__init__("simulated", simulation.board.clk_hz // BIT_CYCLES,
                         _ANSWER_CYCLES / simulation.board.clk_hz)
        self.label = f"sim:{simulation.board.name}"
        self._simulation = simulation

    def open(self) -> None:
        self._serial = SimulatedPort(self._simulation)

    def resync(self, patience: float = 1) -> None:
        # These wires lose nothing, and time stands still between two calls.
        self._flush()


class SimulatedBoard(BoardDevice):
    """A board in simulation, from its UART to the pins of its DRAM.

    Parameters
    ----------
    board : Board
    config : Config, optional
        Configuration of the accelerator; the board's by default.
    upload : callable, optional
        Called during a large write with the bytes done and the bytes in all.
    fill : int or numpy.random.Generator
        What the DRAM holds at first; it must not matter.
    """

    def __init__(self, board: Board, config: Config | None = None, *,
                 upload: Callable[[int, int], None] | None = None,
                 fill: int | np.random.Generator = 0):
        self._board, self._fill = board, fill
        self.config = config or board.config
        self._simulation: BoardSimulation | None = None
        self._hz = 0.0
        # The bus is of a simulation, which opens with the device.
        super().__init__(UartBus(f"sim:{board.name}"), fingerprint=self.config.fingerprint,
                         upload=upload,
                         start_memory=start_memory(board, model=True, sleep=self._sleep))

    @property
    def simulation(self) -> BoardSimulation:
        """The simulation of the opened device."""
        if self._simulation is None:
            raise HeadraceError(f"sim:{self._board.name}: the device is not open: use it as a "
                                f"context manager")
        return self._simulation

    def build(self) -> None:
        """Build the simulator, unless the cache has it; opening does that as well."""
        build_simulator(self._board, self.config)

    def open(self) -> None:
        if self._simulation is None:
            self._simulation = BoardSimulation(self._board, self.config, fill=self._fill)
        simulation = self._simulation
        self.bus = SimulatedUart(simulation)
        self.name = self.bus.label
        while simulation.chip is not None and not simulation.ready:
            if simulation.cycles > _START_CYCLES:
                self.close()
                raise HeadraceError(f"{self.name}: the DRAM was not ready within "
                                    f"{_START_CYCLES:,} cycles")
            simulation.run(10_000)
        super().open()

    def _sleep(self, seconds: float) -> None:
        # What was written comes first, as it would with a real cable.
        self.simulation.settle(round(seconds * self._board.clk_hz))

    def close(self) -> None:
        if self._simulation is not None:
            self._hz = self._simulation.simulated_hz
            self._simulation.close()
            self._simulation = None

    @property
    def simulated_hz(self) -> float | None:
        return self._simulation.simulated_hz if self._simulation else self._hz

    @property
    def dram_statistics(self) -> dict[str, int] | None:
        chip = self.simulation.chip
        return None if chip is None else chip.statistics

    def wait_interrupt(self, max_cycles: int, progress: Callable[[int], None] | None = None
                       ) -> bool:
        # Time passes in the simulation only.
        first = self.simulation.cycles
        while not self.read_bits("irq", "pending"):
            spent = self.simulation.cycles - first
            if progress is not None:
                progress(spent)
            if spent > max_cycles:
                return False
            self.simulation.run(min(_POLL_CYCLES, max_cycles))
        return True
