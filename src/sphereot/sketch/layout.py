"""The layout of a sketch, which must be equal for sketches that are merged, and the format of its bytes.

The bytes are a header, compressed counts and a checksum. See :doc:`/background/sketches` for every field.
"""

import hashlib
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import is_torch, to_numpy
from sphereot._arrays.types import Method
from sphereot._arrays.validation import as_int, as_method, require_labels
from sphereot._backends.protocol import COORDINATE_GRID, OFFSET_BITS
from sphereot.sketch.bins import NEAR_COUNT, Bins, inconsistency
from sphereot.slicing.drawing import frames_from_normals

# Frames are multiples of 1 / FRAME_GRID, coordinates of 1 / COORDINATE_GRID: sums of their products are multiples of
# 2^-52 below 2, and exact in float64.
FRAME_GRID = 2.0**23

# Maximum error of the angular position of a planar point, in turns (cpp/sketch/integer_turns.hpp).
ANGLE_ERROR = 2.0**-25


@dataclass(frozen=True)
class Layout:
    """The arguments of `Sketch` except `weighted`, which must be equal for sketches that are merged or compared."""

    dim: int
    n_projections: int
    bins: int
    seed: int
    method: Method
    groups: int

    @classmethod
    def validated(cls, dim: Any, n_projections: Any, bins: Any, seed: Any, method: Any, groups: Any) -> "Layout":
        """Validate the arguments of `Sketch`."""
        layout = cls(
            as_int("dim", dim, 2, "the dimension of the space around the sphere"),
            as_int("n_projections", n_projections, 1, "the number of great circles"),
            as_int("bins", bins, 2, "the number of bins of a great circle"),
            as_int("seed", seed, 0, "the seed of a sketch"),
            as_method(method),
            as_int("groups", groups, 1, "the number of groups"),
        )
        coordinates, circles = layout.n_projections * layout.dim, layout.groups * layout.n_projections
        for name, factors, value, largest in (
            ("dim", "", layout.dim, 1 << 16),
            ("n_projections", "", layout.n_projections, 1 << 16),
            ("bins", "", layout.bins, 1 << 14),
            ("groups", "", layout.groups, 1 << 16),
            ("seed", "", layout.seed, (1 << 63) - 1),
            ("n_projections", " times dim", coordinates, 1 << 22),
            ("bins", " times groups times n_projections", circles * layout.bins, 1 << 31),
        ):
            if value > largest:
                raise ValueError(f"{name}{factors} must be at most {largest}, got {value}.")
        return layout

    @property
    def near_squares(self) -> list[float]:
        """Squared lengths of short projections. Points below them are counted, because rounding moves them farther."""
        scale = 2.0 ** math.floor(math.log2(math.sqrt(2.0 / self.dim)))  # about the length of a projection
        return [(scale * 2.0**-digits) ** 2 for digits in (3, 7, 12)]

    def frames(self) -> NDArray[np.float64]:
        """Return the great circles, shape (L, d, 2), rounded to multiples of 2^-23; read-only."""
        return _frames(self.dim, self.n_projections, self.seed, self.method)[0]

    def digest(self) -> bytes:
        """Return a digest of the frames, 16 bytes."""
        return _frames(self.dim, self.n_projections, self.seed, self.method)[1]

    def displacements(self) -> NDArray[np.float64]:
        """Bound how far rounding moves a point on a great circle, in turns, shape (NEAR_COUNT + 1, L).

        Row k is for points whose projection is shorter than k of the lengths of `near_squares`. The last row is half a
        turn: such a point may be anywhere.
        """
        lengths = np.sqrt(self.near_squares) * (1 - 2.0**-20)  # squares are compared in single precision
        planar = np.linalg.norm(np.sum(np.abs(self.frames()), axis=1), axis=1) * (0.5 / COORDINATE_GRID)
        # The angle at the tip of a planar point of length r moved by e is at most arcsin(e / r), or e / (4 r) turns.
        turned = planar / (4 * lengths[:, None]) + ANGLE_ERROR + 0.5 / (self.bins << OFFSET_BITS)
        rows: NDArray[np.float64] = np.concatenate([np.minimum(turned, 0.5), np.full((1, len(planar)), 0.5)])
        return rows

    def require_same(self, other: "Layout") -> None:
        """Raise a ValueError that names the differences, if there are any."""
        pairs = [(field.name, getattr(self, field.name), getattr(other, field.name)) for field in fields(self)]
        different = [f"{name} ({mine!r} and {theirs!r})" for name, mine, theirs in pairs if mine != theirs]
        if different:
            raise ValueError(
                f"Cannot merge or compare the sketches: they differ in {', '.join(different)}. Create both with the "
                "same arguments."
            )


