"""Generated text as it comes, and the options of how it is chosen."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from ..checkpoint import TextStream, Tokenizer
from ..errors import HeadraceError
from ..sampling import Sampler, Sampling
from ..stopping import StopText


__all__ = ["MinP", "Output", "Penalty", "Seed", "Stop", "Temperature", "TopK", "TopP",
           "make_sampler"]


Temperature = Annotated[float, typer.Option(
    metavar="T", help="Divides logits before a token is drawn; 0 takes the greatest, on the "
    "device.")]
TopK = Annotated[int, typer.Option(
    "--top-k", metavar="K", help="Draw from the K most probable tokens; 0 for all.")]
TopP = Annotated[float, typer.Option(
    "--top-p", metavar="P", help="Of these, from the fewest with this probability together.")]
MinP = Annotated[float, typer.Option(
    "--min-p", metavar="P", help="Of these, from those this many times as probable as the first.")]
Penalty = Annotated[float, typer.Option(
    "--repetition-penalty", metavar="F", help="Before all that, divides positive logits of tokens "
    "that the text has, and multiplies negative ones.")]
Seed = Annotated[int | None, typer.Option(
    metavar="N", help="Seed of the draws; a fresh one by default, which --json shows.")]
Stop = Annotated[list[str] | None, typer.Option(
    metavar="TEXT", help="Text that ends the answer, and is not shown; may be given again.")]


def make_sampler(temperature: float, top_k: int, top_p: float, min_p: float, penalty: float,
                 seed: int | None) -> Sampler:
    """The sampler of the options above.

    Raises
    ------
    HeadraceError
        If a value is out of its range, or says what a temperature of 0 ignores.
    """
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p,
                        repetition_penalty=penalty)
    if temperature == 0 and (top_k, top_p, min_p, seed) != (0, 1.0, 0.0, None):
        raise HeadraceError("--top-k, --top-p, --min-p and --seed choose among several tokens, but "
                            "a temperature of 0 takes the greatest logit: give --temperature, "
                            "0.8 for example")
    return Sampler(sampling, seed)


class Output:
    """Text as it comes, or ids where there is no tokenizer.

    Parameters
    ----------
    tokenizer : Tokenizer or None
        Turns tokens into text.
    prompt : list of int
        What comes before.
    echo : bool
        Show the prompt, too.
    stop : sequence of str
        Strings that end the text; they need a tokenizer.

    Attributes
    ----------
    text : str
        What was generated, without the prompt.
    """

    def __init__(self, tokenizer: Tokenizer | None, prompt: list[int], *, echo: bool = True,
                 stop: Sequence[str] = ()):
        self._stop = StopText(stop)
        if tokenizer is None and stop:
            raise HeadraceError("--stop needs a tokenizer, and the model has none")
        self._stream = None if tokenizer is None else TextStream(tokenizer)
        self.text = ""
        if self._stream is not None:
            for token in prompt:
                piece = self._stream.push(token)
                if echo:
                    self._write(piece)

    @property
    def stopped(self) -> bool:
        """A stop string has ended the text."""
        return self._stop.stopped

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def _show(self, piece: str) -> None:
        self.text += piece
        self._write(piece)

    def push(self, token: int) -> None:
        """Show one generated token."""
        piece = f"{token} " if self._stream is None else self._stream.push(token)
        self._show(self._stop.push(piece))

    def finish(self) -> None:
        """Show what was held back when no token follows."""
        if self._stream is not None:
            self._show(self._stop.push(self._stream.finish()))
        self._show(self._stop.finish())
