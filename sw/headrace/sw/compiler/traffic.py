"""What a pass moves and multiplies, computed from its instructions."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.hw.config import ALIGN, CLASSES, KV_BLOCK, Config
from headrace.hw.isa import INSTRUCTION_BYTES, Format, Op
from headrace.hw.regmap import COUNTERS

from ..layout import align
from ..weight_layout import header_words, result_columns


__all__ = ["Traffic", "attended_tokens", "instruction_traffic", "pass_traffic", "program_traffic"]


def attended_tokens(position: int, positions: int, window: int = 0) -> int:
    """Tokens that some positions attend to, added up; `window` 0 is no limit."""
    if not window:
        return positions * position + positions * (positions + 1) // 2
    return sum(min(window, p + 1) for p in range(position, position + positions))


@dataclass
class Traffic:
    """What a pass moves and multiplies, as the device counts it.

    Parameters
    ----------
    read, written : dict of str to int
        Bytes by class. Reads are whole beats, writes are enabled byte lanes. ``scales`` are the
        headers of weight blocks, which travel inside the weight streams; ``kv`` has its own.
    kv_hits, kv_misses : int
        Bytes of cache read from the KV buffer and from memory.
    macs : int
        Multiplications for used rows, padded columns included, masked products not.
    """

    read: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CLASSES, 0))
    written: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CLASSES, 0))
    kv_hits: int = 0
    kv_misses: int = 0
    macs: int = 0

    def add(self, other: "Traffic") -> None:
        """Add the bytes of `other`."""
        for name in CLASSES:
            self.read[name] += other.read[name]
            self.written[name] += other.written[name]
        self.kv_hits += other.kv_hits
        self.kv_misses += other.kv_misses
        self.macs += other.macs

    def counters(self) -> dict[str, int]:
        """The same under the names of the device's counters."""
        return {**{f"read_{name}": self.read[name] for name in CLASSES},
                "written_kv": self.written["kv"],
                "written_activations": self.written["activations"],
                "kv_hits": self.kv_hits, "kv_misses": self.kv_misses,
                "macs": self.macs}


def _attention(total: Traffic, code: Mapping[str, int], position: int, end: int, kv_base: int,
               kv_pinned: int) -> None:
    """Blocks that ATTN reads: scales, K and V of every block that has a token before `end`, and
    in the window of `position` or later."""
    head_dim = code["head_dim"]
    unit = head_dim + 2
    size = unit * ALIGN
    window = code["window"]
    first = max(0, position + 1 - window) // KV_BLOCK if window else 0
    for block in range(first, -(-end // KV_BLOCK)):
        for head in range(code["heads"]):
            begin = code["addr"] + block * code["pitch"] + head * unit - kv_base
            if 0 <= begin and begin + unit <= kv_pinned:
                total.kv_hits += size
            else:
                total.kv_misses += size
                total.read["kv"] += size


def instruction_traffic(config: Config, code: Mapping[str, int], *, position: int, positions: int,
                        logits: bool, kv_base: int, kv_pinned: int) -> Traffic:
    """Bytes that one instruction moves.

    Parameters
    ----------
    config : Config
        The machine: width of the port and of weight words.
    code : mapping
        The decoded instruction.
    position, positions : int
        First position of the pass, and number of positions.
    logits : bool
        Logits are written to memory.
    kv_base, kv_pinned : int
        Registers of the cache.
    """
    total, op, beat = Traffic(), code["op"], config.port_bytes
    if op == Op.EMBED:
        total.read["activations"] = positions * align(4, beat)
        total.read["tables"] = positions * align(4 * code["dim"], beat)
    elif op in (Op.NORM, Op.RMS):
        total.read["tables"] = align(4 * code["dim"], beat)
    elif op == Op.MATMUL:
        groups, group, fmt = code["k_groups"], 16 * code["group16"], Format(code["fmt"])
        headers = (code["tiles"] - 1) * header_words(fmt) + header_words(fmt, code["narrow"])
        total.read["scales"] = groups * headers * config.stride
        total.read["weights"] = align(code["words"] * config.stride, beat) - total.read["scales"]
        streams = 1 if code["last_only"] else positions
        total.macs = streams * groups * group * result_columns(config, code)
    elif op == Op.APPEND:
        total.read["tables"] = align(4 * code["head_dim"] * positions, beat)
        total.written["kv"] = 2 * (code["head_dim"] + 2) * code["heads"] * positions
    elif op == Op.ATTN:
        _attention(total, code, position, position + positions, kv_base, kv_pinned)
        attended = attended_tokens(position, positions, code["window"])
        total.macs = 2 * attended * code["heads"] * code["n_rep"] * code["head_dim"]
    elif op == Op.LOGITS:
        total.written["activations"] = 4 + (4 * code["limit"] if logits else 0)
    elif op == Op.END:
        total.written["activations"] = 8 * len(COUNTERS)
    return total


def program_traffic(config: Config, instructions: int) -> Traffic:
    """Bytes that the sequencer reads for one pass."""
    total = Traffic()
    total.read["program"] = align(instructions * INSTRUCTION_BYTES, config.port_bytes)
    return total


def pass_traffic(config: Config, program: list[dict[str, int]], *, position: int, positions: int,
                 head: bool, logits: bool, kv_base: int, kv_pinned: int) -> Traffic:
    """Bytes that a pass moves: all of its instructions and the program itself."""
    total = program_traffic(config, len(program))
    for code in program:
        if head or not code["head"]:
            total.add(instruction_traffic(config, code, position=position, positions=positions,
                                          logits=logits, kv_base=kv_base, kv_pinned=kv_pinned))
    return total
