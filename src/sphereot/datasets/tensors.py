"""Arrays in .npy, .npz, .pt and .safetensors files. Nothing is ever unpickled: a file cannot run code here."""

import pickle
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sphereot.datasets.columns import choose
from sphereot.datasets.source import Batch, Source, Wanted

__all__ = ["open_npy", "open_npz", "open_pt", "open_safetensors"]


def open_npy(path: Path, wanted: Wanted) -> Source:
    """A NumPy array, mapped to memory; weights are one of its columns."""
    if wanted.key is not None:
        raise ValueError(f"{path}: key: a .npy file holds a single array; leave key (--key) out.")
    with _told(path, "a .npy array"):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    return _rows_of(path, array, wanted, None, "weights")


def open_npz(path: Path, wanted: Wanted) -> Source:
    """One array of a NumPy archive; weights are another array of it, or a column."""
    # Opened here, for np.load leaves a broken archive open.
    with _told(path, "a .npz archive"), path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        return _named(path, archive.files, wanted, archive.__getitem__)


def open_safetensors(path: Path, wanted: Wanted) -> Source:
    """One tensor of a safetensors file; weights are another, or a column."""
    try:
        from safetensors import safe_open
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{path}: such files are read by safetensors: pip install 'sphereot[data]'.", name=error.name
        ) from error

    with _told(path, "a safetensors file"), safe_open(path, "numpy") as file:

        def get(name: str) -> Any:
            if file.get_slice(name).get_dtype() != "BF16":
                return file.get_tensor(name)
            with safe_open(path, "pt") as tensors:  # a type that NumPy does not have
                return _from_torch(tensors.get_tensor(name))

        return _named(path, list(file.keys()), wanted, get)


def open_pt(path: Path, wanted: Wanted) -> Source:
    """A tensor that torch saved, or one of a dictionary of tensors; loaded with weights_only=True."""
    try:
        import torch
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{path}: .pt files are read by torch: pip install 'sphereot[torch]'.", name=error.name
        ) from error
    with _told(path, "a file of tensors"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of protocols before it refuses the file
        held = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    if isinstance(held, torch.Tensor):
        if wanted.key is not None:
            raise ValueError(f"{path}: key: the file holds a single tensor; leave key (--key) out.")
        return _rows_of(path, _from_torch(held), wanted, None, "weights")
    tensors = {k: v for k, v in held.items() if isinstance(v, torch.Tensor)} if isinstance(held, Mapping) else {}
    if not tensors:
        raise ValueError(f"{path}: holds a {type(held).__name__}, but a tensor or a dictionary of tensors is needed.")
    return _named(path, [str(k) for k in tensors], wanted, lambda name: _from_torch(tensors[name]))


def _named(path: Path, names: Sequence[str], wanted: Wanted, get: Callable[[str], Any]) -> Source:
    """The wanted array among several with names."""
    shown = ", ".join(repr(name) for name in names[:12])
    weights_key = wanted.weights if isinstance(wanted.weights, str) and wanted.weights in names else None
    if wanted.key is not None and wanted.key not in names:
        raise ValueError(f"{path}: key: there is no array {wanted.key!r}; there are {shown or 'none'}.")
    others = [name for name in names if name != weights_key]
    if wanted.key is None and len(others) != 1:
        raise ValueError(
            f"{path}: holds {len(others)} arrays ({shown or 'none'}); choose one with key (--key)."
            if others
            else f"{path}: there are no arrays in it."
        )
    weights = None if weights_key is None else np.asarray(get(weights_key))
    return _rows_of(path, get(wanted.key or others[0]), wanted, weights, weights_key or "weights")


def _rows_of(path: Path, array: Any, wanted: Wanted, weights: Any, weights_name: str) -> Source:
    if wanted.prefix is not None:
        raise ValueError(f"{path}: prefix: columns of an array have no names; number them with columns (--columns).")
    if array.ndim != 2:
        raise ValueError(f"{path}: shape is {tuple(array.shape)}, but points are rows of an array of shape (n, d).")
    _require_numbers(path, array.dtype, wanted)
    if weights is not None and (weights.shape != array.shape[:1] or weights.dtype.kind not in "fiu"):
        raise ValueError(
            f"{path}: weights: {weights_name!r} has shape {weights.shape} and dtype {weights.dtype}, but "
            f"{array.shape[0]} points need one number each, shape ({array.shape[0]},)."
        )
    names = [str(k) for k in range(array.shape[1])]
    places, column = choose(path, names, wanted if weights is None else replace(wanted, weights=None))
    as_it_is = column is None and places == list(range(array.shape[1]))
    kind = np.result_type(array.dtype, np.float16) if array.dtype.kind == "f" else np.dtype(np.float64)
    kind = kind if kind in (np.float16, np.float32, np.float64) else np.dtype(np.float64)
    step = wanted.rows_of(array.shape[1])

    def batches() -> Iterator[Batch]:
        for first in range(0, array.shape[0], step):
            some = array[first : first + step]
            own = some[:, column] if column is not None else None if weights is None else weights[first : first + step]
            values = np.asarray(some if as_it_is else some[:, places], dtype=kind)
            rows = range(first, first + len(values))
            yield Batch(values, None if own is None else own.astype(np.float64), rows)

    return Source(
        path,
        tuple(names[k] for k in places),
        wanted.lonlat,
        batches,
        locate=lambda row: f"row {row}",
        whole=array if as_it_is and array.dtype in (np.float32, np.float64) else None,
        weights_name=weights_name if column is None else f"column {names[column]}",
    )


def _require_numbers(path: Path, dtype: Any, wanted: Wanted) -> None:
    if dtype.kind == "f":
        return
    if dtype.kind in "iu" and (wanted.normalize or wanted.lonlat):
        return
    remedy = (
        "pass normalize=True (--normalize) if only directions matter" if dtype.kind in "iu" else "convert the array"
    )
    raise ValueError(f"{path}: dtype is {dtype}, but points are floating numbers; {remedy}.")


def _from_torch(tensor: Any) -> Any:
    import torch

    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    # float16 keeps its meaning, "rounded to half precision"; NumPy has no bfloat16, whose rows are as rough.
    return (tensor.detach().to(torch.float16) if tensor.dtype is torch.bfloat16 else tensor.detach()).numpy()


@contextmanager
def _told(path: Path, what: str) -> Iterator[None]:
    """Say in one line why a file is not `what`."""
    try:
        yield
    except (MemoryError, ImportError):
        raise
    # Readers of a damaged file end in every kind of error: of zip, zlib, tokens, indices, and in an OSError of a wild
    # seek. None of them is a fault of ours that would have to come through as it is, and each is kept as the cause.
    except Exception as error:
        text = str(error)
        if text.startswith(str(path)):
            raise
        if isinstance(error, pickle.UnpicklingError) or "pickle" in text.lower() or "Python objects" in text:
            raise ValueError(
                f"{path}: holds Python objects, which are never unpickled (they could run code); save plain numbers."
            ) from error
        raise ValueError(f"{path}: is not {what}, or is truncated ({_first_line(text)}).") from error


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0][:160] if text.strip() else "no more is known"
