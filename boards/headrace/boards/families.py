"""Families of parts: how they are synthesised, what a cell takes, what parts have."""

from dataclasses import dataclass, field


__all__ = ["FAMILIES", "Family"]


@dataclass(frozen=True, kw_only=True)
class Family:
    """How a family of parts is synthesised and counted.

    Parameters
    ----------
    script : str
        Yosys commands; ``{top}`` is the top module, ``{delay_ps}`` the delay of logic between
        registers that is fast enough.
    cells : dict of str to dict of str to float
        For each kind of resource, how many a cell takes.
    parts : dict of str to dict of str to int
        What parts have, by kind of resource.
    multiplier : str
        The resource that products are built of.
    lean : str
        As `script`, but parts of a product that are narrow are built of LUTs; for designs with
        more multipliers than every part has. Empty where there is no such script.
    places : tuple of str
        Options of nextpnr that choose the part; empty where it has no such family.
    """

    script: str
    cells: dict[str, dict[str, float]]
    parts: dict[str, dict[str, int]]
    multiplier: str
    lean: str = ""
    places: tuple[str, ...] = field(default=())


# Yosys 0.66 may read the result of ABC9 back onto wires of another width and stop at an assertion
# in rtlil.cc, so wires of several bits are split before. All scripts end before `autoname`, which
# takes longer than all the rest: see `names`.

# `synth_ecp5` with its coarse steps written out, since it has no option for the narrowest operand
# that is worth a multiplier. A product of 24 x 12 bits becomes one of 18 x 12 and one of 6 x 12.
_ECP5_LEAN = """scratchpad -set abc9.D {delay_ps}
synth_ecp5 -abc9 -top {top} -run begin:coarse
proc; flatten; tribuf -logic; deminout; opt_expr; opt_clean; opt -nodffe -nosdff; fsm; opt; wreduce
peepopt; opt_clean; share; techmap -map +/cmp2lut.v -D LUT_WIDTH=4; opt_expr; opt_clean
techmap -map +/mul2dsp.v -D DSP_A_MAXWIDTH=18 -D DSP_B_MAXWIDTH=18 \
  -D DSP_A_MINWIDTH=7 -D DSP_B_MINWIDTH=7 -D DSP_NAME=$__MUL18X18
chtype -set $mul t:$__soft_mul
techmap -map +/lattice/dsp_map_18x18.v
alumacc; opt; memory -nomap; opt_clean
synth_ecp5 -abc9 -top {top} -run map_ram:map_luts; splitnets
synth_ecp5 -abc9 -top {top} -run map_luts:check"""


FAMILIES = {
    "ecp5": Family(
        # Without a target delay ABC9 spends three times the LUTs on speed that nobody asked for.
        script="scratchpad -set abc9.D {delay_ps}; "
               "synth_ecp5 -abc9 -top {top} -run begin:map_luts; splitnets; "
               "synth_ecp5 -abc9 -top {top} -run map_luts:check",
        # A carry cell sits in the place of two LUTs, a 16 x 4 LUT RAM in that of four: these are
        # the TRELLIS_COMB that nextpnr counts.
        cells={"LUT4": {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 4},
               "FF": {"TRELLIS_FF": 1},
               "DSP 18x18": {"MULT18X18D": 1},
               "block RAM 18 Kb": {"DP16KD": 1}},
        parts={"LFE5U-85F": {"LUT4": 83640, "FF": 83640, "DSP 18x18": 156,
                             "block RAM 18 Kb": 208}},
        multiplier="DSP 18x18", lean=_ECP5_LEAN,
        # The largest package, so that pins are no limit, and the slowest grade.
        places=("--85k", "--package", "CABGA756", "--speed", "6")),
    "xcup": Family(
        # Without ABC9, which Yosys 0.66 ends with an assertion on designs of this size; the delay
        # {delay_ps} is not looked at.
        script="synth_xilinx -family xcup -flatten -uram -noiopad -noclkbuf -top {top}",
        # Inverters are LUTs until the vendor's tools absorb them.
        cells={"LUT": {**{f"LUT{n}": 1 for n in range(1, 7)}, "INV": 1, "SRL16E": 1, "SRLC32E": 1,
                       "RAM32X1S": 1, "RAM64X1S": 1, "RAM32X1D": 2, "RAM64X1D": 2,
                       "RAM128X1S": 2, "RAM128X1D": 4, "RAM256X1S": 4, "RAM256X1D": 8,
                       "RAM32M": 4, "RAM64M": 4, "RAM32M16": 8, "RAM64M8": 8, "RAM32X16DR8": 8,
                       "RAM64X8SW": 8, "RAM512X1S": 8},
               "FF": {"FDRE": 1, "FDSE": 1, "FDCE": 1, "FDPE": 1},
               "DSP48E2": {"DSP48E2": 1},
               "BRAM36": {"RAMB36E2": 1, "RAMB18E2": 0.5},
               "URAM": {"URAM288": 1}},
        parts={"K26 (KV260)": {"LUT": 117120, "FF": 234240, "DSP48E2": 1248, "BRAM36": 144,
                               "URAM": 64},
               "XCZU7EV (ZCU104)": {"LUT": 230400, "FF": 460800, "DSP48E2": 1728, "BRAM36": 312,
                                    "URAM": 96}},
        multiplier="DSP48E2"),
}

FAMILIES["xc7"] = Family(
    # Without ABC9, as above.
    script="synth_xilinx -family xc7 -flatten -noiopad -noclkbuf -top {top}",
    cells={"LUT": FAMILIES["xcup"].cells["LUT"],
           "FF": {"FDRE": 1, "FDSE": 1, "FDCE": 1, "FDPE": 1},
           "DSP48E1": {"DSP48E1": 1},
           "BRAM36": {"RAMB36E1": 1, "RAMB18E1": 0.5}},
    parts={"XC7Z020 (PYNQ-Z2)": {"LUT": 53200, "FF": 106400, "DSP48E1": 220, "BRAM36": 140}},
    multiplier="DSP48E1")
