"""Points in .npy, .npz, .pt and .safetensors files. Nothing is ever unpickled, so a file cannot run code.

A small file can declare a large array, so the declared size is compared with the size of the file before reading.
"""

import math
import mmap
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import numpy as np

from sphereot._support.extras import require
from sphereot.datasets.addresses import Source
from sphereot.datasets.rows import Batch, PointFile, Selection, choose, reading_errors, require_plausible_size

_SAFETENSORS_KINDS: dict[str, Any] = {
    "F16": np.float16,
    "F32": np.float32,
    "F64": np.float64,
    "BF16": np.float16,  # see _to_numpy
    **{f"{sign}{bits}": f"{sign.lower()}{bits // 8}" for sign in "IU" for bits in (8, 16, 32, 64)},
    "BOOL": np.bool_,
}


@dataclass(frozen=True)
class _StoredArray:
    """An array in a file. `blocks(step)` reads it in parts of `step` rows."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    blocks: Callable[[int], Iterator[np.ndarray[Any, Any]]]
    whole: np.ndarray[Any, Any] | None = None


def open_npy(source: Source, selection: Selection) -> PointFile:
    """Open a .npy file, mapped to memory. Weights are a column of the array."""
    _require_no_key(source, selection)
    with reading_errors(source, "is not a .npy array, or is truncated"):
        array = np.load(source.local, mmap_mode="r", allow_pickle=False)
    return _point_file(source, _mapped_array(array, selection.in_parts), selection, None, "weights")


def open_npz(source: Source, selection: Selection) -> PointFile:
    """Open an array of a .npz file. Weights are another array of the file, or a column."""
    with reading_errors(source, "is not a .npz archive, or is truncated"), zipfile.ZipFile(source.local) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        return _select_array(
            source, list(members), selection, lambda name: _npz_array(source, archive, members[name], selection)
        )


def open_safetensors(source: Source, selection: Selection) -> PointFile:
    """Open a tensor of a .safetensors file. Weights are another tensor of the file, or a column."""
    safe_open = require("safetensors", f"{source}: reading this type of file").safe_open
    with reading_errors(source, "is not a safetensors file, or is truncated"), safe_open(source.local, "numpy") as file:

        def stored(name: str) -> _StoredArray:
            tensor = file.get_slice(name)
            shape, kind = tuple(tensor.get_shape()), str(tensor.get_dtype())
            if kind not in _SAFETENSORS_KINDS:
                raise ValueError(f"{source}: {name!r} must contain numbers, got dtype {kind}. Convert it to F32 first.")

            def blocks(step: int) -> Iterator[np.ndarray[Any, Any]]:
                for first in range(0, shape[0], step):
                    # Opened again for each block, so the pages read before do not stay mapped.
                    with (
                        reading_errors(source, "is not a safetensors file, or is truncated"),
                        safe_open(source.local, "pt" if kind == "BF16" else "numpy") as reopened,
                    ):
                        block = reopened.get_slice(name)[first : min(first + step, shape[0])]
                        yield _to_numpy(block) if kind == "BF16" else block

            return _StoredArray(shape, np.dtype(_SAFETENSORS_KINDS[kind]), blocks)

        return _select_array(source, list(file.keys()), selection, stored)


def open_pt(source: Source, selection: Selection) -> PointFile:
    """Open a .pt file with a tensor or a dictionary of tensors."""
    torch = require("torch", f"{source}: reading this type of file")
    with reading_errors(source, "is not a file of tensors, or is truncated"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about pickle protocols before it rejects the file
        zipped = zipfile.is_zipfile(source.local)
        if zipped:
            with zipfile.ZipFile(source.local) as archive:
                for info in archive.infolist():
                    require_plausible_size(source, info.filename, info.file_size, info.compress_size)
        with torch.sparse.check_sparse_tensor_invariants():  # otherwise torch writes to indices out of range
            content = torch.load(source.local, map_location="cpu", weights_only=True, mmap=zipped)
    if isinstance(content, torch.Tensor):
        _require_no_key(source, selection)
        return _point_file(source, _torch_array(source, "the tensor", content, selection), selection, None, "weights")
    items = content.items() if isinstance(content, Mapping) else ()
    named = [(str(key), tensor) for key, tensor in items if isinstance(tensor, torch.Tensor)]
    if not named:
        raise ValueError(f"{source}: must hold a tensor or a dictionary of tensors, got {type(content).__name__}.")
    tensors = dict(named)
    if len(tensors) < len(named):
        names = [name for name, _ in named]
        duplicate = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{source}: two keys are written {duplicate!r}. Give them different names.")
    return _select_array(
        source, list(tensors), selection, lambda name: _torch_array(source, repr(name), tensors[name], selection)
    )


def _require_no_key(source: Source, selection: Selection) -> None:
    if selection.key is not None:
        raise ValueError(f"{source}: holds a single array, got key={selection.key!r}. Leave out key (--key).")


def _select_array(
    source: Source, names: Sequence[str], selection: Selection, get: Callable[[str], _StoredArray]
) -> PointFile:
    """Select an array by name."""
    listed = ", ".join(repr(name) for name in names[:12]) or "none"
    weights_key = selection.weights if isinstance(selection.weights, str) and selection.weights in names else None
    if selection.key is not None and selection.key not in names:
        raise ValueError(f"{source}: key: there is no array {selection.key!r}. There are {listed}.")
    others = [name for name in names if name != weights_key]
    if selection.key is None and len(others) != 1:
        raise ValueError(f"{source}: must hold a single array, got {listed}. Choose one with key (--key).")
    weights = None if weights_key is None else get(weights_key)
    return _point_file(source, get(selection.key or others[0]), selection, weights, weights_key or "weights")


def _point_file(
    source: Source, array: _StoredArray, selection: Selection, weights: _StoredArray | None, weights_name: str
) -> PointFile:
    if selection.prefix is not None:
        raise ValueError(f"{source}: columns of an array have no names for prefix. Give their numbers with columns.")
    if len(array.shape) != 2:
        raise ValueError(f"{source}: the array must have shape (n, d), got {array.shape}.")
    is_integer = array.dtype.kind in "iu"
    if array.dtype.kind != "f" and not (is_integer and (selection.normalize or selection.lonlat)):
        remedy = "Pass normalize=True (--normalize) if only directions matter" if is_integer else "Convert the array"
        raise ValueError(f"{source}: the dtype must be floating, got {array.dtype}. {remedy}.")
    if weights is not None and (weights.shape != array.shape[:1] or weights.dtype.kind not in "fiu"):
        raise ValueError(
            f"{source}: the weights {weights_name!r} must be numbers of shape ({array.shape[0]},), got dtype "
            f"{weights.dtype} and shape {weights.shape}."
        )
    names = [str(k) for k in range(array.shape[1])]
    indices, column = choose(source, names, selection if weights is None else replace(selection, weights=None))
    all_columns = column is None and indices == list(range(array.shape[1]))
    kind = np.result_type(array.dtype, np.float16) if array.dtype.kind == "f" else np.dtype(np.float64)
    kind = kind if kind in (np.float16, np.float32, np.float64) else np.dtype(np.float64)
    step = selection.rows_per_batch(array.shape[1])

    def batches() -> Iterator[Batch]:
        first = 0
        masses = repeat(None) if weights is None else weights.blocks(step)
        for block, mass in zip(array.blocks(step), masses, strict=weights is not None):
            stored = mass if column is None else block[:, column]
            with np.errstate(over="ignore", invalid="ignore"):  # an overflow is infinite, which is an error later
                values = np.require(block if all_columns else block[:, indices], kind, "A")
                batch_weights = None if stored is None else stored.astype(np.float64)
            yield Batch(values, batch_weights, range(first, first + len(values)))
            first += len(values)

    usable_whole = array.whole is not None and array.whole.flags.aligned and array.dtype in (np.float32, np.float64)
    return PointFile(
        source,
        tuple(names[k] for k in indices),
        selection.lonlat,
        batches,
        locate=lambda row: f"row {row}",
        whole=array.whole if all_columns and usable_whole else None,
        weights_name=weights_name if column is None else f"column {names[column]}",
    )


# ---- arrays of each format ----


def _mapped_array(array: np.ndarray[Any, Any], in_parts: bool) -> _StoredArray:
    def blocks(step: int) -> Iterator[np.ndarray[Any, Any]]:
        for first in range(0, array.shape[0], step):
            yield array[first : first + step]
            # Pages that were read are memory of the process until they are released.
            if in_parts and isinstance(array.base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
                array.base.madvise(mmap.MADV_DONTNEED)

    return _StoredArray(array.shape, array.dtype, blocks, array)


def _npz_array(source: Source, archive: zipfile.ZipFile, info: zipfile.ZipInfo, selection: Selection) -> _StoredArray:
    with archive.open(info) as member:
        version = np.lib.format.read_magic(member)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"version {version} of the .npy format is not for plain numbers")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(member)
        data_offset = member.tell()
    if dtype.hasobject:
        raise ValueError("Python objects")
    declared, stored = math.prod(shape) * dtype.itemsize, info.file_size - data_offset
    if declared != stored:
        raise ValueError(f"an array of shape {shape} and dtype {dtype} needs {declared} bytes, but there are {stored}")
    at_once = fortran and len(shape) > 1  # rows are not contiguous
    if at_once or not selection.in_parts:
        require_plausible_size(source, info.filename, info.file_size, info.compress_size)

    def blocks(step: int) -> Iterator[np.ndarray[Any, Any]]:
        with (
            reading_errors(source, "is not a .npz archive, or is truncated"),
            zipfile.ZipFile(source.local) as reopened,
            reopened.open(info.filename) as member,
        ):
            member.read(data_offset)
            if at_once:
                array = _read_array(member, shape[::-1], dtype).T
                yield from (array[first : first + step] for first in range(0, shape[0], step))
                return
            for first in range(0, shape[0], step):
                yield _read_array(member, (min(step, shape[0] - first), *shape[1:]), dtype)

    return _StoredArray(shape, dtype, blocks)


def _read_array(member: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Read the next array in C order from a stream."""
    array = np.empty(shape, dtype)
    view = array.reshape(-1).view(np.uint8)
    filled = 0
    while filled < len(view):
        count = member.readinto(view[filled:].data)
        if not count:
            raise ValueError("the data end early")
        filled += count
    return array


