"""Passes over the array, in the order of the instructions."""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import KV_BLOCK, Config
from ..interfaces import BlockLayout, CommandLayout, field
from ..isa import Format, Op
from .layouts import PassLayout, fold_log2


__all__ = ["PassWalker"]


class PassWalker(wiring.Component):
    """Expand MATMUL and ATTN into passes.

    MATMUL: for each tile, for each group, for each row set. ATTN, with ``lead = attn_lead``:
    ``K_0; ...; K_lead, V_0; K_{lead + 1}, V_1; ...; V_last`` over the blocks of all heads; for
    ``K_i`` each tile, group, row set; for ``V_i`` each tile, row set. ``K_i`` is offered on
    `blocks` before its first pass.

    Throughput: a pass every 3 cycles; ATTN begins with ``n_rep`` cycles, and each K and V with
    2 more. All of it is hidden behind the pass before.

    Members
    -------
    commands : ``In(stream.Signature(CommandLayout))``
        Instructions. One stays on the stream until its last pass was taken.
    passes : ``Out(stream.Signature(PassLayout(config)))``
        Passes.
    blocks : ``Out(stream.Signature(BlockLayout))``
        Blocks of scores to come.
    waits_block : ``Out(1)``
        Stopped because the block before was not taken from `blocks`.
    """
    def __init__(self, config: Config):
        self.config = config
        super().__init__({
            "commands": In(stream.Signature(CommandLayout)),
            "passes": Out(stream.Signature(PassLayout(config))),
            "blocks": Out(stream.Signature(BlockLayout)),
            "waits_block": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        rows, lanes = config.rows, config.lanes
        k_tiles = KV_BLOCK // config.k_cols
        k_narrow = config.sub_select(config.k_cols)
        command = self.commands.payload

        def get(name):
            return field(command, name)

        attn = Signal()
        w4 = Signal()
        m.d.comb += [attn.eq(get("op") == Op.ATTN), w4.eq(get("fmt") != Format.W8)]

        # The instruction.
        streams = Signal(16)             # streams in flight
        heads = Signal(8)                # heads whose keys are still to come
        last_block = Signal(27)          # last block of a head
        k_block = Signal(27)
        k_base = Signal(16)              # activations of the present head
        k_first = Signal(27)             # first block of a head that is not behind the window
        k_start = Signal(signed(34))     # k_tokens of that block
        k_tokens = Signal(signed(34))    # tokens of the block up to the first position
        most_ahead = config.attn_lead + 1
        ahead = Signal(range(most_ahead + 1))    # blocks whose V is still to come
        started = Signal()               # the first pass was prepared
        # First, last, tokens and beyond of the blocks ahead, the oldest first.
        waiting = [Signal(2 + 2 * 13, name=f"waiting_{i}") for i in range(most_ahead)]

        # The loops of K, of V, or of MATMUL.
        v = Signal()
        first_block = Signal()
        final_block = Signal()
        tokens = Signal(signed(13))      # as k_tokens, small, for the present tile
        beyond = Signal(signed(13))      # ... less the window: tokens too far back
        tiles = Signal(24)               # tiles to come, the present one included
        groups = Signal(16)
        left = Signal(16)                # streams from the present row set on
        group = Signal(16)
        base = Signal(16)
        row_set = Signal(16)             # activations of the present row set
        offset = Signal(16)              # ... of the present group
        fresh_block = Signal()           # first tile, group and row set

        k = attn & ~v
        length = Signal(8)
        # The last group of a head is half a group if the head is an odd number of halves.
        short = k & (groups == 1) & get("head_dim")[4]
        group_count = Signal(16)
        m.d.comb += [
            length.eq(Mux(attn, Mux(short, 16, KV_BLOCK), get("group16") << 4)),
            group_count.eq(Mux(attn, Mux(v, 1, (get("head_dim") + 16) >> 5), get("k_groups"))),
        ]
        more_sets = left > rows
        more_groups = groups != 1
        more_tiles = Signal()            # tiles != 1

        def begin_loops(tile_count, start):
            return [tiles.eq(tile_count), more_tiles.eq(tile_count != 1), left.eq(streams),
                    group.eq(0), offset.eq(0), base.eq(start), row_set.eq(start), fresh_block.eq(1)]

        # Position relative to a block, from above: beyond the block is as good as far beyond.
        limited = Signal(signed(13))
        m.d.comb += limited.eq(Mux(~k_tokens[-1] & k_tokens[5:].any(), KV_BLOCK, k_tokens[:13]))
        # The same for the end of the window. So far below that no stream of the pass reaches it
        # is as good as no window.
        window = get("window")
        window_end = Signal(signed(35))
        far_below = -(1 << 11)
        window_limited = Signal(signed(13))
        m.d.sync += window_end.eq(k_tokens - window)
        m.d.comb += [
            window_limited.eq(Mux((window == 0) | (window_end < far_below), far_below,
                                  Mux(window_end > KV_BLOCK, KV_BLOCK, window_end))),
        ]
        # The first position sees `window` tokens; all of them if it comes early enough.
        first_seen = Signal(signed(34))
        m.d.sync += first_seen.eq(Mux(window == 0, 0, command.position + 1 - window))
        skipped = Signal(27)
        m.d.comb += skipped.eq(Mux(first_seen < 0, 0, first_seen >> 5))

        p = self.passes.payload
        block = self.blocks.payload
        with m.If(self.blocks.valid & self.blocks.ready):
            m.d.sync += self.blocks.valid.eq(0)
        with m.If(self.passes.valid & self.passes.ready):
            m.d.sync += self.passes.valid.eq(0)

        with m.FSM(name="walk"):
            with m.State("IDLE"):
                m.d.sync += [started.eq(0), ahead.eq(0), v.eq(0), heads.eq(get("heads")),
                             k_base.eq(get("a_base")),
                             last_block.eq((command.position + command.positions - 1) >> 5)]
                with m.If(self.commands.valid & attn):
                    m.d.sync += [streams.eq(0), left.eq(get("n_rep"))]
                    m.next = "STREAMS"
                with m.Elif(self.commands.valid):
                    m.d.sync += streams.eq(Mux(get("last_only"), 1, command.positions))
                    m.next = "MATMUL"

            with m.State("MATMUL"):
                m.d.sync += [*begin_loops(get("tiles"), get("a_base")), groups.eq(group_count),
                             first_block.eq(1), final_block.eq(1)]
                m.next = "COMPOSE"

            with m.State("STREAMS"):
                # positions x n_rep by addition: a few cycles, once.
                m.d.sync += [streams.eq(streams + command.positions), left.eq(left - 1)]
                tokens_seen = command.position + 1 - (skipped << 5)
                m.d.sync += [k_block.eq(skipped), k_first.eq(skipped),
                             k_tokens.eq(tokens_seen), k_start.eq(tokens_seen)]
                with m.If(left == 1):
                    m.next = "REACH"

            with m.State("REACH"):
                # `window_end` follows `k_tokens`.
                m.next = "CHOOSE"

            with m.State("CHOOSE"):
                with m.If((heads != 0) & (ahead != most_ahead)):
                    m.d.sync += [v.eq(0), first_block.eq(k_block == k_first),
                                 final_block.eq(k_block == last_block), tokens.eq(limited),
                                 beyond.eq(window_limited)]
                    m.d.comb += self.waits_block.eq(self.blocks.valid)
                    with m.If(~self.blocks.valid):
                        m.d.sync += [
                            self.blocks.valid.eq(1), block.block.eq(k_block),
                            block.first.eq(k_block == k_first),
                            block.window.eq(window), block.last.eq(k_block == last_block),
                            block.streams.eq(streams), block.n_rep.eq(get("n_rep")),
                            block.position.eq(command.position), block.scale.eq(get("scale"))]
                        m.next = "LOOPS"
                with m.Else():
                    m.d.sync += [v.eq(1), Cat(tokens, beyond, first_block, final_block).eq(
                        waiting[0])]
                    m.next = "LOOPS"

            with m.State("LOOPS"):
                with m.If(v):
                    m.d.sync += begin_loops(get("v_tiles"), 0)
                with m.Else():
                    m.d.sync += begin_loops(k_tiles, k_base)
                m.d.sync += groups.eq(group_count)
                m.next = "COMPOSE"

            with m.State("COMPOSE"):
                # The first set of a block of weights waits for it, the last one frees it.
                # The scales of a narrow tile take one word, and so do its minima.
                kinds = Mux(attn, 0, Mux(get("fmt") == Format.W4A, 2, 1))
                header = Signal(3)
                narrow = Signal(2)
                select = Signal(2)
                m.d.comb += [narrow.eq(Mux(v, get("v_select"), Mux(attn, k_narrow, Mux(
                                 more_tiles, 0, get("narrow"))))),
                             select.eq(narrow + (~attn & w4)),
                             header.eq(Mux(narrow == 0, kinds << 1, kinds))]
                m.d.sync += [
                    p.attn.eq(attn), p.v.eq(v), p.length.eq(length), p.select.eq(select),
                    p.narrow.eq(narrow),
                    p.nibbles.eq(~attn & w4), p.affine.eq(~attn & (get("fmt") == Format.W4A)),
                    p.rows.eq(Mux(more_sets, rows, left)), p.addr.eq(row_set + offset),
                    p.opens.eq(left == streams), p.closes.eq(~more_sets), p.header.eq(header),
                    p.wait_a.eq(~started & get("wait_a")), p.wait_p.eq(v & fresh_block),
                    p.free_p.eq(v & ~more_sets & ~more_tiles),
                    p.group.eq(group), p.s_base.eq(get("s_base")), p.s_stride.eq(get("s_stride")),
                    p.s_start.eq(~started), p.restart.eq(left == streams),
                    p.head_done.eq(k & final_block & ~more_sets & ~more_groups & ~more_tiles),
                    p.acc_start.eq((left == streams) & (~v | fresh_block)),
                    # V goes on from block to block of a head, K and MATMUL from group to group.
                    p.first.eq(Mux(v, first_block, group == 0)),
                    p.last.eq(Mux(v, final_block, ~more_groups)),
                    p.tokens.eq(tokens), p.beyond.eq(beyond), p.n_rep.eq(get("n_rep")),
                    self.passes.valid.eq(1),
                ]
                with m.Switch(select):
                    for value in range(4):
                        with m.Case(value):
                            m.d.sync += p.words.eq(header + (length >> value))
                columns = [config.stride >> value for value in range(4)]
                with m.If(~attn & (narrow == 0)):
                    m.d.sync += p.row_words.eq(config.col_words)
                with m.Else():
                    with m.Switch(narrow):
                        for value in range(4):
                            with m.Case(value):
                                m.d.sync += p.row_words.eq(columns[value] // lanes)
                with m.Switch(narrow):
                    for value in range(4):
                        with m.Case(value):
                            m.d.sync += p.fold.eq(fold_log2(config, value))
                m.d.sync += started.eq(1)
                m.next = "ISSUE"

            with m.State("ISSUE"):
                with m.If(self.passes.ready):
                    m.d.sync += fresh_block.eq(0)
                    m.next = "COMPOSE"
                    with m.If(more_sets):
                        m.d.sync += [left.eq(left - rows),
                                     row_set.eq(row_set + Mux(v, KV_BLOCK // lanes,
                                                              get("a_stride")))]
                    with m.Elif(more_groups):
                        m.d.sync += [left.eq(streams), row_set.eq(base), groups.eq(groups - 1),
                                     group.eq(group + 1),
                                     offset.eq(offset + (length >> lanes.bit_length() - 1))]
                    with m.Elif(more_tiles):
                        m.d.sync += [left.eq(streams), row_set.eq(base), tiles.eq(tiles - 1),
                                     more_tiles.eq(tiles != 2),
                                     groups.eq(group_count), group.eq(0), offset.eq(0)]
                        with m.If(k):
                            m.d.sync += [tokens.eq(tokens - config.k_cols),
                                         beyond.eq(beyond - config.k_cols)]
                    with m.Elif(~attn):
                        m.next = "END"
                    with m.Elif(v):
                        m.d.sync += [ahead.eq(ahead - 1), Cat(waiting[:-1]).eq(Cat(waiting[1:]))]
                        m.next = "REACH"
                        with m.If((heads == 0) & (ahead == 1)):
                            m.next = "END"
                    with m.Else():
                        for place, entry in enumerate(waiting):
                            with m.If(ahead == place):
                                m.d.sync += entry.eq(Cat(limited, window_limited, first_block,
                                                       final_block))
                        m.d.sync += [ahead.eq(ahead + 1),
                                     k_block.eq(k_block + 1), k_tokens.eq(k_tokens - KV_BLOCK)]
                        m.next = "REACH"
                        with m.If(final_block):
                            m.d.sync += [heads.eq(heads - 1), k_block.eq(k_first),
                                         k_tokens.eq(k_start),
                                         k_base.eq(row_set + get("a_stride"))]

            with m.State("END"):
                # Not with the start of the last pass, which comes out of a long way.
                m.d.comb += self.commands.ready.eq(1)
                m.next = "IDLE"

        return m
