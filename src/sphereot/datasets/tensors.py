"""Arrays in .npy, .npz, .pt and .safetensors files. Nothing is ever unpickled: a file cannot run code here.

A small file can declare a large array. The declared size is compared with what the file holds before anything is read.
"""

import errno
import math
import mmap
import pickle
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from sphereot.datasets.columns import choose
from sphereot.datasets.point_file import Batch, Source, Wanted, require_in_proportion

__all__ = ["open_npy", "open_npz", "open_pt", "open_safetensors"]

_SAFETENSORS_KINDS: dict[str, Any] = {
    "F16": np.float16,
    "F32": np.float32,
    "F64": np.float64,
    "BF16": np.float16,  # see _to_numpy
    **{f"{sign}{bits}": f"{sign.lower()}{bits // 8}" for sign in "IU" for bits in (8, 16, 32, 64)},
    "BOOL": np.bool_,
}


@dataclass(frozen=True)
class _Rows:
    """The rows of an array in a file; `blocks(step)` reads `step` of them at a time, from the first to the last."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    blocks: Callable[[int], Iterator[np.ndarray[Any, Any]]]
    whole: np.ndarray[Any, Any] | None = None


def open_npy(path: Path, wanted: Wanted) -> Source:
    """A NumPy array, mapped to memory; weights are one of its columns."""
    if wanted.key is not None:
        raise ValueError(f"{path}: key: a .npy file holds a single array; leave key (--key) out.")
    with _told(path, "a .npy array"):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    return _source(path, _mapped_rows(array, wanted.in_parts), wanted, None, "weights")


def open_npz(path: Path, wanted: Wanted) -> Source:
    """One array of a NumPy archive; weights are another array of it, or a column."""
    with _told(path, "a .npz archive"), zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        return _named(path, list(members), wanted, lambda name: _npz_rows(path, archive, members[name], wanted))


def open_safetensors(path: Path, wanted: Wanted) -> Source:
    """One tensor of a safetensors file; weights are another, or a column."""
    try:
        from safetensors import safe_open
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{path}: such files are read by safetensors: pip install 'sphereot[data]'.", name=error.name
        ) from error

    with _told(path, "a safetensors file"), safe_open(path, "numpy") as file:

        def rows(name: str) -> _Rows:
            tensor = file.get_slice(name)
            shape, kind = tuple(tensor.get_shape()), str(tensor.get_dtype())
            if kind not in _SAFETENSORS_KINDS:
                raise ValueError(
                    f"{path}: {name!r} has dtype {kind}, but points are floating numbers; convert it to F32 first."
                )

            def blocks(step: int) -> Iterator[np.ndarray[Any, Any]]:
                for first in range(0, shape[0], step):
                    # Opened anew for each block, so that the pages read so far do not stay mapped.
                    with (
                        _told(path, "a safetensors file"),
                        safe_open(path, "pt" if kind == "BF16" else "numpy") as again,
                    ):
                        block = again.get_slice(name)[first : min(first + step, shape[0])]
                        yield _to_numpy(block) if kind == "BF16" else block

            return _Rows(shape, np.dtype(_SAFETENSORS_KINDS[kind]), blocks)

        return _named(path, list(file.keys()), wanted, rows)


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
        zipped = zipfile.is_zipfile(path)
        if zipped:
            with zipfile.ZipFile(path) as archive:
                for info in archive.infolist():
                    require_in_proportion(path, info.filename, info.file_size, info.compress_size)
        with torch.sparse.check_sparse_tensor_invariants():  # indices that lie outside would be written to memory
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
    if isinstance(content, torch.Tensor):
        if wanted.key is not None:
            raise ValueError(f"{path}: key: the file holds a single tensor; leave key (--key) out.")
        return _source(path, _torch_rows(path, "the tensor", content, wanted), wanted, None, "weights")
    items = content.items() if isinstance(content, Mapping) else ()
    named = [(str(key), tensor) for key, tensor in items if isinstance(tensor, torch.Tensor)]
    if not named:
        raise ValueError(
            f"{path}: holds a {type(content).__name__}, but a tensor or a dictionary of tensors is needed."
        )
    names = [name for name, _ in named]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{path}: two keys are written {twice!r}; give them different names.")
    tensors = dict(named)
    return _named(path, names, wanted, lambda name: _torch_rows(path, repr(name), tensors[name], wanted))


def _named(path: Path, names: Sequence[str], wanted: Wanted, get: Callable[[str], _Rows]) -> Source:
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
    weights = None if weights_key is None else get(weights_key)
    return _source(path, get(wanted.key or others[0]), wanted, weights, weights_key or "weights")


def _source(path: Path, array: _Rows, wanted: Wanted, weights: _Rows | None, weights_name: str) -> Source:
    if wanted.prefix is not None:
        raise ValueError(f"{path}: prefix: columns of an array have no names; number them with columns (--columns).")
    if len(array.shape) != 2:
        raise ValueError(f"{path}: shape is {array.shape}, but points are rows of an array of shape (n, d).")
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
        first = 0
        masses = repeat(None) if weights is None else weights.blocks(step)
        for block, mass in zip(array.blocks(step), masses, strict=weights is not None):
            own = mass if column is None else block[:, column]
            with np.errstate(over="ignore", invalid="ignore"):  # what does not fit is infinite, and refused as such
                values = np.require(block if as_it_is else block[:, places], kind, "A")
                given = None if own is None else own.astype(np.float64)
            yield Batch(values, given, range(first, first + len(values)))
            first += len(values)

    usable_whole = array.whole is not None and array.whole.flags.aligned and array.dtype in (np.float32, np.float64)
    return Source(
        path,
        tuple(names[k] for k in places),
        wanted.lonlat,
        batches,
        locate=lambda row: f"row {row}",
        whole=array.whole if as_it_is and usable_whole else None,
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


# ---- rows of each format ----


def _mapped_rows(array: np.ndarray[Any, Any], in_parts: bool) -> _Rows:
    def blocks(step: int) -> Iterator[np.ndarray[Any, Any]]:
        for first in range(0, array.shape[0], step):
            yield array[first : first + step]
            # Pages that were read count as memory of the process until they are let go.
            if in_parts and isinstance(array.base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
                array.base.madvise(mmap.MADV_DONTNEED)

    return _Rows(array.shape, array.dtype, blocks, array)


def _npz_rows(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, wanted: Wanted) -> _Rows:
    with archive.open(info) as member:
        shape, fortran, dtype = _npy_header(member)
        begin = member.tell()
    declared, held = math.prod(shape) * dtype.itemsize, info.file_size - begin
    if declared != held:
        raise ValueError(f"an array of shape {shape} and dtype {dtype} takes {declared} bytes, but there are {held}")
    at_once = fortran and len(shape) > 1  # rows are not one after the other
    if at_once or not wanted.in_parts:
        require_in_proportion(path, info.filename, info.file_size, info.compress_size)

    def blocks(step: int) -> Iterator[np.ndarray[Any, Any]]:
        with _told(path, "a .npz archive"), zipfile.ZipFile(path) as again, again.open(info.filename) as member:
            member.read(begin)
            if at_once:
                array = _read_array(member, shape[::-1], dtype).T
                yield from (array[first : first + step] for first in range(0, shape[0], step))
                return
            for first in range(0, shape[0], step):
                yield _read_array(member, (min(step, shape[0] - first), *shape[1:]), dtype)

    return _Rows(shape, dtype, blocks)


def _npy_header(member: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether in Fortran order, and dtype."""
    version = np.lib.format.read_magic(member)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"version {version} of the .npy format is not one of plain numbers")
    shape, fortran, dtype = read(member)
    if dtype.hasobject:
        raise ValueError("Python objects")
    return shape, fortran, dtype


