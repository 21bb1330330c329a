"""Loop over the results of the matmul unit that go to X."""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..interfaces import CommandLayout, ResultLayout, field


__all__ = ["ResultLoop", "ResultsLayout"]


#: Which of the instructions it is.
ResultsLayout = data.StructLayout({"store": 1, "add": 1, "glu": 1, "attn_out": 1})


class ResultLoop(wiring.Component):
    """STORE, ADD, GLU, ATTN_OUT: takes result words and says where in X each of them belongs.

    One word per cycle. GLU stops before an up tile whose gate tile was so short that its first
    words are not yet in X: then `hazard` cycles lie between a word and the one that reads it.

    Parameters
    ----------
    config : Config
    hazard : int
        Cycles from a word to the first cycle in which another one may read what it wrote.

    Members
    -------
    start : ``In(1)``
        Pulse: `command` is one of the instructions, and stays with `kind` until `done`.
    command, kind : ``In(CommandLayout), In(ResultsLayout)``
    results : ``In(stream.Signature(ResultLayout(config)))``
    hold : ``In(1)``
        Takes no word in this cycle.
    valid : ``Out(1)``
        A word was taken that is kept.
    x_addr : ``Out(16)``
        Its place in X.
    up : ``Out(1)``
        GLU: it belongs to an up tile.
    done : ``Out(1)``
        Pulse: the last word was taken in the cycle before.
    """
    def __init__(self, config: Config, *, hazard):
        self.config = config
        self.hazard = hazard
        super().__init__({
            "start": In(1), "command": In(CommandLayout), "kind": In(ResultsLayout),
            "results": In(stream.Signature(ResultLayout(config))), "hold": In(1),
            "valid": Out(1), "x_addr": Out(16), "up": Out(1), "done": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config, kind = self.config, self.kind
        lanes_log2 = (config.lanes - 1).bit_length()

        def arg(name):
            return field(self.command, name)

        attn = kind.attn_out
        single = arg("last_only") & ~attn
        # What follows from the instruction is in registers, which are right from the cycle after
        # `start` on, where the loops are prepared.
        most_words = config.stride // config.lanes
        head_words = Signal(16)
        full_words, last_words = (Signal(range(most_words + 1), name=f"{name}_words")
                                  for name in ("full", "last"))
        tile_words = Signal.like(last_words)
        m.d.sync += [head_words.eq(arg("head_dim") >> lanes_log2),
                     full_words.eq(config.col_words), last_words.eq(config.col_words)]
        with m.If(attn):
            m.d.sync += [full_words.eq(most_words >> arg("v_select")),
                         last_words.eq(most_words >> arg("v_select"))]
        with m.Elif(arg("narrow") != 0):
            m.d.sync += last_words.eq(most_words >> arg("narrow"))

        # Positions of the loops, from the inside: word, query head, position, tile, K/V head.
        # Whether each is the last is in a register beside it.
        w = Signal(range(most_words))
        h, p, t, j = Signal(8), Signal(16), Signal(24), Signal(8)
        w_last, h_last, p_last, t_last, j_last = (Signal(name=f"{name}_last") for name in "whptj")
        ends = {}
        for name, count in (("h", Mux(attn, arg("n_rep"), 1)),
                            ("p", Mux(single, 1, self.command.positions)),
                            ("t", Mux(attn, arg("v_tiles"), arg("tiles"))),
                            ("j", Mux(attn, arg("heads"), 1))):
            alone = Signal(name=f"{name}_alone")
            before = Signal(len(count), name=f"{name}_before_last")
            m.d.sync += [alone.eq(count == 1), before.eq(count - 2)]
            ends[name] = alone, before

        def rewind(*names):
            return [assignment for name in names for assignment in (
                loops[name][0].eq(0), loops[name][1].eq(ends[name][0]))]

        def advance(name):
            index, last = loops[name]
            return [index.eq(index + 1), last.eq(index == ends[name][1])]

        loops = {"h": (h, h_last), "p": (p, p_last), "t": (t, t_last), "j": (j, j_last)}
        m.d.comb += [
            tile_words.eq(Mux(t_last, last_words, full_words)),
            w_last.eq(w == (tile_words - 1)[:len(w)]),
        ]
        # Beginnings in X: query head, position, tile, next K/V head; first column of the tile.
        x_addr, x_head, x_row, x_tile, x_next = (Signal(16, name=f"x_{name}") for name in
                                                 ("addr", "head", "row", "tile", "next"))
        column, tile_column = Signal(32), Signal(32)
        seek = Signal(16)
        moved = Signal()
        running = Signal()

        up = Signal()
        m.d.comb += up.eq(kind.glu & t[0])
        taken_count = Signal(range(self.hazard + 1))     # words of the tile, as far as they count
        cooling = Signal(range(self.hazard + 1))
        with m.If(cooling != 0):
            m.d.sync += cooling.eq(cooling - 1)

        m.d.comb += [
            self.results.ready.eq(running & ~self.hold & ~(up & (cooling != 0))),
            moved.eq(self.results.ready & self.results.valid),
            self.valid.eq(moved & (attn | (column < arg("limit")))),
            self.x_addr.eq(x_addr),
            self.up.eq(up),
        ]
        with m.FSM(name="results"):
            with m.State("IDLE"):
                m.d.sync += [sig.eq(0) for sig in (w, column, tile_column, taken_count, seek)]
                m.d.sync += x_row.eq(arg("x_base"))
                with m.If(single):
                    m.d.sync += seek.eq(self.command.positions - 1)
                with m.If(self.start):
                    m.next = "SEEK"
            with m.State("SEEK"):
                m.d.sync += [x_addr.eq(x_row), x_head.eq(x_row), x_tile.eq(x_row)]
                m.d.sync += rewind(*loops)
                with m.If(seek != 0):
                    m.d.sync += [seek.eq(seek - 1), x_row.eq(x_row + arg("x_stride"))]
                with m.Else():
                    m.d.sync += running.eq(1)
                    m.next = "RUN"
            with m.State("RUN"):
                with m.If(moved):
                    with m.If(taken_count != self.hazard):
                        m.d.sync += taken_count.eq(taken_count + 1)
                    m.d.sync += [w.eq(w + 1), x_addr.eq(x_addr + 1),
                                 column.eq(column + config.lanes)]
                with m.If(moved & w_last):
                    head_new, row_new, tile_new = (Signal(16, name=f"{name}_new") for name in
                                                   ("head", "row", "tile"))
                    next_head = Signal(16)
                    m.d.comb += [
                        head_new.eq(x_head + head_words),
                        row_new.eq(x_row + arg("x_stride")),
                        # Gate and up tiles have the same columns.
                        tile_new.eq(x_tile + Mux(kind.glu & ~t[0], 0, tile_words)),
                        # The next K/V head begins after the last query head of position 0.
                        next_head.eq(Mux((t == 0) & (p == 0), head_new, x_next)),
                    ]
                    m.d.sync += [w.eq(0), column.eq(tile_column)]
                    with m.If((t == 0) & (p == 0)):
                        m.d.sync += x_next.eq(head_new)
                    with m.If(~h_last):
                        m.d.sync += [*advance("h"), x_head.eq(head_new), x_addr.eq(head_new)]
                    with m.Else():
                        m.d.sync += rewind("h")
                        with m.If(~p_last):
                            m.d.sync += [*advance("p"), x_row.eq(row_new), x_head.eq(row_new),
                                         x_addr.eq(row_new)]
                        with m.Else():
                            m.d.sync += [*rewind("p"), taken_count.eq(0)]
                            m.d.sync += cooling.eq(self.hazard - 1 - taken_count)
                            with m.If(taken_count == self.hazard):
                                m.d.sync += cooling.eq(0)
                            with m.If(~t_last):
                                m.d.sync += advance("t")
                                m.d.sync += [sig.eq(tile_new) for sig in (x_tile, x_row, x_head,
                                                                          x_addr)]
                                with m.If(~kind.glu | t[0]):
                                    after = tile_column + config.cols
                                    m.d.sync += [tile_column.eq(after), column.eq(after)]
                            with m.Elif(~j_last):
                                m.d.sync += [*rewind("t"), *advance("j")]
                                m.d.sync += [sig.eq(next_head) for sig in (x_tile, x_row, x_head,
                                                                           x_addr)]
                            with m.Else():
                                m.d.sync += running.eq(0)
                                m.next = "DONE"
            with m.State("DONE"):
                m.d.comb += self.done.eq(1)
                m.next = "IDLE"
        return m
