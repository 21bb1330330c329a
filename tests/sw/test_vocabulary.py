"""Tokenizers made from a vocabulary."""

import random
from dataclasses import replace

import pytest
import sentencepiece as library
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from headrace.sw.checkpoint import load_checkpoint, restore_tokenizer
from headrace.sw.checkpoint.tokenizer import sentencepiece_tokenizer
from headrace.sw.checkpoint.vocabulary import (
    PRE_TOKENIZERS,
    Vocabulary,
    VocabularyError,
    byte_level_bpe,
    sentencepiece,
)
from headrace.sw.errors import HeadraceError


#: All 256 bytes, as byte-level BPE writes them.
ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
MERGES = ["t h", "th e", "\u0120 the", "d o", "do n", "' t", "1 2", "12 3", "e s", "c a",
          "\u00c3 \u00a9", "123 4", "\u0120 c", "\u0120c a", "\n \n"]
TOKENS = ["<end>", "<start>", "<tag>", *ALPHABET,
          *(merge.replace(" ", "") for merge in MERGES if merge != "\n \n")]


def _bpe(pre, **changes):
    return byte_level_bpe(Vocabulary(**{  # type: ignore[arg-type]
        "tokens": TOKENS, "types": [3, 3, 4] + [1] * (len(TOKENS) - 3), "merges": MERGES[:-1],
        "pre": pre, "bos": 1, **changes}))


def _texts(count=200, seed=3):
    rng = random.Random(seed)
    parts = ["the", " the", "don't", "DON'T", "1234", " 12", "caf\u00e9", "\n", "\n\n", "  ", " ",
             "\t", "!?", "...", "\U0001f600", "\u4e2d\u6587", "e\u0301", "x1y2", "\u00bd", "\r\n"]
    return ["".join(rng.choices(parts, k=rng.randint(1, 12))) for _ in range(count)]


def _cut(pre, text):
    """The parts of a text before merges."""
    tokenizer = _bpe(pre, types=(), add_bos=False)
    inner = Tokenizer.from_buffer(tokenizer.content())
    assert inner.pre_tokenizer is not None
    decoder = decoders.ByteLevel()
    return [decoder.decode([part]) for part, _ in inner.pre_tokenizer.pre_tokenize_str(text)]


@pytest.mark.parametrize("pre, parts", [
    ("gpt-2", ["don", "'t", " see", " 1234", "  ", " x", "!!", "\n"]),
    ("smollm", ["don", "'t", " see", " ", "1", "2", "3", "4", "  ", " x", "!!", "\n"]),
    ("llama-bpe", ["don", "'t", " see", " ", "123", "4", "  ", " x", "!!\n"]),
    ("qwen2", ["don", "'t", " see", " ", "1", "2", "3", "4", "  ", " x", "!!\n"]),
])
def test_texts_are_cut_by_name(pre, parts):
    assert _cut(pre, "don't see 1234   x!!\n") == parts


def test_gpt2_cuts_as_the_library():
    inner = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(TOKENS)},
                                 merges=[(m.split(" ")[0], m.split(" ")[1])
                                         for m in MERGES[:-1]]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    ours = _bpe("gpt-2", add_bos=False)
    for text in _texts():
        assert ours.encode(text) == inner.encode(text).ids, text


@pytest.mark.parametrize("pre", PRE_TOKENIZERS)
def test_every_text_comes_back(pre):
    tokenizer = _bpe(pre, add_bos=True)
    for text in _texts(60):
        found = tokenizer.encode(text)
        assert found[0] == 1
        if pre != "qwen2":      # which composes accents
            assert tokenizer.decode(found) == text


def test_beginning_of_a_text():
    assert _bpe("gpt-2").encode("the")[0] != 1
    assert _bpe("llama-bpe").encode("the")[0] == 1
    assert _bpe("llama-bpe", add_bos=False).encode("the")[0] != 1
    assert _bpe("gpt-2", add_bos=True).encode("the")[0] == 1


def test_special_tokens():
    tokenizer = _bpe("gpt-2")
    found = tokenizer.encode("<start>the<tag><end>")
    assert [TOKENS[i] for i in found] == ["<start>", "the", "<tag>", "<end>"]
    assert tokenizer.decode(found) == "the<tag>"


def test_whole_parts_need_no_merges():
    tokens = [*TOKENS, "cat"]
    found = {pre: byte_level_bpe(Vocabulary(tokens=tokens, merges=MERGES[:-1], pre=pre)
                                 ).encode("cat") for pre in ("llama-bpe", "gpt-2")}
    assert found["llama-bpe"] == [tokens.index("cat")]
    assert [tokens[i] for i in found["gpt-2"]] == ["ca", "t"]


