"""The commands that a DRAM needs before its controller takes over."""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Out


__all__ = ["CommandLayout", "Start"]


def CommandLayout(a_bits: int, ba_bits: int):
    """Levels of the chip's pins in one clock."""
    return data.StructLayout({"a": a_bits, "ba": ba_bits, "cs_n": 1, "ras_n": 1, "cas_n": 1,
                              "we_n": 1, "cke": 1})


class Start(wiring.Component):
    """Issue a list of commands once after reset, each followed by a wait.

    Parameters
    ----------
    steps : list of dict
        Per command `a`, `ba`, `cs_n`, `ras_n`, `cas_n`, `we_n`, and `wait`: clocks to the next
        command, at least 4.
    a_bits, ba_bits : int
        Widths of address and bank.

    Members
    -------
    command : ``Out(CommandLayout(a_bits, ba_bits))``
        Pins; no command is given between the steps. CKE is low until the first step.
    done : ``Out(1)``
        High from the end of the last wait on.
    """

    def __init__(self, steps: list[dict], a_bits: int, ba_bits: int):
        if not steps or min(step["wait"] for step in steps) < 4:
            raise ValueError("start of a DRAM: expected at least one step, each with a wait of at "
                             "least 4 clocks")
        self._steps = steps
        self._layout = CommandLayout(a_bits, ba_bits)
        super().__init__({"command": Out(self._layout), "done": Out(1)})

    def elaborate(self, platform):
        m = Module()

        names = ("a", "ba", "cs_n", "ras_n", "cas_n", "we_n")
        wait_bits = max(step["wait"] for step in self._steps).bit_length()
        shape = data.StructLayout({"command": self._layout, "wait": wait_bits})
        m.submodules.steps = steps = Memory(
            shape=shape, depth=len(self._steps),
            init=[{"command": {**{name: step[name] for name in names}, "cke": 1},
                   "wait": step["wait"] - 3} for step in self._steps])
        port = steps.read_port()

        index = Signal(range(len(self._steps) + 1))
        wait = Signal(wait_bits)
        cke = Signal()
        idle = {"cs_n": 1, "ras_n": 1, "cas_n": 1, "we_n": 1}
        m.d.comb += [port.addr.eq(index), self.command.cke.eq(cke),
                     *(self.command[name].eq(level) for name, level in idle.items())]

        with m.FSM(name="start"):
            with m.State("FETCH"):
                m.next = "ISSUE"
            with m.State("ISSUE"):
                m.d.comb += self.command.eq(port.data.command)
                m.d.sync += [cke.eq(1), wait.eq(port.data.wait), index.eq(index + 1)]
                m.next = "WAIT"
            with m.State("WAIT"):
                m.d.sync += wait.eq(wait - 1)
                with m.If(wait == 0):
                    with m.If(index == len(self._steps)):
                        m.next = "DONE"
                    with m.Else():
                        m.next = "FETCH"
            with m.State("DONE"):
                m.d.comb += self.done.eq(1)

        return m
