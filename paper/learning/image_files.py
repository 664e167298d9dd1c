"""Read labeled images from files: .npz archives, gzipped idx files (MNIST) and the binary archive of CIFAR10.

Nothing is unpickled. Errors name the file, what is wrong with it, and what to do.
"""

import gzip
import math
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sphereot._support.atomic_write import reason_of
from sphereot._support.text import plural

_ARRAYS = ("x_train", "y_train", "x_test", "y_test")
_ALWAYS_ALLOWED_BYTES = 1 << 28
_MAX_COMPRESSION = 100  # images do not compress to a hundredth
_IDX_UINT8 = 8  # the code of the data type in the header of an idx file
_CIFAR_FOLDER = "cifar-10-batches-bin"
_CIFAR_TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
_CIFAR_TEST = "test_batch.bin"
_CIFAR_SHAPE = (3, 32, 32)
_CIFAR_CLASSES = 10


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images with labels.

    Attributes
    ----------
    images : array, shape (n, channels, height, width)
        Pixels in [0, 1], float32.
    labels : array, shape (n,)
        Classes, counted from 0, int64.
    """

    images: np.ndarray[Any, Any]
    labels: np.ndarray[Any, Any]

    def __len__(self) -> int:
        return len(self.images)


def read_npz(path: Path) -> tuple[ImageSet, ImageSet]:
    """Read the train and test sets of a .npz archive; see `paper.learning.images.read_images`."""
    with (
        path.open("rb") as file,
        _reading_errors(path, "a .npz archive", "save the arrays again with numpy.savez"),
        zipfile.ZipFile(file) as archive,
    ):
        members = {info.filename: info for info in archive.infolist()}
        missing = [name for name in _ARRAYS if f"{name}.npy" not in members]
        if missing:
            raise ValueError(f"{path}: has no {', '.join(missing)}; it needs the arrays {', '.join(_ARRAYS)}.")
        arrays = {name: _npz_array(path, archive, members[f"{name}.npy"]) for name in _ARRAYS}
    if arrays["x_train"].shape[1:] != arrays["x_test"].shape[1:]:
        raise ValueError(
            f"{path}: x_train has shape {arrays['x_train'].shape}, but x_test {arrays['x_test'].shape}; images of one "
            "size are needed."
        )
    train, test = (
        ImageSet(
            _as_images(path, f"x_{part}", arrays[f"x_{part}"]),
            _as_labels(path, f"y_{part}", arrays[f"y_{part}"], len(arrays[f"x_{part}"])),
        )
        for part in ("train", "test")
    )
    return train, test


def read_idx_sets(
    train_images: Path, train_labels: Path, test_images: Path, test_labels: Path
) -> tuple[ImageSet, ImageSet]:
    """Read train and test sets, each from a gzipped idx file of gray images and one of labels."""
    return _idx_set(train_images, train_labels), _idx_set(test_images, test_labels)


def read_idx(path: Path, ndim: int) -> np.ndarray[Any, Any]:
    """Read a gzipped idx file of bytes.

    Its header has two zero bytes, the data type (8: unsigned bytes), the number of dimensions, and the size of each
    dimension as a big-endian integer of four bytes. The data follow in C order.

    Parameters
    ----------
    path : Path
    ndim : int
        The number of dimensions that the file must have.

    Returns
    -------
    array, uint8
    """
    with path.open("rb") as file, _reading_errors(path, "a gzip file", "get it again"):
        content = gzip.GzipFile(fileobj=file).read()
    header = 4 * (1 + ndim)
    expected = bytes([0, 0, _IDX_UINT8, ndim])
    if content[:4] != expected:
        raise ValueError(
            f"{path}: begins with the bytes {content[:4].hex()}, but an idx file of bytes with "
            f"{plural(ndim, 'dimension')} begins with {expected.hex()}; get it again."
        )
    if len(content) < header:
        raise ValueError(f"{path}: ends after {len(content)} of the {header} bytes of its header; get it again.")
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", ndim, offset=4))
    if len(content) - header != math.prod(shape):
        raise ValueError(
            f"{path}: has {len(content) - header:,} bytes of data, but {math.prod(shape):,} for its shape {shape} are "
            "expected; get it again."
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def read_cifar(path: Path) -> tuple[ImageSet, ImageSet]:
    """Read the train and test sets of cifar-10-binary.tar.gz.

    Each of its .bin files is a sequence of records: the label in one byte, then the red, green and blue values of
    32 x 32 pixels in 3072 bytes.
    """
    wanted = {f"{_CIFAR_FOLDER}/{name}": name for name in (*_CIFAR_TRAIN, _CIFAR_TEST)}
    contents = {}
    with (
        path.open("rb") as file,
        _reading_errors(path, "a .tar.gz archive", "get it again"),
        tarfile.open(fileobj=file, mode="r:gz") as archive,
    ):
        for member in archive:  # in the order of the archive, so that it is unpacked only once
            if member.name in wanted and member.isfile():
                data = archive.extractfile(member)
                assert data is not None
                contents[wanted[member.name]] = data.read()
    missing = [name for name in wanted.values() if name not in contents]
    if missing:
        raise ValueError(f"{path}: has no {', '.join(missing)} in {_CIFAR_FOLDER}; get it again.")
    train = np.concatenate([_cifar_records(path, name, contents[name]) for name in _CIFAR_TRAIN])
    return _cifar_set(train), _cifar_set(_cifar_records(path, _CIFAR_TEST, contents[_CIFAR_TEST]))


def _npz_array(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray[Any, Any]:
    if info.file_size > max(_ALWAYS_ALLOWED_BYTES, _MAX_COMPRESSION * info.compress_size):
        raise ValueError(
            f"{path}: {info.filename} takes {info.file_size / 1e6:,.0f} MB in memory, more than {_MAX_COMPRESSION} "
            f"times its {info.compress_size / 1e6:,.3f} MB in the file, which may be made to exhaust memory; if it is "
            "right, save it uncompressed with numpy.savez."
        )
    with archive.open(info) as member:
        return np.asarray(np.lib.format.read_array(member, allow_pickle=False))


def _as_images(path: Path, name: str, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Images of shape (n, channels, height, width) in [0, 1], float32, from a file's array."""
    if x.ndim not in (3, 4) or (x.ndim == 4 and x.shape[3] not in (1, 3)):
        raise ValueError(
            f"{path}: {name} has shape {x.shape}, but (n, height, width) for gray or (n, height, width, 3) for color "
            "images is needed; reorder its axes."
        )
    if not x.size:
        raise ValueError(f"{path}: {name} has shape {x.shape}, which is empty; at least one image is needed.")
    images = x[:, None] if x.ndim == 3 else x.transpose(0, 3, 1, 2)
    if x.dtype == np.uint8:
        return _scaled(images)
    if x.dtype.kind != "f":
        raise ValueError(f"{path}: {name} has dtype {x.dtype}; save uint8, or floats in [0, 1].")
    if np.isnan(x).any():
        raise ValueError(f"{path}: {name} has NaN; replace it with values in [0, 1].")
    low, high = float(x.min()), float(x.max())
    if low < 0 or high > 1:
        raise ValueError(
            f"{path}: {name} has floats from {low:g} to {high:g}, but they must be in [0, 1]; scale them, or save "
            "uint8."
        )
    return images.astype(np.float32, order="C")