def _sentencepiece(path):
    """Vocabulary of a SentencePiece model, as converters to GGUF write it."""
    inner = library.SentencePieceProcessor(str(path))
    size = inner.GetPieceSize()
    kinds = [2 if inner.IsUnknown(i) else 3 if inner.IsControl(i) else 6 if inner.IsByte(i) else 1
             for i in range(size)]
    return inner, Vocabulary(
        tokens=[inner.IdToPiece(i) for i in range(size)], types=kinds, bos=1, unknown=0,
        scores=[inner.GetScore(i) for i in range(size)])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A SentencePiece BPE model with byte fallback, trained here."""
    folder = tmp_path_factory.mktemp("spm")
    words = "the cat sat on the mat and ate a rat that had sat there then the end".split()
    rng = random.Random(1)
    (folder / "text").write_text("\n".join(" ".join(rng.choices(words, k=9)) for _ in range(300)))
    library.SentencePieceTrainer.Train(
        input=str(folder / "text"), model_prefix=str(folder / "m"), vocab_size=330,
        model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
        remove_extra_whitespaces=False, hard_vocab_limit=False, minloglevel=2)
    return folder / "m.model"


def test_sentencepiece_model(trained):
    inner, vocabulary = _sentencepiece(trained)
    ours = sentencepiece(vocabulary)
    rng = random.Random(7)
    for _ in range(300):
        text = "".join(rng.choices(["the", " ", "cat", "that", "  ", "\u00e9", "\n", "\U0001f600",
                                    "sat", "then", "x"], k=rng.randint(1, 14)))
        expected = [1, *inner.EncodeAsIds(text)]
        assert ours.encode(text) == expected, text
        assert ours.decode(expected) == inner.DecodeIds(expected[1:])


def test_sentencepiece_model_of_a_checkpoint(babyllama):
    inner, vocabulary = _sentencepiece(babyllama / "tokenizer.model")
    ours = sentencepiece(replace(vocabulary, squeeze=True))
    file = load_checkpoint(babyllama / "babyllama-tok105.gguf").need_tokenizer()
    for text in ("Once upon a time, there was", "  two  spaces ", "Lily's dog!", "12 \u00e9\u00e9"):
        expected = [1, *inner.EncodeAsIds(text)]
        assert ours.encode(text) == expected, text
        # The file does not say that spaces are squeezed.
        assert file.encode(text) == expected or "  " in text
        assert ours.decode(expected) == inner.DecodeIds(expected[1:]) == file.decode(expected)


def test_space_before_a_text_is_an_option(trained):
    _, vocabulary = _sentencepiece(trained)
    plain = sentencepiece(replace(vocabulary, add_space=False, add_bos=False))
    assert plain.decode(plain.encode("the cat")) == "the cat"
    assert plain.encode(" the") == sentencepiece(replace(vocabulary, add_bos=False)).encode("the")


@pytest.mark.parametrize("make", ["json", "sentencepiece"])
def test_tokenizers_survive_an_image(make, trained):
    tokenizer = (_bpe("smollm") if make == "json"
                 else sentencepiece_tokenizer(trained.read_bytes(), 1))
    again = restore_tokenizer(tokenizer.kind, tokenizer.content(), tokenizer.bos, "image")
    for text in _texts(20):
        assert again.encode(text) == tokenizer.encode(text)
    with pytest.raises(HeadraceError, match="image: not a"):
        restore_tokenizer(tokenizer.kind, b"nonsense", None, "image")


def test_unknown_kind_in_an_image():
    with pytest.raises(HeadraceError, match="tokenizer of kind 'x': expected json or sentence"):
        restore_tokenizer("x", b"", None, "image")


@pytest.mark.parametrize("changes, text", [
    ({"pre": "unheard"}, "pre-tokenizer 'unheard' is not supported; supported: gpt-2"),
    ({"merges": ()}, "there are no merges"), ({"merges": ["th x"]}, "merge 0, 'th x'"),
    ({"merges": ["the"]}, "merge 0, 'the'"), ({"bos": 10 ** 6}, "bos is token 1000000"),
    ({"types": [1]}, "1 types for"), ({"tokens": ["a", "a"], "types": (), "bos": None},
                                      "token 'a' occurs twice"),
])
def test_bad_vocabulary(changes, text):
    with pytest.raises(VocabularyError, match=text):
        _bpe(changes.pop("pre", "gpt-2"), **changes)


def test_bad_scores():
    with pytest.raises(VocabularyError, match="there are no scores"):
        sentencepiece(Vocabulary(tokens=["a"]))
    with pytest.raises(VocabularyError, match="a score is NaN"):
        sentencepiece(Vocabulary(tokens=["a"], scores=[float("nan")]))
