"""The bytes of a sketch: a header, compressed counts, a checksum (docs/sketch.md describes every field)."""

import hashlib
import struct
import zlib
from typing import Any

import numpy as np

from sphereot.sketch.bins import Bins, inconsistency
from sphereot.sketch.layout import NEAR_COUNT, Layout

MAGIC = b"\x93SPHSKT\n"
VERSION = 1
METHODS = ("iid", "orthogonal", "quasi")
# magic, version, flags, dim, n_projections, bins, groups, method, six widths, one unused byte, seed, digest of the
# frames, length of the payload
HEADER = struct.Struct("<8sHHIIIIB6sxQ16sQ")
CHECKSUM_BYTES = 16
WEIGHTED, DECIDED, HAS_COUNTS = 1, 2, 4
LARGEST_RATIO = 1032  # zlib makes no more bytes of one byte
COMPRESSION_LEVEL = 1


def encode(layout: Layout, weighted: bool | None, bins: Bins | None) -> bytes:
    """Bytes of a sketch; `weighted` is None before the first update, and `bins` None if there are no points."""
    flags = (WEIGHTED if weighted else 0) | (DECIDED if weighted is not None else 0) | (HAS_COUNTS if bins else 0)
    widths, payload = bytes(6), b""
    if bins is not None:
        compressor = zlib.compressobj(COMPRESSION_LEVEL)
        parts = [compressor.compress(bins.n.astype("<u8").tobytes())]
        sizes = []
        for array in bins.arrays:
            for limb in range(2):
                if limb >= array.shape[1]:
                    sizes.append(0)
                    continue
                numbers = array[:, limb]
                largest = int(np.max(numbers))
                sizes.append(next(width for width in (1, 2, 4, 8) if largest < 1 << (8 * width)))
                parts.append(compressor.compress(numbers.astype(f"<u{sizes[-1]}").tobytes()))
        widths, payload = bytes(sizes), b"".join([*parts, compressor.flush()])
    sizes_of_layout = (layout.dim, layout.n_projections, layout.bins, layout.groups)
    method = METHODS.index(layout.method)
    header = HEADER.pack(
        MAGIC, VERSION, flags, *sizes_of_layout, method, widths, layout.seed, layout.digest(), len(payload)
    )
    content = header + payload
    return content + _checksum(content)


def decode(data: Any) -> tuple[Layout, bool | None, Bins | None]:
    """Layout, `weighted` and counts of a sketch; a ValueError says what is wrong with the bytes."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"data: got {type(data).__name__}, but a sketch is read from bytes, as to_bytes() gives them.")
    data = bytes(data)
    if data[: len(MAGIC)] != MAGIC:
        raise _damaged("they do not begin as a sketch does")
    if len(data) < HEADER.size + CHECKSUM_BYTES:
        raise _damaged(f"there are {len(data)} of them, fewer than a header has; the end is missing")
    _, version, flags, dim, n_projections, bins, groups, method, widths, seed, digest, length = HEADER.unpack_from(data)
    if version != VERSION:
        raise ValueError(
            f"data: the format of this sketch has version {version}, but this version of sphereot reads {VERSION}; "
            "use the version that wrote it, or a newer one."
        )
    if len(data) != HEADER.size + length + CHECKSUM_BYTES:
        expected = HEADER.size + length + CHECKSUM_BYTES
        raise _damaged(f"there are {len(data)} of them, but the header says {expected}")
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
            "data: the great circles of this sketch are not those that its seed, method and dimension give here; it "
            "was written with another version of sphereot or NumPy, so that it cannot be merged here."
        )
    return layout, weighted, counts


def _read_counts(payload: bytes, layout: Layout, weighted: bool, widths: bytes) -> Bins:
    """Decompress and check counts; sizes are compared with the payload before memory is taken."""
    limbs = 1 + weighted
    shape = (layout.groups, layout.n_projections)
    columns = (layout.bins, layout.bins, NEAR_COUNT)
    if any((widths[k] in (1, 2, 4, 8)) != (k % 2 < limbs) or (k % 2 >= limbs and widths[k]) for k in range(6)):
        raise _damaged("the header has impossible widths of numbers")
    cells = layout.groups * layout.n_projections
    size = 8 * layout.groups + cells * sum(columns[k // 2] * widths[k] for k in range(6))
    if size > LARGEST_RATIO * len(payload) + 64:
        raise _damaged(f"{len(payload)} bytes cannot hold the {size} bytes that the header says")
    decompressor = zlib.decompressobj()
    try:
        raw = decompressor.decompress(payload, size + 1)
    except zlib.error as error:
        raise _damaged(f"they cannot be decompressed ({error})") from None
    if len(raw) != size or not decompressor.eof or decompressor.unused_data:
        raise _damaged("the compressed part has not the size that the header says")
    n = np.frombuffer(raw, "<u8", layout.groups).astype(np.uint64)
    start = n.nbytes
    arrays = []
    for k, count in enumerate(columns):
        array = np.empty((layout.groups, limbs, layout.n_projections, count), np.uint64)
        for limb in range(limbs):
            width = widths[2 * k + limb]
            array[:, limb] = np.frombuffer(raw, f"<u{width}", cells * count, start).reshape(*shape, count)
            start += cells * count * width
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
    return ValueError(f"data: these bytes are no sketch, or a damaged one: {reason}; read or write them again.")
