"""``headrace chat``: a conversation with a model on a machine."""

import sys
from typing import Annotated

import typer
from rich.console import Console

from ..chat import ChatTemplate, Conversation
from ..checkpoint import Tokenizer
from ..driver import Session
from ..errors import HeadraceError
from ..sampling import Sampler
from .machine import KINDS, open_device
from .model import MODEL_HELP, QUANT_HELP, Model, open_model
from .output import (
    MinP,
    Output,
    Penalty,
    Seed,
    Stop,
    Temperature,
    TopK,
    TopP,
    make_sampler,
)


__all__ = ["chat"]


_CONTEXT = 2048


def _template(model: Model) -> tuple[Tokenizer, ChatTemplate]:
    tokenizer, shape, name = model.tokenizer, model.image.shape, model.image.model
    if tokenizer is None:
        raise HeadraceError(f"{name}: no tokenizer, so a text cannot be read: "
                            f"{model.no_tokenizer}; `headrace run --prompt-ids` takes ids")
    if tokenizer.template is None:
        raise HeadraceError(f"{name}: the model has no chat template, so it was hardly trained for "
                            f"conversations: `headrace run` continues a text; expected "
                            f"tokenizer.chat_template in a GGUF file, or chat_template in "
                            f"tokenizer_config.json or chat_template.jinja in a folder")

    def piece(token: int | None) -> str:
        return "" if token is None else tokenizer.piece(token) or ""

    return tokenizer, ChatTemplate(tokenizer.template, bos=piece(shape.bos),
                                   eos=piece(shape.eos[0] if shape.eos else None))


def _lines(notes: Console):
    """Lines of the user, until /exit or the end of the input."""
    asks = sys.stdin.isatty()
    while True:
        if asks:
            notes.print("> ", end="", style="bold green")
        line = sys.stdin.readline()
        if not line or line.strip() == "/exit":
            return
        if line.strip():
            yield line.strip()


def _turn(conversation: Conversation, line: str, tokens: int, sampler: Sampler,
          stop: list[str]) -> None:
    answer = conversation.ask(line, tokens, sampler)
    output = Output(conversation.tokenizer, [], stop=stop)
    try:
        for token in answer:
            output.push(token)
            if output.stopped:
                break
        output.finish()
    finally:
        print(flush=True)
        conversation.answered(output.text)


def chat(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)],
    system: Annotated[str | None, typer.Option(
        metavar="TEXT", help="System message that comes first.")] = None,
    tokens: Annotated[int, typer.Option(help="Most tokens of an answer.")] = 256,
    temperature: Temperature = 0.7,
    top_k: TopK = 0,
    top_p: TopP = 0.95,
    min_p: MinP = 0.0,
    penalty: Penalty = 1.0,
    seed: Seed = None,
    stop: Stop = None,
    device: Annotated[str, typer.Option(
        metavar="|".join(KINDS), help="The NumPy machine; the RTL in simulation; a whole board in "
        "simulation: sim:ulx3s; or a board by its URL: uart:///dev/ttyUSB0?baud=1000000, "
        "tcp://HOST:PORT, devmem://BOARD, pynq://FILE.bit.")] = "golden",
    config: Annotated[str | None, typer.Option(
        metavar="NAME|FILE.toml", help="Configuration, see `headrace configs`; the smallest preset "
        "that the model fits by default.")] = None,
    quant: Annotated[str | None, typer.Option(
        metavar="FORMATS|FILE.toml", help=QUANT_HELP)] = None,
    context: Annotated[int | None, typer.Option(
        metavar="N", help=f"Tokens of the whole conversation; by default what the model allows, at "
        f"most {_CONTEXT}.")] = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Only the answers.")] = False,
):
    """Converse with a model, by the chat template that comes with it.

    A line is a message. /clear begins a new conversation, /exit or the end of the input ends it,
    Ctrl-C ends an answer. The cache is kept from turn to turn: only what is new is prefilled.

    Example: headrace chat smollm2-135m --seed 1
    """
    notes = Console(stderr=True, quiet=quiet)
    if (temperature, top_p) == (0, 0.95):
        top_p = 1.0     # the default goes with a temperature
    sampler = make_sampler(temperature, top_k, top_p, min_p, penalty, seed)
    if tokens < 1:
        raise HeadraceError(f"--tokens {tokens}: expected at least 1")
    opened = open_model(model, config=config, quant=quant, context=context, notes=notes,
                        most_context=_CONTEXT)
    tokenizer, template = _template(opened)
    image = opened.image
    with open_device(device, image, notes=notes) as machine:
        session = Session(machine, image)
        conversation = Conversation(session, tokenizer, template, system)
        notes.print(f"{image.model} on {image.config.name} ({device}), seed {sampler.seed}; "
                    f"/clear, /exit", style="dim", highlight=False)
        failed = None
        for line in _lines(notes):
            if line == "/clear":
                conversation.clear()
                failed = None
                continue
            try:
                _turn(conversation, line, tokens, sampler, stop or [])
                failed = None
            except KeyboardInterrupt:
                continue
            except HeadraceError as error:
                # A person can go on; a script gets the exit code.
                if not sys.stdin.isatty():
                    raise
                failed = error
                notes.print(f"headrace: {error}", style="red", markup=False, highlight=False)
        if failed is not None:
            raise failed
