"""Fetching rows of the embedding table."""

from amaranth import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import CLASSES, Config
from ..interfaces import CommandLayout, RequestLayout, field, words


__all__ = ["Embedder"]


class Embedder(wiring.Component):
    """EMBED: reads the token of each position and then its row of the table, which goes to X.

    Requests are answered in their order. The order is ``T0 T1 R0 T2 R1 T3 ... Rn``, where `T` is
    the token of a position and `R` its row: while a row arrives the next one is already asked.
    One word of a row is written per cycle.

    Parameters
    ----------
    config : Config

    Members
    -------
    start : ``In(1)``
        Pulse: `command` is an EMBED, and stays until `done`.
    command : ``In(CommandLayout)``
    requests : ``Out(stream.Signature(RequestLayout))``
        Reads: tokens of class activations, rows of class tables.
    request_data : ``In(stream.Signature(words(lanes)))``
        Answers: one word with the token in lane 0; the words of a row.
    factor : ``Out(32)``
        Token of which the product is due.
    product : ``In(34)``
        ``factor * pitch``, :attr:`product_latency` cycles later.
    en, addr, data : ``Out``
        Write port of X.
    done : ``Out(1)``
        Pulse: the last word is written.
    """
    def __init__(self, config: Config, *, product_latency):
        self.config = config
        self.product_latency = product_latency
        super().__init__({
            "start": In(1), "command": In(CommandLayout),
            "requests": Out(stream.Signature(RequestLayout)),
            "request_data": In(stream.Signature(words(config.lanes))),
            "factor": Out(32), "product": In(34),
            "en": Out(1), "addr": Out(range(config.x_words)), "data": Out(words(config.lanes)),
            "done": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        command = self.command
        dim = field(command, "dim")
        ask = self.requests.payload

        # Two tokens may be known before their rows are asked.
        tokens = [Signal(32, name=f"token{i}") for i in range(2)]
        known = Signal(range(3))
        take, give = Signal(), Signal()
        m.d.sync += known.eq(known + give - take)
        with m.If(take):
            m.d.sync += tokens[0].eq(tokens[1])
        with m.If(give):
            left = known - take
            for i in range(2):
                with m.If(left == i):
                    m.d.sync += tokens[i].eq(self.request_data.payload[0])
        m.d.comb += self.factor.eq(tokens[0])

        # Requests.
        token_addr = Signal(40)
        tokens_left = Signal(16)        # positions whose token has not been asked
        rows_left = Signal(16)
        ahead = Signal()                # this token is asked before any row
        wait = Signal(range(self.product_latency + 1))
        row = Signal(34)
        m.d.comb += row.eq(field(command, "addr") + self.product)
        with m.FSM(name="request"):
            with m.State("IDLE"):
                with m.If(self.start):
                    m.d.sync += [
                        token_addr.eq((field(command, "tokens") << 6) + (command.position << 2)),
                        tokens_left.eq(command.positions),
                        rows_left.eq(command.positions),
                        ahead.eq(1),
                    ]
                    m.next = "TOKEN"
            with m.State("TOKEN"):
                m.d.comb += [
                    self.requests.valid.eq(1),
                    ask.addr.eq(token_addr),
                    ask.bytes.eq(4),
                    ask.cls.eq(CLASSES.index("activations")),
                ]
                with m.If(self.requests.ready):
                    m.d.sync += [token_addr.eq(token_addr + 4), tokens_left.eq(tokens_left - 1),
                                 ahead.eq(0)]
                    with m.If(~ahead | (tokens_left == 1)):
                        m.next = "KNOWN"
            with m.State("KNOWN"):
                m.d.sync += wait.eq(self.product_latency)
                with m.If(known != 0):
                    m.next = "PRODUCT"
            with m.State("PRODUCT"):
                m.d.sync += wait.eq(wait - 1)
                with m.If(wait == 0):
                    m.next = "ROW"
            with m.State("ROW"):
                m.d.comb += [
                    self.requests.valid.eq(1),
                    ask.addr.eq(row << 6),
                    ask.bytes.eq(dim << 2),
                    ask.cls.eq(CLASSES.index("tables")),
                ]
                with m.If(self.requests.ready):
                    m.d.comb += take.eq(1)
                    m.d.sync += rows_left.eq(rows_left - 1)
                    with m.If(tokens_left != 0):
                        m.next = "TOKEN"
                    with m.Elif(rows_left != 1):
                        m.next = "KNOWN"
                    with m.Else():
                        m.next = "IDLE"

        # Answers, in the same order.
        answers_left = Signal(16)       # tokens to come
        data_left = Signal(16)          # rows to come, this one included
        word = Signal(16)
        x_row = Signal(16)
        lanes_log2 = (self.config.lanes - 1).bit_length()
        first = Signal()
        m.d.comb += self.data.eq(self.request_data.payload)
        x_addr = Signal(16)
        m.d.comb += self.addr.eq(x_addr)
        with m.FSM(name="answer"):
            with m.State("IDLE"):
                m.d.sync += [
                    answers_left.eq(command.positions),
                    data_left.eq(command.positions),
                    x_row.eq(field(command, "x_base")),
                    first.eq(1),
                ]
                with m.If(self.start):
                    m.next = "TOKEN"
            with m.State("TOKEN"):
                m.d.comb += self.request_data.ready.eq(1)
                m.d.sync += [word.eq((dim >> lanes_log2) - 1), x_addr.eq(x_row)]
                with m.If(self.request_data.valid):
                    m.d.comb += give.eq(1)
                    m.d.sync += [answers_left.eq(answers_left - 1), first.eq(0)]
                    with m.If(~first | (answers_left == 1)):
                        m.next = "ROW"
            with m.State("ROW"):
                m.d.comb += [
                    self.request_data.ready.eq(1),
                    self.en.eq(self.request_data.valid),
                ]
                with m.If(self.request_data.valid):
                    m.d.sync += [word.eq(word - 1), x_addr.eq(x_addr + 1)]
                    with m.If(word == 0):
                        next_row = x_row + field(command, "x_stride")
                        m.d.sync += [
                            data_left.eq(data_left - 1),
                            x_row.eq(next_row),
                            x_addr.eq(next_row),
                            word.eq((dim >> lanes_log2) - 1),
                        ]
                        with m.If(data_left == 1):
                            m.d.comb += self.done.eq(1)
                            m.next = "IDLE"
                        with m.Elif(answers_left != 0):
                            m.next = "TOKEN"
        return m
