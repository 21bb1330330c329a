"""Tokenizers of GGUF files, from their metadata."""

from pathlib import Path
from typing import Any

from ..errors import HeadraceError
from .facts import Facts
from .tokenizer import Tokenizer
from .vocabulary import Vocabulary, VocabularyError, byte_level_bpe, sentencepiece


__all__ = ["read_tokenizer"]


def _vocabulary(path: Path, fields: dict[str, Any], vocab: int) -> Vocabulary | str:
    """Tokens in the metadata, or the reason why there are none."""
    def listed(key: str, kind: type | tuple[type, ...]) -> list:
        value = fields.get(f"tokenizer.ggml.{key}", [])
        if not isinstance(value, list) or not all(isinstance(each, kind) for each in value):
            raise HeadraceError(f"{path}: tokenizer.ggml.{key}: expected an array of "
                                f"{'strings' if kind is str else 'numbers'}; the file is damaged")
        return value

    tokens = listed("tokens", str)
    if not tokens:
        return "the file has no tokens (tokenizer.ggml.tokens)"
    if len(tokens) > vocab:
        raise HeadraceError(f"{path}: the vocabulary has {len(tokens)} tokens "
                            f"(tokenizer.ggml.tokens), but the embedding table has {vocab} rows: "
                            f"expected at most as many")

    def token(key: str) -> int | None:
        value = Facts(path, fields).tokens(f"tokenizer.ggml.{key}_token_id")
        return value[0] if value else None

    def flag(key: str) -> bool | None:
        value = fields.get(f"tokenizer.ggml.{key}")
        return value if isinstance(value, bool) else None

    return Vocabulary(
        tokens=tokens, types=listed("token_type", int), scores=listed("scores", (int, float)),
        merges=listed("merges", str), pre=str(fields.get("tokenizer.ggml.pre", "default")),
        bos=token("bos"), unknown=token("unknown"), add_bos=flag("add_bos_token"),
        add_space=flag("add_space_prefix") is not False,
        squeeze=flag("remove_extra_whitespaces") is True)


_KINDS = {"gpt2": byte_level_bpe, "llama": sentencepiece}


def read_tokenizer(path: Path, fields: dict[str, Any], vocab: int
                   ) -> tuple[Tokenizer | None, str]:
    """Make the tokenizer from the metadata of a file; or None, and the reason.

    Raises
    ------
    HeadraceError
        If the metadata are damaged, or contradict the tensors.
    """
    model = fields.get("tokenizer.ggml.model")
    vocabulary = _vocabulary(path, fields, vocab)
    if isinstance(vocabulary, str):
        return None, vocabulary
    if model not in _KINDS:
        return None, (f"its kind {model!r} (tokenizer.ggml.model) is not supported; supported: "
                      f"{', '.join(_KINDS)}")
    try:
        tokenizer = _KINDS[model](vocabulary)
    except VocabularyError as error:
        return None, str(error)
    except Exception as error:      # the library raises plain exceptions
        return None, f"the vocabulary is refused: {error}"
    template = fields.get("tokenizer.chat_template")
    tokenizer.template = template if isinstance(template, str) else None
    return tokenizer, ""
