"""Bench of the matmul unit: every stream stalls, every output is compared."""

import random
from collections import deque

import cocotb
from cocotb.triggers import RisingEdge

from headrace.hw.config import Config
from headrace.hw.interfaces import BlockLayout, CommandLayout
from headrace.sim.testbench import parameters, start

from .scenarios import make


STATES = ("busy", "wait_weights", "wait_activations", "wait_softmax", "wait_accumulator", "idle")


class Source:
    """Drives a stream; `pace` says in which cycles a new word may be offered."""

    def __init__(self, dut, name, pace):
        self.valid, self.ready = getattr(dut, f"{name}__valid"), getattr(dut, f"{name}__ready")
        self.payload = getattr(dut, f"{name}__payload")
        self.queue, self.pace, self.offered, self.sent = deque(), pace, False, 0
        self.valid.value = 0

    def step(self, allowed=True):
        if self.offered and self.ready.value:
            self.queue.popleft()
            self.offered, self.sent = False, self.sent + 1
        if not self.offered and self.queue and allowed and self.pace():
            self.payload.value = self.queue[0]
            self.offered = True
        self.valid.value = int(self.offered)


class Sink:
    """Takes a stream and compares it; returns the number of words taken."""

    def __init__(self, dut, name, pace, expected):
        self.name = name
        self.valid, self.ready = getattr(dut, f"{name}__valid"), getattr(dut, f"{name}__ready")
        self.payload = getattr(dut, f"{name}__payload")
        self.expected, self.pace, self.taken, self.open = expected, pace, 0, False
        self.ready.value = 0

    def step(self, allowed=True):
        took = self.open and bool(self.valid.value)
        if took:
            assert self.taken < len(self.expected), f"{self.name}: more words than expected"
            value, wanted = int(self.payload.value), self.expected[self.taken]
            assert value == wanted, f"{self.name}[{self.taken}]: {value:#x}, not {wanted:#x}"
            self.taken += 1
        self.open = allowed and self.pace()
        self.ready.value = int(self.open)
        return took


class Softmax:
    """Far side of scores and probabilities: buffers in turn, in the order of the blocks."""

    def __init__(self, dut, traffic, pace, scores, buffers):
        self.dut, self.traffic, self.pace, self.scores = dut, traffic, pace, scores
        self.block, self.work, self.need = 0, deque(), 0
        self.buffers = self.free = buffers
        self.idle()

    def idle(self):
        for name in ("p_en", "scale_en", "done"):
            getattr(self.dut, f"p_write__{name}").value = 0

    def step(self):
        dut = self.dut
        self.free += int(dut.p_free.value)
        assert self.free <= self.buffers, "a buffer was freed twice"
        self.idle()
        blocks = self.traffic.probabilities
        if not self.work and self.block < len(blocks) and self.free:
            need = self.need + self.traffic.block_scores[self.block]
            if self.scores.taken >= need:
                self.need, self.free = need, self.free - 1
                writes, factors = blocks[self.block]
                self.work.extend(("p", *write) for write in writes)
                self.work.extend(("scale", *write) for write in factors)
                self.work.append(("done",))
        if self.work and self.pace():
            kind, *values = self.work.popleft()
            dut.p_write__buffer.value = self.block % self.buffers
            if kind == "p":
                for name, value in zip(("addr", "row", "data"), values):
                    put(dut, f"p_write__p_{name}", value)
                dut.p_write__p_en.value = 1
            elif kind == "scale":
                put(dut, "p_write__stream", values[0])
                dut.p_write__scale.value = values[1]
                dut.p_write__scale_en.value = 1
            else:
                dut.p_write__done.value = 1
                self.block += 1


class Activations:
    """Writes A and its scales, instruction by instruction, not before the one before is done."""

    def __init__(self, dut, traffic, pace):
        self.dut, self.batches, self.pace = dut, deque(traffic.activations), pace
        self.work, self.given = deque(), 0

    def step(self, allowed):
        dut = self.dut
        for name in ("a_write__en", "s_write__en", "a_ready"):
            getattr(dut, name).value = 0
        if not self.work and self.batches and self.given < allowed:
            writes, scales = self.batches.popleft()
            self.work.extend(("a_write", ("addr", "row", "data"), write) for write in writes)
            self.work.extend(("s_write", ("addr", "data"), write) for write in scales)
            self.work.append((None, None, None))
        if self.work and self.pace():
            port, names, values = self.work.popleft()
            if port is None:
                dut.a_ready.value = 1
                self.given += 1
            else:
                for name, value in zip(names, values):
                    put(dut, f"{port}__{name}", value)
                getattr(dut, f"{port}__en").value = 1


