"""Steps of a build in a folder: run only when their inputs changed, and never half done."""

import contextlib
import fcntl
import hashlib
import json
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from headrace.sw.errors import HeadraceError


__all__ = ["Step", "Steps", "sources"]


_STATE = ".steps.json"


@dataclass(frozen=True, kw_only=True)
class Step:
    """What is known of a step that was done.

    Parameters
    ----------
    key : str
        Hash of its inputs.
    outputs : dict of str to str
        Hash of each file that it wrote.
    seconds : float
        Time that it took.
    peak_bytes : int
        Memory of the largest process until its end, of this build's processes.
    """

    key: str
    outputs: dict[str, str]
    seconds: float
    peak_bytes: int


class Steps:
    """The steps of one folder, to be used as a context manager: one build at a time.

    Parameters
    ----------
    folder : Path
        Where files go; made if it is not there.

    Attributes
    ----------
    skipped : list of str
        Steps of this run whose files were there already.

    Raises
    ------
    HeadraceError
        If the folder cannot be written, or another build is at work in it.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.skipped: list[str] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = open(folder / ".lock", "w")
        except OSError as error:
            raise HeadraceError(f"cannot write to {folder}: {error.strerror}: expected a folder "
                                f"that can be written") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise HeadraceError(f"another build is at work in {folder}: wait for it, or name "
                                f"another folder with -o") from None
        self._done = self._load()
        # Of builds that were killed.
        for work in folder.glob(".work-*"):
            shutil.rmtree(work, ignore_errors=True)

    def __enter__(self) -> "Steps":
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def __getitem__(self, name: str) -> Step:
        return self._done[name]

    def __contains__(self, name: str) -> bool:
        return name in self._done

    def run(self, name: str, key: str, outputs: Sequence[str],
            action: Callable[[Path], None]) -> bool:
        """Do a step unless it was done with the same inputs and its files are as it left them.

        Parameters
        ----------
        name : str
            Name of the step.
        key : str
            Hash of its inputs.
        outputs : sequence of str
            Files that it writes.
        action : callable
            Writes them into an empty folder; they appear in :attr:`folder` together, after it
            has ended well.

        Returns
        -------
        bool
            Whether it was done now.
        """
        known = self._done.get(name)
        if known and known.key == key and set(known.outputs) == set(outputs) and all(
                self._hash(file) == value for file, value in known.outputs.items()):
            self.skipped.append(name)
            return False
        # From here on the old files are wrong.
        self.forget(name)
        start = time.monotonic()
        work = Path(tempfile.mkdtemp(prefix=".work-", dir=self.folder))
        try:
            action(work)
            for file in outputs:
                os.replace(work / file, self.folder / file)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        self._done[name] = Step(
            key=key, outputs={file: self._hash(file) for file in outputs},
            seconds=round(time.monotonic() - start, 1),
            # In KiB, as Linux counts.
            peak_bytes=resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
        self._save()
        return True

    def forget(self, name: str) -> None:
        """Remove what a step has written, if anything."""
        if name in self._done:
            for file in self._done.pop(name).outputs:
                (self.folder / file).unlink(missing_ok=True)
            self._save()

    def _hash(self, name: str) -> str:
        with contextlib.suppress(OSError), open(self.folder / name, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
        return ""

    def _load(self) -> dict[str, Step]:
        try:
            facts = json.loads((self.folder / _STATE).read_text(encoding="utf-8"))
            return {name: Step(**step) for name, step in facts.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}  # nothing is known, so everything is done again

    def _save(self) -> None:
        temporary = self.folder / f"{_STATE}.new"
        temporary.write_text(json.dumps({name: asdict(step) for name, step in self._done.items()},
                                        indent=1), encoding="utf-8")
        os.replace(temporary, self.folder / _STATE)


def sources(*packages: Path) -> Iterator[tuple[str, str]]:
    """Every Python file below some folders, with the hash of its text."""
    for package in packages:
        for path in sorted(package.rglob("*.py")):
            yield str(path.relative_to(package)), hashlib.sha256(path.read_bytes()).hexdigest()
