"""Far sides for Amaranth's simulator: a memory behind AXI4, and the host's end of a UART."""

import random
from collections import deque


__all__ = ["listen", "memory_process", "send"]


def memory_process(axi, memory: bytearray, *, seed: int, stall: float = 0.3, latency: int = 5,
                   depth: int = 32, bad: range = range(0), log: list | None = None):
    """A background testbench: reads in order over all IDs, as a DRAM controller answers.

    Answers an access to `bad` with SLVERR. `log` takes ``(kind, id, address, beats)``.
    """
    dice = random.Random(seed)
    beat = len(axi.wdata) // 8

    def ready():
        return int(dice.random() >= stall)

    async def run(ctx):
        now = 0
        reads, addresses, data, answers = deque(), deque(), deque(), deque()
        names = ("arvalid", "araddr", "arlen", "arid", "awvalid", "awaddr", "awlen", "awid",
                 "wvalid", "wdata", "wstrb", "wlast", "rready", "bready")
        drive = dict.fromkeys(("arready", "awready", "wready", "rvalid", "bvalid"), 0)
        while True:
            for name, value in drive.items():
                ctx.set(getattr(axi, name), value)
            _, _, *values = await ctx.tick().sample(*(getattr(axi, name) for name in names))
            seen = dict(zip(names, values))
            now += 1
            if seen["arvalid"] and drive["arready"]:
                address, beats = seen["araddr"], seen["arlen"] + 1
                assert address % beat == 0 and address // 4096 == (
                    address + beats * beat - 1) // 4096
                if log is not None:
                    log.append(("read", seen["arid"], address, beats))
                for index in range(beats):
                    reads.append((now + latency, seen["arid"], address + index * beat,
                                  index == beats - 1))
            if seen["awvalid"] and drive["awready"]:
                if log is not None:
                    log.append(("write", seen["awid"], seen["awaddr"], seen["awlen"] + 1))
                addresses.append([seen["awaddr"], seen["awlen"] + 1, seen["awid"]])
            if seen["wvalid"] and drive["wready"]:
                data.append((seen["wdata"], seen["wstrb"], seen["wlast"]))
            if drive["rvalid"] and seen["rready"]:
                reads.popleft()
                drive["rvalid"] = 0
            if drive["bvalid"] and seen["bready"]:
                answers.popleft()
                drive["bvalid"] = 0
            while addresses and len(data) >= addresses[0][1]:
                address, beats, id_ = addresses.popleft()
                wrong = False
                for index in range(beats):
                    value, strobes, last = data.popleft()
                    assert last == (index == beats - 1)
                    at = address + index * beat
                    wrong |= at in bad
                    raw = value.to_bytes(beat, "little")
                    for lane in range(beat):
                        if strobes >> lane & 1 and not wrong:
                            memory[at + lane] = raw[lane]
                answers.append((now + latency, id_, 2 if wrong else 0))
            drive |= {name: ready() for name in ("arready", "awready", "wready")}
            if len(reads) > depth:
                drive["arready"] = 0
            if reads and (drive["rvalid"] or (reads[0][0] <= now and ready())):
                _, id_, at, last = reads[0]
                ctx.set(axi.rid, id_)
                ctx.set(axi.rdata, int.from_bytes(memory[at:at + beat], "little"))
                ctx.set(axi.rresp, 2 if at in bad else 0)
                ctx.set(axi.rlast, last)
                drive["rvalid"] = 1
            if answers and (drive["bvalid"] or (answers[0][0] <= now and ready())):
                _, id_, response = answers[0]
                ctx.set(axi.bid, id_)
                ctx.set(axi.bresp, response)
                drive["bvalid"] = 1
    return run


async def send(ctx, pin, data: bytes, ratio: float, *, stop: int = 1) -> None:
    """Drive the pin with bytes, `ratio` cycles per bit; `stop` 0 breaks the stop bits."""
    time = 0.0
    cycle = 0
    for byte in data:
        for bit in (0, *(byte >> index & 1 for index in range(8)), stop):
            ctx.set(pin, bit)
            time += ratio
            while cycle < round(time):
                await ctx.tick()
                cycle += 1
    ctx.set(pin, 1)


def listen(pin, found: bytearray, ratio: float):
    """A background testbench that appends the bytes of a pin to `found`."""
    async def run(ctx):
        while True:
            await ctx.negedge(pin)
            cycle, byte = 0, 0
            for bit in range(10):
                while cycle < round((bit + 0.5) * ratio):
                    await ctx.tick()
                    cycle += 1
                level = ctx.get(pin)
                if bit == 0:
                    assert level == 0, "a start bit is too short"
                elif bit == 9:
                    assert level == 1, "a stop bit is missing"
                else:
                    byte |= level << (bit - 1)
            found.append(byte)
    return run
