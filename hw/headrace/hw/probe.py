"""Port through which a simulation sees what instructions write."""

from amaranth.lib import data

from .config import Config
from .interfaces import field
from .observation import sources


__all__ = ["ProbeLayout", "observe"]


def ProbeLayout(config: Config):
    """A word of flags, bit `i` for source `i`, then the fields of all sources."""
    return data.StructLayout({
        "flags": 32,
        **{source: data.StructLayout({name: 32 * words for name, words in fields.items()})
           for source, fields in sources(config).items()},
    })


def observe(m, probe, vector, softmax):
    """Drive a `probe` from the ports of the vector unit and of the softmax pipeline.

    Everything is shown in the cycle in which it is written or handed over. The last write of an
    instruction comes before, or in the cycle of, its ``retire``.
    """
    def moved(port):
        return port.valid & port.ready

    command, head, p = vector.commands.payload, vector.append.payload, softmax.p_write
    seen = {
        "retire": (moved(vector.commands), {"op": field(command, "op")}),
        "x": (vector.written.en, {"addr": vector.written.addr, "data": vector.written.data}),
        "a": (vector.a_write.en, {"addr": vector.a_write.addr, "row": vector.a_write.row,
                                  "data": vector.a_write.data}),
        "s": (vector.s_write.en, {"addr": vector.s_write.addr, "data": vector.s_write.data}),
        "results": (moved(vector.results), {"row_scale": vector.results.payload.row_scale,
                                            "values": vector.results.payload.values}),
        "append": (moved(vector.append), {"unit": head.addr, "token": head.token,
                                          "value": head.value, "scale": head.scale}),
        "append_data": (moved(vector.append_data), {"data": vector.append_data.payload}),
        "logits": (moved(vector.linear_data), {"values": vector.linear_data.payload}),
        "token": (vector.token_stb, {"token": vector.token}),
        "scores": (moved(softmax.scores), {"values": softmax.scores.payload}),
        "p": (p.p_en, {"addr": p.p_addr, "row": p.p_row, "data": p.p_data}),
        "p_scale": (p.scale_en, {"stream": p.stream, "act_scale": p.scale.act_scale,
                                 "rescale": p.scale.rescale, "inv_sum": p.scale.inv_sum}),
    }
    for index, (source, (valid, fields)) in enumerate(seen.items()):
        m.d.comb += probe.flags[index].eq(valid)
        for name, value in fields.items():
            value = value.as_value() if hasattr(value, "as_value") else value
            m.d.comb += probe[source][name].eq(value)
