"""The layout of a sketch: its great circles, bins and groups, which two sketches share if they can be merged."""

import hashlib
import math
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
from sphereot.slicing.drawing import frames_from_normals

# Frames are multiples of 1 / FRAME_GRID, coordinates of 1 / COORDINATE_GRID: sums of their products are multiples of
# 2^-52 below 2, and exact in float64.
FRAME_GRID = 2.0**23
NEAR_COUNT = 3

LARGEST_BINS = 1 << 14
LARGEST_DIM = 1 << 16
LARGEST_COUNT = 1 << 16  # of great circles, and of groups
LARGEST_FRAMES = 1 << 22  # great circles times dimension
LARGEST_CELLS = 1 << 31  # groups times great circles times bins

# Maximum error of the turn of a planar point, in turns (cpp/sketch/integer_turns.hpp).
ANGLE_ERROR = 2.0**-25


@dataclass(frozen=True)
class Layout:
    """What must be equal for two sketches to be merged or compared.

    Attributes
    ----------
    dim : int
        The dimension d of the space around the sphere.
    n_projections : int
        The number L of great circles.
    bins : int
        The number B of equal bins of each great circle, from 2 to 2^14.
    seed : int
        Seed of the great circles.
    method : str
        How they are drawn.
    groups : int
        The number G of groups that are counted apart.
    """

    dim: int
    n_projections: int
    bins: int
    seed: int
    method: Method
    groups: int

    @classmethod
    def validated(cls, dim: Any, n_projections: Any, bins: Any, seed: Any, method: Any, groups: Any) -> "Layout":
        """Layout from the arguments of `Sketch`, or an error that names the argument."""
        layout = cls(
            as_int("dim", dim, 2, "the dimension of the space around the sphere"),
            as_int("n_projections", n_projections, 1, "the number of great circles"),
            as_int("bins", bins, 2, "the number of bins of a great circle"),
            as_int("seed", seed, 0, "the seed of a sketch"),
            as_method(method),
            as_int("groups", groups, 1, "the number of groups"),
        )
        limits = (
            ("dim", layout.dim, LARGEST_DIM),
            ("n_projections", layout.n_projections, LARGEST_COUNT),
            ("bins", layout.bins, LARGEST_BINS),
            ("groups", layout.groups, LARGEST_COUNT),
            ("seed", layout.seed, (1 << 63) - 1),
            ("n_projections", layout.n_projections * layout.dim, LARGEST_FRAMES),
            ("bins", layout.groups * layout.n_projections * layout.bins, LARGEST_CELLS),
        )
        products = ("", "", "", "", "", "times dim ", "times groups times n_projections ")
        for (name, value, largest), product in zip(limits, products, strict=True):
            if value > largest:
                raise ValueError(f"{name}: {product}is {value}, but at most {largest} is possible; take a smaller one.")
        return layout

    @property
    def near_squares(self) -> list[float]:
        """Squared lengths of projections below which points are counted, because rounding moves them farther."""
        scale = 2.0 ** math.floor(math.log2(math.sqrt(2.0 / self.dim)))  # about the length of a projection
        return [(scale * 2.0**-digits) ** 2 for digits in (3, 7, 12)]

    def frames(self) -> NDArray[np.float64]:
        """Great circles, shape (L, d, 2), rounded to multiples of 2^-23; read-only."""
        return _frames(self.dim, self.n_projections, self.seed, self.method)[0]

    def digest(self) -> bytes:
        """A digest of the frames, 16 bytes."""
        return _frames(self.dim, self.n_projections, self.seed, self.method)[1]

    def displacements(self) -> NDArray[np.float64]:
        """How far rounding moves a point on a great circle at most, in turns, shape (NEAR_COUNT + 1, L).

        Row k is for points whose projection is shorter than k of the lengths of `near_squares`. In the last row it is
        half a turn: such a point may be anywhere.
        """
        lengths = np.sqrt(self.near_squares) * (1 - 2.0**-20)  # squares are compared in single precision
        planar = np.linalg.norm(np.sum(np.abs(self.frames()), axis=1), axis=1) * (0.5 / COORDINATE_GRID)
        # The angle at the tip of a planar point of length r moved by e is at most arcsin(e / r), or e / (4 r) turns.
        turned = planar / (4 * lengths[:, None]) + ANGLE_ERROR + 0.5 / (self.bins << OFFSET_BITS)
        rows: NDArray[np.float64] = np.concatenate([np.minimum(turned, 0.5), np.full((1, len(planar)), 0.5)])
        return rows

    def require_same(self, other: "Layout") -> None:
        """Raise a ValueError that names what differs."""
        pairs = [(field.name, getattr(self, field.name), getattr(other, field.name)) for field in fields(self)]
        different = [f"{name} ({mine!r} and {theirs!r})" for name, mine, theirs in pairs if mine != theirs]
        if different:
            raise ValueError(
                f"the sketches differ in {', '.join(different)}; sketches that are merged or compared need the same "
                "great circles and bins: make both with the same arguments."
            )


