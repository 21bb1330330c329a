"""The commands, gathered."""

from importlib.metadata import version
from typing import Annotated

import typer

from . import (
    bench,
    boards,
    build,
    cache,
    chat,
    configs,
    doctor,
    eval,
    export,
    fetch,
    flash,
    inspect,
    quantise,
    run,
    speed,
    synth,
    verilog,
)


__all__ = ["app"]


app = typer.Typer(
    no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]}, rich_markup_mode=None,
    help="Run and generate accelerators for LLM inference: a checkpoint becomes an image, a "
         "configuration becomes RTL, and the two produce text, bit for bit as the golden machine.")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"headrace {version('headrace')}")
        raise typer.Exit


@app.callback()
def _main(show_version: Annotated[bool, typer.Option(
        "--version", callback=_version, is_eager=True, help="Print the version.")] = False):
    pass


app.command("run")(run.run)
app.command("chat")(chat.chat)
app.command("fetch")(fetch.fetch_model)
app.command("quantise")(quantise.quantise)
app.command("export")(export.export)
app.command("inspect")(inspect.inspect)
app.command("bench")(bench.bench)
app.command("speed")(speed.speed)
app.command("verilog")(verilog.verilog)
app.command("synth")(synth.synth)
app.command("boards")(boards.boards)
app.command("build")(build.build)
app.command("flash")(flash.flash)
app.command("configs")(configs.configs)
app.command("doctor")(doctor.doctor)
app.command("eval")(eval.evaluate)
app.command("cache")(cache.cache)
