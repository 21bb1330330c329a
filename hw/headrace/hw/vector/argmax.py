"""Index of the greatest of a long row of numbers."""

from amaranth import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..formats import FP32
from ..interfaces import words


__all__ = ["ArgMax"]


class ArgMax(wiring.Component):
    """Lowest index of the greatest value of a row, `lanes` values per cycle.

    The scan starts from element 0 and moves on only to a value that is greater, so a NaN never
    wins, except that nothing is greater than a NaN in element 0. Both zeros are equal. A tree
    compares the lanes of a word, one level per cycle, and its winner meets the winner so far.

    Latency: :attr:`latency` cycles from the last word to `index`. Throughput: 1 word per cycle.

    Parameters
    ----------
    lanes : int
        Values per word, a power of two.
    index_bits : int
        Width of indices.

    Members
    -------
    start : ``In(1)``
        Forget the row before; no word may come in the same cycle.
    valid : ``In(1)``
        `values` holds the next word of the row.
    values : ``In(words(lanes))``
        fp32 values of elements ``column ... column + lanes - 1``.
    column : ``In(index_bits)``
        Index of lane 0, a multiple of `lanes`, ascending.
    mask : ``In(lanes)``
        Lanes that take part. Lane 0 of column 0 must.
    index : ``Out(index_bits)``
        Index of the greatest of all words that came at least :attr:`latency` cycles ago.
    """
    def __init__(self, lanes, index_bits=32):
        self.lanes = lanes
        self.index_bits = index_bits
        super().__init__({
            "start": In(1), "valid": In(1), "values": In(words(lanes)),
            "column": In(index_bits), "mask": In(lanes), "index": Out(index_bits),
        })

    @property
    def latency(self):
        """Cycles from a word to the `index` that includes it."""
        return 2 + (self.lanes - 1).bit_length()

    def elaborate(self, platform):
        m = Module()

        # Keys are unsigned integers in the order of the numbers. Key 0 is below minus infinity.
        keys = []
        for lane in range(self.lanes):
            bits = self.values[lane]
            magnitude = bits[:-1]
            key = Signal(32, name=f"key{lane}", reset_less=True)
            with m.If(~self.mask[lane]):
                m.d.sync += key.eq(0)
            with m.Elif(magnitude > FP32.infinity):
                m.d.sync += key.eq(0)
                if lane == 0:
                    with m.If(self.column == 0):
                        m.d.sync += key.eq(0xffff_ffff)
            with m.Elif(magnitude == 0):
                m.d.sync += key.eq(FP32.sign_mask)
            with m.Else():
                m.d.sync += key.eq(Mux(bits[-1], ~bits, bits | FP32.sign_mask))
            keys.append((key, Const(0, 0)))

        valid = Signal(name="valid0")
        column = Signal(self.index_bits, name="column0", reset_less=True)
        m.d.sync += [valid.eq(self.valid), column.eq(self.column)]
        level = 0
        while len(keys) > 1:
            level += 1
            winners = []
            for pair, ((low, low_lane), (high, high_lane)) in enumerate(
                    zip(keys[::2], keys[1::2])):
                key = Signal(32, name=f"key{level}_{pair}", reset_less=True)
                lane = Signal(level, name=f"lane{level}_{pair}", reset_less=True)
                greater = high > low
                m.d.sync += key.eq(Mux(greater, high, low))
                m.d.sync += lane.eq(Mux(greater, Cat(high_lane, C(1, 1)), Cat(low_lane, C(0, 1))))
                winners.append((key, lane))
            keys = winners
            next_valid = Signal(name=f"valid{level}")
            next_column = Signal(self.index_bits, name=f"column{level}", reset_less=True)
            m.d.sync += [next_valid.eq(valid), next_column.eq(column)]
            valid, column = next_valid, next_column

        (key, lane), = keys
        best = Signal(32)
        with m.If(self.start):
            m.d.sync += [best.eq(0), self.index.eq(0)]
        with m.Elif(valid & (key > best)):
            m.d.sync += [best.eq(key), self.index.eq(column | lane)]
        return m
