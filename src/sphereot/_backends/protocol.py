"""The backend protocol: the functions that every array library's implementation provides, and their arguments.

A backend is a module with these functions. What reaches it is validated: floating arrays of one library, device and
dtype, unit vectors as points, orthonormal frames, an order p of at least 1.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, to_numpy

OFFSET_BITS = 16  # the offset of a point in its bin of a sketch is an integer below 2^16
LIMB_BITS = 48  # a weight is high 2^-16 + low 2^-64 with low < 2^48 (sphereot/sketch/bins.py)
COORDINATE_GRID = 2.0**29  # coordinates are rounded to multiples of its inverse (sphereot/sketch/layout.py)


class Measure(NamedTuple):
    """A discrete measure: atoms with weights."""

    points: Array  # unit vectors (n, d); for circle functions, which compute B pairs of measures at once, turns (B, n)
    weights: Array | None = None  # (n,), or (B, n) or (1, n) for turns, of any positive total; None: equal weights

    def in_numpy(self) -> "Measure":
        """The measure as NumPy arrays, with weights in float64."""
        weights = None if self.weights is None else to_numpy(self.weights).astype(np.float64)
        return Measure(to_numpy(self.points), weights)


Measures: TypeAlias = Sequence[Measure]
"""One measure, which is compared with the uniform measure, or two, which are compared with each other."""


class PairOptions(NamedTuple):
    """Options of `pair_cost`."""

    unbiased: bool
    even_weight: float


class Wanted(NamedTuple):
    """Which gradients of a measure to compute."""

    points: bool
    weights: bool


Repeats: TypeAlias = NDArray[np.integer[Any]]
"""How often each of B resamples has each point of a measure, shape (B, n); all rows have the same sum."""


class Plan(NamedTuple):
    """An optimal coupling of two measures on the circle; the fields are those of `sphereot.circle.CirclePlan`."""

    source: Array
    target: Array
    mass: Array
    cost: Array
    cut: Array


class Labelings(NamedTuple):
    """Ways to divide a pooled sample of N points in two."""

    bits: NDArray[np.uint8]  # (ceil(n_labelings / 8), N): bit b of (g, i) puts point i first in labeling 8 g + b
    n_labelings: int
    n_first: int  # the number of points that each labeling puts into the first sample


class Backend(Protocol):
    """Costs of optimal transport on great circles, for the arrays of one library."""

    def project(self, x: Array, frames: Array) -> Array:
        """Turns (L, n) of points (n, d) on the great circles of frames (L, d, 2)."""

    def slice_costs(self, measures: Measures, frames: Array, p: float) -> Array:
        """W_p^p on each great circle, shape (L,): between two measures, or of one to the uniform measure."""

    def mean_cost(self, measures: Measures, frames: Array, p: float, *, root: bool = False) -> Array:
        """SSW_p^p: the mean of W_p^p over the great circles; with `root` SSW_p."""

    def pair_cost(self, measure: Measure, *, unbiased: bool = False, even_weight: float = 1.0) -> Array:
        """SSW_2^2 to the uniform distribution without great circles: the double sum of K_d over all pairs of points.

        `unbiased` leaves out the pairs of a point with itself, and scales the rest to a total weight of 1.
        `even_weight` is a factor of the even part of K_d.
        """

    def weight_gradients(self, measures: Measures, frames: Array, p: float) -> Sequence[Array]:
        """The gradients (n,) of `mean_cost` between two measures in their weights, which are ones by default."""

    def pairwise_costs(self, measures: Measures, frames: Array, p: float, *, root: bool = False) -> Array:
        """`mean_cost` of the pairs i < j of several measures, in lexicographic order."""

    def circle_costs(self, measures: Measures, p: float) -> Array:
        """W_p^p on the circle, row by row, shape (B,): between two measures, or of one to the uniform measure."""

    def circle_plan(self, u: Measure, v: Measure, p: float) -> Plan:
        """The optimal coupling of two measures on the circle, each given as one row of turns."""

    def relabeled_costs(
        self, pool: Array, labelings: Labelings, frames: Array, p: float
    ) -> Iterator[tuple[slice, Array]]:
        """W_p^p on each great circle between the two samples that each labeling makes of a pooled sample (N, d).

        Yields blocks of great circles with their costs under all labelings, shape (block, n_labelings).
        """

    def resampled_costs(self, measures: Measures, repeats: Sequence[Repeats], frames: Array, p: float) -> Array:
        """W_p^p on each great circle for each of B resamples of one or two measures, shape (L, B).

        A resample has each point as often as `repeats` of its measure says; weights of the measures are not used.
        """


class SketchBackend(Protocol):
    """Counting and distances of sketches; `Histogram` is what the backend's `histogram` returns."""

    def count_points(
        self,
        points: Array,
        frames: Array,
        weights: tuple[NDArray[np.uint64], NDArray[np.uint64]] | None,
        near_squares: list[float],
        mass: NDArray[np.uint64],
        moment: NDArray[np.uint64],
        near: NDArray[np.uint64],
    ) -> None:
        """Add points (n, d) to counts (limbs, L, B) and (limbs, L, 3) in place; `weights` are limbs of each weight."""

    def histogram(self, mass: NDArray[Any], moment: NDArray[Any]) -> Any:
        """Bins (L, B) as a histogram: counts and sums of offsets in uint64, or masses and moments in float64."""

    def level_distances(self, measures: Sequence[Any], n_slices: int) -> Iterator[tuple[Array, Array]]:
        """W_1 of all pairs i < j of histograms: lower bounds and widths of the bounds, in blocks (slices, pairs).

        One histogram is compared with the uniform measure.
        """

    def transport_distances(self, x: Any, y: Any, p: float, n_slices: int) -> NDArray[np.float64]:
        """W_p^p between atoms at the means of the bins, and what its error bound needs, (4, L).

        The rows are the costs, the displacements of x and of y (the largest W_p^p to the atoms, in widths of a bin),
        and for p = 2 the ranges of partners (docs/background/sketches.md). If y is None, the other measure is uniform.
        """


def n_atoms(measures: Measures) -> int:
    """The number of atoms of all measures together."""
    return sum(int(points.shape[0]) for points, _ in measures)
