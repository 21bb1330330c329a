"""Machines by name: what ``--device`` selects."""

from rich.console import Console

from headrace.hw.config import Config

from ..compiler import Image
from ..device import Device
from ..errors import HeadraceError
from ..golden_device import GoldenDevice
from ..links import LINKS, link_device
from .progress import UploadBar


__all__ = ["KINDS", "memory_name", "memory_options", "open_device", "sequential_cycles"]


#: Kinds of devices that the command line knows.
KINDS = ("golden", "sim", "sim:BOARD", "URL")


def memory_name(config: Config, memory: str) -> str:
    """The memory that a name of the command line means: ``"preset"`` is the configuration's own."""
    return config.memory if memory == "preset" else memory


def sequential_cycles(config: Config, memory: str, size: int) -> int:
    """Cycles in which a reader that does nothing else gets `size` bytes from a memory in sequence,
    with bursts as long and as many in flight as the configuration's."""
    from headrace.sim.traffic import sequential_read

    return sequential_read(memory_options(config, memory), size, bus_bytes=config.port_bytes,
                           burst_bytes=config.burst_bytes, outstanding=config.outstanding)


def memory_options(config: Config, memory: str = "ideal", *, latency: int = 60,
                   bandwidth: float = 1.0, stall_seed: int | None = None):
    """Options of the simulated memory of a machine.

    Parameters
    ----------
    config : Config
        Its clock is that of the port.
    memory : str
        ``"ideal"``, the name of a DRAM of :data:`headrace.sim.dram.DRAMS`, or ``"preset"``: the
        DRAM of the configuration.
    latency, bandwidth, stall_seed
        See :class:`headrace.sim.memory.MemoryOptions`; the first two are for ``"ideal"`` only.
    """
    from headrace.sim.memory import MemoryOptions

    memory = memory_name(config, memory)
    return MemoryOptions(latency=latency, bandwidth=bandwidth, stall_seed=stall_seed,
                         dram=None if memory == "ideal" else memory, clk_hz=config.clk_hz)


def open_device(kind: str, image: Image, *, memory: str = "ideal", latency: int = 60,
                bandwidth: float = 1.0, stall_seed: int | None = None, activity: bool = False,
                notes: Console | None = None) -> Device:
    """A machine for an image, to be used as a context manager.

    Parameters
    ----------
    kind : str
        One of :data:`KINDS`; ``sim:ulx3s`` is that board in simulation, from its UART to its DRAM;
        a URL of :data:`headrace.sw.links.LINKS` is a real board.
    image : Image
        What will run: its configuration, and the memory that it needs.
    memory, latency, bandwidth, stall_seed
        Memory of a simulation, see :func:`memory_options`.
    activity : bool
        A simulation can record what its engines do; that of a whole board cannot.
    notes : Console, optional
        Where a build of the simulator is announced.

    Raises
    ------
    HeadraceError
        If the kind is unknown, an option is out of range, or the simulator cannot be built.
    """
    if kind == "golden":
        return GoldenDevice(image.config, memory_bytes=image.total_bytes)
    if kind.startswith("sim:"):
        return _simulated_board(kind.removeprefix("sim:"), image, activity, notes)
    if "://" in kind:
        return _linked_board(kind, image, activity, notes)
    if kind != "sim":
        raise HeadraceError(f"no device {kind!r}: expected one of {', '.join(KINDS)}, with a URL "
                            f"as {LINKS['uart']}")
    # The simulator only where it is needed; it imports Amaranth only if it must generate.
    from headrace.sim.device import SimDevice
    from headrace.sim.generation import device_verilog
    from headrace.sim.simulation import build_simulation

    options = memory_options(image.config, memory, latency=latency, bandwidth=bandwidth,
                             stall_seed=stall_seed)
    console = notes or Console(quiet=True)
    with console.status(f"generating the RTL of {image.config.name}") as status:
        verilog = device_verilog(image.config, activity=activity)
        status.update(f"building the simulator of {image.config.name}, once for this "
                      f"configuration")
        build_simulation(verilog)
    return SimDevice(image.config, verilog, options, memory_bytes=image.total_bytes)


def _linked_board(url: str, image: Image, activity: bool, notes: Console | None) -> Device:
    """A board behind a link."""
    if activity:
        raise HeadraceError(f"{url}: a board does not record what its engines do: --trace and "
                            f"--report need --device sim")
    return link_device(url, fingerprint=image.fingerprint, memory_bytes=image.total_bytes,
                       upload=UploadBar(notes or Console(quiet=True), "upload"))


def _simulated_board(name: str, image: Image, activity: bool, notes: Console | None) -> Device:
    """A board in simulation, which shows on `notes` how an upload goes on."""
    from headrace.boards.catalogue import find_board
    from headrace.sim.board_device import SimulatedBoard

    board = find_board(name)
    if activity:
        raise HeadraceError(f"sim:{name}: a simulated board does not record what its engines do: "
                            f"--trace and --report need --device sim")
    if image.total_bytes > board.memory.size_bytes:
        raise HeadraceError(f"sim:{name}: the model takes {image.total_bytes:,} bytes of memory: "
                            f"the board has {board.memory.size_bytes:,}; a shorter --context or "
                            f"fewer bits (--quant) make it smaller")
    console = notes or Console(quiet=True)

    device = SimulatedBoard(board, board.fit(image.config), upload=UploadBar(console, "upload"))
    with console.status(f"building the simulator of board {name}, once for this configuration"):
        device.build()
    return device