def put(dut, name, value):
    """Set a port, unless it has no bits."""
    if hasattr(dut, name):
        getattr(dut, name).value = value


def command_bits(code, position, positions):
    return CommandLayout.const({"code": int.from_bytes(code, "little"), "position": position,
                                "positions": positions}).as_bits()


class Events:
    """Adds up the events of each cycle and checks that one state holds."""

    def __init__(self, dut, config):
        from headrace.hw.matmul.matmul import EventsLayout
        self.port, self.layout = dut.events, EventsLayout(config)
        self.total = dict.fromkeys((*STATES, "macs", "scale_bytes"), 0)
        self.first_busy = self.last_busy = None

    def step(self, cycle):
        now = self.layout.from_bits(int(self.port.value))
        states = [name for name in STATES if now[name]]
        assert len(states) == 1, f"cycle {cycle}: states {states}"
        for name in self.total:
            self.total[name] += int(now[name])
        if now["busy"]:
            self.first_busy = cycle if self.first_busy is None else self.first_busy
            self.last_busy = cycle


@cocotb.test()
async def streams(dut):
    options = parameters()
    config = Config(**options["config"])
    traffic = make(config, options["scenario"], options["seed"])
    stall = options["stall"]
    rng = random.Random(options["seed"])

    def pace(stall=stall):
        return rng.random() >= stall

    def weights_pace():
        return pace(max(stall, options["weights_stall"]))

    def results_pace():
        return pace(max(stall, options["results_stall"]))

    commands = Source(dut, "commands", pace)
    commands.queue.extend(command_bits(*command) for command in traffic.commands)
    weights = Source(dut, "weights", weights_pace)
    weights.queue.extend(traffic.weights)
    weights.queue[-1] ^= options["spoil"]
    results = Sink(dut, "results", results_pace,
                   [word | scale << 32 * config.lanes for word, scale in traffic.results])
    scores = Sink(dut, "scores", pace, traffic.scores)
    blocks = Sink(dut, "blocks", pace,
                  [BlockLayout.const(fields).as_bits() for fields in traffic.blocks])
    softmax = Softmax(dut, traffic, pace, scores, config.p_buffers)
    activations = Activations(dut, traffic, pace)
    events = Events(dut, config)
    activations.step(0)
    # Everything is garbage before the first write.
    for name in ("a_write__data", "s_write__data", "p_write__p_data", "p_write__scale"):
        port = getattr(dut, name)
        port.value = (1 << len(port)) - 1
    await start(dut, max_cycles=options["max_cycles"])

    # So many instructions have their activations before the first of them is over.
    ahead = options["ahead"]
    freed = cycle = 0
    idle_tail = 0
    while idle_tail < 40:
        await RisingEdge(dut.clk)
        freed += int(dut.freed.value)
        events.step(cycle)
        space = config.ring_words - (weights.sent + weights.offered - freed)
        # A block may be announced before its scores or while they come, and in any order with them.
        activations.step(commands.sent + ahead)
        commands.step(cycle > options["head_start"])
        weights.step(space > 0)
        results.step()
        scores.step(allowed=scores.taken < sum(traffic.block_scores[:blocks.taken]))
        blocks.step(allowed=blocks.taken <= softmax.block + 1)
        softmax.step()
        cycle += 1
        done = (not commands.queue and not weights.queue and not softmax.work
                and results.taken == len(results.expected)
                and scores.taken == len(scores.expected)
                and blocks.taken == len(blocks.expected) and softmax.free == softmax.buffers)
        idle_tail = idle_tail + 1 if done else 0

    assert freed == len(traffic.weights)
    assert softmax.block == len(traffic.probabilities)
    total = events.total
    assert total["macs"] == traffic.macs
    assert total["scale_bytes"] == traffic.scale_bytes
    assert total["busy"] == traffic.busy
    assert sum(total[name] for name in STATES) == cycle
    span = events.last_busy - events.first_busy + 1
    occupancy = total["busy"] / span
    dut._log.info("%s on %d x %d, %d lanes, stall %.1f: %d busy of %d cycles, %.2f %%; %s",
                  options["scenario"], config.rows, config.cols, config.lanes, stall,
                  total["busy"], span, 100 * occupancy, total)
    assert occupancy >= options["occupancy"], (occupancy, total)
    for name in options["states"]:
        assert total[name] > 0, f"{name} did not occur"


