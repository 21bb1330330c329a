"""Byte-fallback BPE tokenizer of the built-in model."""

import json
from collections.abc import Iterable

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import BpeTrainer


__all__ = ["BOS", "EOS", "UNK", "train_tokenizer"]


#: Special tokens by identifier: unknown, start and end of a story.
SPECIALS = ("<unk>", "<s>", "</s>")
UNK, BOS, EOS = range(len(SPECIALS))


def train_tokenizer(stories: Iterable[str], *, vocab_size: int) -> Tokenizer:
    """Train a tokenizer in the manner of Llama 2.

    Identifiers: the special tokens, then the 256 bytes ``<0x00>`` to ``<0xFF>``, then the
    characters of the text, then the merges in order of rank. A space is written ``▁`` and one
    is put before the text, so a word has the same tokens at the start and within. A character
    outside the vocabulary becomes the bytes of its UTF-8 form. Decoding gives back the text
    exactly, line ends and runs of spaces included; only a ``▁`` in the text itself comes back
    as a space. Encoding puts ``<s>`` first.

    Parameters
    ----------
    stories : iterable of str
        Text to learn from.
    vocab_size : int
        Tokens in total, above 259 by at least the count of distinct characters.

    Returns
    -------
    Tokenizer
        Save it as ``tokenizer.json``.

    Raises
    ------
    ValueError
        If the text does not yield exactly ``vocab_size`` tokens.
    """
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    learner = Tokenizer(models.BPE())
    # No token joins a word with the punctuation after it. Else a prompt that ends in "time" would
    # have tokens that the model never met, as it learned from "time,".
    learner.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Metaspace(),
        pre_tokenizers.Split(Regex(r"▁?\w+|▁?[^\w\s▁]+|\s"), "isolated"),
    ])
    learner.train_from_iterator(stories, BpeTrainer(
        vocab_size=vocab_size - len(SPECIALS) - len(byte_tokens), show_progress=False))
    learned = json.loads(learner.to_str())["model"]

    # The trainer takes bytes only as special tokens, which decoding would drop. They join here.
    pieces = sorted(learned["vocab"], key=learned["vocab"].__getitem__)
    vocab = {piece: index for index, piece in enumerate([*SPECIALS, *byte_tokens, *pieces])}
    if len(vocab) != vocab_size:
        raise ValueError(f"Vocabulary must have {vocab_size} tokens, not {len(vocab)}")
    merges = [(left, right) for left, right in learned["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token=SPECIALS[UNK], fuse_unk=True,
                                     byte_fallback=True))

    # Merging needs no split into words: no merge reaches across the borders they were learned in.
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([
        decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
        decoders.Strip(content=" ", left=1)])
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True)
                                  for token in SPECIALS])
    tokenizer.post_processor = TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", BOS)])
    return tokenizer
