"""Work for the softmax pipeline, by name: the bench and its caller make the same."""

import numpy as np

from .model import make_run


def make(name, seed):
    """Blocks of a scenario."""
    rng = np.random.default_rng(seed)
    if name == "mixed":
        # A chunk of a prefill within one block, then one that crosses a block: early streams see
        # nothing of the last block. Then decode steps, with and without GQA.
        return [
            *make_run(rng, heads=1, streams=6, n_rep=2, position=0),
            *make_run(rng, heads=2, streams=15, n_rep=3, position=29, wild=True),
            *make_run(rng, heads=2, streams=3, n_rep=3, position=95),
            *make_run(rng, heads=3, streams=1, n_rep=1, position=40),
            # Windows: of one token, within a block, and one whose first block some streams skip.
            *make_run(rng, heads=1, streams=6, n_rep=2, position=70, window=1),
            *make_run(rng, heads=2, streams=9, n_rep=1, position=90, window=20, wild=True),
            *make_run(rng, heads=1, streams=8, n_rep=2, position=61, window=30),
            *make_run(rng, heads=2, streams=16, n_rep=1, position=1000003 % 64),
        ]
    if name == "special":
        blocks = make_run(rng, heads=1, streams=4, n_rep=4, position=70)
        blocks[0].scores[0, 3] = np.nan
        blocks[1].scores[1, 5] = np.inf
        blocks[1].scores[2, :] = -np.inf
        blocks[0].scores[3, :] = -np.inf
        blocks[1].k_scales[2] = 0x7c00
        return blocks
    if name == "one stream":
        return make_run(rng, heads=2, streams=1, n_rep=1, position=130)
    if name == "two streams":
        return make_run(rng, heads=1, streams=2, n_rep=2, position=200)
    if name == "four streams":
        return make_run(rng, heads=1, streams=4, n_rep=4, position=700)
    if name == "full":
        return make_run(rng, heads=1, streams=16, n_rep=4, position=220)
    raise ValueError(f"no scenario {name!r}")
