"""What the activity port of a device shows in each cycle: states of the engines and amounts."""

from .regmap import COUNTERS


__all__ = ["AMOUNTS", "FLAGS", "READ_TRACKS", "STATES", "TRACKS", "WORDS"]


def _states(engine: str) -> tuple[str, ...]:
    prefix = f"{engine}_"
    return tuple(name.removeprefix(prefix) for name in COUNTERS if name.startswith(prefix))


#: States of each engine; it is in exactly one of them in each cycle of a run. Those of the first
#: four have a counter each, `engine` and `state` joined by an underscore.
STATES = {
    **{engine: _states(engine) for engine in ("port", "matmul", "vector", "softmax")},
    # Writes: a beat is taken; address or data wait for memory; responses are owed; nothing.
    "write": ("busy", "wait_memory", "wait_response", "idle"),
    # An instruction is handed out; it waits for room in a queue; there is none.
    "sequencer": ("busy", "wait_engine", "idle"),
}

#: What adds up: the counters that are neither a state nor `cycles`.
AMOUNTS = tuple(name for name in COUNTERS
                if name != "cycles" and name.split("_")[0] not in STATES)

#: Sequences of instructions in which the port of reads works, each in its own order: weights and
#: cache for the ring; norm gains and RoPE rows; reads of the vector unit; programs.
READ_TRACKS = ("stream", "tables", "requests", "program")

#: Everything that works through instructions one after the other.
TRACKS = (*READ_TRACKS, "matmul", "vector", "sequencer")

#: Bits of the first word: one for each state, in order, and these. `count`: a run lasts, counters
#: count. `first`: the first pass of an instruction begins on the array in the next cycle.
#: `retire`: the vector unit ends an instruction. `track`: index in `READ_TRACKS` of a beat read.
FLAGS = {"count": 1, "first": 1, "retire": 1, "track": 2}

#: 32-bit words of the port: states and flags, then the amounts of the cycle, sign-extended.
WORDS = 1 + len(AMOUNTS)
