"""Buses over a pseudo-terminal and over TCP, against a board of plain Python, and LiteX's own."""

import random
import socket
import threading

import pytest

from headrace.sim.uart_pump import PtyPump, TcpPump
from headrace.sw.links import LinkError, LinkTimeout
from headrace.sw.links.etherbone import Record, encode, receive
from headrace.sw.links.tcp import TcpBus
from headrace.sw.links.uart import UartBus
from tests.sw.links.wires import WordBoard


pytest.importorskip("serial")


def uart(pump, timeout=0.3):
    return UartBus(pump.port, timeout=timeout)


def tcp(pump, timeout=0.3):
    return TcpBus("127.0.0.1", pump.port, timeout)


BUSES = pytest.mark.parametrize("pump_class, bus_of", [(PtyPump, uart), (TcpPump, tcp)],
                                ids=("uart", "tcp"))


@BUSES
def test_words(pump_class, bus_of):
    dice = random.Random(5)
    board = WordBoard()
    with pump_class(board) as pump:
        bus = bus_of(pump, 5)
        with pytest.raises(LinkError, match="the link is not open"):
            bus.read(0)
        bus.open()
        bus.open()                       # once more does no harm
        for count in (1, 2, 255, 256, 700):
            words = [dice.getrandbits(32) for _ in range(count)]
            bus.write(0x4000_0000, words)
            assert bus.read(0x4000_0000, count) == words
            assert bus.read(0x4000_0000 + 4 * (count - 1)) == words[-1:]
        assert board.words[0x4000_0000] == words[0]
        bus.close()
        bus.close()
        bus.open()
        assert bus.read(0x4000_0000, 2) == words[:2]
        bus.close()


@BUSES
def test_silence(pump_class, bus_of):
    """No answer names what was awaited; the link works again when the board does."""
    board = WordBoard()
    with pump_class(board) as pump:
        bus = bus_of(pump)
        bus.open()
        bus.write(16, [7])
        pump.call(lambda: setattr(board, "silent", True))
        with pytest.raises(LinkTimeout, match="no answer to a read of 1 word at 0x00000010 within "
                                              "0.3 s"):
            bus.read(16)
        pump.call(lambda: setattr(board, "silent", False))
        bus.resync()
        assert bus.read(16) == [7]
        bus.close()


@BUSES
def test_cut(pump_class, bus_of):
    """A link that breaks says so, and can be opened anew."""
    board = WordBoard()
    with pump_class(board) as pump:
        bus = bus_of(pump)
        bus.open()
        bus.write(4, [9])
        assert bus.read(4) == [9]
        pump.unplug() if pump_class is PtyPump else pump.hang_up()
        with pytest.raises(LinkError, match="failed (during a read|while it was cleared)"):
            bus.read(4)
        with pytest.raises(LinkError, match="the link is not open"):
            bus.read(4)
        if pump_class is PtyPump:
            with pytest.raises(LinkError, match="cannot be opened"):
                bus.open()
            pump.plug()
        again = bus_of(pump)
        again.open()
        assert again.read(4) == [9]
        again.close()


def test_a_late_answer_is_not_the_next_one():
    board = WordBoard()
    board.words |= {0: 1, 4: 2}
    with PtyPump(board) as pump:
        kept = []
        pump.from_board = lambda data: kept.append(data) or b""
        bus = uart(pump)
        bus.open()
        with pytest.raises(LinkTimeout):
            bus.read(0)
        pump.from_board = lambda data: b"".join(kept) + data
        # The old answer comes with the new one, and is taken for it: no link can tell. What comes
        # before the next read is dropped.
        bus.resync()
        assert bus.read(4) == [1]
        pump.from_board = lambda data: data
        assert bus.read(4) == [2]
        bus.close()


def test_no_server():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(LinkError, match="did not greet within 0.2 s"):
            TcpBus("127.0.0.1", port, 0.2).open()
    with pytest.raises(LinkError, match="no connection"):
        TcpBus("127.0.0.1", port, 0.2).open()


def test_another_server():
    """Something that greets, and then does not speak Etherbone."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        def serve():
            client, _ = server.accept()
            with client:
                client.sendall(b"SSH-2.0")
                client.recv(100)
                client.sendall(b"Protocol mismatch.\n")
        thread = threading.Thread(target=serve)
        thread.start()
        bus = TcpBus("127.0.0.1", server.getsockname()[1], 5)
        bus.open()
        with pytest.raises(LinkError, match="expected the header of an Etherbone packet"):
            bus.read(0)
        bus.close()
        thread.join()


def test_records():
    record = Record(0x40, [1, 2], [8, 12, 8], 5)
    raw = encode(record)
    position = 0

    def take(size):
        nonlocal position
        position += size
        return raw[position - size:position]

    assert receive(take) == record and position == len(raw)
    with pytest.raises(ValueError, match="up to 255"):
        encode(Record(words=[0] * 256))
    with pytest.raises(ValueError, match="expected the header"):
        receive(lambda size: bytes(size))


def test_records_as_litex_has_them():
    etherbone = pytest.importorskip("litex.tools.remote.etherbone")
    packet = etherbone.EtherbonePacket()
    record = etherbone.EtherboneRecord()
    record.writes = etherbone.EtherboneWrites(base_addr=0x1234, datas=[5, 0xffff_ffff])
    record.reads = etherbone.EtherboneReads(addrs=[4, 8, 0x4000_0000])
    packet.records = [record]
    packet.encode()
    assert bytes(packet.bytes) == encode(Record(0x1234, [5, 0xffff_ffff], [4, 8, 0x4000_0000]))


def test_litex_client_and_our_server():
    client = pytest.importorskip("litex.tools.litex_client")
    board = WordBoard()
    with TcpPump(board) as pump:
        remote = client.RemoteClient(host="127.0.0.1", port=pump.port)
        remote.open()
        remote.write(0x1000, [1, 2, 3])
        assert remote.read(0x1000, 3) == [1, 2, 3]
        assert remote.read(0x1004, 2, burst="fixed") == [2, 2]
        assert remote.read(0x1008) == 3
        remote.close()


def test_litex_serial_client_and_our_board():
    """LiteX's own client of the serial protocol, which is what litex_server uses."""
    comm = pytest.importorskip("litex.tools.remote.comm_uart")
    board = WordBoard()
    with PtyPump(board) as pump:
        remote = comm.CommUART(pump.port, 1_000_000)
        remote.write(0x1000, list(range(20)))
        assert remote.read(0x1000, 20) == list(range(20))
        assert remote.read(0x1008, 3, burst="fixed") == [2, 2, 2]
        remote.close()


def test_our_client_and_litex_server():
    """litex_server in front of our board, and our client in front of it."""
    comm = pytest.importorskip("litex.tools.remote.comm_uart")
    server_module = pytest.importorskip("litex.tools.litex_server")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    board = WordBoard()
    with PtyPump(board) as pump:
        server = server_module.RemoteServer(comm.CommUART(pump.port, 1_000_000), "127.0.0.1", port)
        server.open()
        thread = threading.Thread(target=server._serve_thread, daemon=True)
        thread.start()
        bus = TcpBus("127.0.0.1", port, 5)
        bus.open()
        words = [random.Random(index).getrandbits(32) for index in range(300)]
        bus.write(0x2000, words)
        assert bus.read(0x2000, 300) == words
        bus.close()
        server.comm.close()