def _read_array(member: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    array = np.empty(shape, dtype)
    view = array.reshape(-1).view(np.uint8)
    filled = 0
    while filled < len(view):
        count = member.readinto(view[filled:].data)
        if not count:
            raise ValueError("the data end early")
        filled += count
    return array


def _torch_rows(path: Path, name: str, tensor: Any, wanted: Wanted) -> _Rows:
    import torch

    strided = tensor.layout is torch.strided
    if not (strided and wanted.in_parts):  # values that a tensor repeats or leaves out are not in the file
        require_in_proportion(path, name, tensor.numel() * tensor.element_size(), path.stat().st_size)
    try:
        dense = tensor.detach() if strided else tensor.detach().to_dense()
        dtype = _to_numpy(dense[:0] if dense.ndim else dense).dtype
    except (TypeError, RuntimeError, ValueError, NotImplementedError) as error:
        raise ValueError(
            f"{path}: {name} has dtype {tensor.dtype}, layout {tensor.layout} and device {tensor.device}, which cannot "
            "be read as an array of numbers; save it with .cpu().float()."
        ) from error

    def blocks(step: int) -> Iterator[np.ndarray[Any, Any]]:
        for first in range(0, dense.shape[0], step):
            yield _to_numpy(dense[first : first + step])

    whole = _to_numpy(dense) if dtype in (np.float32, np.float64) and dense.dtype is not torch.bfloat16 else None
    return _Rows(tuple(dense.shape), dtype, blocks, whole)


def _to_numpy(tensor: Any) -> Any:
    import torch

    # float16 keeps its meaning, "rounded to half precision"; NumPy has no bfloat16, whose rows are as rough.
    return (tensor.to(torch.float16) if tensor.dtype is torch.bfloat16 else tensor).numpy()


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
        if isinstance(error, OSError) and error.errno == errno.ENOMEM:
            raise MemoryError(f"{path}: there is not enough memory to map it.") from error
        if text.startswith(str(path)):
            raise
        if isinstance(error, pickle.UnpicklingError) or "pickle" in text.lower() or "Python objects" in text:
            raise ValueError(
                f"{path}: holds Python objects, which are never unpickled (they could run code); save plain numbers."
            ) from error
        raise ValueError(f"{path}: is not {what}, or is truncated ({_first_line(text)}).") from error


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0][:160] if text.strip() else "no more is known"
