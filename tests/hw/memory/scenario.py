"""What is sent into a memory system under test, and what must come back."""

from headrace.hw.config import CLASSES, PRESETS, Config
from headrace.hw.isa import Op

from .harness import OUTPUTS, Harness
from .model import MemoryModel, command_bits, same


__all__ = ["BASE", "CONFIGS", "HEAD_DIM", "SIZE", "UNITS", "Scenario", "everything", "fill",
           "v_select"]


#: Ports of all widths, words of the ring shorter and longer than a beat, odd sizes.
CONFIGS = {
    "tiny": Config(),
    "edge": PRESETS["edge"],
    "wide": Config(cols=128, port_bits=512, lanes=16, softmax_lanes=2, ring_bytes=32768,
                   kv_bytes=4096),
    "3x5": Config(rows=3, cols=5, port_bits=64, ring_bytes=4096, kv_bytes=2048),
    "one column": Config(rows=1, cols=1, port_bits=256, ring_bytes=512, kv_bytes=0),
    "narrow port": Config(cols=16, lanes=16, port_bits=32, ring_bytes=4096, softmax_lanes=4),
}

SIZE = 1 << 18

#: The cache of tests that fill one: head dimension, units of a block, first unit.
HEAD_DIM = 16
UNITS = HEAD_DIM + 2            # of a block
BASE = 1024                     # of the cache


class Scenario:
    """A model and a harness that are told the same things."""

    def __init__(self, config, *, seed=1, size=SIZE, base=4096, kv_base=0, kv_pinned=0, **options):
        self.config = config
        self.model = MemoryModel(config, size, seed, base=base, kv_base=kv_base,
                                 kv_pinned=kv_pinned)
        self.harness = Harness(config, self.model.memory.copy(), seed=seed, base=base,
                               kv_base=kv_base, kv_pinned=kv_pinned, **options)
        self.rng = self.model.rng
        self.expected = {name: [] for name in OUTPUTS}
        self.written = dict.fromkeys(CLASSES, 0)

    def _expect(self, parts):
        for name, found in parts:
            self.expected[name] += found

    def _command(self, op, **fields):
        self.harness.send["commands"].append(command_bits(op, **fields))

    def matmul(self, addr, words):
        self._expect(self.model.matmul(addr, words))
        self._command(Op.MATMUL, addr=addr, words=words)

    def norm(self, table, dim):
        self._expect(self.model.norm(table, dim))
        self._command(Op.NORM, table=table, dim=dim)

    def rope(self, table, head_dim, position, positions):
        self._expect(self.model.rope(table, head_dim, position, positions))
        self._command(Op.APPEND, table=table, head_dim=head_dim, position=position,
                      positions=positions)

    def attn(self, addr, pitch, heads, head_dim, position, positions, *, token=True):
        self._expect(self.model.attn(addr, pitch, heads, head_dim, position, positions))
        self._command(Op.ATTN, addr=addr, pitch=pitch, heads=heads, head_dim=head_dim,
                      position=position, positions=positions)
        if token:
            self.harness.pulses.append("appended")

    def fetch(self, addr, count):
        self._expect(self.model.fetch(addr, count))
        self.harness.send["fetch"].append(addr | count << 32)

    def request(self, addr, size, cls="tables"):
        self._expect(self.model.request(addr, size, cls))
        self.harness.send["requests"].append(addr | size << 40 | CLASSES.index(cls) << 60)

    def append(self, addr, token, value, head_dim, v_select=0):
        vector = self.rng.integers(0, 256, head_dim, dtype="uint8")
        scale = int(self.rng.integers(0, 1 << 16))
        self.written["kv"] += self.model.append(addr, token, value, head_dim, v_select, scale,
                                                vector)
        self.harness.send["append"].append(addr | token << 32 | value << 37 | head_dim << 38
                                           | v_select << 54 | scale << 58)
        self._words("append_data", vector.tobytes(), self.config.lanes)

    def linear(self, addr, elems):
        data = self.rng.integers(0, 256, 4 * elems, dtype="uint8")
        self.model.write(64 * addr, data)
        self.written["activations"] += len(data)
        self.harness.send["linear"].append(addr | elems << 32)
        self._words("linear_data", data.tobytes(), 4 * self.config.lanes)

    def single(self, addr, value):
        self.model.write(addr, bytearray(value.to_bytes(4, "little")))
        self.written["activations"] += 4
        self.harness.send["single"].append(addr | value << 40)

    def _words(self, name, data, size):
        data += b"\xa5" * (-len(data) % size)
        self.harness.send[name] += [int.from_bytes(data[i:i + size], "little")
                                    for i in range(0, len(data), size)]

    def complete(self, harness):
        """Whether all that was asked has been answered, at least in number."""
        return (harness.sent and harness.status["write_idle"]
                and not harness.status["resetting"]
                and all(len(harness.received[name]) >= len(self.expected[name])
                        for name in OUTPUTS))

    def settle(self, limit=9000, extra=8):
        """Run until everything is complete and quiet, then compare everything."""
        quiet = 0

        def until(harness):
            nonlocal quiet
            busy = not self.complete(harness) or harness.owed
            quiet = 0 if busy else quiet + 1
            return quiet > extra

        self.harness.run(until, limit)
        self.check()
        return self.harness

    def check(self):
        harness, model = self.harness, self.model
        for name in OUTPUTS:
            assert same(harness.received[name], self.expected[name]), name
        assert (harness.memory == model.memory).all(), "memory"
        size = self.config.port_bytes
        read = {name: size * beats for name, beats in model.beats.items()}
        assert harness.bytes_read == read
        assert harness.event_bytes["read"] == read
        assert harness.bytes_written == self.written
        assert harness.event_bytes["write"] == self.written
        stats = harness.stats
        assert stats["kv_hit_stb"] == model.hits
        assert stats["kv_miss_stb"] == model.beats["kv"]
        assert stats["port_busy"] == stats["read_stb"] + stats["kv_hit_stb"]


def v_select(config, head_dim):
    return config.sub_select(config.v_cols(head_dim))


def everything(scenario, head_dim=16):
    """A bit of each."""
    scenario.fetch(3, 7)
    scenario.matmul(100, 37)
    scenario.norm(200, 48)
    scenario.request(4 * 77, 4)
    scenario.request(64 * 31, 192)
    scenario.rope(300, head_dim, 5, 3)
    scenario.attn(1500, 2 * (head_dim + 2), 2, head_dim, 30, 4)
    scenario.request(64 * 40 + 60, 4, "activations")
    scenario.matmul(400, 65)
    scenario.fetch(9, 2)
    scenario.linear(700, 21)
    scenario.single(64 * 800 + 20, 0x12345678)
    scenario.append(900, 19, 0, head_dim)
    scenario.append(950, 19, 1, head_dim, v_select(scenario.config, head_dim))


def fill(scenario, heads, tokens):
    """Append to a cache of one layer; blocks are `heads` blocks apart."""
    select = v_select(scenario.config, HEAD_DIM)
    for token in tokens:
        for head in range(heads):
            block = BASE + UNITS * (token // 32 * heads + head)
            for value in (0, 1):
                scenario.append(block, token % 32, value, HEAD_DIM, select)
