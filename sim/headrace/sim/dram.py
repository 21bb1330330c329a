"""DRAMs: geometry, timings and the controller before them, written once.

Timings are JEDEC's for the slowest common speed bin of each rate. A time that the standard gives in
nanoseconds is rounded up to whole clocks; where it says "the larger of n clocks and t", so does
:func:`_clocks`. ``docs/dram.md`` says what the model does with them.
"""

from dataclasses import dataclass, fields
from fractions import Fraction

from headrace.sw.errors import HeadraceError


__all__ = ["DRAMS", "Dram", "find_dram"]


#: Fields of an address, see :attr:`Dram.mapping`.
_PLACES = ("row", "bank", "column", "group")

#: Fields of a :class:`Dram` that the compiled model knows by the same name.
_NATIVE = ("burst", "rcd", "rp", "rp_all", "ras", "rc", "cl", "cwl", "ccd_s", "ccd_l", "rrd_s",
           "rrd_l", "faw", "rtp", "wr", "wtr_s", "wtr_l", "turn", "refi", "rfc", "row_command",
           "column_command", "precharge_command", "separate_buses", "fold", "read_queue",
           "write_queue", "write_high", "write_low", "read_buffer", "controller", "starve", "idle",
           "serial")


@dataclass(frozen=True, kw_only=True)
class Dram:
    """One channel of a DRAM, one rank, and its controller. Times are in clocks of the memory.

    Parameters
    ----------
    name, title : str
        Name of the preset, and what it is.
    clock_hz : Fraction
        Clock of commands; data moves twice per clock, or once in SDR SDRAM.
    access_bytes : int
        Bytes of one READ or WRITE: width of the channel times burst length.
    burst : int
        Clocks that its data takes.
    row_bytes : int
        Bytes of a row, over all devices of the channel.
    groups, banks : int
        Bank groups (1: there are none), and banks in each of them.
    mapping : tuple of str
        ``row``, ``bank``, ``column`` and ``group`` from the highest bits of an address to the
        lowest; the row must be highest. Rows go on beyond the size of any device.
    interleaved : int
        Bank groups of which accesses in sequence take turns, below all fields of `mapping`: of
        more, a short block would open more rows than it needs.
    fold : bool
        Whether all row bits are folded into bank and group by XOR.
    cl, cwl : int
        READ and WRITE to the first data.
    rcd, rp, rp_all, ras, rc : int
        ACT to READ or WRITE; PRE to ACT, of one bank and of all; ACT to PRE; ACT to ACT of a bank.
    ccd_s, ccd_l : int
        READ to READ and WRITE to WRITE, to another bank group and in the same.
    rrd_s, rrd_l, faw : int
        ACT to ACT of another bank, likewise; clocks in which there are at most four (0: no rule).
    rtp, wr : int
        READ to PRE; end of write data to PRE.
    wtr_s, wtr_l, turn : int
        End of write data to READ; end of read data to the first write data.
    refi, rfc : int
        Period of the refresh of all banks (0: none), and its duration.
    row_command, column_command, precharge_command : int
        Clocks for which a command takes its bus.
    separate_buses : bool
        Whether row commands (ACT, PRE, refresh) have a bus of their own.
    read_queue, write_queue : int
        Accesses that the scheduler chooses from.
    write_high, write_low : int
        Levels of the write queue at which writing begins and ends while there are reads.
    read_buffer : int
        Accesses that are asked for and not delivered, at most.
    controller : int
        Clocks that reads and answers to writes take in the controller and its PHY.
    starve : int
        Clocks after which a request stops younger ones that keep its bank at another row.
    idle : int
        Clocks without a read after which writes go that are fewer than `write_high`.
    serial : int
        Not 0: accesses go in the order of the requests, and banks take turns: so many clocks from
        the last access of one bank to the first command for another.
    """

    name: str
    title: str
    clock_hz: Fraction
    access_bytes: int
    burst: int
    row_bytes: int
    groups: int
    banks: int
    mapping: tuple[str, ...] = ("row", "bank", "group", "column")
    interleaved: int = 1
    fold: bool = True
    cl: int
    cwl: int
    rcd: int
    rp: int
    rp_all: int
    ras: int
    rc: int
    ccd_s: int
    ccd_l: int
    rrd_s: int
    rrd_l: int
    faw: int
    rtp: int
    wr: int
    wtr_s: int
    wtr_l: int
    turn: int
    refi: int
    rfc: int
    row_command: int = 1
    column_command: int = 1
    precharge_command: int = 1
    separate_buses: bool = False
    # As many as the DDR controller of the Zynq UltraScale+ has.
    read_queue: int = 64
    write_queue: int = 64
    write_high: int = 48
    write_low: int = 16
    read_buffer: int = 128
    controller: int
    starve: int = 512
    idle: int = 32
    serial: int = 0

    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type is int and (not isinstance(value, int) or value < 0):
                raise HeadraceError(f"DRAM {self.name}: {field.name} is {value!r}, must be a whole "
                                    f"number from 0")
        if sorted(self.mapping) != sorted(_PLACES) or self.mapping[0] != "row":
            raise HeadraceError(f"DRAM {self.name}: mapping is {' '.join(self.mapping)}, must be "
                                f"row and then bank, column and group in any order")
        for name in ("access_bytes", "row_bytes", "groups", "banks", "interleaved"):
            value = getattr(self, name)
            if value < 1 or value & (value - 1):
                raise HeadraceError(f"DRAM {self.name}: {name} is {value}, must be a power of two")
        if self.interleaved > self.groups:
            raise HeadraceError(f"DRAM {self.name}: interleaved is {self.interleaved}, but there "
                                f"are {self.groups} bank groups")
        if self.groups * self.banks > 64 or self.row_bytes < self.access_bytes:
            raise HeadraceError(f"DRAM {self.name}: expected at most 64 banks, and rows of at "
                                f"least one access of {self.access_bytes} bytes")
        if min(self.ccd_s, self.ccd_l) < self.burst:
            raise HeadraceError(f"DRAM {self.name}: ccd is {min(self.ccd_s, self.ccd_l)}, less than"
                                f" the {self.burst} clocks of an access: data would overlap")
        if not 0 < self.write_low < self.write_high <= self.write_queue or not (
                self.read_queue and self.read_buffer):
            raise HeadraceError(f"DRAM {self.name}: queues are {self.read_queue}, "
                                f"{self.read_buffer} and {self.write_low} < {self.write_high} <= "
                                f"{self.write_queue}, must be above 0 and in that order")
        if self.clock_hz <= 0:
            raise HeadraceError(f"DRAM {self.name}: clock_hz is {self.clock_hz}, must be above 0")

    @property
    def peak(self) -> Fraction:
        """Most bytes per second."""
        return self.clock_hz * self.access_bytes / self.burst

    @property
    def shifts(self) -> dict[str, int]:
        """Lowest bit of each field of an address."""
        sizes = {"group": self.groups // self.interleaved, "bank": self.banks,
                 "column": self.row_bytes // self.access_bytes}
        found, shift = {}, _log2(self.access_bytes * self.interleaved)
        for place in reversed(self.mapping):
            found[place] = shift
            shift += _log2(sizes.get(place, 1))
        return found

    def native(self, clk_hz: int) -> dict[str, int]:
        """Options of the compiled model for a port clock of `clk_hz`, by its names."""
        ratio, shifts = self.clock_hz / clk_hz, self.shifts
        values = {name: int(getattr(self, name)) for name in _NATIVE}
        values |= {"ratio_num": ratio.numerator, "ratio_den": ratio.denominator,
                   "access_log2": _log2(self.access_bytes), "group_bits": _log2(self.groups),
                   "interleaved_bits": _log2(self.interleaved),
                   "bank_bits": _log2(self.banks), "group_shift": shifts["group"],
                   "bank_shift": shifts["bank"], "row_shift": shifts["row"]}
        return {f"dram_{name}": value for name, value in values.items()}


def _log2(value: int) -> int:
    return value.bit_length() - 1


def _clocks(clock_hz: Fraction):
    """Rounding of nanoseconds, given as text, up to clocks, to `least` of them at least."""
    def clocks(nanoseconds: str, least: int = 0) -> int:
        exact = Fraction(nanoseconds) * clock_hz / 10**9
        return max(least, -(-exact.numerator // exact.denominator))
    return clocks


def _ddr3() -> Dram:
    # JESD79-3F, DDR3-1600K (11-11-11), one 2 Gb x16 device (pages of 2 KB). The PHY and a
    # controller at a quarter of the clock take about 30 ns.
    clock = Fraction(800_000_000)
    ck = _clocks(clock)
    return Dram(
        name="ddr3-1600-x16", title="DDR3-1600 x16 (one 2 Gb device)", clock_hz=clock,
        access_bytes=16, burst=4, row_bytes=2048, groups=1, banks=8,
        cl=11, cwl=8, rcd=ck("13.75"), rp=ck("13.75"), rp_all=ck("13.75"), ras=ck("35"),
        rc=ck("48.75"), ccd_s=4, ccd_l=4, rrd_s=ck("7.5", 4), rrd_l=ck("7.5", 4), faw=ck("40"),
        rtp=ck("7.5", 4), wr=ck("15"), wtr_s=ck("7.5", 4), wtr_l=ck("7.5", 4), turn=2,
        refi=ck("7800"), rfc=ck("160"), controller=ck("30"))


def _ddr4() -> Dram:
    # JESD79-4B, DDR4-2400R (16-16-16), eight 8 Gb x8 devices (pages of 1 KB each). Two
    # bank groups take turns, since only another group can follow without a gap.
    clock = Fraction(1_200_000_000)
    ck = _clocks(clock)
    return Dram(
        name="ddr4-2400-x64", title="DDR4-2400 x64 (eight 8 Gb x8 devices)", clock_hz=clock,
        access_bytes=64, burst=4, row_bytes=8192, groups=4, banks=4, interleaved=2,
        cl=16, cwl=12, rcd=ck("13.32"), rp=ck("13.32"), rp_all=ck("13.32"), ras=ck("32"),
        rc=ck("45.32"), ccd_s=4, ccd_l=ck("5", 5), rrd_s=ck("3.3", 4), rrd_l=ck("4.9", 4),
        faw=ck("21", 20), rtp=ck("7.5", 4), wr=ck("15"), wtr_s=ck("2.5", 2), wtr_l=ck("7.5", 4),
        turn=2, refi=ck("7800"), rfc=ck("350"), controller=ck("30"))


def _lpddr4() -> Dram:
    # JESD209-4B, one 16-bit channel of an 8 Gb device (4 Gb per channel, pages of 2 KB) at 2400
    # Mb/s: read latency 24 and write latency 12 (set A) of the 1066 to 1333 MHz range. tDQSCK, 1.5
    # to 3.5 ns after the read latency, is counted as 3 clocks in the latency; its spread, the
    # preamble and tDQSS are in the turnaround. ACT and READ or WRITE are commands of four clocks,
    # PRE and refresh of two.
    clock = Fraction(1_200_000_000)
    ck = _clocks(clock)
    return Dram(
        name="lpddr4-2400-x16", title="LPDDR4-2400 x16 (one channel of 4 Gb)", clock_hz=clock,
        access_bytes=32, burst=8, row_bytes=2048, groups=1, banks=8,
        cl=24 + 3, cwl=12 + 1, rcd=ck("18", 4), rp=ck("18", 4), rp_all=ck("21", 4),
        ras=ck("42", 3), rc=ck("60"), ccd_s=8, ccd_l=8, rrd_s=ck("10", 4), rrd_l=ck("10", 4),
        faw=ck("40"), rtp=ck("7.5", 8), wr=ck("18", 6), wtr_s=ck("10", 8), wtr_l=ck("10", 8),
        turn=4, refi=ck("3904"), rfc=ck("180"), row_command=4, column_command=4,
        precharge_command=2, controller=ck("30"))


def _hbm2() -> Dram:
    # JESD235B: one 64-bit pseudo channel at 2 Gb/s, burst length 4, pages of 1 KB, four groups of
    # four banks. JEDEC leaves most timings to the vendor: these are the values of published
    # simulator configurations for 8 Gb channels. Row and column commands have a bus each.
    clock = Fraction(1_000_000_000)
    ck = _clocks(clock)
    return Dram(
        name="hbm2-pc", title="HBM2, 2 Gb/s (one pseudo channel of 64 bits)", clock_hz=clock,
        access_bytes=32, burst=2, row_bytes=1024, groups=4, banks=4, interleaved=2,
        cl=14, cwl=4, rcd=ck("14"), rp=ck("14"), rp_all=ck("14"), ras=ck("34"), rc=ck("48"),
        ccd_s=2, ccd_l=4, rrd_s=4, rrd_l=6, faw=ck("30"), rtp=6, wr=ck("16"), wtr_s=6, wtr_l=8,
        turn=3, refi=ck("3900"), rfc=ck("260"), separate_buses=True, controller=ck("30"))


def _sdr() -> Dram:
    # JESD21-C SDR SDRAM as PC133 3-3-3: one 256 Mb x16 device (64 ms / 8192 rows, pages of 1 KB),
    # burst length 8. Data is written from the clock of the command on (cwl 0), the last of a read
    # comes while the bank is already being closed (rtp = 8 - CL + 1), and the two clocks of write
    # recovery begin with the last data, one before its end.
    clock = Fraction(400_000_000, 3)
    ck = _clocks(clock)
    return Dram(
        name="sdr-133-x16", title="SDR SDRAM x16, 133 MHz (one 256 Mb device)", clock_hz=clock,
        access_bytes=16, burst=8, row_bytes=1024, groups=1, banks=4,
        cl=3, cwl=0, rcd=ck("20"), rp=ck("20"), rp_all=ck("20"), ras=ck("45"), rc=ck("66"),
        ccd_s=8, ccd_l=8, rrd_s=2, rrd_l=2, faw=0, rtp=6, wr=1, wtr_s=0, wtr_l=0, turn=1,
        refi=ck("7812.5"), rfc=ck("66"), controller=4)


def _litedram_sdr(mhz: int) -> Dram:
    # The chip of _sdr() at 100 MHz, or slower, behind LiteDRAM at half rate: a command moves two
    # words, and all times are whole clocks of the controller, two of the chip's. Its crossbar gives
    # one bank to a port until all that was asked from it has been issued, and has a queue before
    # each bank: the first command for another bank comes three clocks of the controller after the
    # last one, or four if that opens or closes a row (rcd has the fourth). From REF to the first
    # command nine of its clocks pass, and reads take eight in controller and PHY.
    clock = Fraction(mhz * 1_000_000)
    ck = _clocks(clock)
    return Dram(
        name=f"litedram-sdr-{mhz}-x16",
        title=f"SDR SDRAM x16, {mhz} MHz, behind LiteDRAM at half rate",
        clock_hz=clock, access_bytes=4, burst=2, row_bytes=1024, groups=1, banks=4, fold=False,
        cl=2, cwl=0, rcd=4 + 2, rp=4, rp_all=4, ras=ck("45"), rc=ck("66"), ccd_s=2, ccd_l=2,
        rrd_s=2, rrd_l=2, faw=0, rtp=1, wr=2, wtr_s=0, wtr_l=0, turn=8, refi=ck("7800"),
        rfc=2 * 9, controller=16, read_queue=32, write_queue=32, write_high=16,
        write_low=1, read_buffer=32, idle=0, serial=6)


def _litedram_ddr3() -> Dram:
    # One 4 Gb x16 device at 150 MHz behind LiteDRAM with the PHY of an ECP5, whose clock is half
    # of it: as _litedram_sdr(), with LiteDRAM's times of that chip (tRFC 260 ns) in whole clocks of
    # the controller, and CL and CWL of the slowest grade. Reads pass ten clocks of the PHY, and
    # seven of the controller.
    return Dram(
        name="litedram-ddr3-300-x16", title="DDR3-300 x16 (one 4 Gb device) behind LiteDRAM",
        clock_hz=Fraction(150_000_000), access_bytes=16, burst=4, row_bytes=2048, groups=1,
        banks=8, fold=False, cl=6, cwl=5, rcd=4 + 2, rp=4, rp_all=4, ras=6, rc=10, ccd_s=4,
        ccd_l=4, rrd_s=4, rrd_l=4, faw=8, rtp=4, wr=4, wtr_s=4, wtr_l=4, turn=16, refi=1170,
        rfc=2 * 25, controller=2 * 17, read_queue=32, write_queue=32, write_high=16, write_low=1,
        read_buffer=32, idle=0, serial=6)


#: DRAMs by name.
DRAMS = {dram.name: dram for dram in (_ddr3(), _ddr4(), _lpddr4(), _hbm2(), _sdr(),
                                      _litedram_sdr(100), _litedram_sdr(65),
                                      _litedram_ddr3())}


def find_dram(name: str) -> Dram:
    """The preset of that name.

    Raises
    ------
    HeadraceError
        If there is none.
    """
    if name not in DRAMS:
        raise HeadraceError(f"no DRAM {name!r}: expected one of {', '.join(DRAMS)}")
    return DRAMS[name]
