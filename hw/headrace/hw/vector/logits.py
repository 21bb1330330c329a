"""Results of the vocabulary projection: logits to memory, and the next token."""

from amaranth import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..interfaces import CommandLayout, ResultLayout, field, words
from .argmax import ArgMax
from .record import SingleLayout


__all__ = ["LinearLayout", "LogitsLoop"]


#: Head of a linear write: `elems` fp32 values to `addr`, in units of 64 bytes.
LinearLayout = data.StructLayout({"addr": 32, "elems": 32})


class LogitsLoop(wiring.Component):
    """LOGITS: arg-max over one row of results, written as the next token; logits on demand.

    One result word per cycle, as long as memory takes the logits. Ends when memory has
    acknowledged everything.

    Parameters
    ----------
    config : Config

    Members
    -------
    start : ``In(1)``
        Pulse: `command` is a LOGITS, and stays until `done`.
    command : ``In(CommandLayout)``
    results : ``In(stream.Signature(ResultLayout(config)))``
    linear : ``Out(stream.Signature(LinearLayout))``
    linear_data : ``Out(stream.Signature(words(lanes)))``
        ``ceil(limit / lanes)`` words for each head; lanes of columns from `limit` on are undefined.
    single : ``Out(stream.Signature(SingleLayout))``
        The next token.
    write_idle : ``In(1)``
        Everything written is acknowledged.
    token : ``Out(32)``
        The next token; stays.
    token_stb : ``Out(1)``
        Pulse: `token` is new.
    waiting : ``Out(1)``
        Waiting for `write_idle`.
    done : ``Out(1)``
        Pulse.
    """
    def __init__(self, config: Config):
        self.config = config
        super().__init__({
            "start": In(1), "command": In(CommandLayout),
            "results": In(stream.Signature(ResultLayout(config))),
            "linear": Out(stream.Signature(LinearLayout)),
            "linear_data": Out(stream.Signature(words(config.lanes))),
            "single": Out(stream.Signature(SingleLayout)), "write_idle": In(1),
            "token": Out(32), "token_stb": Out(1), "waiting": Out(1), "done": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        limit = field(self.command, "limit")
        tokens = field(self.command, "tokens")
        m.submodules.argmax = argmax = ArgMax(config.lanes)

        column = Signal(32)
        word = Signal(range(config.col_words))
        tile = Signal(24)
        last = Signal()                  # the last tile
        words_last = Signal.like(word)   # last word of the tile
        kept = Signal()
        moved = Signal()
        written = Signal()
        running = Signal()
        wait = Signal(range(max(argmax.latency, 3) + 1))
        m.d.comb += [
            kept.eq(column < limit),
            written.eq(kept & self.command.logits),
            self.results.ready.eq(running & (~written | self.linear_data.ready)),
            self.linear_data.valid.eq(running & written & self.results.valid),
            self.linear_data.payload.eq(self.results.payload.values),
            moved.eq(self.results.valid & self.results.ready),
            argmax.start.eq(self.start),
            argmax.valid.eq(moved & kept),
            argmax.values.eq(self.results.payload.values),
            argmax.column.eq(column),
            self.linear.payload.addr.eq(field(self.command, "addr")),
            self.linear.payload.elems.eq(limit),
            self.single.payload.addr.eq(
                (tokens << 6) + ((self.command.position + self.command.positions) << 2)),
            self.single.payload.data.eq(self.token),
        ]
        m.d.comb += words_last.eq(config.col_words - 1)
        with m.Switch(Mux(last, field(self.command, "narrow"), 0)):
            for narrow in config.last_tiles(8)[1:]:
                with m.Case(narrow):
                    m.d.comb += words_last.eq((config.col_words >> narrow) - 1)
        m.d.comb += [argmax.mask[lane].eq((column | lane) < limit) for lane in range(config.lanes)]

        with m.FSM(name="logits"):
            with m.State("IDLE"):
                m.d.sync += [column.eq(0), word.eq(0), tile.eq(0), wait.eq(argmax.latency)]
                with m.If(self.start):
                    m.next = "HEAD"
            with m.State("HEAD"):
                m.d.sync += last.eq(field(self.command, "tiles") == 1)
                m.d.comb += self.linear.valid.eq(self.command.logits)
                with m.If(self.linear.ready | ~self.command.logits):
                    m.d.sync += running.eq(1)
                    m.next = "RUN"
            with m.State("RUN"):
                with m.If(moved):
                    m.d.sync += [column.eq(column + config.lanes), word.eq(word + 1)]
                    with m.If(word == words_last):
                        m.d.sync += [word.eq(0), tile.eq(tile + 1),
                                     last.eq(tile + 2 == field(self.command, "tiles"))]
                        with m.If(last):
                            m.d.sync += running.eq(0)
                            m.next = "CHOOSE"
            with m.State("CHOOSE"):
                m.d.sync += wait.eq(wait - 1)
                with m.If(wait == 0):
                    m.d.sync += [self.token.eq(argmax.index), self.token_stb.eq(1)]
                    m.next = "WRITE"
            with m.State("WRITE"):
                m.d.comb += self.single.valid.eq(1)
                m.d.sync += [self.token_stb.eq(0), wait.eq(3)]
                with m.If(self.single.ready):
                    m.next = "SETTLE"
            with m.State("SETTLE"):
                # write_idle may still be 1 for some cycles after the token was accepted.
                m.d.comb += self.waiting.eq(1)
                with m.If(wait != 0):
                    m.d.sync += wait.eq(wait - 1)
                with m.Elif(self.write_idle):
                    m.d.comb += self.done.eq(1)
                    m.next = "IDLE"
        return m
