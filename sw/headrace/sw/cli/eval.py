"""``headrace eval``: how close the accelerator's arithmetic is to the float32 model."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from headrace.hw.config import Config, load_config

from ..checkpoint import Checkpoint, load_checkpoint
from ..compiler import compile_model, plan_model
from ..errors import HeadraceError
from ..policies import parse_policy
from ..presets import presets_for
from ..quantiser import Policy
from .model import QUANT_HELP, choose_config
from .progress import counting


__all__ = ["evaluate"]


# Attention of the golden machine costs as many steps as a window has tokens.
_WINDOW = 1024


def _text_ids(checkpoint: Checkpoint, path: Path, positions: int | None) -> list[int]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise HeadraceError(f"{path}: cannot be read as UTF-8 text: {error}") from error
    # A token is hardly longer than 16 characters: no need to encode a whole book.
    kept = text if positions is None else text[:16 * positions]
    return checkpoint.need_tokenizer().encode(kept)[:positions]


def _listed_ids(path: Path, positions: int | None) -> list[int]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(value, list) and value and isinstance(value[0], dict):
            value = value[0]["greedy"]
        if not isinstance(value, list) or not all(type(each) is int for each in value):
            raise ValueError("no list of whole numbers")
    except (OSError, ValueError, KeyError) as error:
        raise HeadraceError(f"{path}: expected JSON: a list of token ids, or a list of objects "
                            f"with such a list as `greedy` ({error!r})") from error
    return value[:positions]


def _fastest_config(checkpoint: Checkpoint, policy: Policy, context: int) -> Config:
    """The preset with the longest prefill passes: bits are those of any other, time is not."""
    fitting = []
    for config in presets_for(checkpoint.shape).values():
        try:
            fitting.append((plan_model(checkpoint, config, policy=policy).sizes.chunk, config))
        except HeadraceError:
            continue
    return max(fitting, key=lambda each: each[0])[1] if fitting else choose_config(
        checkpoint, policy, context)


def evaluate(
    model: Annotated[str, typer.Argument(
        metavar="MODEL", help="A checkpoint: name, folder or file as of `headrace run`.")],
    text: Annotated[Path | None, typer.Option(
        metavar="FILE", help="Text to read, teacher-forced.")] = None,
    ids: Annotated[Path | None, typer.Option(
        metavar="FILE.json", help="Token ids to read instead: a list, or a list of objects whose "
        "first has it as `greedy`.")] = None,
    against: Annotated[str, typer.Option(
        metavar="float|MODEL", help="What to compare with: the weights of MODEL itself in float32, "
        "or those of another checkpoint with the same vocabulary.")] = "float",
    positions: Annotated[int | None, typer.Option(
        metavar="N", help="Tokens to read at most; all by default.")] = None,
    context: Annotated[int | None, typer.Option(
        metavar="N", help=f"Tokens of a window, which begins with an empty cache; by default what "
        f"the model allows, at most {_WINDOW}.")] = None,
    config: Annotated[str | None, typer.Option(
        metavar="NAME|FILE.toml", help="Configuration; it changes no bit unless its group is "
        "another. The preset with the longest passes by default.")] = None,
    quant: Annotated[str | None, typer.Option(
        metavar="FORMATS|FILE.toml", help=QUANT_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
):
    """Compare the golden machine with the float32 model, token by token on the same text.

    Every token is predicted from those before it in its window, by both.

    Example: headrace eval smollm2-135m --text book.txt --positions 2048 --quant w8
    """
    from ..quality import measure_quality
    if (text is None) == (ids is None):
        raise HeadraceError("expected either --text FILE or --ids FILE.json")
    policy, checkpoint = parse_policy(quant), load_checkpoint(model)
    reference = checkpoint if against == "float" else load_checkpoint(against)
    if text is not None:
        tokens = _text_ids(checkpoint, text, positions)
    else:
        assert ids is not None
        tokens = _listed_ids(ids, positions)
    longest = checkpoint.shape.context
    window = min(longest, _WINDOW) if context is None else context
    if not 2 <= window <= longest:
        raise HeadraceError(f"--context {window}: expected 2 to {longest}, what the model allows")
    chosen = load_config(config) if config else _fastest_config(checkpoint, policy, window)
    image = compile_model(checkpoint, chosen, policy=policy, context=window)
    notes = Console(stderr=True)
    with counting(notes, "tokens", len(tokens)) as progress:
        result = measure_quality(reference, image, tokens, progress=progress)
    if as_json:
        print(json.dumps({"model": checkpoint.name, "against": against, "quant": quant,
                          "window": window, **result.report()}, indent=1))
        return
    table = Table("", "golden machine", "float32", "", box=None, header_style="bold")
    table.add_row("perplexity", f"{result.perplexity:.4f}", f"{result.reference_perplexity:.4f}",
                  f"{100 * result.loss:+.2f} %")
    table.add_row("top-1 agreement", f"{100 * result.agreement:.2f} %")
    table.add_row("KL divergence of the next token", f"{result.divergence:.5f} nats")
    table.add_row("largest difference of a logit", f"{result.max_difference:.4f}")
    table.add_row("mean difference of a logit", f"{result.mean_difference:.5f}")
    table.add_row("positions", str(result.positions))
    table.add_row("windows", f"{result.windows} of up to {window}")
    Console().print(table)
