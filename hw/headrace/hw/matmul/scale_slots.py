"""Weight scales of the blocks whose rows are on their way."""

from amaranth import *
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..interfaces import words
from .layouts import SCALE_SLOTS


__all__ = ["ScaleSlots"]


class ScaleSlots(wiring.Component):
    """Headers of blocks, one per slot, read `lanes` columns at a time.

    Words 0 and 1 of a header are the fp16 scales, words 2 and 3 the fp16 minima; of a narrow tile
    there are words 0 and 2 only. Reads are combinational, from distributed memory. What was never
    written is undefined.

    Members
    -------
    en : ``In(1)``
        Write `header` as word `index` of `slot`.
    slot, index, header : ``In``
        Slot, word of the header, its bytes.
    read_slot : ``In(range(SCALE_SLOTS))``
        Slot to read.
    read_word : ``In(range(cols // lanes))``
        Columns ``read_word * lanes ...`` are read.
    scales, minima : ``Out(ArrayLayout(16, lanes))``
        fp16.
    """
    def __init__(self, config: Config):
        self.config = config
        super().__init__({
            "en": In(1), "slot": In(range(SCALE_SLOTS)), "index": In(2),
            "header": In(8 * config.stride),
            "read_slot": In(range(SCALE_SLOTS)), "read_word": In(range(config.col_words)),
            "scales": Out(words(config.lanes, 16)), "minima": Out(words(config.lanes, 16)),
        })

    def elaborate(self, platform):
        m = Module()
        stride, lanes = self.config.stride, self.config.lanes
        bits = 8 * stride

        for kind, out in enumerate((self.scales, self.minima)):
            name = "minima" if kind else "scales"
            en = self.en & (self.index[1] == kind)
            if stride >= 2 * lanes:
                # One word of the header holds whole words of lanes.
                m.submodules[name] = storage = memory.Memory(
                    shape=unsigned(bits), depth=2 * SCALE_SLOTS, init=[])
                write = storage.write_port()
                read = storage.read_port(domain="comb")
                chunks = stride // (2 * lanes)
                chunk_bits = (chunks - 1).bit_length()
                padded = Cat(self.read_word, C(0, chunk_bits + 1))
                m.d.comb += [write.en.eq(en), write.addr.eq(Cat(self.index[0], self.slot)),
                             write.data.eq(self.header),
                             read.addr.eq(Cat(padded[chunk_bits], self.read_slot))]
                chunk = padded[:chunk_bits]
                with m.Switch(chunk):
                    for i in range(chunks):
                        with m.Case(i) if i < chunks - 1 else m.Default():
                            m.d.comb += Value.cast(out).eq(
                                read.data[16 * lanes * i:16 * lanes * (i + 1)])
            else:
                # A word of lanes takes both words of the header.
                halves = []
                for half in range(2):
                    m.submodules[f"{name}_{half}"] = storage = memory.Memory(
                        shape=unsigned(bits), depth=SCALE_SLOTS, init=[])
                    write = storage.write_port()
                    read = storage.read_port(domain="comb")
                    m.d.comb += [write.en.eq(en & (self.index[0] == half)),
                                 write.addr.eq(self.slot), write.data.eq(self.header),
                                 read.addr.eq(self.read_slot)]
                    halves.append(read.data)
                m.d.comb += Value.cast(out).eq(Cat(halves))

        return m
