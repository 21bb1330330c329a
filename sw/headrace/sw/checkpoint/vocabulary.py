"""Tokenizers made from a vocabulary: byte-level BPE and SentencePiece, without their own files."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tokenizers import (
    AddedToken,
    Regex,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from tokenizers import Tokenizer as Library

from .tokenizer import Tokenizer, json_tokenizer


__all__ = ["PRE_TOKENIZERS", "Vocabulary", "VocabularyError", "byte_level_bpe", "sentencepiece"]


#: Types of tokens, as in GGUF and SentencePiece.
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)

_GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
           r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
_QWEN2 = _LLAMA3.replace("{1,3}", "")


class VocabularyError(ValueError):
    """A vocabulary of which no tokenizer can be made; the message says why."""


@dataclass(frozen=True)
class _Pre:
    """How a text is cut before its parts are merged."""

    pattern: str
    digits: bool = False        # each digit is a part
    whole: bool = False         # a part that is a token is not made by merges
    bos: bool = False           # a text begins with `bos` unless the file says otherwise
    nfc: bool = False           # texts are brought into normal form C


_SMOLLM = _Pre(_GPT2, digits=True)
_LLAMA = _Pre(_LLAMA3, whole=True, bos=True)

#: How each name of a pre-tokenizer cuts a text.
PRE_TOKENIZERS = {
    "gpt-2": _Pre(_GPT2), "gpt2": _Pre(_GPT2),
    "smollm": _SMOLLM, "starcoder": _SMOLLM, "refact": _SMOLLM,
    "llama-bpe": _LLAMA, "llama3": _LLAMA, "llama-v3": _LLAMA,
    "qwen2": _Pre(_QWEN2, nfc=True),
}


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """Tokens of a model.

    Parameters
    ----------
    tokens : sequence of str
        Text of each token.
    types : sequence of int
        Type of each token; all normal if empty.
    scores : sequence of float
        Score of each token (SentencePiece).
    merges : sequence of str
        Pairs ``"a b"`` in the order of their rank (BPE).
    pre : str
        Name of the pre-tokenizer (BPE).
    bos, unknown : int or None
        Tokens that begin a text, and that stand for what has none.
    add_bos : bool or None
        Texts begin with `bos`; what is usual for the kind if None.
    add_space : bool
        A space is put before a text (SentencePiece).
    squeeze : bool
        Several spaces are one, and those around a text are none (SentencePiece).
    """

    tokens: Sequence[str]
    types: Sequence[int] = ()
    scores: Sequence[float] = ()
    merges: Sequence[str] = field(default=())
    pre: str = ""
    bos: int | None = None
    unknown: int | None = None
    add_bos: bool | None = None
    add_space: bool = True
    squeeze: bool = False

    def ids(self) -> dict[str, int]:
        """Id of each token; refuses tokens that occur twice, which no text could tell apart."""
        for name, values in (("types", self.types), ("scores", self.scores)):
            if values and len(values) != len(self.tokens):
                raise VocabularyError(f"{len(values)} {name} for {len(self.tokens)} tokens")
        for name, value in (("bos", self.bos), ("unknown", self.unknown)):
            if value is not None and not 0 <= value < len(self.tokens):
                raise VocabularyError(f"{name} is token {value} of {len(self.tokens)}")
        ids = {text: index for index, text in enumerate(self.tokens)}
        if len(ids) != len(self.tokens):
            twice = next(text for index, text in enumerate(self.tokens) if ids[text] != index)
            raise VocabularyError(f"token {twice!r} occurs twice")
        return ids


def _finish(inner: Library, vocabulary: Vocabulary, bos: bool) -> Tokenizer:
    """Add the special tokens, and what comes before a text."""
    for special, kind in ((True, CONTROL), (False, USER)):
        texts = [AddedToken(vocabulary.tokens[index], special=special, normalized=False)
                 for index, found in enumerate(vocabulary.types)
                 if found == kind and vocabulary.tokens[index]]
        (inner.add_special_tokens if special else inner.add_tokens)(texts)
    if bos and vocabulary.bos is not None:
        text = vocabulary.tokens[vocabulary.bos]
        if inner.token_to_id(text) is None:
            raise VocabularyError(f"the token that begins a text, {text!r}, is not usable")
        inner.post_processor = processors.TemplateProcessing(
            single=[text, "$A"], pair=[text, "$A", text, "$B"],
            special_tokens=[(text, vocabulary.bos)])
    return json_tokenizer(inner)


def _merges(pairs: Sequence[str], ids: dict[str, int]) -> list[tuple[str, str]]:
    result = []
    for index, pair in enumerate(pairs):
        left, _, right = pair.partition(" ")
        if left not in ids or right not in ids or left + right not in ids:
            raise VocabularyError(f"merge {index}, {pair!r}, is no pair of tokens that make one")
        result.append((left, right))
    return result


def byte_level_bpe(vocabulary: Vocabulary) -> Tokenizer:
    """Byte-level BPE, as of GPT-2, Llama 3, Qwen and SmolLM.

    Raises
    ------
    VocabularyError
        If the pre-tokenizer is unknown, or tokens and merges do not belong together.
    """
    pre = PRE_TOKENIZERS.get(vocabulary.pre)
    if pre is None:
        raise VocabularyError(f"pre-tokenizer {vocabulary.pre!r} is not supported; supported: "
                              f"{', '.join(PRE_TOKENIZERS)}")
    ids = vocabulary.ids()
    if not vocabulary.merges:
        raise VocabularyError("there are no merges")
    inner = Library(models.BPE(vocab=ids, merges=_merges(vocabulary.merges, ids),
                               ignore_merges=pre.whole))
    if pre.nfc:
        inner.normalizer = normalizers.NFC()  # type: ignore[assignment]
    inner.pre_tokenizer = pre_tokenizers.Sequence([  # type: ignore[assignment]
        *([pre_tokenizers.Digits(individual_digits=True)] if pre.digits else []),
        pre_tokenizers.Split(Regex(pre.pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    inner.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    add_bos = pre.bos if vocabulary.add_bos is None else vocabulary.add_bos
    return _finish(inner, vocabulary, add_bos)


def _scored_merges(vocabulary: Vocabulary, ids: dict[str, int]) -> list[tuple[str, str]]:
    """All pairs of tokens that make a token, those of the highest score first."""
    merges = []
    for index, text in enumerate(vocabulary.tokens):
        kind = vocabulary.types[index] if vocabulary.types else NORMAL
        if kind != NORMAL or len(text) < 2:
            continue
        pairs = [(text[:at], text[at:]) for at in range(1, len(text))]
        pairs = [pair for pair in pairs if pair[0] in ids and pair[1] in ids]
        pairs.sort(key=lambda pair: (ids[pair[0]], ids[pair[1]]))
        merges += [(vocabulary.scores[index], pair) for pair in pairs]
    merges.sort(key=lambda each: -each[0])      # stable: by token where scores are equal
    return [pair for _, pair in merges]


def sentencepiece(vocabulary: Vocabulary) -> Tokenizer:
    """SentencePiece with byte fallback, as of Llama 2: of two neighbours, those whose union has
    the highest score are merged first.

    Raises
    ------
    VocabularyError
        If tokens and scores do not belong together.
    """
    ids = vocabulary.ids()
    if len(vocabulary.scores) != len(vocabulary.tokens):
        raise VocabularyError("there are no scores")
    if not all(score == score for score in vocabulary.scores):
        raise VocabularyError("a score is NaN")
    unknown = None if vocabulary.unknown is None else vocabulary.tokens[vocabulary.unknown]
    inner = Library(models.BPE(
        vocab=ids, merges=_scored_merges(vocabulary, ids), unk_token=unknown, fuse_unk=True,
        byte_fallback=BYTE in vocabulary.types))
    space = [normalizers.Prepend("\u2581")] if vocabulary.add_space else []
    squeeze = [normalizers.Strip(), normalizers.Replace(Regex(" +"), " ")]
    inner.normalizer = normalizers.Sequence(  # type: ignore[assignment]
        [*(squeeze if vocabulary.squeeze else []), *space, normalizers.Replace(" ", "\u2581")])
    inner.decoder = decoders.Sequence([  # type: ignore[assignment]
        decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
        *([decoders.Strip(" ", 1, 0)] if vocabulary.add_space else [])])
    return _finish(inner, vocabulary, vocabulary.add_bos is not False)
