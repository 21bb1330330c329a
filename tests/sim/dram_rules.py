"""The rules between the commands of a DRAM, written a second time: pair by pair."""

from collections import defaultdict

from headrace.sim.dram import Dram
from headrace.sim.traffic import Command


__all__ = ["broken_rules"]


def _spacing(dram: Dram) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Least clocks from one command to another: of the same bank, the same group, any bank."""
    after_read = dram.cl + dram.burst + dram.turn - dram.cwl
    written = dram.cwl + dram.burst
    to_read = (written + dram.wtr_l, written + dram.wtr_l, written + dram.wtr_s)
    activates = (dram.rc, dram.rrd_l, dram.rrd_s)
    columns = (dram.ccd_l, dram.ccd_l, dram.ccd_s)
    return {
        ("activate", "activate"): activates,
        ("activate", "read"): (dram.rcd, 0, 0), ("activate", "write"): (dram.rcd, 0, 0),
        ("activate", "precharge"): (dram.ras, 0, 0),
        ("activate", "precharge_all"): (dram.ras,) * 3,
        ("activate", "refresh"): (dram.rc,) * 3,
        ("precharge", "activate"): (dram.rp, 0, 0), ("precharge", "refresh"): (dram.rp,) * 3,
        ("precharge_all", "activate"): (dram.rp_all,) * 3,
        ("precharge_all", "refresh"): (dram.rp_all,) * 3,
        ("read", "read"): columns, ("write", "write"): columns,
        ("read", "write"): (after_read,) * 3, ("write", "read"): to_read,
        ("read", "precharge"): (dram.rtp, 0, 0), ("read", "precharge_all"): (dram.rtp,) * 3,
        ("write", "precharge"): (written + dram.wr, 0, 0),
        ("write", "precharge_all"): (written + dram.wr,) * 3,
        ("refresh", "activate"): (dram.rfc,) * 3, ("refresh", "refresh"): (dram.rfc,) * 3,
    }


def broken_rules(dram: Dram, commands: list[Command]) -> list[str]:
    """What is wrong with a sequence of commands that begins with all banks closed."""
    wrong = []
    spacing = _spacing(dram)
    last: dict[tuple[str, str, int], int] = {}
    rows: dict[int, int] = {}
    activates: list[int] = []
    bus: dict[str, int] = defaultdict(int)
    for command in commands:
        clock, name, bank, row = command
        scopes = (("bank", bank), ("group", bank % dram.groups), ("any", 0))
        for (before, after), waits in spacing.items():
            if after != name:
                continue
            for (scope, index), least in zip(scopes, waits):
                at = last.get((before, scope, index))
                if at is not None and clock - at < least:
                    wrong.append(f"{clock - at} < {least} from {before} to {command}, {scope}")
        if name == "activate":
            activates.append(clock)
            if len(activates) > 4 and clock - activates[-5] < dram.faw:
                wrong.append(f"five ACT within {clock - activates[-5]} clocks: {command}")
            if bank in rows:
                wrong.append(f"the bank is open: {command}")
            rows[bank] = row
        elif name in ("read", "write"):
            if rows.get(bank) != row:
                wrong.append(f"row {rows.get(bank)} is open: {command}")
        elif name == "precharge":
            if rows.pop(bank, None) is None:
                wrong.append(f"the bank is closed: {command}")
        elif name == "precharge_all":
            rows.clear()
        elif rows:
            wrong.append(f"open banks {sorted(rows)}: {command}")
        column = name in ("read", "write")
        kind = "column" if column and dram.separate_buses else "row"
        if clock < bus[kind]:
            wrong.append(f"the command bus is taken until {bus[kind]}: {command}")
        length = (dram.column_command if column else dram.row_command if name == "activate"
                  else dram.precharge_command)
        bus[kind] = clock + length
        for scope, index in scopes:
            last[name, scope, index] = clock
    return wrong
