"""Images as files."""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from headrace.hw.config import Config, ConfigError
from headrace.hw.regmap import VERSION

from ..checkpoint import ModelShape, Tokenizer, restore_tokenizer
from ..errors import HeadraceError
from .image import Image, Region


__all__ = ["is_image", "load_image", "save_image"]


_MAGIC = b"HEADRACE IMAGE\n"

#: Version of the file format.
_FILE_VERSION = 3

# Length of the header, length of all that follows the hash, hash.
_PREFIX = len(_MAGIC) + 8 + 8 + 32


def is_image(path: str | Path) -> bool:
    """Whether a file says that it is an image."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def _tokenizer_header(tokenizer: Tokenizer | None, content: bytes) -> dict[str, Any] | None:
    if tokenizer is None:
        return None
    return {"kind": tokenizer.kind, "bytes": len(content), "bos": tokenizer.bos,
            "template": tokenizer.template}


def save_image(image: Image, path: str | Path) -> None:
    """Write an image to a file, under a temporary name first.

    Raises
    ------
    HeadraceError
        If the file cannot be written.
    """
    path = Path(path)
    tokenizer = image.tokenizer.content() if image.tokenizer is not None else b""
    header = json.dumps({
        "file_version": _FILE_VERSION, "isa_version": VERSION, "fingerprint": image.fingerprint,
        "model": image.model, "shape": asdict(image.shape), "config": asdict(image.config),
        "group": image.group, "act_bits": image.act_bits, "context": image.context,
        "chunk": image.chunk,
        "max_passes": image.max_passes, "instructions": image.instructions,
        "kv_pinned": image.kv_pinned,
        "regions": {name: [r.begin, r.size] for name, r in image.regions.items()},
        "parts": {name: [r.begin, r.size] for name, r in image.parts.items()},
        "origins": image.origins, "bytes": image.content.size,
        "tokenizer": _tokenizer_header(image.tokenizer, tokenizer),
    }).encode()
    digest = hashlib.sha256(header)
    digest.update(image.content.data)
    digest.update(tokenizer)
    body = len(header) + image.content.size + len(tokenizer)
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as file:
            file.write(_MAGIC + len(header).to_bytes(8, "little") + body.to_bytes(8, "little")
                       + digest.digest() + header)
            file.write(image.content.data)
            file.write(tokenizer)
        os.replace(partial, path)
    except OSError as error:
        raise HeadraceError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)


def _check_places(image: Image) -> None:
    """Refuse a memory map that does not belong to the content."""
    for name in ("program", "tables", "weights", "cache", "tokens", "logits", "records"):
        region = image.regions[name]
        if region.begin < 0 or region.size < 0:
            raise ValueError(f"region {name} is {region}")
    if image.regions["weights"].end != image.content.size:
        raise ValueError("the memory map does not end where the content does")
    for name, part in image.parts.items():
        if not 0 <= part.begin <= part.end <= image.content.size:
            raise ValueError(f"part {name} is {part}")


def _parse(path: Path, header: dict[str, Any], content: NDArray[np.uint8], tokenizer: bytes
           ) -> Image:
    facts = header["tokenizer"]
    image = Image(
        shape=ModelShape.from_json(header["shape"]), config=Config(**header["config"]),
        content=content,
        regions={name: Region(*pair) for name, pair in header["regions"].items()},
        parts={name: Region(*pair) for name, pair in header["parts"].items()},
        origins=dict(header["origins"]),
        **{name: header[name] for name in ("model", "group", "act_bits", "context", "chunk",
                                           "max_passes", "instructions", "kv_pinned")})
    if image.fingerprint != header["fingerprint"]:
        raise HeadraceError(f"{path}: the image was made for fingerprint "
                            f"{header['fingerprint']:08x}, but its configuration now gives "
                            f"{image.fingerprint:08x}: compile it again with this version")
    _check_places(image)
    if facts is not None:
        image.tokenizer = restore_tokenizer(facts["kind"], tokenizer, facts["bos"], path)
        image.tokenizer.template = facts["template"]
    return image


def _read(path: Path, file: BinaryIO, error: Callable[[str], HeadraceError]) -> Image:
    prefix = file.read(_PREFIX)
    if not prefix.startswith(_MAGIC):
        raise HeadraceError(f"{path}: not an image of headrace; compile the model again")
    length, body = (int.from_bytes(prefix[at:at + 8], "little")
                    for at in (len(_MAGIC), len(_MAGIC) + 8))
    size = os.fstat(file.fileno()).st_size
    if size != _PREFIX + body:
        # Images of the first version have their header, which begins so, in this place.
        if prefix[len(_MAGIC) + 8:len(_MAGIC) + 10] == b'{"':
            raise HeadraceError(f"{path}: file version 1: expected {_FILE_VERSION}; compile the "
                                f"model again with this version")
        raise error(f"truncated, {size:,} of {_PREFIX + body:,} bytes")
    if length > body:
        raise error(f"a header of {length:,} bytes in {body:,}")
    text = file.read(length)
    content = np.fromfile(file, np.uint8)
    digest = hashlib.sha256(text)
    digest.update(content.data)
    if digest.digest() != prefix[-32:]:
        raise error("its checksum is wrong")
    header = json.loads(text)
    if header["file_version"] != _FILE_VERSION:
        raise HeadraceError(f"{path}: file version {header['file_version']}: expected "
                            f"{_FILE_VERSION}; compile the model again with this version")
    if header["isa_version"] != VERSION:
        raise HeadraceError(f"{path}: instruction set version {header['isa_version']:#x}: "
                            f"expected {VERSION:#x}; compile the model again")
    memory = int(header["bytes"])
    rest = content.size - memory
    if memory < 0 or rest != (header["tokenizer"] or {"bytes": 0})["bytes"]:
        raise error(f"{content.size:,} bytes behind the header, but {memory:,} of memory")
    return _parse(path, header, content[:memory], content[memory:].tobytes())


def load_image(path: str | Path) -> Image:
    """Read an image from a file.

    Raises
    ------
    HeadraceError
        If the file is missing, truncated, damaged, or of another version.
    """
    path = Path(path)

    def damaged(reason: str) -> HeadraceError:
        return HeadraceError(f"{path}: the image is damaged: {reason}; compile the model again")

    try:
        with path.open("rb") as file:
            return _read(path, file, damaged)
    except OSError as error:
        raise HeadraceError(f"{path}: cannot be read: {error.strerror}; expected an image that "
                            f"headrace wrote") from error
    except (KeyError, TypeError, ValueError, AttributeError, ConfigError) as error:
        raise damaged(f"its header is wrong ({error!r})") from error