def _as_labels(path: Path, name: str, y: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    if y.shape != (count,):
        raise ValueError(
            f"{path}: {name} has shape {y.shape}, but {plural(count, 'image')} of this set need labels of shape "
            f"({count},); save one label per image."
        )
    if y.dtype.kind not in "iu":
        raise ValueError(f"{path}: {name} has dtype {y.dtype}; save integers, the classes counted from 0.")
    labels = y.astype(np.int64)
    if labels.min() < 0:
        raise ValueError(f"{path}: {name} has the label {labels.min()}; save the classes counted from 0.")
    return labels


def _idx_set(images: Path, labels: Path) -> ImageSet:
    x, y = read_idx(images, 3), read_idx(labels, 1)
    if len(x) != len(y):
        raise ValueError(
            f"{labels}: has {plural(len(y), 'label')}, but {images} has {plural(len(x), 'image')}; get both again."
        )
    return ImageSet(_scaled(x[:, None]), y.astype(np.int64))


def _cifar_records(path: Path, name: str, content: bytes) -> np.ndarray[Any, Any]:
    """Records of a .bin file: an array of bytes with one record per row."""
    size = 1 + math.prod(_CIFAR_SHAPE)
    if not content or len(content) % size:
        raise ValueError(
            f"{path}: {name} has {len(content):,} bytes, but a positive multiple of {size:,} is expected; get it again."
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, size)
    if records[:, 0].max() >= _CIFAR_CLASSES:
        raise ValueError(
            f"{path}: {name} has the label {records[:, 0].max()}, but labels below {_CIFAR_CLASSES} are expected; get "
            "it again."
        )
    return records


def _cifar_set(records: np.ndarray[Any, Any]) -> ImageSet:
    return ImageSet(_scaled(records[:, 1:].reshape(-1, *_CIFAR_SHAPE)), records[:, 0].astype(np.int64))


def _scaled(images: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Bytes scaled to [0, 1], float32, contiguous."""
    scaled: np.ndarray[Any, Any] = np.divide(images, np.float32(255), dtype=np.float32, order="C")
    return scaled


@contextmanager
def _reading_errors(path: Path, what: str, remedy: str) -> Iterator[None]:
    """Raise errors of a reader as a ValueError that names the file: it is not `what`, why, and the remedy."""
    try:
        yield
    except MemoryError as error:
        raise MemoryError(f"{path}: there is not enough memory to read it ({reason_of(error)}).") from error
    # Damaged files raise many kinds of errors in the readers: of zip, zlib, gzip (an OSError), tar or the .npy header.
    except Exception as error:
        if str(error).startswith(str(path)):
            raise
        if "allow_pickle" in str(error):
            raise ValueError(
                f"{path}: holds Python objects, which are never unpickled (they could run code); save plain numbers."
            ) from error
        raise ValueError(f"{path}: is not {what}, or is damaged ({reason_of(error)}); {remedy}.") from error
