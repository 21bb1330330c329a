"""Tokenizers: text to token ids and back."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import HeadraceError


__all__ = ["TextStream", "Tokenizer", "json_tokenizer", "load_tokenizer", "restore_tokenizer",
           "sentencepiece_tokenizer"]


class Tokenizer:
    """Text to token ids and back.

    Parameters
    ----------
    size : int
        Number of tokens.
    encode, decode : callable
        Text to ids, special tokens at the beginning included; ids to text without them.
    kind : str
        ``"json"`` (of the `tokenizers` library) or ``"sentencepiece"``.
    content : callable
        Returns its file as bytes: with `kind` and `bos`, what :func:`restore_tokenizer` wants.
    bos : int or None
        Token that a SentencePiece model is told to put first.
    template : str or None
        Chat template in the Jinja language, where the checkpoint has one.
    encode_plain : callable
        Text to ids where special tokens are written out in the text: none is added.
    piece : callable
        Text of one token, special ones as they are written; None if there is no such token.
    """

    def __init__(self, size: int, encode: Callable[[str], list[int]],
                 decode: Callable[[Sequence[int]], str], *, kind: str,
                 content: Callable[[], bytes], encode_plain: Callable[[str], list[int]],
                 piece: Callable[[int], str | None], bos: int | None = None,
                 template: str | None = None):
        self.size = size
        self.encode = encode
        self.encode_plain, self.piece = encode_plain, piece
        self.kind, self.content, self.bos = kind, content, bos
        self.template = template
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


def json_tokenizer(source: object, where: Path | str = "tokenizer") -> Tokenizer:
    """Tokenizer of the `tokenizers` library: its object, or the bytes of a `tokenizer.json`.

    Raises
    ------
    HeadraceError
        If the bytes are something else.
    """
    import tokenizers

    inner = source
    if isinstance(source, bytes):
        try:
            inner = tokenizers.Tokenizer.from_buffer(source)
        except Exception as error:      # the library raises plain exceptions
            raise HeadraceError(f"{where}: not a tokenizer file: {error}") from error
    assert isinstance(inner, tokenizers.Tokenizer)
    return Tokenizer(inner.get_vocab_size(), lambda text: inner.encode(text).ids,
                     lambda ids: inner.decode(list(ids), skip_special_tokens=True),
                     kind="json", content=lambda: inner.to_str().encode(),
                     encode_plain=lambda text: inner.encode(text, add_special_tokens=False).ids,
                     piece=inner.id_to_token)


def sentencepiece_tokenizer(raw: bytes, bos: int | None, where: Path | str = "tokenizer"
                            ) -> Tokenizer:
    """Tokenizer of a SentencePiece model; `bos` comes first in every text.

    Raises
    ------
    HeadraceError
        If the bytes are no such model.
    """
    import sentencepiece

    inner = sentencepiece.SentencePieceProcessor()
    try:
        if not inner.LoadFromSerializedProto(raw):
            raise RuntimeError("the library refuses it")
        size = int(inner.GetPieceSize())
    except (RuntimeError, OSError) as error:
        raise HeadraceError(f"{where}: not a SentencePiece model: {error}") from error
    start = [] if bos is None else [bos]
    control = {str(inner.IdToPiece(i)): i for i in range(size) if inner.IsControl(i)}
    # The library never finds control tokens in a text: it is cut at them.
    cut = re.compile(f"({'|'.join(map(re.escape, control)) or '(?!)'})")

    def plain(text: str) -> list[int]:
        ids = []
        for part in filter(None, cut.split(text)):
            ids += [control[part]] if part in control else map(int, inner.EncodeAsIds(part))
        return ids

    return Tokenizer(size, lambda text: start + [int(i) for i in inner.EncodeAsIds(text)],
                     lambda ids: str(inner.DecodeIds([int(i) for i in ids])) if ids else "",
                     kind="sentencepiece", content=lambda: raw, bos=bos, encode_plain=plain,
                     piece=lambda i: str(inner.IdToPiece(i)) if 0 <= i < size else None)


def restore_tokenizer(kind: str, content: bytes, bos: int | None, where: Path | str
                      ) -> Tokenizer:
    """Make a tokenizer from what an image keeps of it.

    Raises
    ------
    HeadraceError
        If it is damaged, or its kind unknown.
    """
    if kind == "json":
        return json_tokenizer(content, where)
    if kind == "sentencepiece":
        return sentencepiece_tokenizer(content, bos, where)
    raise HeadraceError(f"{where}: tokenizer of kind {kind!r}: expected json or sentencepiece")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise HeadraceError(f"{path}: cannot be read: {error.strerror}") from error


def _template(folder: Path) -> str | None:
    """Chat template of a folder: in a file of its own, or in `tokenizer_config.json`."""
    from .facts import read_json

    path = folder / "chat_template.jinja"
    if path.is_file():
        return _read(path).decode("utf-8", "replace")
    path = folder / "tokenizer_config.json"
    if not path.is_file():
        return None
    value = read_json(path).get("chat_template")
    if isinstance(value, list):     # several, by name
        named = {each.get("name"): each.get("template") for each in value
                 if isinstance(each, dict)}
        value = named.get("default")
    return value if isinstance(value, str) else None


def load_tokenizer(folder: Path, *, vocab: int, bos: int | None) -> Tokenizer | None:
    """Load the tokenizer of a checkpoint folder; None if it has none.

    Raises
    ------
    HeadraceError
        If its file is damaged, or it has more tokens than the embedding table has rows.
    """
    if (path := folder / "tokenizer.json").is_file():
        tokenizer = json_tokenizer(_read(path), path)
    elif (path := folder / "tokenizer.model").is_file():
        tokenizer = sentencepiece_tokenizer(_read(path), bos, path)
    else:
        return None
    if tokenizer.size > vocab:
        raise HeadraceError(f"{path}: the vocabulary has {tokenizer.size} tokens, but the "
                            f"embedding table has {vocab} rows: expected a tokenizer that "
                            f"belongs to the model")
    tokenizer.template = _template(folder)
    return tokenizer
