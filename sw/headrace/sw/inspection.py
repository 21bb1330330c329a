"""Facts of a model: what it is, what its weights become, and which presets it fits."""

from collections import Counter
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any

from headrace.hw.config import Config
from headrace.hw.isa import Format, Op

from .checkpoint import Checkpoint, ModelShape, Tokenizer
from .compiler import Image, Plan, plan_model
from .compiler.weights import origin
from .errors import HeadraceError
from .presets import presets_for
from .quantiser import Policy


__all__ = ["inspect_checkpoint", "inspect_image"]


def _parameters(shape: ModelShape) -> int:
    total = 0
    for sizes in shape.tensors().values():
        product = 1
        for size in sizes:
            product *= size
        total += product
    return total


def _tokenizer(tokenizer: Tokenizer | None, missing: str) -> dict[str, Any]:
    if tokenizer is None:
        return {"missing": f"none: {missing}"}
    return {"kind": tokenizer.kind, "tokens": tokenizer.size,
            "chat_template": tokenizer.template is not None}


def _shape(shape: ModelShape) -> dict[str, Any]:
    """Dimensions, and the features that are not Llama's."""
    plain = {field.name: field.default for field in fields(shape)}
    return {key: value for key, value in asdict(shape).items()
            if key not in ("bos", "eos", "architecture")
            and (plain[key] is MISSING or value != plain[key])}


def _fit(checkpoint: Checkpoint, config: Config, policy: Policy) -> dict[str, Any]:
    """Whether a model fits a configuration, and for how many positions."""
    found: dict[str, Any] = {"memory_bytes": config.memory_bytes, "largest_context": 0,
                             "image_bytes": None, "chunk": None, "reason": None}
    try:
        plan = plan_model(checkpoint, config, policy=policy)
    except HeadraceError as error:
        return {**found, "reason": str(error)}
    places = plan.place(1)
    need = places.end - places.regions["cache"].size
    found |= {"image_bytes": need, "chunk": plan.sizes.chunk,
              "largest_context": plan.largest_context()}
    if not found["largest_context"]:
        found["reason"] = (f"{need:,} bytes without the cache, but memory_bytes is "
                           f"{config.memory_bytes:,}")
    return found


def _any_plan(checkpoint: Checkpoint, policy: Policy) -> Plan:
    """A plan whose formats and sizes without tile padding are those on every configuration."""
    reason: HeadraceError | None = None
    for config in reversed(presets_for(checkpoint.shape).values()):
        try:
            return plan_model(checkpoint, config, policy=policy)
        except HeadraceError as error:
            reason = reason or error
    assert reason is not None
    raise reason


def inspect_checkpoint(checkpoint: Checkpoint, policy: Policy) -> dict[str, Any]:
    """Facts of a checkpoint under a policy; no weight is read.

    Raises
    ------
    HeadraceError
        If no preset can run the model, whatever its memory.
    """
    shape, plan = checkpoint.shape, _any_plan(checkpoint, policy)
    stored = checkpoint.stored()
    types = {name: {"tensors": sum(kind == name for kind, _ in stored.values()),
                    "bytes": sum(size for kind, size in stored.values() if kind == name)}
             for name in sorted({kind for kind, _ in stored.values()})}
    parameters = _parameters(shape)
    kinds = Counter((spec.fmt.name.lower(), origin(checkpoint, plan.sizes, spec))
                    for spec in plan.specs.values())
    total = sum(size for _, size in stored.values())
    return {
        "name": checkpoint.name, "kind": checkpoint.kind, "file": str(checkpoint.path),
        "architecture": shape.architecture, "parameters": parameters, "file_bytes": total,
        "shape": _shape(shape), "types": types,
        "tokenizer": _tokenizer(checkpoint.tokenizer, checkpoint.no_tokenizer),
        "file_bits_per_weight": round(8 * total / parameters, 3),
        "matrices": [{"format": fmt, "origin": where, "count": count}
                     for (fmt, where), count in sorted(kinds.items())],
        "bits_per_weight": round(8 * plan.weight_bytes / plan.weights, 3),
        "weight_bytes_per_token": plan.weight_bytes,
        "cache_bytes_per_token": plan.token_cache_bytes,
        "presets": {name: _fit(checkpoint, config, policy)
                    for name, config in presets_for(shape).items()},
    }


def inspect_image(image: Image, path: Path) -> dict[str, Any]:
    """Facts of an image."""
    shape, config = image.shape, image.config
    formats = {code["addr"]: Format(code["fmt"]).name.lower() for code in image.program
               if code["op"] == Op.MATMUL}
    kinds = Counter((formats.get(image.parts[name].unit, "unused"), where)
                    for name, where in image.origins.items())
    values = sum(need.macs for need in image.matrix_needs())
    weight_bytes = image.least_bytes(0, 1, True)
    cache = shape.layers * shape.kv_heads * 2 * (image.sizes.head_dim + 2)
    rest = image.total_bytes - image.regions["cache"].size
    return {
        "name": image.model, "kind": "image", "file": str(path),
        "architecture": shape.architecture, "parameters": _parameters(shape),
        "file_bytes": path.stat().st_size,
        "shape": _shape(shape), "tokenizer": _tokenizer(image.tokenizer, "the image has none"),
        "matrices": [{"format": fmt, "origin": where, "count": count}
                     for (fmt, where), count in sorted(kinds.items())],
        "bits_per_weight": round(8 * weight_bytes / values, 3),
        "weight_bytes_per_token": weight_bytes, "cache_bytes_per_token": cache,
        "presets": {config.name: {
            "memory_bytes": config.memory_bytes, "largest_context": image.context,
            "image_bytes": rest, "chunk": image.chunk, "reason": None}},
    }
