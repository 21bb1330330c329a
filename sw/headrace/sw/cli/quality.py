"""``headrace quality``: how close the accelerator's arithmetic is to the float32 model."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from headrace.hw.config import load_config

from ..checkpoint import Checkpoint, load_checkpoint
from ..compiler import compile_model
from ..errors import HeadraceError
from ..policies import parse_policy
from .model import QUANT_HELP, choose_config


__all__ = ["quality"]


def _text_ids(checkpoint: Checkpoint, path: Path, positions: int) -> list[int]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise HeadraceError(f"{path}: cannot be read as UTF-8 text: {error}") from error
    # A token is hardly longer than 16 characters: no need to encode a whole book.
    return checkpoint.need_tokenizer().encode(text[:16 * positions])[:positions]


def _listed_ids(path: Path, positions: int) -> list[int]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(value, list) and value and isinstance(value[0], dict):
            value = value[0]["greedy"]
        if not isinstance(value, list) or not all(isinstance(each, int) for each in value):
            raise ValueError("no list of whole numbers")
    except (OSError, ValueError, KeyError) as error:
        raise HeadraceError(f"{path}: expected JSON: a list of token ids, or a list of objects "
                            f"with such a list as `greedy` ({error!r})") from error
    return value[:positions]


def quality(
    model: Annotated[str, typer.Argument(
        metavar="MODEL", help="A checkpoint: name, folder or file as of `headrace run`.")],
    text: Annotated[Path | None, typer.Option(
        metavar="FILE", help="Text to read, teacher-forced.")] = None,
    ids: Annotated[Path | None, typer.Option(
        metavar="FILE.json", help="Token ids to read instead: a list, or a list of objects whose "
        "first has it as `greedy`.")] = None,
    positions: Annotated[int | None, typer.Option(
        metavar="N", help="Positions to read; the context by default.")] = None,
    config: Annotated[str | None, typer.Option(
        metavar="NAME|FILE.toml", help="Configuration; it changes no bit. The smallest preset that "
        "the model fits by default.")] = None,
    quant: Annotated[str | None, typer.Option(
        metavar="FORMATS|FILE.toml", help=QUANT_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
):
    """Compare the golden machine with the float32 model, token by token on the same text."""
    from ..quality import measure_quality
    if (text is None) == (ids is None):
        raise HeadraceError("expected either --text FILE or --ids FILE.json")
    policy, checkpoint = parse_policy(quant), load_checkpoint(model)
    count = min(positions or checkpoint.shape.context, checkpoint.shape.context)
    chosen = load_config(config) if config else choose_config(checkpoint, policy, count)
    image = compile_model(checkpoint, chosen, policy=policy, context=count)
    if text is not None:
        tokens = _text_ids(checkpoint, text, count)
    else:
        assert ids is not None
        tokens = _listed_ids(ids, count)
    notes = Console(stderr=True)
    with notes.status(f"reading {len(tokens)} tokens"):
        result = measure_quality(checkpoint, image, tokens)
    if as_json:
        print(json.dumps({"model": checkpoint.name, **result.report()}, indent=1))
        return
    table = Table("", "golden machine", "float32", box=None, header_style="bold")
    table.add_row("perplexity", f"{result.perplexity:.4f}", f"{result.reference_perplexity:.4f}")
    table.add_row("top-1 agreement", f"{100 * result.agreement:.2f} %", "")
    table.add_row("largest difference of a logit", f"{result.max_difference:.4f}", "")
    table.add_row("mean difference of a logit", f"{result.mean_difference:.5f}", "")
    table.add_row("positions", str(result.positions), "")
    Console().print(table)
