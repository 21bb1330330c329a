"""Models by name or path: built-in, fetched, a folder, a GGUF file, or a file of llama2.c."""

from importlib import resources
from pathlib import Path

from ..errors import HeadraceError
from ..fetch import FETCHABLE, fetched_file
from .folder import load_folder
from .gguf import load_gguf
from .llama2c import load_llama2c
from .model import Checkpoint


__all__ = ["BUILT_IN", "find_model", "load_checkpoint"]


#: Models that come with the package, by name.
BUILT_IN = ("demo",)

_EXPECTED = (f"a Hugging Face checkpoint folder, a .gguf file, a .bin file of llama2.c, or the "
             f"name of a model: {', '.join((*BUILT_IN, *FETCHABLE))}")


def find_model(model: str | Path) -> Path:
    """Folder or file of a model, given by its path or by its name.

    Raises
    ------
    HeadraceError
        If there is no such thing, or the model is yet to be fetched.
    """
    if str(model) in BUILT_IN:
        return Path(str(resources.files("headrace.sw") / "models" / str(model)))
    path = Path(model)
    if str(model) in FETCHABLE and not path.exists():
        file = fetched_file(str(model))
        if file is None:
            raise HeadraceError(f"model {str(model)!r} has not been fetched yet: run `headrace "
                                f"fetch {model}` first")
        return file
    if not path.exists():
        raise HeadraceError(f"model {str(model)!r} does not exist: expected {_EXPECTED}")
    return path


def load_checkpoint(model: str | Path) -> Checkpoint:
    """Open a checkpoint by its path or by the name of a model.

    Everything but the weights is read and checked; weights are read one by one when asked for.

    Raises
    ------
    HeadraceError
        If something is missing, damaged, not supported, or does not fit together.
    """
    path = find_model(model)
    if path.is_dir():
        return load_folder(path)
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise HeadraceError(f"{path}: cannot be read: {error.strerror}") from error
    if magic == b"GGUF" or path.suffix == ".gguf":
        checkpoint: Checkpoint = load_gguf(path)
    elif path.suffix == ".bin":
        checkpoint = load_llama2c(path)
    elif path.suffix == ".safetensors":
        raise HeadraceError(f"{path}: give its folder, {path.parent}, which holds config.json, "
                            f"too")
    else:
        raise HeadraceError(f"model {str(model)!r} is a file of an unknown kind: expected "
                            f"{_EXPECTED}")
    if str(model) in FETCHABLE:
        checkpoint.name = str(model)
    return checkpoint