@lru_cache(maxsize=8)
def _frames(dim: int, n_projections: int, seed: int, method: str) -> tuple[NDArray[np.float64], bytes]:
    # Sketches are stored for years, and NumPy has frozen only the stream of RandomState.
    source = np.random.RandomState([seed & 0xFFFFFFFF, seed >> 32])
    drawn = frames_from_normals(source.standard_normal, n_projections, dim, method)
    # Rounding hides differences in the last digits of linear algebra libraries.
    steps = np.ascontiguousarray(np.rint(drawn * FRAME_GRID))
    digest = hashlib.blake2b(steps.astype("<i4").tobytes(), digest_size=16).digest()
    frames: NDArray[np.float64] = steps / FRAME_GRID
    frames.flags.writeable = False
    return frames, digest


def group_numbers(name: str, labels: Any, n: int, groups: int) -> NDArray[np.int64]:
    """Return group numbers below `groups` for n labels, ints or strings; equal labels have equal numbers.

    A number is a BLAKE2b hash of the label as text, with a letter for its type, modulo `groups`.

    >>> group_numbers("groups", ["anna", "ben", "anna"], 3, 64).tolist()
    [18, 12, 18]
    """
    labels = to_numpy(labels) if is_torch(labels) else labels
    is_array = hasattr(labels, "__array__")
    if not is_array and (not isinstance(labels, Sequence) or isinstance(labels, str | bytes)):
        raise TypeError(f"{name} must be an array or list of labels, got {type(labels).__name__}.")
    require_labels(name, labels)
    values = np.asarray(labels, dtype=None if is_array else object)
    if values.dtype == object and len({type(label) for label in values.flat}) == 1:
        values = np.array(values.tolist())
    if values.dtype.kind not in "iuUT":
        raise TypeError(f"{name} must be all ints or strings, got labels of {values.dtype}.")
    if values.shape != (n,):
        raise ValueError(f"{name} must have one label per point, shape ({n},), got {values.shape}.")
    unique, index = np.unique(values.astype(str) if values.dtype.kind == "T" else values, return_inverse=True)
    letter = "s" if unique.dtype.kind == "U" else "i"
    hashes = [hashlib.blake2b(f"{letter}{label}".encode(), digest_size=8).digest() for label in unique.tolist()]
    return np.array([int.from_bytes(digest, "little") % groups for digest in hashes], np.int64)[index]


MAGIC = b"\x93SPHSKT\n"
VERSION = 1
METHODS = ("iid", "orthogonal", "quasi")
# magic, version, flags, dim, n_projections, bins, groups, method, six widths, one unused byte, seed, digest of the
# frames, length of the payload
HEADER = struct.Struct("<8sHHIIIIB6sxQ16sQ")
CHECKSUM_BYTES = 16
WEIGHTED, DECIDED, HAS_COUNTS = 1, 2, 4
LARGEST_RATIO = 1032  # zlib decompresses one byte to at most this number of bytes
COMPRESSION_LEVEL = 1


def encode(layout: Layout, weighted: bool | None, bins: Bins | None) -> bytes:
    """Encode a sketch; `weighted` is None before the first update, and `bins` is None if there are no points."""
    flags = (WEIGHTED if weighted else 0) | (DECIDED if weighted is not None else 0) | (HAS_COUNTS if bins else 0)
    widths, payload = [0] * 6, b""
    if bins is not None:
        compressor = zlib.compressobj(COMPRESSION_LEVEL)
        parts = [compressor.compress(bins.n.astype("<u8").tobytes())]
        for k, array in enumerate(bins.arrays):
            for limb in range(array.shape[1]):
                largest = int(np.max(array[:, limb]))
                width = next(width for width in (1, 2, 4, 8) if largest < 1 << (8 * width))
                widths[2 * k + limb] = width
                parts.append(compressor.compress(array[:, limb].astype(f"<u{width}").tobytes()))
        payload = b"".join([*parts, compressor.flush()])
    sizes = (layout.dim, layout.n_projections, layout.bins, layout.groups, METHODS.index(layout.method), bytes(widths))
    content = HEADER.pack(MAGIC, VERSION, flags, *sizes, layout.seed, layout.digest(), len(payload)) + payload
    return content + _checksum(content)