def _torch_array(source: Source, name: str, tensor: Any, selection: Selection) -> _StoredArray:
    import torch

    strided = tensor.layout is torch.strided
    if not (strided and selection.in_parts):  # repeated values and the zeros of sparse tensors are not in the file
        require_plausible_size(source, name, tensor.numel() * tensor.element_size(), source.local.stat().st_size)
    try:
        dense = tensor.detach() if strided else tensor.detach().to_dense()
        dtype = _to_numpy(dense[:0] if dense.ndim else dense).dtype
    except (TypeError, RuntimeError, ValueError, NotImplementedError) as error:
        raise ValueError(
            f"{source}: {name} has dtype {tensor.dtype}, layout {tensor.layout} and device {tensor.device}, which "
            "cannot be read as an array of numbers. Save it with .cpu().float()."
        ) from error

    def blocks(step: int) -> Iterator[np.ndarray[Any, Any]]:
        for first in range(0, dense.shape[0], step):
            yield _to_numpy(dense[first : first + step])

    whole = _to_numpy(dense) if dtype in (np.float32, np.float64) and dense.dtype is not torch.bfloat16 else None
    return _StoredArray(tuple(dense.shape), dtype, blocks, whole)


def _to_numpy(tensor: Any) -> Any:
    import torch

    # NumPy has no bfloat16. As float16, its rows get the tolerance of half precision.
    return (tensor.to(torch.float16) if tensor.dtype is torch.bfloat16 else tensor).numpy()
