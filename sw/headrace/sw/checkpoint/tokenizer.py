"""Tokenizers of checkpoints: `tokenizer.json` or `tokenizer.model`."""

from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import HeadraceError


__all__ = ["TextStream", "Tokenizer", "load_tokenizer"]


class Tokenizer:
    """Text to token ids and back.

    Parameters
    ----------
    size : int
        Number of tokens.
    encode, decode : callable
        Text to ids, special tokens at the beginning included; ids to text without them.
    """

    def __init__(self, size: int, encode: Callable[[str], list[int]],
                 decode: Callable[[Sequence[int]], str]):
        self.size = size
        self.encode = encode
        self._decode = decode

    def decode(self, ids: Sequence[int]) -> str:
        """Text of `ids`. Ids that the tokenizer does not know (padding of the table) are empty."""
        return self._decode([i for i in ids if i < self.size])

    def stream(self, ids: Sequence[int] = ()) -> "TextStream":
        """Decoder of tokens that come one by one, after `ids`."""
        return TextStream(self, ids)


class TextStream:
    """Text of tokens that come one by one.

    A character may span tokens: its text comes with the last of them.
    """

    def __init__(self, tokenizer: Tokenizer, ids: Sequence[int] = ()):
        self._tokenizer = tokenizer
        self._ids = list(ids)
        self._text = tokenizer.decode(self._ids)

    def push(self, token: int) -> str:
        """Add a token; return the text that has become certain."""
        self._ids.append(token)
        text = self._tokenizer.decode(self._ids)
        if text.endswith("\ufffd"):
            return ""
        new, self._text = text[len(self._text):], text
        return new

    def finish(self) -> str:
        """Return what is left when no token follows."""
        text = self._tokenizer.decode(self._ids)
        new, self._text = text[len(self._text):], text
        return new


def _from_json(path: Path) -> Tokenizer:
    import tokenizers

    try:
        inner = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:      # the library raises plain exceptions
        raise HeadraceError(f"{path}: not a tokenizer file: {error}") from error
    return Tokenizer(inner.get_vocab_size(), lambda text: inner.encode(text).ids,
                     lambda ids: inner.decode(list(ids), skip_special_tokens=True))


def _from_model(path: Path, bos: int | None) -> Tokenizer:
    import sentencepiece

    inner = sentencepiece.SentencePieceProcessor()
    try:
        inner.LoadFromFile(str(path))
    except (RuntimeError, OSError) as error:
        raise HeadraceError(f"{path}: not a SentencePiece model: {error}") from error
    size = int(inner.GetPieceSize())
    start = [] if bos is None else [bos]
    return Tokenizer(size, lambda text: start + [int(i) for i in inner.EncodeAsIds(text)],
                     lambda ids: str(inner.DecodeIds([int(i) for i in ids])) if ids else "")


def load_tokenizer(folder: Path, *, vocab: int, bos: int | None) -> Tokenizer | None:
    """Load the tokenizer of a checkpoint folder; None if it has none.

    Raises
    ------
    HeadraceError
        If its file is damaged, or it has more tokens than the embedding table has rows.
    """
    if (path := folder / "tokenizer.json").is_file():
        tokenizer = _from_json(path)
    elif (path := folder / "tokenizer.model").is_file():
        tokenizer = _from_model(path, bos)
    else:
        return None
    if tokenizer.size > vocab:
        raise HeadraceError(f"{path}: the vocabulary has {tokenizer.size} tokens, but the "
                            f"embedding table has {vocab} rows: expected a tokenizer that "
                            f"belongs to the model")
    return tokenizer
