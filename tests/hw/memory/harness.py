"""Bench of the memory system in Amaranth's simulator: far side, streams and protocol checks."""

import random
from collections import deque

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.sim import Simulator

from headrace.hw.config import CLASSES
from headrace.hw.memory import MemorySystem


__all__ = ["Harness"]


INPUTS = ("commands", "fetch", "requests", "append", "append_data", "linear", "linear_data",
          "single")
OUTPUTS = ("instructions", "request_data", "tables", "kv_scales", "weights")
STATES = ("port_busy", "port_wait_memory", "port_buffer_full", "port_wait_dependency",
          "port_wait_sequencer")
EVENTS = (*STATES, "read_stb", "read_cls", "kv_hit_stb", "kv_miss_stb", "write_stb", "write_cls",
          "write_bytes")
AXI_IN = ("awready", "wready", "bvalid", "bid", "bresp", "arready", "rvalid", "rid", "rdata",
          "rresp", "rlast")
AXI_OUT = ("awvalid", "awaddr", "awlen", "awid", "awsize", "awburst", "wvalid", "wdata", "wstrb",
           "wlast", "bready", "arvalid", "araddr", "arlen", "arid", "arsize", "arburst", "rready")


class Harness:
    """One memory system and everything around it, cycle by cycle.

    `send` queues what goes into a stream, `received` holds what came out. `memory` is the far
    side's bytes. Stalls are probabilities, drawn anew in each cycle, for every channel.
    The ring is modelled as one that frees words `drain` per cycle on average.
    """
    def __init__(self, config, memory, *, seed=0, latency=8, stall=0.0, base=0, kv_base=0,
                 kv_pinned=0, drain=1.0, ring_words=None):
        self.config = config
        self.dut = MemorySystem(config)
        self.memory = memory
        self.random = random.Random(seed)
        self.latency = latency
        self.stall = stall
        self.drain = drain
        self.constants = {"base": base, "kv_base": kv_base, "kv_pinned": kv_pinned}
        self.send = {name: deque() for name in INPUTS}
        self.received = {name: [] for name in OUTPUTS}
        self.blocked = set()            # outputs that take nothing
        self.silent = False             # the far side answers nothing
        self.errors = {}                # byte address -> response, for beats and for write bursts
        self.reorder = False            # the far side answers the youngest burst first
        self.pulses = deque()           # "reset" or "appended", one per cycle
        self.reads = deque()            # [ready cycle, address, beats left, id, ...]
        self.write_addresses = deque()
        self.write_beats = deque()
        self.responses = deque()
        self.history = []               # (kind, address, beats, id) of every burst
        self.stats = dict.fromkeys(EVENTS, 0)
        self.bytes_read = dict.fromkeys(CLASSES, 0)
        self.bytes_written = dict.fromkeys(CLASSES, 0)
        self.event_bytes = {"read": dict.fromkeys(CLASSES, 0),
                            "write": dict.fromkeys(CLASSES, 0)}
        self.ring = 0                   # words in the ring
        self.most_reads = self.most_writes = 0
        self.cycle = 0
        self.first_beat = self.last_beat = None
        self.idle_log = []
        self.status = {}
        self.on_cycle = None
        self.failure = None
        self.again = dict.fromkeys(INPUTS, ())
        self.pulses_again = ()
        self._was_resetting = 0
        self.recoveries = 0

    # Everything below runs once per cycle with values from before the edge.

    def run(self, until, limit=20000):
        """Run until ``until(self)`` holds, at most `limit` cycles more."""
        ports = self._ports()
        # One packed signal: the simulator samples it far faster than a hundred small ones.
        packed = Signal(sum(len(port) for port in ports.values()))
        top = Module()
        top.submodules.dut = self.dut
        top.d.comb += packed.eq(Cat(ports.values()))
        fields = []
        at = 0
        for name, port in ports.items():
            fields.append((name, at, (1 << len(port)) - 1))
            at += len(port)
        sim = Simulator(top)
        sim.add_clock(1e-6)

        async def process(ctx):
            for name, value in self.constants.items():
                ctx.set(getattr(self.dut, name), value)
            state = {}
            async for _, _, bits in ctx.tick().sample(packed):
                if self.failure is not None:
                    continue
                try:
                    updates = self._step({name: bits >> lsb & mask for name, lsb, mask in fields})
                except AssertionError as failure:
                    self.failure = failure
                    continue
                for name, value in updates.items():
                    if state.get(name) != value:
                        state[name] = value
                        ctx.set(ports[name], value)

        async def watch(ctx):
            for _ in range(limit):
                await ctx.tick()
                if self.failure is not None:
                    raise self.failure
                if until(self):
                    return
            raise AssertionError(f"not done after {limit} cycles: {self.status}")

        sim.add_process(process)
        sim.add_testbench(watch)
        sim.run()
        return self

    def _ports(self):
        ports = {}
        for name in (*INPUTS, *OUTPUTS):
            port = getattr(self.dut, name)
            for part in ("payload", "valid", "ready"):
                ports[f"{name}.{part}"] = Value.cast(getattr(port, part))
        for name in (*AXI_IN, *AXI_OUT):
            ports[name] = getattr(self.dut.axi, name)
        for name in EVENTS:
            ports[name] = Value.cast(getattr(self.dut.events, name))
        for name in ("valid", "code", "addr"):
            ports[f"error.{name}"] = Value.cast(getattr(self.dut.error, name))
        for name in ("freed", "appended", "reset", "resetting", "write_idle",
                     "append_idle"):
            ports[name] = getattr(self.dut, name)
        return ports

    def _go(self):
        return self.random.random() >= self.stall

    def _step(self, now):
        self.cycle += 1
        updates = {"reset": 0, "appended": 0}
        if self.on_cycle is not None:
            self.on_cycle(self, now)
        if self.pulses and not (now["reset"] or now["resetting"]):
            name = self.pulses.popleft()
            if name:
                updates[name] = 1
        self.status = {name: now[name] for name in ("resetting", "write_idle", "error.valid",
                                                    "error.code", "error.addr", *STATES)}
        self._streams(now, updates)
        self._count(now)
        self._check_stable(now)
        self._read_side(now, updates)
        self._write_side(now, updates)
        if now["reset"]:
            self._restart(updates)
        if self._was_resetting and not now["resetting"]:
            self._recovered(now)
        self._was_resetting = now["resetting"]
        return updates

    def _restart(self, updates):
        """The units around forget everything, and begin again with what `again` says."""
        self.send = {name: deque(queue) for name, queue in self.again.items()}
        self.received = {name: [] for name in OUTPUTS}
        self.pulses = deque(self.pulses_again)
        self.ring = 0
        updates |= {f"{name}.valid": 0 for name in INPUTS}
        updates["freed"] = 0

    def _recovered(self, now):
        assert self.owed == 0 and not self.write_beats, "owed beats after a reset"
        assert not any(now[f"{name}.valid"] for name in OUTPUTS)
        self.stats = dict.fromkeys(EVENTS, 0)
        for table in (self.bytes_read, self.bytes_written, *self.event_bytes.values()):
            table.update(dict.fromkeys(CLASSES, 0))
        self._count(now)
        self.recoveries += 1

    def _streams(self, now, updates):
        for name in INPUTS:
            queue = self.send[name]
            if now[f"{name}.valid"] and now[f"{name}.ready"]:
                queue.popleft()
            elif now[f"{name}.valid"]:
                continue                # VALID stays until READY
            valid = bool(queue) and self._go()
            updates[f"{name}.valid"] = int(valid)
            updates[f"{name}.payload"] = queue[0] if valid else 0
        for name in OUTPUTS:
            if now[f"{name}.valid"] and now[f"{name}.ready"]:
                self.received[name].append(now[f"{name}.payload"])
                if name == "weights":
                    self.ring += 1
                    assert self.ring <= self.config.ring_words, "a word without space in the ring"
            if name != "weights":       # the ring has reserved its space
                updates[f"{name}.ready"] = int(name not in self.blocked and self._go())
        updates["weights.ready"] = 1
        freed = 0
        if "weights" not in self.blocked and self.ring:
            freed = min(self.ring, int(self.drain + self.random.random()))
        self.ring -= freed
        updates["freed"] = freed

    def _count(self, now):
        if not now["resetting"]:
            assert sum(now[name] for name in STATES) == 1, "one state in each cycle"
        for name in EVENTS:
            self.stats[name] += now[name]
        if now["read_stb"]:
            self.event_bytes["read"][CLASSES[now["read_cls"]]] += self.config.port_bytes
        if now["write_stb"]:
            self.event_bytes["write"][CLASSES[now["write_cls"]]] += now["write_bytes"]

    def _check_stable(self, now):
        before = getattr(self, "_before", None)
        if before is not None:
            for prefix in ("aw", "w", "ar"):
                if before[f"{prefix}valid"] and not before[f"{prefix}ready"]:
                    for name in AXI_OUT:
                        if name.startswith(prefix) and (prefix != "w" or not name.startswith("aw")):
                            assert now[name] == before[name], f"{name} changed while waiting"
        self._before = now

    def _burst(self, now, prefix):
        addr, beats = now[f"{prefix}addr"], now[f"{prefix}len"] + 1
        size = self.config.port_bytes
        assert 1 << now[f"{prefix}size"] == size and now[f"{prefix}burst"] == 1
        assert addr % size == 0, f"address {addr:#x} is not a beat's"
        assert beats <= self.config.burst_beats, f"burst of {beats} beats"
        assert addr >> 12 == (addr + beats * size - 1) >> 12, f"{addr:#x} crosses 4 KiB"
        assert addr + beats * size <= len(self.memory), f"{addr:#x} is outside memory"
        self.history.append((prefix, addr, beats, now[f"{prefix}id"]))
        return addr, beats

    def _read_side(self, now, updates):
        size = self.config.port_bytes
        if now["rvalid"] and now["rready"]:
            self.first_beat = self.first_beat or self.cycle
            self.last_beat = self.cycle
            burst = self.current
            self.bytes_read[CLASSES[burst[3]]] += size
            burst[1] += size
            burst[2] -= 1
            if burst[2] == 0:
                self.reads.remove(burst)
                self.current = None
        if now["arvalid"] and now["arready"]:
            addr, beats = self._burst(now, "ar")
            self.reads.append([self.cycle + self.latency - 1, addr, beats, now["arid"], addr])
            self.most_reads = max(self.most_reads, len(self.reads))
            assert len(self.reads) <= self.config.outstanding, "too many reads in flight"
        updates["arready"] = int(self._go())
        if now["rvalid"] and not now["rready"]:
            return
        if getattr(self, "current", None) is None and self.reads:
            self.current = self.reads[-1 if self.reorder else 0]
        burst = getattr(self, "current", None)
        updates["rvalid"] = 0
        if burst and burst[0] <= self.cycle and not self.silent and self._go():
            data = self.memory[burst[1]:burst[1] + size].tobytes()
            updates |= {"rvalid": 1, "rid": burst[3], "rlast": int(burst[2] == 1),
                        "rresp": self.errors.get(burst[1], 0),
                        "rdata": int.from_bytes(data, "little")}
        else:
            updates["rdata"] = self.random.getrandbits(8 * size)

    def _write_side(self, now, updates):
        size = self.config.port_bytes
        if now["bvalid"] and now["bready"]:
            self.responses.popleft()
        if now["awvalid"] and now["awready"]:
            addr, beats = self._burst(now, "aw")
            self.write_addresses.append([addr, beats, now["awid"], addr])
        if now["wvalid"] and now["wready"]:
            self.write_beats.append((now["wdata"], now["wstrb"], now["wlast"]))
        while self.write_addresses and self.write_beats:
            burst = self.write_addresses[0]
            data, strb, last = self.write_beats.popleft()
            for byte in range(size):
                if strb >> byte & 1:
                    self.memory[burst[0] + byte] = data >> 8 * byte & 0xff
            self.bytes_written[CLASSES[burst[2]]] += strb.bit_count()
            burst[0] += size
            burst[1] -= 1
            assert last == (burst[1] == 0), "WLAST in the wrong place"
            if last:
                self.write_addresses.popleft()
                self.responses.append((self.cycle + self.latency, burst[2],
                                       self.errors.get(burst[3], 0)))
        self.most_writes = max(self.most_writes, len(self.responses) + len(self.write_addresses))
        assert self.most_writes <= self.config.outstanding, "too many writes in flight"
        updates["awready"] = int(self._go())
        updates["wready"] = int(self._go())
        if now["bvalid"] and not now["bready"]:
            return
        ready = (bool(self.responses) and self.responses[0][0] <= self.cycle
                 and not self.silent and self._go())
        updates["bvalid"] = int(ready)
        if ready:
            updates |= {"bid": self.responses[0][1], "bresp": self.responses[0][2]}

    @property
    def sent(self):
        """Every input was taken."""
        return not any(self.send.values())

    @property
    def owed(self):
        """Bursts that the far side has not answered completely."""
        return len(self.reads) + len(self.responses) + len(self.write_addresses)
