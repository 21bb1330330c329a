"""Loop over the vectors that go from X to the quantiser."""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..config import KV_BLOCK, Config
from ..interfaces import CommandLayout, field


__all__ = ["DestinationLayout", "RowLoop", "RowsLayout"]


#: Which of the instructions it is.
RowsLayout = data.StructLayout({"norm": 1, "quant": 1, "append": 1, "rope": 1, "rms": 1})


def DestinationLayout(config: Config):
    """Where a quantised group goes: to A and the scales, or to the cache."""
    return data.StructLayout({
        "a_addr": 16, "row": range(config.rows), "s_addr": 16,
        "block": 32, "token": (KV_BLOCK - 1).bit_length(), "value": 1,
    })


class RowLoop(wiring.Component):
    """NORM, RMS, QUANT, APPEND, ROPE: addresses of words, groups and their destinations.

    One word per cycle; a vector takes one cycle more. NORM and RMS read each vector twice: first
    in turns of `turn_words` words, `turn_cycles` apart, for the sum of squares, then again when
    its root is known. All addresses are sums that run along.

    Parameters
    ----------
    config : Config
    turn_words, turn_cycles : int
        See :class:`~headrace.hw.vector.reducer.Reducer`.
    words, groups : int
        Words and groups that the quantiser takes without back-pressure, those under way included.
    product_latency : int
        Cycles from `command` to `product`.

    Members
    -------
    start : ``In(1)``
        Pulse: `command` is one of the instructions, and stays with `rows` until `done`.
    command, rows : ``In(CommandLayout), In(RowsLayout)``
    loaded : ``In(1)``
        The table is in its SRAM.
    root_stb : ``In(1)``
        Pulse: the root of the sum of squares is known.
    product : ``In(34)``
        ``position // 32 * pitch``.
    valid : ``Out(1)``
        Read a word now.
    x_addr, table_addr : ``Out(16)``
        Its addresses.
    y_addr : ``Out(16)``
        RMS: where its result goes. With `accumulate` a word is read in every second cycle at most,
        for a second read, and a vector waits until `flushed` before the next one.
    square, turn_first, turn_last : ``Out(1)``
        The word belongs to a sum of squares; to its first turn, its last turn.
    keep, odd, last : ``Out(1)``
        The word is part of a value, not of a key; is at an odd offset; ends a group.
    push : ``Out(1)``
        The word is the first of a group, which goes to `destination`.
    destination : ``Out(DestinationLayout(config))``
    taken, retired : ``In(1)``
        Pulse: a word has left the quantiser's memory; a group has arrived at its destination.
    flushed : ``In(1)``
        No result of RMS is under way.
    waiting : ``Out(1)``
        Waiting for the table.
    done : ``Out(1)``
        Pulse: all groups have arrived.
    """
    def __init__(self, config: Config, *, turn_words, turn_cycles, words, groups,
                 product_latency):
        self.config = config
        self.turn_words = turn_words
        self.turn_cycles = turn_cycles
        self.words = words
        self.groups = groups
        self.product_latency = product_latency
        super().__init__({
            "start": In(1), "command": In(CommandLayout), "rows": In(RowsLayout),
            "loaded": In(1), "root_stb": In(1), "product": In(34),
            "valid": Out(1), "x_addr": Out(16), "table_addr": Out(16), "y_addr": Out(16),
            "flushed": In(1),
            "square": Out(1), "turn_first": Out(1), "turn_last": Out(1),
            "keep": Out(1), "odd": Out(1), "last": Out(1),
            "push": Out(1), "destination": Out(DestinationLayout(config)),
            "taken": In(1), "retired": In(1), "waiting": Out(1), "done": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config, rows = self.config, self.rows

        def arg(name):
            return field(self.command, name)

        # What follows from the instruction is in registers, which are right from the cycle after
        # `start` on.
        lanes_log2 = (config.lanes - 1).bit_length()
        heads = rows.append | rows.rope
        vector_words = Signal(16)
        whole_group = Signal(16)
        group_words = Signal(16)
        left = Signal(16)               # words of the vector still to be read
        of_vector = Mux(heads, arg("head_dim"), arg("dim")) >> lanes_log2
        m.d.sync += [
            vector_words.eq(of_vector),
            whole_group.eq(Mux(rows.append, of_vector, arg("group16") << (4 - lanes_log2))),
        ]
        m.d.comb += group_words.eq(whole_group)
        with m.If(rows.rope):
            quarter = KV_BLOCK // config.lanes
            m.d.comb += group_words.eq(Mux(left < quarter, left, quarter))

        # Positions of the loops. A value is a second vector at the same position.
        n_rep = Mux(rows.rope, arg("n_rep"), Mux(rows.rms, arg("vectors"), 1))
        kv_heads = Mux(heads, arg("heads"), 1)
        single = arg("last_only") & ~heads
        p, h, j = Signal(16), Signal(8), Signal(8)
        value = Signal()
        p_last, h_last, j_last = Signal(), Signal(), Signal()
        last_p, last_h, last_j = Signal(16), Signal(8), Signal(8)
        m.d.sync += [
            last_p.eq(Mux(single, 0, self.command.positions - 1)),
            last_h.eq(n_rep - 1), last_j.eq(kv_heads - 1),
        ]
        m.d.comb += [p_last.eq(p == last_p), h_last.eq(h == last_h), j_last.eq(j == last_j)]
        # Beginnings: of this vector, of the position, of the head, of the next head.
        x_vector, x_row, x_next = Signal(16), Signal(16), Signal(16)
        v_offset = Signal(16)
        table_row = Signal(16)
        a_row, s_row = Signal(16), Signal(16)
        row = Signal(range(config.rows))
        head_block, block = Signal(32), Signal(32)
        token_bits = (KV_BLOCK - 1).bit_length()
        first_token = self.command.position[:token_bits]
        token = Signal(token_bits)

        # Word and group.
        x_addr, table_addr = Signal(16), Signal(16)
        group_left = Signal(16)
        a_addr, s_addr = Signal(16), Signal(16)
        y_offset = Signal(16)
        m.d.comb += [self.x_addr.eq(x_addr), self.table_addr.eq(table_addr),
                     self.y_addr.eq(x_addr + y_offset)]

        # Squares come first where there is a norm, and RMS does without the quantiser.
        squares_first = Signal()
        accumulate = Signal()
        second = Signal()               # the cycle of the other read of `accumulate`
        m.d.comb += [squares_first.eq(rows.norm | rows.rms),
                     accumulate.eq(rows.rms & arg("accumulate"))]

        # What is inside the quantiser or on its way there.
        words_inside = Signal(range(self.words + 1))
        groups_inside = Signal(range(self.groups + 1))
        m.d.sync += [
            words_inside.eq(words_inside + (self.valid & ~self.square & ~rows.rms)
                            - self.taken),
            groups_inside.eq(groups_inside + self.push - self.retired),
        ]
        open_group = Signal()
        room = Signal()
        # With one lane both elements of a pair are read one after the other: room for two.
        m.d.comb += room.eq(self.odd | rows.rms | (
            (words_inside <= self.words - 2) & (open_group | (groups_inside < self.groups))))

        def begin(x, table):
            """Go to the first word of a vector."""
            m.d.sync += [x_addr.eq(x), table_addr.eq(table), left.eq(vector_words),
                         first_turn.eq(1)]

        seek = Signal(16)
        turn = Signal(range(self.turn_cycles))
        first_turn = Signal()
        m.d.comb += [
            self.destination.a_addr.eq(a_addr), self.destination.row.eq(row),
            self.destination.s_addr.eq(s_addr), self.destination.block.eq(block),
            self.destination.token.eq(token), self.destination.value.eq(value),
            self.keep.eq(value),
        ]
        with m.FSM(name="rows"):
            with m.State("IDLE"):
                m.d.sync += [
                    p.eq(0), h.eq(0), j.eq(0), value.eq(0), row.eq(0),
                    x_row.eq(arg("x_base")), v_offset.eq(0), table_row.eq(0),
                    a_row.eq(arg("a_base")), s_row.eq(arg("s_base")),
                    token.eq(first_token), turn.eq(0), open_group.eq(0),
                    seek.eq(0), y_offset.eq(arg("y_base") - arg("x_base")),
                ]
                with m.If(single):
                    m.d.sync += seek.eq(self.command.positions - 1)
                with m.If(rows.append):
                    m.d.sync += seek.eq(kv_heads + self.product_latency)
                with m.If(self.start):
                    m.next = "SEEK"
            with m.State("SEEK"):
                # Products by repeated addition: the last position, or all heads' keys.
                m.d.sync += seek.eq(seek - 1)
                m.d.sync += x_vector.eq(x_row)
                with m.If(rows.append):
                    with m.If(seek > self.product_latency):
                        m.d.sync += v_offset.eq(v_offset + vector_words)
                    m.d.sync += [block.eq(arg("addr") + self.product),
                                 head_block.eq(arg("addr") + self.product)]
                    with m.If(seek == 0):
                        m.next = "TABLE"
                with m.Elif(seek == 0):
                    begin(x_row, 0)
                    m.d.sync += [a_addr.eq(a_row), s_addr.eq(s_row)]
                    m.next = "READ"
                    with m.If(squares_first):
                        m.next = "SQUARE"
                with m.Else():
                    m.d.sync += x_row.eq(x_row + arg("x_stride"))
            with m.State("TABLE"):
                m.d.comb += self.waiting.eq(~self.loaded)
                begin(x_row, 0)
                with m.If(self.loaded):
                    m.next = "READ"
            with m.State("SQUARE"):
                m.d.sync += turn.eq(Mux(turn == self.turn_cycles - 1, 0, turn + 1))
                with m.If(turn < self.turn_words):
                    m.d.comb += [
                        self.valid.eq(1), self.square.eq(1),
                        self.turn_first.eq(first_turn),
                        self.turn_last.eq(left <= self.turn_words),
                    ]
                    m.d.sync += [x_addr.eq(x_addr + 1), left.eq(left - 1)]
                    with m.If(turn == self.turn_words - 1):
                        m.d.sync += first_turn.eq(0)
                    with m.If(left == 1):
                        m.d.sync += turn.eq(0)
                        m.next = "ROOT"
            with m.State("ROOT"):
                begin(x_vector, Mux(rows.rms, arg("table_base"), 0))
                m.d.sync += second.eq(0)
                with m.If(self.root_stb):
                    m.next = "READ"
                    with m.If(~self.loaded):
                        m.next = "GAINS"
            with m.State("GAINS"):
                m.d.comb += self.waiting.eq(~self.loaded)
                with m.If(self.loaded):
                    m.next = "READ"
            with m.State("READ"):
                # The next head begins where the last query head of position 0 ends.
                with m.If((p == 0) & ~value):
                    m.d.sync += x_next.eq(x_vector + vector_words)
                if config.lanes == 1:
                    m.d.comb += self.odd.eq(x_addr[0] ^ x_vector[0])
                m.d.sync += second.eq(~second & accumulate)
                with m.If(room & ~second):
                    rest = Mux(open_group, group_left, group_words)
                    m.d.comb += [
                        self.valid.eq(1),
                        self.push.eq(~open_group & ~rows.rms),
                        self.last.eq(rest == 1),
                    ]
                    m.d.sync += [
                        x_addr.eq(x_addr + 1), table_addr.eq(table_addr + 1), left.eq(left - 1),
                        a_addr.eq(a_addr + 1),
                        group_left.eq(rest - 1), open_group.eq(rest != 1),
                    ]
                    with m.If(self.last):
                        m.d.sync += s_addr.eq(s_addr + 1)
                    with m.If(left == 1):
                        m.next = "NEXT"
                        with m.If(accumulate):
                            m.next = "FLUSH"
            with m.State("FLUSH"):
                with m.If(self.flushed):
                    m.next = "NEXT"
            with m.State("NEXT"):
                m.next = "READ"
                with m.If(squares_first):
                    m.next = "SQUARE"

                # The next stream, its row of A and its scales.
                a_next = Signal(16)
                s_next = Signal(16)
                m.d.comb += [a_next.eq(a_row), s_next.eq(s_row + arg("s_stride"))]
                with m.If((row == config.rows - 1) | (rows.rope & h_last & p_last)):
                    m.d.comb += a_next.eq(a_row + arg("a_stride"))
                    m.d.sync += row.eq(0)
                with m.Else():
                    m.d.sync += row.eq(row + 1)
                m.d.sync += [a_row.eq(a_next), a_addr.eq(a_next),
                             s_row.eq(s_next), s_addr.eq(s_next)]

                # The next vector of X.
                x_new = Signal(16)
                table_new = Signal(16)
                m.d.comb += [x_new.eq(x_row), table_new.eq(table_row)]
                with m.If(rows.append & ~value):
                    m.d.sync += value.eq(1)
                    m.d.comb += x_new.eq(x_row + v_offset)
                with m.Elif(~h_last):
                    m.d.sync += h.eq(h + 1)
                    m.d.comb += x_new.eq(x_vector + vector_words)
                with m.Else():
                    m.d.sync += [h.eq(0), value.eq(0)]
                    with m.If(~p_last):
                        m.d.comb += [x_new.eq(x_row + arg("x_stride")),
                                     table_new.eq(table_row + vector_words)]
                        m.d.sync += [p.eq(p + 1), token.eq(token + 1)]
                        with m.If(token == KV_BLOCK - 1):
                            m.d.sync += block.eq(block + arg("pitch"))
                    with m.Elif(~j_last):
                        following = head_block + arg("head_dim") + 2
                        m.d.comb += [x_new.eq(x_next), table_new.eq(0)]
                        m.d.sync += [p.eq(0), j.eq(j + 1), token.eq(first_token),
                                     block.eq(following), head_block.eq(following)]
                    with m.Else():
                        m.next = "DRAIN"
                    m.d.sync += [x_row.eq(x_new), table_row.eq(table_new)]
                m.d.sync += x_vector.eq(x_new)
                begin(x_new, Mux(squares_first, 0, table_new))
            with m.State("DRAIN"):
                with m.If(groups_inside == 0):
                    m.d.comb += self.done.eq(1)
                    m.next = "IDLE"
        return m
