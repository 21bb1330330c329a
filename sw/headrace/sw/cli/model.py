"""Models on the command line: a checkpoint is compiled, an image is loaded."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from headrace.hw.config import Config, load_config

from ..checkpoint import Checkpoint, Tokenizer, find_model, load_checkpoint
from ..compiler import Image, compile_model, is_image, load_image, plan_model
from ..errors import HeadraceError
from ..policies import parse_policy
from ..presets import presets_for
from ..quantiser import Policy


__all__ = ["MODEL_HELP", "Model", "QUANT_HELP", "choose_config", "open_model"]


MODEL_HELP = ("A built-in or fetched model (`demo`, `smollm2-135m`, `gemma3-270m`), a Hugging Face "
              "folder, a .gguf file, a .bin file of llama2.c, or an image that `headrace quantise` "
              "wrote.")

QUANT_HELP = ("Formats of the weights: w8, w4, w4a or native (integers of the file as they are, "
              "the rest w8; the default), and KIND=FORMAT for head, attn or mlp.")


def choose_config(checkpoint: Checkpoint, policy: Policy, context: int | None) -> Config:
    """The smallest preset that the model fits; where its heads are too large for all of them, the
    smallest one that it fits with room for such heads.

    Raises
    ------
    HeadraceError
        With the reason of the largest one if none does.
    """
    positions = min(context or checkpoint.shape.context, checkpoint.shape.context)
    reasons = []
    for config in presets_for(checkpoint.shape).values():
        try:
            plan = plan_model(checkpoint, config, policy=policy)
        except HeadraceError as error:
            reasons.append(str(error))
            continue
        if plan.place(positions).end <= config.memory_bytes:
            return config
        reasons.append(f"{checkpoint.name} with {positions:,} positions needs "
                       f"{plan.place(positions).end:,} bytes, but the memory of {config.name} "
                       f"has {config.memory_bytes:,}; a context of "
                       f"{plan.largest_context():,} fits (--context)")
    raise HeadraceError(f"no preset fits: {reasons[-1]}")


@dataclass(frozen=True)
class Model:
    """A model that is ready to run.

    Attributes
    ----------
    image : Image
        Its image.
    tokenizer : Tokenizer or None
        Its tokenizer.
    no_tokenizer : str
        Why there is none.
    """

    image: Image
    tokenizer: Tokenizer | None
    no_tokenizer: str = "the image has none"

    def encode(self, text: str, instead: str) -> list[int]:
        """Ids of a text.

        Raises
        ------
        HeadraceError
            If there is no tokenizer; `instead` is the option to take then.
        """
        if self.tokenizer is None:
            raise HeadraceError(f"{self.image.model}: no tokenizer, so a text cannot be read: "
                                f"{self.no_tokenizer}; give {instead}")
        return self.tokenizer.encode(text)


def open_model(model: str, *, config: str | None, quant: str | None, context: int | None,
               notes: Console, most_context: int | None = None) -> Model:
    """Load an image, or compile a checkpoint.

    Parameters
    ----------
    model : str
        What the user named.
    config : str or None
        Configuration; the smallest preset that fits if None.
    quant : str or None
        See :func:`headrace.sw.policies.parse_policy`.
    context : int or None
        Positions of the cache.
    notes : Console
        Where progress is shown.
    most_context : int, optional
        Most positions where `context` is None.

    Raises
    ------
    HeadraceError
        If the model, or what was asked for, does not fit together.
    """
    chosen = None if config is None else load_config(config)
    policy = parse_policy(quant)
    path = find_model(model)
    if path.is_file() and is_image(path):
        return _loaded(path, chosen, quant, context)
    checkpoint = load_checkpoint(model)
    if context is None and most_context is not None:
        context = min(most_context, checkpoint.shape.context)
    chosen = chosen or choose_config(checkpoint, policy, context)
    with notes.status("compiling the model") as status:
        image = compile_model(checkpoint, chosen, policy=policy, context=context,
                              progress=lambda name: status.update(f"compiling {name}"))
    return Model(image, checkpoint.tokenizer, checkpoint.no_tokenizer)


def _loaded(path: Path, config: Config | None, quant: str | None, context: int | None) -> Model:
    image = load_image(path)
    for option, value in (("--quant", quant), ("--context", context)):
        if value is not None:
            raise HeadraceError(f"{path} is an image, in which {option} is decided: leave it out, "
                                f"or compile the model again")
    if config is not None and config.fingerprint != image.fingerprint:
        raise HeadraceError(f"{path} was compiled for configuration {image.config.name!r}, not for "
                            f"{config.name!r}: leave --config out, or compile the model again")
    return Model(image, image.tokenizer)
