"""Storage of the scores of two blocks."""

from amaranth import *
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import KV_BLOCK, Config
from ..interfaces import BlockLayout, words


__all__ = ["ScoreBuffer"]


class ScoreBuffer(wiring.Component):
    """Take the scores of a block while those of the block before are read.

    A block is announced first; then its scores follow: for each K tile, for each stream,
    ``k_cols / lanes`` words. It leaves at `block_o` when they are complete.

    Members
    -------
    block_i : ``In(stream.Signature(BlockLayout))``
        Blocks, in order. One is taken when a buffer is free and the one before is complete.
    scores : ``In(stream.Signature(words(lanes)))``
        Scores.
    block_o : ``Out(stream.Signature(BlockLayout))``
        Blocks with complete scores.
    row : ``In(range(2 * streams))``, ``word`` : ``In(range(32 / lanes))``
        Read address: the stream, plus the greatest number of streams for odd blocks.
    data : ``Out(words(lanes))``
        The word, one cycle later.
    release : ``In(1)``
        The oldest block has been read.
    """
    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "block_i": In(stream.Signature(BlockLayout)),
            "scores": In(stream.Signature(words(config.lanes))),
            "block_o": Out(stream.Signature(BlockLayout)),
            "row": In(range(2 * config.streams)),
            "word": In(range(KV_BLOCK // config.lanes)),
            "data": Out(words(config.lanes)),
            "release": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self._config
        per_row, per_tile = KV_BLOCK // config.lanes, config.k_cols // config.lanes
        tiles = KV_BLOCK // config.k_cols

        m.submodules.memory = memory = Memory(shape=32 * config.lanes,
                                              depth=2 * config.streams * per_row, init=[])
        write, read = memory.write_port(), memory.read_port()
        m.d.comb += [read.addr.eq(Cat(self.word, self.row)), self.data.eq(read.data)]

        m.submodules.queue = queue = fifo.SyncFIFO(width=BlockLayout.size, depth=2)
        m.d.comb += [
            self.block_o.valid.eq(queue.r_rdy), self.block_o.payload.eq(queue.r_data),
            queue.r_en.eq(self.block_o.ready),
        ]

        filled = Signal(range(3))            # buffers in use, the one being written included
        block = Signal(BlockLayout)
        writing = Signal()
        parity = Signal()
        word, tile, index = Signal(range(per_tile)), Signal(range(tiles)), Signal(16)
        row = Signal(range(2 * config.streams))
        first_row = Mux(parity, config.streams, 0)
        last_word, last_row, last = Signal(), Signal(), Signal()
        # Whether a row is the last of the block is in a register beside its index.
        before_last = Signal(16)
        alone = block.streams == 1
        m.d.comb += [
            self.block_i.ready.eq(~writing & (filled != 2)),
            self.scores.ready.eq(writing),
            last_word.eq(word == per_tile - 1),
            last.eq(last_word & last_row & (tile == tiles - 1)),
            write.en.eq(writing & self.scores.valid),
            write.addr.eq(Cat(word, tile, row)),
            write.data.eq(self.scores.payload),
            queue.w_en.eq(write.en & last), queue.w_data.eq(block),
        ]
        take = Signal()
        m.d.comb += take.eq(self.block_i.valid & self.block_i.ready)
        m.d.sync += filled.eq(filled + take - self.release)
        with m.If(take):
            m.d.sync += [block.eq(self.block_i.payload), writing.eq(1), row.eq(first_row),
                         before_last.eq(self.block_i.payload.streams - 2),
                         last_row.eq(self.block_i.payload.streams == 1)]
        with m.If(write.en):
            m.d.sync += word.eq(word + 1)
            with m.If(last_word):
                m.d.sync += [word.eq(0), row.eq(row + 1), index.eq(index + 1),
                             last_row.eq(index == before_last)]
                with m.If(last_row):
                    m.d.sync += [row.eq(first_row), index.eq(0), tile.eq(tile + 1),
                                 last_row.eq(alone)]
                with m.If(last):
                    m.d.sync += [writing.eq(0), tile.eq(0), parity.eq(~parity)]

        return m
