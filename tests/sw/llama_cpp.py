"""llama.cpp, from the package `xllamacpp`: another implementation to compare with."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest


__all__ = ["LlamaCpp"]


class LlamaCpp:
    """A GGUF file in llama.cpp: on the CPU, one thread, the cache in float32.

    Parameters
    ----------
    path : Path
        The file; it must have a vocabulary.
    context : int
        Positions.
    """

    def __init__(self, path: Path, context: int = 128):
        library = pytest.importorskip("xllamacpp", reason="needs the extra `independent`")
        options = library.CommonParams()
        options.model.path = str(path)
        options.n_ctx, options.n_parallel, options.n_gpu_layers = context, 1, 0
        options.cpuparams.n_threads = options.cpuparams_batch.n_threads = 1
        options.warmup = options.fit_params = options.endpoint_metrics = False
        options.verbosity = 0
        options.cache_type_k = options.cache_type_v = library.ggml_type.GGML_TYPE_F32
        # The fused form has another order of sums, and a cache that it converts.
        options.flash_attn_type = library.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self._server = library.Server(options)

    def predict(self, prompt: Sequence[int] | str, vocab: int, most: int | None = None
                ) -> tuple[int, np.ndarray]:
        """The greedy next token, and the logarithms of the probabilities of tokens.

        Parameters
        ----------
        prompt : sequence of int, or str
            What comes before: tokens, or a text that llama.cpp tokenises itself.
        vocab : int
            Number of tokens.
        most : int, optional
            The most probable ones that are asked for; all by default.

        Returns
        -------
        token : int
            The most probable token.
        log_probabilities : float64 array, shape (vocab,)
            Of all tokens; NaN for those that were not asked for.
        """
        answer = self._server.handle_completions({
            "prompt": prompt if isinstance(prompt, str) else list(prompt), "max_tokens": 1,
            "logprobs": most or vocab, "n_probs": most or vocab, "samplers": ["top_k"], "top_k": 1,
            "cache_prompt": False})
        answer = answer if isinstance(answer, dict) else json.loads(answer)
        first = answer["choices"][0]["logprobs"]["content"][0]
        found = np.full(vocab, np.nan)
        for each in first["top_logprobs"]:
            found[each["id"]] = each["logprob"]
        assert np.isfinite(found).sum() == (most or vocab)
        return first["id"], found
