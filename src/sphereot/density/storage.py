"""Model files: tensors and JSON in one safetensors file, which is read without running any code from it."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sphereot._files import write_aside

__all__ = ["FORMAT", "as_tensor", "read_model", "write_model"]

FORMAT = "sphereot-density-1"


def write_model(path: str | os.PathLike[str], tensors: Mapping[str, Tensor], description: Mapping[str, Any]) -> Path:
    """Write tensors by name and a description, as JSON has it, into one file; it is there whole or not at all."""
    from safetensors.torch import save_file

    metadata = {"format": FORMAT, "description": json.dumps(description)}
    with write_aside(path) as aside:
        save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, aside, metadata)
    return Path(path)


def read_model(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the description that `write_model` wrote.

    Raises
    ------
    ValueError
        For a file that is truncated or is no model of sphereot.
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
        message = f"{file}: this is no complete model file ({error}); write it again with `density fit`."
        raise ValueError(message) from error
    if metadata.get("format") != FORMAT:
        raise ValueError(
            f"{file}: this safetensors file is no density model of sphereot (format {metadata.get('format')!r}, not "
            f"{FORMAT!r}); give a file that `density fit` wrote."
        )
    return tensors, json.loads(metadata["description"])


def as_tensor(values: Any) -> Tensor:
    """Values of a NumPy array as a tensor of their own."""
    return torch.as_tensor(values).clone()
