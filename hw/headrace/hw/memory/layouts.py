"""Layouts inside the memory system, and the sizes that its parts share."""

from dataclasses import dataclass
from enum import IntEnum

from amaranth import *
from amaranth.lib import data

from ..axi import ID_BITS
from ..config import Config
from ..isa import INSTRUCTION_BYTES


__all__ = ["BOUNDARY", "FetchLayout", "LinearLayout", "STREAM_BEATS", "SingleLayout", "Sizes",
           "TARGET", "Target", "pow2_floor"]


#: No AXI burst crosses a multiple of this.
BOUNDARY = 4096


#: The ring's stream issues nothing while so many of its beats are in flight. Latencies up to here
#: are hidden; more would hide nothing, and whatever else is read has to wait behind all of them.
STREAM_BEATS = 512

#: Instructions to fetch: `count` of them from `addr` (64-byte units).
FetchLayout = data.StructLayout({"addr": 32, "count": 32})

#: A vector to write: `elems` fp32 values to `addr` (64-byte units).
LinearLayout = data.StructLayout({"addr": 32, "elems": 32})

#: One 32-bit word to write, `addr` bytes after the base, a multiple of 4.
SingleLayout = data.StructLayout({"addr": 40, "data": 32})


class Target(IntEnum):
    """Where the data of a read go."""

    RING = 0        # the ring of the matmul unit
    SCALES = 1      # scales of the cache
    TABLES = 2      # norm gains and RoPE rows
    REQUEST = 3     # answers to the vector unit
    PROGRAM = 4     # instructions


#: Shape of a `Target` in hardware.
TARGET = range(len(Target))


def pow2_floor(value):
    """Greatest power of two that is not greater than ``value``."""
    return 1 << (value.bit_length() - 1)


@dataclass(frozen=True)
class Sizes:
    """Sizes that follow from a configuration, and the layouts that need them."""

    config: Config

    @property
    def beat(self):
        """Bytes of a beat."""
        return self.config.port_bytes

    @property
    def beat_log2(self):
        return self.beat.bit_length() - 1

    @property
    def index_bits(self):
        """Width of the number of a beat in the whole address space."""
        return self.config.addr_bits - self.beat_log2

    def word(self, target):
        """Bytes of a word that leaves towards ``target``."""
        config = self.config
        return {Target.RING: config.stride, Target.SCALES: 2 * config.softmax_lanes,
                Target.TABLES: 4 * config.lanes, Target.REQUEST: 4 * config.lanes,
                Target.PROGRAM: INSTRUCTION_BYTES}[target]

    def split(self, target):
        """Words in a beat: 1 unless words are shorter than beats."""
        return max(1, self.beat // self.word(target))

    @property
    def tail_bits(self):
        """Width of the number of words (minus one) that count in the last beat of a piece."""
        return max((self.split(t) - 1).bit_length() for t in (Target.RING, Target.PROGRAM)) or 1

    def capacity(self, target):
        """Space of a target: words of the ring if they are shorter than a beat, else beats."""
        config = self.config
        if target == Target.RING:
            return max(config.ring_words, config.ring_bytes // self.beat)
        if target == Target.SCALES:
            # The K/V stream runs as far ahead of the softmax as there is space for scales.
            return config.scale_bytes // self.beat
        if target == Target.PROGRAM:
            return max(4, 16 * INSTRUCTION_BYTES // self.beat)
        # Planned ahead of the streams to the ring, so latency is hidden by time, not by depth.
        return max(32, 1024 // self.beat)

    def units(self, target):
        """Units of space that a full beat takes."""
        return self.split(Target.RING) if target == Target.RING else 1

    def chunk(self, target):
        """Longest burst in beats, a power of two: bursts end at multiples of it.

        It fits twice into the target's space, so that one burst is on its way while another is
        consumed, except where the space is less than two beats.
        """
        beats = self.capacity(target) // self.units(target)
        return pow2_floor(max(1, min(self.config.burst_beats, beats // 2)))

    @property
    def write_chunk(self):
        """Longest write burst in beats, a power of two."""
        return pow2_floor(min(self.config.burst_beats, 16))

    @property
    def space_bits(self):
        return max(self.capacity(target) for target in Target).bit_length()

    @property
    def piece(self):
        """A contiguous read: `beats` beats from byte `addr`; `tail` + 1 words of the last count.

        With `single` the answer is one word: the 32 bits at `addr`, which need not begin a beat.
        """
        return data.StructLayout({
            "addr": self.config.addr_bits, "beats": self.index_bits, "tail": self.tail_bits,
            "single": 1, "cls": ID_BITS, "target": TARGET, "hit": 1,
        })

    @property
    def burst(self):
        """A burst: `beats` + 1 beats; `units` is the space it takes; `last` ends a piece."""
        return data.StructLayout({
            "addr": self.config.addr_bits, "beats": 8, "units": self.space_bits, "last": 1,
            "tail": self.tail_bits, "single": 1, "cls": ID_BITS, "target": TARGET, "hit": 1,
        })

    def beat_layout(self, target):
        """A beat on its way to a gearbox, see `Gearbox`."""
        return data.StructLayout({
            "data": 8 * self.beat, "words": range(self.split(target)), "flush": 1,
        })

    @property
    def run(self):
        """A run of writes: `items` items of ``2**size`` bytes, `step` bytes apart, from `addr`.

        With `literal` the only item is `value`.
        """
        return data.StructLayout({
            "addr": self.config.addr_bits, "items": 32, "step": 6, "size": 2, "cls": ID_BITS,
            "pinned": 1, "literal": 1, "value": 32,
        })

