"""Model card of the built-in model."""

from collections.abc import Mapping


__all__ = ["model_card"]


_CARD = """\
---
language: en
license: apache-2.0
library_name: transformers
pipeline_tag: text-generation
---

# demo

The built-in model of headrace: a language model of {parameters:,} parameters that tells short
children's stories. It is small enough to run on an accelerator in simulation, yet its text is
readable, so a wrong computation shows. It knows nothing but such stories and serves no other
purpose.

## Figures

| | |
|---|---|
| Parameters | {parameters:,} |
| Loss on held-out text | {loss:.3f} nats per token |
| Bits per character on held-out text | {bits_per_char:.3f} |
| Held-out stories | {held_out_stories:,} of {stories:,}, {held_out_chars:,} characters |
| Training | {steps:,} steps of {step_tokens:,} tokens, {minutes:.0f} minutes, {threads} |

Each held-out story was read alone from its start token; its end token counts in the loss.

## Architecture

Llama: {num_hidden_layers} layers of width {hidden_size}, {num_attention_heads} query heads and \
{num_key_value_heads} key/value heads of {head_dim}, SwiGLU of width
{intermediate_size}, RMSNorm (epsilon {rms_norm_eps}), context {max_position_embeddings}, output \
layer tied to the embedding table.
Rotary embedding with base {rope_theta:.0f} in the half-rotation form: element `i` of a head pairs
with element `i + {half_head}`. Weights are float32, `[out, in]`, named as in `LlamaForCausalLM`.

The tokenizer is a BPE of {vocab_size} tokens with byte fallback: `<unk>` 0, `<s>` 1, `</s>` 2, the
256 bytes, characters, merges. A space is `▁`. A text starts with `<s>`, a story ends with `</s>`.

## Data

12,000 synthetic short children's stories, sampled (temperature 0.8, top-p 0.95) from a
260,032-parameter TinyStories model, which is under the MIT licence.

## Training

    pip install "headrace[train]"
    python -m headrace.sw.train_demo stories.txt -o demo --seconds {seconds} --seed {seed}

Training stops by the clock, so a second run gives similar figures, not the same weights.

## Licence

The checkpoint is under Apache-2.0. The model that wrote its training data is under MIT.
"""


def model_card(values: Mapping[str, object]) -> str:
    """Fill in the model card.

    Parameters
    ----------
    values : mapping
        The fields of :class:`.llama.Shape` and :class:`.training.Figures`, but ``seconds`` is the
        time asked for; besides ``parameters``, ``stories``, ``held_out_stories``,
        ``held_out_chars``, ``step_tokens``, ``minutes``, ``threads``, ``half_head`` and ``seed``.

    Returns
    -------
    str
        Markdown with the metadata block of Hugging Face.
    """
    return _CARD.format_map(values)
