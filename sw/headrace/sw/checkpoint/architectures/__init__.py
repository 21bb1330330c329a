"""Architectures: what the fields of a model's file mean, one small file each.

An architecture turns a `config.json`, or the metadata of a GGUF file, into fields of
:class:`~headrace.sw.checkpoint.shape.ModelShape`. A new one that is made of the same features
needs a file here and a line in :data:`ARCHITECTURES`.
"""

from .gemma2 import GEMMA2
from .gemma3 import GEMMA3
from .kind import Architecture, GGUFForm
from .llama import LLAMA
from .mistral import MISTRAL
from .qwen2 import QWEN2
from .qwen3 import QWEN3
from .smollm3 import SMOLLM3


__all__ = ["ARCHITECTURES", "GGUF_FORMS", "Architecture", "GGUFForm"]


#: Every architecture by the name of its class in Hugging Face's `config.json`.
ARCHITECTURES: dict[str, Architecture] = {
    architecture.name: architecture
    for architecture in (LLAMA, MISTRAL, QWEN2, QWEN3, SMOLLM3, GEMMA2, GEMMA3)
}

#: Every form of GGUF files by its `general.architecture`.
GGUF_FORMS: dict[str, GGUFForm] = {
    architecture.gguf.name: architecture.gguf
    for architecture in ARCHITECTURES.values() if architecture.gguf
}
