"""Configuration of the accelerator: every size, written once.

A :class:`Config` holds what a user chooses; everything else is derived from it by properties, so
that the RTL, the compiler, the golden machine and the documents read the same numbers. No size
changes a bit of any result: sizes change cycles only.
"""

import hashlib
import json
import math
import tomllib
from dataclasses import asdict, dataclass, fields
from pathlib import Path


__all__ = ["CLASSES", "Config", "ConfigError", "PRESETS", "load_config"]


#: Classes of memory traffic, in the order of their AXI IDs and of their counters.
CLASSES = ("weights", "scales", "kv", "activations", "tables", "program")

#: Tokens in one block of the KV cache and of the online softmax: part of the numerics.
KV_BLOCK = 32

#: Alignment of everything that is placed in memory: the widest port, in bytes.
ALIGN = 64


class ConfigError(ValueError):
    """A configuration that cannot work, with the rule that it breaks."""


def _pow2(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes of one accelerator.

    Parameters
    ----------
    name : str
        Name of the configuration, for reports only.
    rows, cols : int
        Size of the systolic matmul unit: activation streams x weight columns.
    port_bits : int
        Width of the memory port in bits.
    lanes : int
        fp32 lanes of the accumulator and of the vector unit, a power of two that divides `cols`.
    softmax_lanes : int
        Scores per cycle of the softmax pipeline.
    attn_lead : int
        Blocks of K that attention goes through ahead of a block's V: the softmax has their time.
    group : int
        Largest quantisation group of weights, a multiple of 16. Attention works in groups of 32
        on every configuration.
    chunk_positions : int
        Largest number of prompt positions in one pass.
    streams : int
        Largest number of attention streams in flight: positions x query heads per K/V head.
    ring_bytes : int
        Read-ahead buffer in front of the matmul unit.
    x_bytes, a_bytes : int
        Vector SRAM (fp32) and activation SRAM (int8).
    head_dim : int
        Largest head dimension (after padding to 16) that the attention storage is built for.
    table_elems : int
        Elements (fp32) of the table SRAM: at least the model's dimension, and chunk x head_dim.
    kv_bytes : int
        KV buffer: on-chip SRAM that holds the beginning of the cache.
    clk_hz : int
        Clock that reports assume.
    memory, memory_bytes : str, int
        Memory beside the device: the DRAM whose timing `--memory preset` simulates, by its name
        in :data:`headrace.sim.dram.DRAMS`, and capacity.
    burst_beats, outstanding : int
        Longest read burst and most read bursts in flight.
    """

    name: str = "custom"
    rows: int = 4
    cols: int = 8
    port_bits: int = 32
    lanes: int = 1
    softmax_lanes: int = 1
    attn_lead: int = 1
    group: int = 32
    chunk_positions: int = 8
    streams: int = 32
    ring_bytes: int = 8192
    x_bytes: int = 24576
    a_bytes: int = 8192
    head_dim: int = 128
    table_elems: int = 1024
    kv_bytes: int = 16384
    clk_hz: int = 50_000_000
    memory: str = "sdr-133-x16"
    memory_bytes: int = 32 << 20
    burst_beats: int = 64
    outstanding: int = 16

    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type is int and (not isinstance(value, int) or isinstance(value, bool)):
                raise ConfigError(f"{field.name} must be a whole number, not {value!r}")
        self._range("rows", 1, 64)
        self._range("cols", 1, 128)
        self._range("group", 16, 128)
        self._range("chunk_positions", 1, 1024)
        self._range("streams", 1, 1024)
        self._range("attn_lead", 1, 7)
        self._range("burst_beats", 1, 256)
        self._range("outstanding", 1, 64)
        self._range("clk_hz", 1, 2_000_000_000)
        self._range("memory_bytes", 65536, 1 << self.addr_bits)
        self._range("head_dim", 16, 256)
        if self.port_bits not in (32, 64, 128, 256, 512):
            raise ConfigError(f"port_bits must be 32, 64, 128, 256 or 512, not {self.port_bits}")
        if self.lanes not in (1, 2, 4, 8, 16):
            raise ConfigError(f"lanes must be 1, 2, 4, 8 or 16, not {self.lanes}: reductions are "
                              f"16-way trees that the lanes share")
        if self.cols % self.lanes:
            raise ConfigError(f"lanes must divide cols, but {self.lanes} does not divide "
                              f"{self.cols}: results leave the array in words of `lanes` columns")
        if self.softmax_lanes not in (1, 2, 4):
            raise ConfigError(f"softmax_lanes must be 1, 2 or 4, not {self.softmax_lanes}")
        if self.group % 16:
            raise ConfigError(f"group must be a multiple of 16, not {self.group}")
        if self.head_dim % 16:
            raise ConfigError(f"head_dim must be a multiple of 16, not {self.head_dim}")
        if self.burst_bytes > 4096:
            raise ConfigError(f"burst_beats x port bytes must not exceed 4096, the AXI boundary, "
                              f"but {self.burst_beats} x {self.port_bytes} = {self.burst_bytes}")
        if self.streams < self.chunk_positions:
            raise ConfigError(f"streams must be at least chunk_positions, but "
                              f"{self.streams} < {self.chunk_positions}")
        if self.v_cols(self.head_dim) * 255 < self.head_dim:
            raise ConfigError(f"head_dim {self.head_dim} needs at least 2 cols, not {self.cols}: "
                              f"a head has at most 255 tiles")
        least = 4 * (self.block + 2) * self.stride
        if self.ring_bytes < least:
            raise ConfigError(f"ring_bytes must be at least {least}, four blocks of {self.block} "
                              f"x cols with their scales, not {self.ring_bytes}")
        if self.kv_bytes < 0:
            raise ConfigError(f"kv_bytes must not be negative, but is {self.kv_bytes}: 0 leaves "
                              f"the whole cache in memory")
        for name, least in (("x_bytes", self.x_word_bytes), ("a_bytes", self.a_word_bytes),
                            ("table_elems", 16)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be at least {least}, not {getattr(self, name)}")
        for name, words in (("x_bytes", self.x_words), ("a_bytes", self.a_words),
                            ("a_bytes", self.s_words)):
            if words > 1 << 16:
                most = getattr(self, name) * (1 << 16) // words
                raise ConfigError(f"{name} must be at most {most}, not {getattr(self, name)}: "
                                  f"words have addresses of 16 bits in instructions")
        for name, unit in (("ring_bytes", self.stride), ("x_bytes", self.x_word_bytes),
                           ("kv_bytes", ALIGN)):
            if getattr(self, name) % unit:
                raise ConfigError(f"{name} must be a multiple of {unit}, its word, "
                                  f"not {getattr(self, name)}")
        if self.table_elems % self.lanes:
            raise ConfigError(f"table_elems must be a multiple of lanes ({self.lanes}), "
                              f"not {self.table_elems}")

    def _range(self, name, low, high):
        value = getattr(self, name)
        if not low <= value <= high:
            raise ConfigError(f"{name} must be between {low} and {high}, not {value}")

    # Derived sizes.

    @property
    def addr_bits(self) -> int:
        """Width of AXI addresses."""
        return 40

    @property
    def port_bytes(self) -> int:
        """Bytes of one beat."""
        return self.port_bits // 8

    @property
    def burst_bytes(self) -> int:
        """Bytes of the longest burst."""
        return self.burst_beats * self.port_bytes

    @property
    def stride(self) -> int:
        """Bytes of one row of weights in memory and in the ring: `cols` rounded up to 2**n."""
        return 1 << (self.cols - 1).bit_length()

    @property
    def stream_waste(self) -> float:
        """Part of the weight stream that is padding: columns between `cols` and `stride`."""
        return 1 - self.cols / self.stride

    @property
    def ring_words(self) -> int:
        """Depth of the ring, in words of `stride` bytes."""
        return self.ring_bytes // self.stride

    @property
    def block(self) -> int:
        """Rows of the longest block that meets the array: a group of weights, or 32 of a cache."""
        return max(self.group, KV_BLOCK)

    @property
    def scale_bytes(self) -> int:
        """Read-ahead buffer of K/V scales, in proportion to the ring: a token of a K/V head has 4
        bytes of scales and, with heads of 64, 128 bytes in the ring. At least eight blocks."""
        return max(8 * 4 * KV_BLOCK, self.ring_bytes // 32)

    @property
    def x_word_bytes(self) -> int:
        """Bytes of one word of the vector SRAM: `lanes` fp32 values."""
        return 4 * self.lanes

    @property
    def x_words(self) -> int:
        """Depth of the vector SRAM, in words."""
        return self.x_bytes // self.x_word_bytes

    @property
    def a_word_bytes(self) -> int:
        """Bytes of one word of the activation SRAM: `rows` x `lanes` int8 values."""
        return self.rows * self.lanes

    @property
    def a_words(self) -> int:
        """Depth of the activation SRAM, in whole words."""
        return self.a_bytes // self.a_word_bytes

    @property
    def s_words(self) -> int:
        """Depth of the memory of activation scales: one fp32 per 16 values or less."""
        return -(-self.a_bytes // 16)

    @property
    def sum_bits(self) -> int:
        """Width of the signed integer sum of one group, or of one block of attention."""
        return 1 + (127 * 128 * self.block).bit_length()

    @property
    def col_words(self) -> int:
        """Words of `lanes` values in one row of results of a full tile."""
        return self.cols // self.lanes

    @property
    def k_cols(self) -> int:
        """Tokens (columns of the array) in one tile of K, a power of two."""
        return min(KV_BLOCK, 1 << (self.cols.bit_length() - 1))

    def v_cols(self, head_dim: int) -> int:
        """Dimensions (columns of the array) in one tile of V for a padded `head_dim`."""
        n = 1 << (self.cols.bit_length() - 1)
        return math.gcd(n, head_dim)

    def fold(self, n: int) -> int:
        """Rows of the contraction that a tile of `n` columns takes in one cycle, side by side.

        Column group `j` of the array (columns ``j * n ...``) works on the `j`-th of them. The
        array folds into groups of `k_cols` columns at the narrowest, and a word of activations
        has `lanes` values of a stream.
        """
        widest = 1 << (self.cols.bit_length() - 1)
        return max(1, min(self.lanes, widest // max(n, self.k_cols)))

    @property
    def folds(self) -> int:
        """The greatest fold of all tiles: activations per row and cycle of the array."""
        return self.fold(self.k_cols)

    def last_tiles(self, bits: int) -> list[int]:
        """Widths of the last tile of a matrix of `bits` bits per weight, as log2(stride / n).

        A narrower tile than these would take longer on the array than its words of the ring take
        to arrive: two cycles each, as a port of half a stride brings them.
        """
        if self.cols != self.stride:
            return [0]
        widths = [(narrow, self.stride >> narrow) for narrow in range(1, 4)]
        return [0, *(narrow for narrow, n in widths if n >= self.lanes
                     and 8 // bits << narrow <= 2 * self.fold(n))]

    def last_tile(self, columns: int, bits: int) -> int:
        """The narrowest of these that takes the last columns of a matrix."""
        rest = columns % self.cols or self.cols
        return max(narrow for narrow in self.last_tiles(bits) if self.stride >> narrow >= rest)

    def sub_select(self, n: int) -> int:
        """log2(stride / n): how many rows of `n` bytes share one word of the ring."""
        return (self.stride // n).bit_length() - 1

    @property
    def acc_words(self) -> int:
        """Depth of the accumulator storage: a tile of scores or results, then the outputs."""
        return self.streams * (self.col_words + self.head_dim // self.lanes)

    @property
    def p_buffers(self) -> int:
        """Buffers of probabilities: one for each block that attention has begun and not ended,
        so that no block ever waits for one."""
        return self.attn_lead + 1

    @property
    def sram_bytes(self) -> int:
        """On-chip memory in all, buffers of the units included."""
        # Of each stream: scores of two blocks; probabilities with three factors; maximum and sum.
        attention = self.streams * (2 * 4 * KV_BLOCK + self.p_buffers * (KV_BLOCK + 12) + 8)
        return (self.ring_bytes + self.scale_bytes + self.x_bytes + self.a_bytes
                + 4 * self.s_words + self.kv_bytes + 4 * self.table_elems
                + self.acc_words * self.x_word_bytes + attention)

    @property
    def fingerprint(self) -> int:
        """32 bits that identify the hardware: equal exactly when every hardware field is equal."""
        facts = {key: value for key, value in asdict(self).items()
                 if key not in ("name", "clk_hz", "memory", "memory_bytes")}
        text = json.dumps(facts, sort_keys=True).encode()
        return int.from_bytes(hashlib.sha256(text).digest()[:4], "little")


PRESETS = {config.name: config for config in (
    Config(name="tiny"),
    Config(name="ecp5", cols=16, port_bits=64, lanes=2, chunk_positions=16, streams=64,
           ring_bytes=32768, x_bytes=65536, a_bytes=32768, table_elems=2048, kv_bytes=32768,
           clk_hz=75_000_000, memory="ddr3-1600-x16", memory_bytes=256 << 20),
    Config(name="edge", cols=32, port_bits=128, lanes=4, chunk_positions=32, streams=128,
           ring_bytes=131072, x_bytes=262144, a_bytes=163840, table_elems=4096, kv_bytes=65536,
           clk_hz=200_000_000, memory="ddr3-1600-x16", memory_bytes=1 << 30, outstanding=32,
           attn_lead=2),
    Config(name="wide", cols=128, port_bits=512, lanes=16, softmax_lanes=2, attn_lead=4,
           chunk_positions=64, streams=256, ring_bytes=1048576, x_bytes=524288, a_bytes=262144,
           table_elems=8192, kv_bytes=262144, clk_hz=300_000_000, memory="ddr4-2400-x64",
           memory_bytes=4 << 30, outstanding=32),
)}


def load_config(source: str) -> Config:
    """Find a preset by name, or read a TOML file with the fields of :class:`Config`.

    A key ``preset`` in the file names the preset that the other keys change.

    Raises
    ------
    ConfigError
        If there is no such preset or file, a field is unknown, or a rule is broken.
    """
    if source in PRESETS:
        return PRESETS[source]
    path = Path(source)
    if not path.is_file():
        raise ConfigError(f"no configuration {source!r}: expected a preset "
                          f"({', '.join(PRESETS)}) or the path of a TOML file")
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a TOML file: {error}") from error
    known = {field.name for field in fields(Config)}
    preset = values.pop("preset", None)
    if preset is not None and preset not in PRESETS:
        raise ConfigError(f"{path}: no preset {preset!r}: expected one of {', '.join(PRESETS)}")
    for key in values:
        if key not in known:
            raise ConfigError(f"{path}: unknown field {key!r}: expected some of "
                              f"{', '.join(sorted(known))}")
    base = asdict(PRESETS[preset]) if preset else {}
    try:
        return Config(**{**base, "name": path.stem, **values})
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
