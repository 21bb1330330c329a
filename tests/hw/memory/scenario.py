"""What is sent into a memory system under test, and what must come back."""

from headrace.hw.config import CLASSES
from headrace.hw.isa import Op

from .harness import OUTPUTS, Harness
from .model import MemoryModel, command_bits, same


__all__ = ["Scenario"]


SIZE = 1 << 18


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

    def settle(self, limit=20000, extra=8):
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
