"""The choice of great circles for an estimate: by a given method, or by the data (docs/precision.md)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, device, namespace, to_kind, to_numpy
from sphereot._backends import backend_for
from sphereot._backends.protocol import Measures, n_atoms
from sphereot.distance.control_variates import ControlVariates
from sphereot.slicing.drawing import independent_frames, replicate_frames
from sphereot.slicing.near_centers import CenterMixture, DisplacedPoints, centers_of, displaced_points

__all__ = ["CircleSampling", "choose_sampling", "costs_on", "near_points"]

Floats = NDArray[np.float64]

# Well-placed circles alone are better in lower dimensions.
_LOWEST_CONTROLLED_DIM = 5
_LARGEST_CONTROLLED_ORDER = 4.0

# The relative variance of the cost of a great circle is below 3.3 for samples that are not tight, and above 8 for tight
# ones close to each other.
_HEAVY_TAIL = 4.0
_CENTER_POINTS = 128
_PILOT_CIRCLES = 128, 512

# The squared cost of rare great circles, relative to the squared mean, is below 0.1 for ordinary samples, below 6 for
# tight clusters close to each other, and above 15 for samples whose points nearly coincide.
_NEARLY_EQUAL = 8.0
_UNRELIABLE = 1.0
_MAX_DISTANCES = 1 << 22  # between points of the two samples
_FEWEST_POINTS = 32
_HIGHEST_RELIABLE_ORDER = 2.0


@dataclass(frozen=True)
class CircleSampling:
    """How great circles are drawn: a method of `great_circles`, or a mixture about centers of the data."""

    method: str
    dim: int
    mixture: CenterMixture | None
    controls: ControlVariates | None
    near: DisplacedPoints | None = None

    def misses_rare_circles(self, value: float, p: float) -> bool:
        """Whether great circles that carry much of the value are too rare to be drawn by this method."""
        if self.mixture is not None:
            # The mixture does not know the directions of displacements, which decide for higher orders.
            return self.near is not None and p > _HIGHEST_RELIABLE_ORDER
        return self.near is not None and _is_rare(self.near, value, _UNRELIABLE)

    def draw(self, sizes: list[int], generator: np.random.Generator) -> tuple[Floats, Floats | None]:
        """Frames of replicates, one after the other, and their weights, None for equal ones."""
        if self.method == "iid":
            return independent_frames(generator.standard_normal, len(sizes), self.dim), None
        if self.mixture is None:
            return replicate_frames(generator.standard_normal, sizes, self.dim, self.method), None
        drawn = [self.mixture.draw(size, generator) for size in sizes]
        return np.concatenate([frames for frames, _, _ in drawn]), np.concatenate([weights for _, weights, _ in drawn])


def choose_sampling(
    measures: Measures, p: float, method: str | None, count: int, generator: np.random.Generator
) -> CircleSampling:
    """The method that was asked for, or the best for the data."""
    dim = measures[0].points.shape[1]
    near = near_points(measures, p, count)
    if method in ("iid", "orthogonal", "quasi"):
        return CircleSampling(method, dim, None, None, near)
    has_all_points = near is not None and len(near.mixture.centers) == n_atoms(measures)
    if near is not None and has_all_points and near.rare > _NEARLY_EQUAL * near.mean**2:
        frames, weights, _ = near.mixture.draw(_PILOT_CIRCLES[0], generator)
        value = float(np.mean(weights * to_numpy(costs_on(measures, frames, p)).astype(np.float64)))
        if _is_rare(near, value, _NEARLY_EQUAL):
            return CircleSampling("importance", dim, near.mixture, None, near)
    mixture = centers_of(_sample_of_points(measures, generator), generator)
    if mixture is None and method == "importance":
        reason = (
            "a circle has no great circles to choose from"
            if dim == 2
            else "the points are neither tight nor nearly those of the other sample"
        )
        raise ValueError(f"method: got 'importance', but {reason}; leave method out.")
    if mixture is not None:
        mixture, relative_variance = _after_pilot(mixture, measures, p, count, generator)
        if method == "importance" or relative_variance > _HEAVY_TAIL * min(1.0, p / 2) ** 2:
            return CircleSampling("importance", dim, mixture, None)
    is_controlled = dim >= _LOWEST_CONTROLLED_DIM and p <= _LARGEST_CONTROLLED_ORDER
    is_new = len(measures) == 2 or p != 2  # a control variate that is the cost itself would need no great circles
    controls = ControlVariates.of(measures, generator) if is_controlled and is_new else None
    return CircleSampling("quasi", dim, None, controls, near)


def near_points(measures: Measures, p: float, count: int) -> DisplacedPoints | None:
    """The model of points that nearly coincide with points of the other sample; None if a few points show none."""
    if len(measures) == 1:
        return None
    weighted = []
    for points, weights in measures:
        mass = np.ones(points.shape[0]) if weights is None else to_numpy(weights).astype(np.float64)
        weighted.append((to_numpy(points)[mass > 0], mass[mass > 0] / np.sum(mass) / 2))
    few, has_equal = _displaced(weighted, _FEWEST_POINTS, p, count)
    if not has_equal and (few is None or few.rare <= _UNRELIABLE * few.mean**2):
        return None
    most = max(_FEWEST_POINTS, _MAX_DISTANCES // max(len(points) for points, _ in weighted))
    return _displaced(weighted, most, p, count)[0]


def _displaced(
    weighted: list[tuple[Floats, Floats]], most: int, p: float, count: int
) -> tuple[DisplacedPoints | None, bool]:
    """The model of at most `most` points of each sample, and whether some of them are in both samples."""
    generator = np.random.default_rng(0)  # which points are looked at must not change what is drawn later
    chosen, distances, masses = [], [], []
    for (points, mass), (others, _) in zip(weighted, weighted[::-1], strict=True):
        rows = generator.choice(len(points), most, replace=False) if most < len(points) else slice(None)
        chosen.append(points[rows].astype(np.float64))
        distances.append(_distances_to_nearest(points[rows], others))
        masses.append(mass[rows])
    lengths = np.concatenate(distances)
    n_points = sum(len(points) for points, _ in weighted)
    near = displaced_points(np.concatenate(chosen), lengths, np.concatenate(masses), p, count, n_points)
    return near, bool(np.any(lengths == 0))


def _distances_to_nearest(points: Floats, others: Floats) -> Floats:
    block = max(1, _MAX_DISTANCES // (4 * len(points)))
    nearest = np.zeros(len(points), dtype=np.intp)
    best = np.full(len(points), -np.inf)
    for start in range(0, len(others), block):
        products = points @ others[start : start + block].T
        rows = np.argmax(products, axis=1)
        values = products[np.arange(len(points)), rows]
        nearest = np.where(values > best, start + rows, nearest)
        best = np.maximum(values, best)
    distances: Floats = np.linalg.norm(points.astype(np.float64) - others[nearest], axis=1)
    return distances


def _is_rare(near: DisplacedPoints, value: float, limit: float) -> bool:
    return near.rare > limit * max(near.mean, value) ** 2


def _after_pilot(
    mixture: CenterMixture, measures: Measures, p: float, count: int, generator: np.random.Generator
) -> tuple[CenterMixture, float]:
    """The mixture with shares from a pilot, and the relative variance of the cost on uniform great circles."""
    least, most = _PILOT_CIRCLES
    frames, weights, strata = mixture.draw(min(max(count // 4, least), most), generator)
    costs = to_numpy(costs_on(measures, frames, p)).astype(np.float64)
    largest = float(np.max(costs))
    costs = costs / largest if largest > 0 else costs  # squares of costs of a large order would underflow
    mean = float(np.mean(weights * costs))
    relative_variance = float(np.mean(weights * costs**2)) / mean**2 - 1 if mean > 0 else 0.0
    return mixture.reweighted(weights * costs, strata), relative_variance


def _sample_of_points(measures: Measures, generator: np.random.Generator) -> Floats:
    """Some points of each measure, drawn by their weights."""
    samples = []
    for points, weights in measures:
        n = points.shape[0]
        shares = None if weights is None else to_numpy(weights).astype(np.float64)
        if shares is None and n <= _CENTER_POINTS:
            samples.append(to_numpy(points).astype(np.float64))
            continue
        probabilities = None if shares is None else shares / np.sum(shares)
        index = generator.choice(n, _CENTER_POINTS, replace=shares is not None, p=probabilities)
        xp = namespace(points)
        chosen = xp.take(points, xp.asarray(index, device=device(points)), axis=0)
        samples.append(to_numpy(chosen).astype(np.float64))
    return np.concatenate(samples)


def costs_on(measures: Measures, frames: Floats, p: float) -> Array:
    """W_p^p on each great circle of frames that NumPy has drawn, for measures of any library."""
    points = measures[0].points
    return backend_for(points).slice_costs(measures, to_kind(frames, points), p)
