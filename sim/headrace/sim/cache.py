"""The cache of simulator builds: entries named by the hash of everything that went into them."""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from headrace.sw.errors import HeadraceError


__all__ = ["Entry", "clear", "content_key", "entries", "folder", "obtain"]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entry of the cache.

    Attributes
    ----------
    kind : str
        ``"builds"``, whole simulators; ``"objects"``, compiled files that builds share;
        ``"verilog"``, generated devices; ``"controllers"``, generated DRAM controllers;
        ``"synthesis"`` and ``"placements"``, of `headrace synth`.
    key : str
        Hash of the content.
    label : str
        What it is, for people.
    size_bytes : int
        Space that it takes.
    seconds : float
        Time that it took to build.
    cpu_seconds : float or None
        Processor time that this took, all programs together; None in old entries.
    used : float
        Time of its last use, seconds since the epoch.
    """

    kind: str
    key: str
    label: str
    size_bytes: int
    seconds: float
    cpu_seconds: float | None
    used: float


def folder() -> Path:
    """The cache's folder: ``HEADRACE_CACHE`` where set, otherwise the user's cache folder."""
    return Path(os.environ.get("HEADRACE_CACHE") or platformdirs.user_cache_dir("headrace"))


def content_key(*parts: object) -> str:
    """Hash of texts, numbers and nested sequences or mappings of them; order counts."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def obtain(kind: str, key: str, label: str, build: Callable[[Path], None]) -> Path:
    """Folder of an entry, built if it is not there yet.

    `build` fills an empty folder, which then appears under its name in one step: nobody sees half
    an entry, and a build that fails or is killed leaves none. Of several processes that want the
    same entry one builds and the others wait.
    """
    place = folder() / kind / key
    if not place.exists():
        with _lock(place):
            if not place.exists():
                _publish(place, label, build)
    # The time of last use, so that old entries can be told from those in use.
    with contextlib.suppress(OSError):
        os.utime(place / "entry.json")
    return place


def entries() -> list[Entry]:
    """All entries, those used last first."""
    found = []
    for description in folder().glob("*/*/entry.json"):
        place = description.parent
        with contextlib.suppress(OSError, ValueError):  # removed or replaced meanwhile
            facts = json.loads(description.read_text())
            found.append(Entry(
                kind=place.parent.name, key=place.name, label=facts["label"],
                seconds=facts["seconds"], cpu_seconds=facts.get("cpu_seconds"),
                used=description.stat().st_mtime,
                size_bytes=sum(path.stat().st_size for path in place.rglob("*"))))
    return sorted(found, key=lambda entry: -entry.used)


def clear(older_than_days: float = 0.0) -> int:
    """Remove entries not used for some days, all of them by default; returns the bytes freed.

    A simulator that runs keeps its files until it ends.
    """
    limit = time.time() - older_than_days * 86400
    freed = 0
    for entry in entries():
        if entry.used <= limit:
            place = folder() / entry.kind / entry.key
            with _lock(place):
                shutil.rmtree(place, ignore_errors=True)
            freed += entry.size_bytes
    for work in folder().glob("*/.new-*"):  # of builds that were killed
        with contextlib.suppress(OSError):
            if work.stat().st_mtime < time.time() - 3600:
                shutil.rmtree(work, ignore_errors=True)
    return freed


def _publish(place: Path, label: str, build: Callable[[Path], None]) -> None:
    start, processor = time.monotonic(), _processor()
    work = Path(tempfile.mkdtemp(prefix=".new-", dir=place.parent))
    try:
        build(work)
        facts = {"label": label, "seconds": round(time.monotonic() - start, 2),
                 "cpu_seconds": round(_processor() - processor, 2)}
        (work / "entry.json").write_text(json.dumps(facts))
        work.chmod(0o755)
        work.rename(place)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _processor() -> float:
    # Of this process and of all that it has waited for.
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@contextlib.contextmanager
def _lock(place: Path) -> Iterator[None]:
    # The lock file stays: removing it would let two processes lock two files of the same name.
    path = place.with_name(f".{place.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "w")
    except OSError as error:
        raise HeadraceError(f"the cache of simulator builds cannot be written: {path.parent}: "
                            f"{error.strerror}. Point HEADRACE_CACHE at a folder that can "
                            f"be") from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