def decode(data: Any) -> tuple[Layout, bool | None, Bins | None]:
    """Decode the layout, `weighted` and counts of a sketch; a ValueError says what is wrong with the bytes."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"data must be bytes, as returned by to_bytes(), got {type(data).__name__}.")
    data = bytes(data)
    if data[: len(MAGIC)] != MAGIC:
        raise _damaged("the signature at the beginning is wrong")
    if len(data) < HEADER.size + CHECKSUM_BYTES:
        raise _damaged(f"{len(data)} bytes are less than a header, so the end is missing")
    _, version, flags, dim, n_projections, bins, groups, method, widths, seed, digest, length = HEADER.unpack_from(data)
    if version != VERSION:
        raise ValueError(
            f"data: the format of this sketch has version {version}, but this version of sphereot reads {VERSION}. Use "
            "the version that wrote the sketch, or a newer version."
        )
    expected = HEADER.size + length + CHECKSUM_BYTES
    if len(data) != expected:
        raise _damaged(f"there are {len(data)} bytes, but the header says {expected}")
    if _checksum(data[:-CHECKSUM_BYTES]) != data[-CHECKSUM_BYTES:]:
        raise _damaged("the checksum is wrong")
    if method >= len(METHODS) or flags >= 8:
        raise _damaged("the header has an unknown method or flag")
    try:
        layout = Layout.validated(dim, n_projections, bins, seed, METHODS[method], groups)
    except ValueError as error:
        raise _damaged(f"the header is impossible ({error})") from None
    weighted = bool(flags & WEIGHTED) if flags & DECIDED else None
    counts = None
    if flags & HAS_COUNTS:
        if weighted is None:
            raise _damaged("there are counts, but not whether they have weights")
        counts = _read_counts(data[HEADER.size : -CHECKSUM_BYTES], layout, weighted, widths)
    elif length:
        raise _damaged("there is a payload, but no counts")
    if digest != layout.digest():
        raise ValueError(
            "data: the great circles of this sketch are not those of its seed, method and dimension here. Another "
            "version of sphereot or NumPy wrote it, so it cannot be merged here."
        )
    return layout, weighted, counts


def _read_counts(payload: bytes, layout: Layout, weighted: bool, widths: bytes) -> Bins:
    """Decompress and check counts; sizes are compared with the payload before memory is allocated."""
    limbs = 1 + weighted
    columns = (layout.bins, layout.bins, NEAR_COUNT)
    if any(width not in ((1, 2, 4, 8) if k % 2 < limbs else (0,)) for k, width in enumerate(widths)):
        raise _damaged("the header has impossible widths of numbers")
    circles = layout.groups * layout.n_projections
    size = 8 * layout.groups + circles * sum(columns[k // 2] * width for k, width in enumerate(widths))
    if size > LARGEST_RATIO * len(payload) + 64:
        raise _damaged(f"{len(payload)} bytes cannot hold the {size} bytes that the header says")
    decompressor = zlib.decompressobj()
    try:
        raw = decompressor.decompress(payload, size + 1)
    except zlib.error as error:
        raise _damaged(f"they cannot be decompressed ({error})") from None
    if len(raw) != size or not decompressor.eof or decompressor.unused_data:
        raise _damaged("the size of the compressed part is not the size that the header says")
    n = np.frombuffer(raw, "<u8", layout.groups).astype(np.uint64)
    start, arrays = n.nbytes, []
    for k, count in enumerate(columns):
        array = np.empty((layout.groups, limbs, layout.n_projections, count), np.uint64)
        for limb in range(limbs):
            width = widths[2 * k + limb]
            numbers = np.frombuffer(raw, f"<u{width}", circles * count, start)
            array[:, limb] = numbers.reshape(layout.groups, layout.n_projections, count)
            start += numbers.nbytes
        arrays.append(array)
    bins = Bins(n, *arrays)
    if int(np.max(n)) >> 62 or int(np.sum(n.astype(object))) >> 62:
        raise _damaged("the number of points is impossible")
    if not np.any(n):
        raise _damaged("there are counts of no points")
    problem = inconsistency(bins)
    if problem:
        raise _damaged(f"they contradict themselves: {problem}")
    return bins


def _checksum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=CHECKSUM_BYTES).digest()


def _damaged(reason: str) -> ValueError:
    return ValueError(f"data: these bytes are not a sketch, or are damaged: {reason}. Read or write them again.")
