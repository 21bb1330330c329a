"""The stream of weights and of the cache, as pieces."""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import CLASSES, KV_BLOCK, Config
from ..interfaces import CommandLayout, field
from ..isa import Op
from .layouts import Sizes, Target
from .pieces import ALIGN_LOG2, beats_of_units


__all__ = ["StreamPlanner"]


#: 64-byte units of the scales at the beginning of a block of the cache.
SCALE_UNITS = 4 * KV_BLOCK >> ALIGN_LOG2


class StreamPlanner(wiring.Component):
    """Turn MATMUL and ATTN into the pieces that fill the ring, in the order of the array.

    MATMUL is one piece of `words` words. ATTN is, over the flattened list of blocks of all heads,
    with ``lead = attn_lead``, ``K_0; ...; K_lead, V_0; K_{lead + 1}, V_1; ...; V_last``; ``K_i``
    is the scales of the block (to the scales) and its K tiles, ``V_i`` its V tiles. Before the
    first block at or after ``position // 32`` one *appended* token is taken, once per ATTN. A
    piece of the cache below `kv_end` is a hit.

    Latency: 2 cycles, 3 for ATTN. Throughput: one piece per cycle, as many cycles between
    commands; an ATTN with fewer blocks than `attn_lead` takes a cycle for each that is missing.

    Members
    -------
    i : ``In(stream.Signature(CommandLayout))``
        Commands MATMUL and ATTN.
    base : ``In(addr_bits)``
        Address that all others count from.
    kv_end : ``In(32)``
        First unit behind the pinned part of the cache.
    appended : ``In(1)``
        Pulse: an APPEND is complete in memory. Up to 255 may be ahead of their ATTN.
    o : ``Out(stream.Signature(Sizes(config).piece))``
        Pieces.
    busy, waiting : ``Out(1)``
        A command is being worked on; it waits for *appended*.
    """
    def __init__(self, config: Config):
        self.config = config
        self.sizes = sizes = Sizes(config)
        super().__init__({
            "i": In(stream.Signature(CommandLayout)), "base": In(config.addr_bits),
            "kv_end": In(32), "appended": In(1), "o": Out(stream.Signature(sizes.piece)),
            "busy": Out(1), "waiting": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        sizes = self.sizes
        command = self.i.payload

        tokens = Signal(8)
        take_token = Signal()
        m.d.sync += tokens.eq(tokens + self.appended - take_token)

        # The register of the output adds the base.
        valid = Signal()
        ready = Signal()
        units = Signal(32)
        beats = Signal(sizes.index_bits)
        tail = Signal(sizes.tail_bits)
        is_kv = Signal()
        target = Signal(range(len(Target)))
        m.d.comb += ready.eq(~self.o.valid | self.o.ready)
        with m.If(ready):
            m.d.sync += [
                self.o.valid.eq(valid),
                self.o.payload.addr.eq(self.base + (units << ALIGN_LOG2)),
                self.o.payload.beats.eq(beats),
                self.o.payload.tail.eq(tail),
                self.o.payload.cls.eq(Mux(is_kv, CLASSES.index("kv"), CLASSES.index("weights"))),
                self.o.payload.target.eq(target),
            ]
            if self.config.kv_bytes:
                m.d.sync += self.o.payload.hit.eq(is_kv & (units < self.kv_end))

        # Words of the ring against beats.
        split = sizes.split(Target.RING)
        per_word = max(1, self.config.stride // sizes.beat)
        words = Signal(32)

        pitch = Signal(32)
        half = Signal(15)                       # units of the K tiles or of the V tiles of a block
        heads = Signal(8)                       # after this one
        blocks = Signal(28)                     # blocks of a head
        first_new = Signal(27)                  # first block that the pass appends to
        block = Signal(28)
        # Of the block, in registers beside it: the pass appends to it, and none before it does;
        # it is the last of its head, a cycle later.
        is_new, first_is_new, before_new = Signal(), Signal(), Signal(28)
        is_last = Signal()
        m.d.sync += [before_new.eq(first_new - 1), is_last.eq(block + 1 == blocks)]
        k_addr = Signal(32)
        k_tiles = Signal(32)                    # behind its scales, a cycle later
        m.d.sync += k_tiles.eq(k_addr + SCALE_UNITS)
        # V tiles of the blocks before, the latest first: V follows when a block is the last here.
        lead = self.config.attn_lead
        v_addr = [Signal(32, name=f"v_addr_{i}") for i in range(lead)]
        due = Signal(lead)
        head_addr = Signal(32)
        token_due = Signal()
        # With a window the first blocks of each head are left out: `first` times `pitch` units.
        window = field(command, "window")
        first_seen = Signal(signed(34))
        no_window = Signal()
        skipped = Signal(27)
        m.d.sync += first_seen.eq(command.position + 1 - window)
        m.d.comb += skipped.eq(Mux(no_window | (first_seen < 0), 0, first_seen >> 5))
        first = Signal(27)
        factor = Signal(27)
        step = Signal(32)
        m.d.comb += self.busy.eq(1)

        with m.FSM(name="state"):
            with m.State("Idle"):
                m.d.comb += [self.i.ready.eq(1), self.busy.eq(0)]
                m.d.sync += [
                    k_addr.eq(field(command, "addr")),
                    head_addr.eq(field(command, "addr")),
                    words.eq(field(command, "words")),
                    pitch.eq(field(command, "pitch")),
                    half.eq(field(command, "head_dim") >> 1),
                    heads.eq(field(command, "heads") - 1),
                    blocks.eq((command.position + command.positions + (KV_BLOCK - 1)) // KV_BLOCK),
                    first_new.eq(command.position // KV_BLOCK),
                    step.eq(field(command, "pitch")),
                    token_due.eq(1),
                    no_window.eq(window == 0),
                ]
                with m.If(self.i.valid):
                    m.next = "Weights"
                    with m.If(field(command, "op") == Op.ATTN):
                        m.next = "Begin"

            with m.State("Begin"):
                m.d.sync += [block.eq(skipped), first.eq(skipped), factor.eq(skipped),
                             is_new.eq(skipped == first_new), first_is_new.eq(skipped == first_new)]
                m.next = "Scales"
                with m.If(skipped != 0):
                    m.next = "Skip"

            with m.State("Weights"):
                m.d.comb += [
                    valid.eq(1),
                    units.eq(k_addr),
                    beats.eq((words + (split - 1)) // split * per_word),
                    tail.eq((words - 1) & (split - 1)),
                    target.eq(Target.RING),
                ]
                with m.If(ready):
                    m.next = "Idle"

            with m.State("Skip"):
                with m.If(factor[0]):
                    m.d.sync += [k_addr.eq(k_addr + step), head_addr.eq(head_addr + step)]
                m.d.sync += [factor.eq(factor >> 1), step.eq(step << 1)]
                with m.If(factor[1:] == 0):
                    m.next = "Scales"

            with m.State("Scales"):
                m.d.comb += [
                    self.waiting.eq(token_due & is_new & (tokens == 0)),
                    valid.eq(~self.waiting),
                    units.eq(k_addr),
                    beats.eq(beats_of_units(sizes, SCALE_UNITS)),
                    is_kv.eq(1),
                    target.eq(Target.SCALES),
                ]
                with m.If(valid & ready):
                    with m.If(token_due & is_new):
                        m.d.comb += take_token.eq(1)
                        m.d.sync += token_due.eq(0)
                    m.next = "K"

            for name in ("K", "V", "Rest"):
                with m.State(name):
                    m.d.comb += [
                        valid.eq(1),
                        units.eq(k_tiles if name == "K" else v_addr[-1]),
                        beats.eq(beats_of_units(sizes, half)),
                        tail.eq(split - 1),
                        is_kv.eq(1),
                        target.eq(Target.RING),
                    ]
                    if name == "Rest":
                        # V of the last blocks, which no K follows.
                        m.d.comb += valid.eq(due[-1])
                        with m.If(ready | ~due[-1]):
                            m.d.sync += [due.eq(due << 1), Cat(v_addr[1:]).eq(Cat(v_addr[:-1]))]
                            with m.If((due << 1)[:lead] == 0):
                                m.next = "Idle"
                        continue
                    with m.If(ready):
                        with m.If(C(name == "V") | ~due[-1]):
                            # The next block: of this head, of the next head, or none.
                            m.d.sync += [
                                due.eq(Cat(C(1, 1), due)),
                                v_addr[0].eq(k_tiles + half),
                                Cat(v_addr[1:]).eq(Cat(v_addr[:-1])),
                                block.eq(block + 1), is_new.eq(block == before_new),
                                k_addr.eq(k_addr + pitch),
                            ]
                            m.next = "Scales"
                            with m.If(is_last):
                                next_head = head_addr + (SCALE_UNITS + 2 * half)
                                m.d.sync += [
                                    block.eq(first), is_new.eq(first_is_new),
                                    heads.eq(heads - 1),
                                    head_addr.eq(next_head),
                                    k_addr.eq(next_head),
                                ]
                                with m.If(heads == 0):
                                    m.next = "Rest"
                        with m.Else():
                            m.next = "V"

        return m
