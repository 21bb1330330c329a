"""Read-ahead ring of weights in front of the array."""

from amaranth import *
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config


__all__ = ["BlockRing"]


class BlockRing(wiring.Component):
    """Ring of words of ``stride`` bytes that is consumed block by block.

    Words with even and with odd addresses are in two memories. While a pass reads its rows one
    after the other, the header of its block, which lies directly before them, is read from the
    memory that the rows do not use: words 1, 0, 2, 3 of the header, as far as it has them, in the
    first cycles of the first pass. So headers cost no cycle.

    Latency: 1 cycle from `fetch` to `word`, and from the read of a header word to `header_valid`.

    Members
    -------
    i : ``In(stream.Signature(8 * stride))``
        Words in memory order. Always ready: the source has reserved the space.
    available : ``Out(range(depth + 1))``
        Words that are in the ring and belong to no block yet.
    start : ``In(1)``
        A pass begins: sample `opens`, `words` and `header`.
    opens : ``In(1)``
        It begins a new block of `words` words, `header` of them header, all in the ring.
        Otherwise the rows of the present block are read again.
    words, header : ``In``
        Length of the block and of its header.
    fetch : ``In(1)``
        Read the next word of rows, from the cycle after `start` on.
    word : ``Out(8 * stride)``
        It, one cycle later.
    header_valid, header_index, header_word : ``Out``
        A word of the header.
    """
    def __init__(self, config: Config):
        self.config = config
        #: The two memories have the same depth.
        self.depth = config.ring_words + config.ring_words % 2
        bits = 8 * config.stride
        super().__init__({
            "i": In(stream.Signature(bits)),
            "available": Out(range(self.depth + 1)),
            "start": In(1),
            "opens": In(1),
            "words": In(range(config.ring_words + 1)),
            "header": In(3),
            "fetch": In(1),
            "word": Out(bits),
            "header_valid": Out(1),
            "header_index": Out(2),
            "header_word": Out(bits),
        })

    def elaborate(self, platform):
        m = Module()
        depth = self.depth
        bits = 8 * self.config.stride

        def wrapped(value, name):
            plain = Signal(range(2 * depth), name=f"{name}_plain")
            result = Signal(range(depth), name=name)
            m.d.comb += [plain.eq(value),
                         result.eq(Mux(plain >= depth, plain - depth, plain))]
            return result

        tail = Signal(range(depth))      # next word to write
        begin = Signal(range(depth))     # first word of the present block
        end = Signal(range(depth))       # ... and behind it
        addr = Signal(range(depth))      # next word of rows
        left = Signal(3)                 # words of the header still to read

        m.d.comb += self.i.ready.eq(1)
        with m.If(self.i.valid):
            m.d.sync += tail.eq(wrapped(tail + 1, "tail_next"))
        m.d.sync += self.available.eq(self.available + self.i.valid
                                      - Mux(self.start & self.opens, self.words, 0))

        block = Signal(range(depth))
        m.d.comb += block.eq(Mux(self.opens, end, begin))
        with m.If(self.start):
            m.d.sync += [begin.eq(block), addr.eq(wrapped(block + self.header, "rows_begin")),
                         left.eq(Mux(self.opens, self.header, 0))]
            with m.If(self.opens):
                m.d.sync += end.eq(wrapped(end + self.words, "block_end"))
        with m.Elif(self.fetch):
            m.d.sync += addr.eq(wrapped(addr + 1, "addr_next"))

        # Header: in the first two cycles of W8 the rows use the memories in the order of the
        # addresses, so words 1 and 0; W4 reads a word of rows in every second cycle only.
        step = Signal(2)
        index = Signal(2)
        single = Signal()                # a header of one word
        m.d.comb += index.eq(Mux(step[1] | single, step, step ^ 1))
        head = wrapped(begin + index, "header_addr")
        m.d.sync += [self.header_valid.eq(left != 0), self.header_index.eq(index)]
        with m.If(self.start):
            m.d.sync += [step.eq(0), single.eq(self.header == 1)]
        with m.Elif(left != 0):
            m.d.sync += [step.eq(step + 1), left.eq(left - 1)]

        outs = []
        for odd in range(2):
            name = "odd" if odd else "even"
            m.submodules[name] = bank = memory.Memory(
                shape=unsigned(bits), depth=max(depth // 2, 1), init=[])
            write = bank.write_port()
            read = bank.read_port()
            rows = self.fetch & (addr[0] == odd)
            header = (left != 0) & (head[0] == odd)
            m.d.comb += [write.en.eq(self.i.valid & (tail[0] == odd)),
                         write.addr.eq(tail >> 1), write.data.eq(self.i.payload),
                         read.en.eq(rows | header),
                         read.addr.eq(Mux(rows, addr, head) >> 1)]
            outs.append(read.data)
        odd_rows = Signal()
        odd_header = Signal()
        m.d.sync += [odd_rows.eq(addr[0]), odd_header.eq(head[0])]
        m.d.comb += [self.word.eq(Mux(odd_rows, outs[1], outs[0])),
                     self.header_word.eq(Mux(odd_header, outs[1], outs[0]))]

        return m
