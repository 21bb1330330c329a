"""Images in the flat form that the C driver reads: a header of words, then memory."""

import os
import zlib
from pathlib import Path

import numpy as np

from headrace.hw.config import ALIGN
from headrace.hw.regmap import VERSION

from .compiler import Image
from .errors import HeadraceError


__all__ = ["FIELDS", "HEADER_WORDS", "flat_header", "image_c_header", "save_flat"]


#: "HRIM", little-endian.
_MAGIC = int.from_bytes(b"HRIM", "little")

#: Version of the form.
_FORMAT = 1

#: End-of-sequence tokens that there is room for.
_EOS = 16

#: Words of the header: the last one is its checksum.
HEADER_WORDS = 64

#: Words of the header in their order: number of words, and meaning. A value of two words has its
#: low half first.
FIELDS = {
    "magic": (1, "the text HRIM"),
    "format": (1, "version of this form"),
    "isa_version": (1, "version of the instruction set, HEADRACE_VERSION"),
    "fingerprint": (1, "configuration that it is compiled for"),
    "content_bytes": (2, "bytes behind the header: memory from the base to the end of the weights"),
    "total_bytes": (2, "bytes of memory in all, with cache, tokens, logits and records"),
    "program": (1, "first instruction, in 64-byte units from the base"),
    "instructions": (1, "instructions of the program"),
    "kv_base": (1, "cache, in 64-byte units from the base"),
    "kv_pinned": (1, "64-byte units of the cache that the KV buffer holds"),
    "tokens": (1, "token ids, in 64-byte units from the base"),
    "logits": (1, "logits, in 64-byte units from the base"),
    "records": (1, "records of counters, in 64-byte units from the base"),
    "vocab": (1, "tokens of the vocabulary"),
    "context": (1, "positions that the cache has room for"),
    "chunk": (1, "most positions of a pass"),
    "prefill_chunk": (1, "positions of a prefill pass that are best"),
    "max_passes": (1, "most passes of a run"),
    "eos_count": (1, "tokens that end a text"),
    "eos": (_EOS, "these tokens"),
    "content_crc": (1, "CRC-32 of the content, as zlib computes it"),
}


def _values(image: Image) -> dict[str, int | list[int]]:
    eos = list(image.shape.eos)
    if len(eos) > _EOS:
        raise HeadraceError(f"{image.model}: {len(eos)} tokens end a text: expected up to {_EOS}, "
                            f"which a flat image has room for")
    regions = {}
    for name, region in (("program", "program"), ("kv_base", "cache"), ("tokens", "tokens"),
                         ("logits", "logits"), ("records", "records")):
        assert image.regions[region].begin % ALIGN == 0
        regions[name] = image.regions[region].unit
    return {
        "magic": _MAGIC, "format": _FORMAT, "isa_version": VERSION,
        "fingerprint": image.fingerprint, "content_bytes": image.content.size,
        "total_bytes": image.total_bytes, **regions, "instructions": image.instructions,
        "kv_pinned": image.kv_pinned, "vocab": image.shape.vocab, "context": image.context,
        "chunk": image.chunk, "prefill_chunk": image.prefill_chunk,
        "max_passes": image.max_passes, "eos_count": len(eos),
        "eos": [*eos, *[0] * (_EOS - len(eos))],
        "content_crc": zlib.crc32(image.content.data),
    }


def flat_header(image: Image) -> bytes:
    """Header of the flat form of an image; ``image.content`` follows it.

    Raises
    ------
    HeadraceError
        If the image has more end-of-sequence tokens than there is room for.
    """
    values, words = _values(image), []
    for name, (count, _) in FIELDS.items():
        value = values[name]
        words += value if isinstance(value, list) else [
            value >> 32 * index & 0xffff_ffff for index in range(count)]
    words += [0] * (HEADER_WORDS - 1 - len(words))
    raw = np.array(words, "<u4").tobytes()
    return raw + zlib.crc32(raw).to_bytes(4, "little")


def image_c_header() -> str:
    """Text of ``headrace_image.h``: where each word stands."""
    lines = ["/* Header of an image that `headrace export` wrote: indices of its little-endian",
             " * words. A value of two words has its low half first; the content follows. */",
             "#ifndef HEADRACE_IMAGE_H", "#define HEADRACE_IMAGE_H", "",
             f"#define HEADRACE_IMAGE_MAGIC_VALUE 0x{_MAGIC:08x}u",
             f"#define HEADRACE_IMAGE_FORMAT_VALUE {_FORMAT}u",
             f"#define HEADRACE_IMAGE_HEADER_BYTES {4 * HEADER_WORDS}u",
             f"#define HEADRACE_IMAGE_EOS_WORDS {_EOS}u", ""]
    index = 0
    for name, (count, doc) in FIELDS.items():
        lines.append(f"#define HEADRACE_IMAGE_{name.upper()} {index}u /* {doc} */")
        index += count
    assert index < HEADER_WORDS
    lines.append(f"#define HEADRACE_IMAGE_HEADER_CRC {HEADER_WORDS - 1}u "
                 f"/* CRC-32 of the words before it */")
    return "\n".join([*lines, "", "#endif", ""])


def save_flat(image: Image, path: Path) -> int:
    """Write the flat form to a file, under a temporary name first; return its bytes.

    Raises
    ------
    HeadraceError
        If it cannot be written.
    """
    header = flat_header(image)
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as file:
            file.write(header)
            file.write(image.content.data)
        os.replace(partial, path)
    except OSError as error:
        raise HeadraceError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)
    return len(header) + image.content.size
