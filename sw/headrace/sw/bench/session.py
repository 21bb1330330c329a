"""A session whose counters must add up."""

from headrace.hw.regmap import COUNTERS

from ..driver import Session
from ..errors import HeadraceError


__all__ = ["ENGINES", "CountedSession", "check_counters"]


#: Units whose states, busy and each cause of waiting, are counters that add up to all cycles.
ENGINES = ("port", "matmul", "vector", "softmax")


def check_counters(found: dict[str, int], wanted: dict[str, int], timed: bool = True) -> None:
    """Hold counters against what must have moved, and against the cycles.

    Parameters
    ----------
    found : dict of str to int
        All counters of a run.
    wanted : dict of str to int
        Bytes and multiplications of its passes, see :meth:`Traffic.counters`.
    timed : bool
        The device counts cycles.

    Raises
    ------
    HeadraceError
        If a class of bytes differs, or the states of an engine do not add up.
    """
    for name, value in wanted.items():
        if found[name] != value and (timed or name != "macs"):
            raise HeadraceError(f"counter {name} is {found[name]:,}: expected {value:,}, which is "
                                f"what the program moves; the device or the traffic model of the "
                                f"compiler is wrong")
    for engine in ENGINES if timed else ():
        states = [name for name in COUNTERS if name.startswith(f"{engine}_")]
        total = sum(found[name] for name in states)
        if total != found["cycles"]:
            raise HeadraceError(f"the counters {', '.join(states)} add up to {total:,}: expected "
                                f"{found['cycles']:,} cycles")


class CountedSession(Session):
    """A session that holds the counters of every run against its program and its cycles."""

    def _run(self, kind: str, positions: int, passes: int, *, head: bool, logits: bool) -> None:
        begin = self.position
        super()._run(kind, positions, passes, head=head, logits=logits)
        wanted = self.image.expected_traffic(begin, positions, head, logits)
        for index in range(1, passes):
            wanted.add(self.image.expected_traffic(begin + positions + index - 1, 1, True, logits))
        check_counters({name: self.device.read_counter(name) for name in COUNTERS},
                       wanted.counters(), self.device.has_cycles)
