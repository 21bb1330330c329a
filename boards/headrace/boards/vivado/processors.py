"""Processor systems of Zynq parts: names of their pins and settings in Vivado."""

from dataclasses import dataclass


__all__ = ["PROCESSORS", "ProcessorIP"]


@dataclass(frozen=True, kw_only=True)
class ProcessorIP:
    """The IP of a processor system in a block design.

    Parameters
    ----------
    automation : str
        Settings of the rule that applies the board's own settings; ``$preset`` is 1 or 0.
    settings : dict of str to str
        Properties, without ``CONFIG.``; ``{clk_mhz}`` is the clock for the logic.
    clock, reset, interrupt : str
        Pins: clock and reset for the logic, interrupt from it.
    control, control_clock : str
        Interface that reaches the accelerator's registers, and the pin of its clock.
    memory, memory_clock : str
        Interface that reaches the memory, and the pin of its clock.
    space : str
        Address space of the processors.
    segments : dict of str to tuple of int
        Segments of the memory behind `memory`: first address and most bytes.
    others : tuple of str
        Segments behind it that are no memory.
    needs_board : bool
        Whether the memory is all there only with the board's settings.
    """

    automation: str
    settings: dict[str, str]
    clock: str
    reset: str
    interrupt: str
    control: str
    control_clock: str
    memory: str
    memory_clock: str
    space: str
    segments: dict[str, tuple[int, int]]
    others: tuple[str, ...] = ()
    needs_board: bool = False


PROCESSORS = {
    "zynq_ultra_ps_e": ProcessorIP(
        automation='apply_board_preset "$preset"',
        settings={
            # M_AXI_HPM0_FPD alone: the others have no clock here.
            "PSU__USE__M_AXI_GP0": "1", "PSU__MAXIGP0__DATA_WIDTH": "32",
            "PSU__USE__M_AXI_GP1": "0", "PSU__USE__M_AXI_GP2": "0",
            # S_AXI_HP0_FPD.
            "PSU__USE__S_AXI_GP2": "1", "PSU__SAXIGP2__DATA_WIDTH": "128",
            "PSU__USE__IRQ0": "1", "PSU__FPGA_PL0_ENABLE": "1",
            "PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ": "100"},
        clock="pl_clk0", reset="pl_resetn0", interrupt="pl_ps_irq0",
        control="M_AXI_HPM0_FPD", control_clock="maxihpm0_fpd_aclk",
        memory="S_AXI_HP0_FPD", memory_clock="saxihp0_fpd_aclk", space="Data",
        segments={"SAXIGP2/HP0_DDR_LOW": (0, 0x8000_0000),
                  "SAXIGP2/HP0_DDR_HIGH": (0x8_0000_0000, 0x8_0000_0000)},
        others=("SAXIGP2/HP0_LPS_OCM", "SAXIGP2/HP0_QSPI"), needs_board=True),
    "processing_system7": ProcessorIP(
        automation='make_external "FIXED_IO, DDR" apply_board_preset "$preset" '
                   'Master "Disable" Slave "Disable"',
        settings={
            "PCW_USE_M_AXI_GP0": "1", "PCW_USE_S_AXI_HP0": "1", "PCW_S_AXI_HP0_DATA_WIDTH": "64",
            "PCW_USE_FABRIC_INTERRUPT": "1", "PCW_IRQ_F2P_INTR": "1", "PCW_EN_CLK0_PORT": "1",
            "PCW_EN_RST0_PORT": "1", "PCW_FPGA0_PERIPHERAL_FREQMHZ": "100"},
        clock="FCLK_CLK0", reset="FCLK_RESET0_N", interrupt="IRQ_F2P",
        control="M_AXI_GP0", control_clock="M_AXI_GP0_ACLK",
        memory="S_AXI_HP0", memory_clock="S_AXI_HP0_ACLK", space="Data",
        segments={"S_AXI_HP0/HP0_DDR_LOWOCM": (0, 0x4000_0000)}),
}
