"""Loading of the table SRAM."""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..interfaces import words


__all__ = ["TableLoader"]


class TableLoader(wiring.Component):
    """Writes `rows` rows of `row_words` words to the table SRAM, from address `base`.

    One word per cycle. All three are sampled throughout and must not change before `loaded`.

    Members
    -------
    start : ``In(1)``
        Pulse: load. The first word is taken one cycle later at the earliest.
    base : ``In(16)``
        First word; sampled with `start`.
    rows, row_words : ``In(16)``
        Sizes, at least 1.
    tables : ``In(stream.Signature(words(lanes)))``
        The table.
    en, addr, data : ``Out``
        Write port of the table SRAM.
    loaded : ``Out(1)``
        The table is complete; falls at `start`.
    """
    def __init__(self, config: Config):
        self.config = config
        depth = config.table_elems // config.lanes
        super().__init__({
            "start": In(1), "base": In(16), "rows": In(16), "row_words": In(16),
            "tables": In(stream.Signature(words(config.lanes))),
            "en": Out(1), "addr": Out(range(depth)), "data": Out(words(config.lanes)),
            "loaded": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        loading = Signal()
        row = Signal(16)
        word = Signal(16)
        last_row, last_word = Signal(16), Signal(16)
        m.d.sync += [last_row.eq(self.rows - 1), last_word.eq(self.row_words - 1)]
        m.d.comb += [
            self.tables.ready.eq(loading),
            self.en.eq(loading & self.tables.valid),
            self.data.eq(self.tables.payload),
        ]
        with m.If(self.start):
            m.d.sync += [loading.eq(1), self.loaded.eq(0), self.addr.eq(self.base), row.eq(0),
                         word.eq(0)]
        with m.Elif(self.en):
            m.d.sync += [self.addr.eq(self.addr + 1), word.eq(word + 1)]
            with m.If(word == last_word):
                m.d.sync += [word.eq(0), row.eq(row + 1)]
                with m.If(row == last_row):
                    m.d.sync += [loading.eq(0), self.loaded.eq(1)]
        return m