@lru_cache(maxsize=8)
def _frames(dim: int, n_projections: int, seed: int, method: str) -> tuple[NDArray[np.float64], bytes]:
    # Sketches are stored for years: RandomState's stream is frozen, that of NumPy's newer generators is not.
    source = np.random.RandomState([seed & 0xFFFFFFFF, seed >> 32])
    drawn = frames_from_normals(source.standard_normal, n_projections, dim, method)
    # Rounding hides differences in the last digits of linear algebra libraries.
    steps = np.ascontiguousarray(np.rint(drawn * FRAME_GRID))
    digest = hashlib.blake2b(steps.astype("<i4").tobytes(), digest_size=16).digest()
    frames: NDArray[np.float64] = steps / FRAME_GRID
    frames.flags.writeable = False
    return frames, digest


def group_numbers(name: str, labels: Any, n: int, groups: int) -> NDArray[np.int64]:
    """Numbers below `groups` for n labels, ints or strings; equal labels have equal numbers.

    The number is a BLAKE2b hash of the label as text, with a letter for its type, modulo `groups`.

    >>> group_numbers("groups", ["anna", "ben", "anna"], 3, 64).tolist()
    [18, 12, 18]
    """
    values = _as_labels(name, labels)
    if values.shape != (n,):
        raise ValueError(f"{name}: shape is {values.shape}, but there are {n} points and each needs one label.")
    unique, index = np.unique(values, return_inverse=True)
    letter = "s" if unique.dtype.kind == "U" else "i"
    hashes = [hashlib.blake2b(f"{letter}{label}".encode(), digest_size=8).digest() for label in unique.tolist()]
    numbers = np.array([int.from_bytes(digest, "little") % groups for digest in hashes], np.int64)
    return numbers[index]


def _as_labels(name: str, labels: Any) -> NDArray[Any]:
    """Labels as an array of ints or of strings."""
    if is_torch(labels) or hasattr(labels, "__array__"):
        values = np.asarray(to_numpy(labels) if is_torch(labels) else labels)
    elif isinstance(labels, Sequence) and not isinstance(labels, str | bytes):
        values = np.asarray(labels, dtype=object)
    else:
        raise TypeError(f"{name}: got {type(labels).__name__}; pass one int or string per point, in an array or list.")
    require_labels(name, values)
    if values.dtype == object:
        kinds = {type(label) for label in values.ravel().tolist()}
        if kinds == {str}:
            return values.astype(str)
        if len(kinds) == 1 and next(iter(kinds)) is int:
            return values.astype(np.int64)
    if values.dtype.kind not in "iuUT":
        raise TypeError(f"{name}: labels of this kind ({values.dtype}) are not understood; pass ints or strings alone.")
    return values.astype(str) if values.dtype.kind == "T" else values
