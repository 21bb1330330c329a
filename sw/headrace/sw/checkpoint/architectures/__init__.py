"""Architectures: what the fields of a `config.json` mean, one small file each.

An architecture turns a file into fields of :class:`~headrace.sw.checkpoint.shape.ModelShape`. A
new one that is made of the same features needs a file here and a line in :data:`ARCHITECTURES`.
"""

from .gemma2 import GEMMA2
from .gemma3 import GEMMA3
from .kind import Architecture
from .llama import LLAMA
from .mistral import MISTRAL
from .qwen2 import QWEN2
from .qwen3 import QWEN3
from .smollm3 import SMOLLM3


__all__ = ["ARCHITECTURES", "Architecture"]


#: Every architecture by the name of its class in Hugging Face's `config.json`.
ARCHITECTURES: dict[str, Architecture] = {
    architecture.name: architecture
    for architecture in (LLAMA, MISTRAL, QWEN2, QWEN3, SMOLLM3, GEMMA2, GEMMA3)
}
