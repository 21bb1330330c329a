"""Output-stationary systolic array."""

from amaranth import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..interfaces import words
from .layouts import column_groups, fold_log2, narrow_shape, narrow_values


__all__ = ["SystolicArray"]


class SystolicArray(wiring.Component):
    """``rows x cols`` cells that each add up one integer sum of a pass.

    In each cycle of a pass one row of ``cols`` weights and one activation per row enter. An
    activation meets all columns of its row at once, or with a fold of the tile its column group:
    group ``j`` then adds up the products of every ``2**fold``-th index along K from ``j`` on, and
    whoever takes the sums adds the groups. Row ``r`` works ``r`` cycles later than row 0,
    and the weights move down one row per cycle. So the sums of a row are complete together, those
    of consecutive rows in consecutive cycles, and one row leaves per cycle. Sums are exact.

    A cell keeps its running sum while the pass lasts and zero otherwise: the complete sum is
    taken from the adder in the cycle of its last product, where the register returns to zero, so
    passes follow each other without a gap. The last products of two passes must be at least as
    many cycles apart as the former has used rows.

    Latency: row ``r`` is at the output ``3 + r`` cycles after the last inputs of its pass.

    Members
    -------
    weights : ``In(ArrayLayout(8, cols))``
        Weights, int8.
    acts : ``In(ArrayLayout(8, rows * folds))``
        Activations, int8, of the same indices along K as `weights`: those of row ``r`` from
        ``r * folds`` on.
    narrow : ``In(narrow_shape(config))``
        log2(stride / columns of the tile), which decides the fold.
    valid : ``In(1)``
        The inputs belong to a pass.
    last : ``In(1)``
        ... and are its last.
    used : ``In(range(rows + 1))``
        Rows that leave, at least 1, sampled with `last`.
    o_valid : ``Out(1)``
        A row of sums leaves.
    o : ``Out(ArrayLayout(signed(sum_bits), cols))``
        Its sums.
    o_acts : ``Out(signed(8 + log2(group)))``
        Sum of its activations.
    """
    def __init__(self, config: Config):
        self.config = config
        self.act_sum_bits = config.sum_bits - 7
        super().__init__({
            "weights": In(words(config.cols, 8)),
            "acts": In(words(config.rows * config.folds, 8)),
            "narrow": In(narrow_shape(config)),
            "valid": In(1),
            "last": In(1),
            "used": In(range(config.rows + 1)),
            "o_valid": Out(1),
            "o": Out(data.ArrayLayout(signed(config.sum_bits), config.cols)),
            "o_acts": Out(signed(self.act_sum_bits)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        rows, cols = config.rows, config.cols

        def reg(value, name, shape=None):
            # Without a reset, so that the registers of multipliers can take them.
            register = Signal(value.shape() if shape is None else shape, name=name,
                              reset_less=True)
            m.d.sync += register.eq(value)
            return register

        # `keep` accompanies the weights to the product of each row.
        keep = reg(self.valid & ~self.last, "keep_in")
        columns = [reg(self.weights[c], f"w_0_{c}") for c in range(cols)]
        totals = []
        groups = column_groups(config)
        narrow = self.narrow
        for r in range(rows):
            acts = Cat(self.acts[r * config.folds + j] for j in range(config.folds))
            for step in range(r):
                acts = reg(acts, f"a_{r}_{step}")
            # Each column group chooses its activation at the entry of the row.
            by_column = {}
            for i, (choice, members) in enumerate(groups.items()):
                act = reg(self._chosen(acts, narrow, choice), f"a_{r}_{r}_{i}", 8)
                by_column |= dict.fromkeys(members, act)
            act_sum = reg(self._added(acts, narrow), f"a_{r}_sum")
            if config.folds > 1:
                narrow = reg(narrow, f"narrow_{r}")
            if r:
                columns = [reg(w, f"w_{r}_{c}") for c, w in enumerate(columns)]
            keep = reg(keep, f"keep_{r}")
            row = []
            for c, w in enumerate(columns):
                prod = reg(by_column[c].as_signed() * w.as_signed(), f"prod_{r}_{c}", signed(16))
                row.append(self._cell(m, prod, keep, config.sum_bits, f"{r}_{c}"))
            delayed = reg(act_sum, f"act_{r}")
            row.append(self._cell(m, delayed, keep, self.act_sum_bits, f"{r}_acts"))
            totals.append(row)

        # One row leaves per cycle, from row 0 on.
        last = Signal()
        used = Signal.like(self.used, reset_less=True)
        left = Signal.like(self.used)
        index = Signal(range(rows), reset_less=True)
        m.d.sync += [last.eq(self.valid & self.last), used.eq(self.used)]
        with m.If(last):
            m.d.sync += [left.eq(used), index.eq(0)]
        with m.Elif(left != 0):
            m.d.sync += [left.eq(left - 1), index.eq(index + 1)]
        m.d.sync += self.o_valid.eq(left != 0)
        outs = [Signal(signed(config.sum_bits), name=f"out_{c}", reset_less=True)
                for c in range(cols)]
        outs.append(Signal(signed(self.act_sum_bits), name="out_acts", reset_less=True))
        with m.Switch(index):
            for r, row in enumerate(totals):
                # The last row is the default: an index beyond it does not occur.
                with m.Case(r) if r < rows - 1 else m.Default():
                    m.d.sync += [out.eq(total) for out, total in zip(outs, row)]
        m.d.comb += [Cat(self.o[c] for c in range(cols)).eq(Cat(outs[:-1])),
                     self.o_acts.eq(outs[-1])]

        return m

    @staticmethod
    def _chosen(acts, narrow, choice):
        """Activation of a column group. No branch: simulators compute the cells in one run."""
        act = acts[:8]
        for value, index in choice:
            act = Mux(narrow == value, acts[8 * index:8 * index + 8], act)
        return act

    def _added(self, acts, narrow):
        """Sum of the activations of a row that enter in this cycle."""
        folds = self.config.folds
        added = []
        for j in range(folds):
            takes = [value for value in narrow_values(self.config)
                     if j >> fold_log2(self.config, value) == 0]
            used = Cat(narrow == value for value in takes).any() if j else 1
            added.append(Mux(used, acts[8 * j:8 * j + 8], 0).as_signed() if j
                         else acts[:8].as_signed())
        while len(added) > 1:
            added = [a + b for a, b in zip(added[::2], added[1::2])]
        return added[0]

    @staticmethod
    def _cell(m, addend, keep, bits, name):
        """Running sum; the adder's output is the sum with the present addend."""
        acc = Signal(signed(bits), name=f"acc_{name}", reset_less=True)
        total = Signal(signed(bits), name=f"sum_{name}")
        m.d.comb += total.eq(acc + addend)
        with m.If(keep):
            m.d.sync += acc.eq(total)
        with m.Else():
            m.d.sync += acc.eq(0)
        return total
