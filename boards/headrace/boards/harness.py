"""A top of four pins around any component, for the timing of a part without a board.

The memory port alone has more signals than a package has pins. Inputs come out of a shift register,
and outputs go through registers into an exclusive or of one pin: no logic of the component can be
optimised away, and every path of it lies between registers.
"""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


__all__ = ["Harness"]


class Harness(wiring.Component):
    """Component between a shift register and an exclusive or.

    Parameters
    ----------
    unit : wiring.Component
        Component of the clock domain ``sync``.

    Members
    -------
    scan_in : ``In(1)``
        Shifted through the inputs.
    scan_out : ``Out(1)``
        Exclusive or of all outputs.

    Attributes
    ----------
    inputs, outputs : int
        Bits of the component's ports.
    registers : int
        Flip-flops that the harness adds.
    """
    scan_in: In(1)
    scan_out: Out(1)

    def __init__(self, unit: wiring.Component):
        super().__init__()
        self._unit = unit
        ports = [(member.flow, Value.cast(value))
                 for _, member, value in unit.signature.flatten(unit)]
        self._inputs = [value for flow, value in ports if flow == In]
        self._outputs = [value for flow, value in ports if flow == Out]
        self.inputs = sum(map(len, self._inputs))
        self.outputs = sum(map(len, self._outputs))
        self.registers = self.inputs + self.outputs
        width = self.outputs
        while width > 1:
            width = -(-width // 4)
            self.registers += width

    def elaborate(self, platform):
        m = Module()
        m.submodules.device = self._unit
        scan = Signal(self.inputs)
        m.d.sync += scan.eq(Cat(self.scan_in, scan))
        m.d.comb += Cat(*self._inputs).eq(scan)
        level = Signal(self.outputs)
        m.d.sync += level.eq(Cat(*self._outputs))
        while len(level) > 1:
            # Four inputs of one LUT per level, so that the harness is never the slowest path.
            folded = Signal(-(-len(level) // 4))
            m.d.sync += folded.eq(Cat(level[i:i + 4].xor() for i in range(0, len(level), 4)))
            level = folded
        m.d.comb += self.scan_out.eq(level)
        return m
