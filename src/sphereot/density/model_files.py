"""Model files: tensors and a JSON description in one safetensors file, which is read without running code from it."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sphereot._support.atomic_write import reason_of, write_aside

__all__ = ["FORMAT", "as_tensor", "read_model", "write_model"]

FORMAT = "sphereot-density-1"


def write_model(path: str | os.PathLike[str], tensors: Mapping[str, Tensor], description: Mapping[str, Any]) -> Path:
    """Write tensors by name and a JSON-like description into one file; the write is atomic."""
    from safetensors.torch import save

    metadata = {"format": FORMAT, "description": json.dumps(description, default=_as_python)}
    # Bytes first: the library's own writing of a file raises errors of its own on a full disk.
    content = save({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, metadata)
    with write_aside(path) as aside:
        aside.write_bytes(content)
    return Path(path)


def read_model(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors and the description that `write_model` wrote.

    Raises
    ------
    ValueError
        For a file that is truncated or damaged, or is no model of sphereot.
    """
    from safetensors import SafetensorError, safe_open

    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(2, "there is no such model file", str(file))
    try:
        with safe_open(file, framework="pt") as opened:
            metadata = opened.metadata() or {}
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (not a dict)
    except SafetensorError as error:
        message = f"{file}: this is no complete model file ({reason_of(error)}); write it again with `density fit`."
        raise ValueError(message) from error
    if metadata.get("format") != FORMAT:
        raise ValueError(
            f"{file}: this safetensors file is no density model of sphereot (format {metadata.get('format')!r}, not "
            f"{FORMAT!r}); give a file that `density fit` wrote."
        )
    for name, tensor in tensors.items():
        if tensor.dtype not in (torch.float32, torch.float64) or not bool(torch.isfinite(tensor).all()):
            raise ValueError(
                f"{file}: this model file is damaged: {name!r} must hold finite numbers in float32 or float64; write "
                "it again with `density fit`."
            )
    try:
        description = json.loads(metadata["description"])
        if not isinstance(description, dict):
            raise ValueError("it is no object")
    except (KeyError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{file}: this model file has no description that can be read ({reason_of(error)}); write it "
            "again with `density fit`."
        ) from error
    return tensors, description


def as_tensor(values: Any) -> Tensor:
    """Copy the values of a NumPy array into a tensor."""
    return torch.as_tensor(values).clone()


def _as_python(value: Any) -> Any:
    """Convert a NumPy number for JSON: settings may come from a grid or a table."""
    if not hasattr(value, "tolist"):
        raise TypeError(f"{value!r} cannot be written to a model file; give a plain number or text.")
    return value.tolist()
