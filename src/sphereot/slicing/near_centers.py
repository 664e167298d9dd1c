"""Importance sampling of great circles, for samples that are concentrated about a few centers.

Points within a small distance c of a center m are projected onto the great circle of a frame U with displacements
multiplied by 1 / r, where r = |U^T m|. The cost of a great circle grows as r^-p for r > c: the rare great circles
whose planes are nearly orthogonal to m carry much of the mean, and independent great circles miss them.

r^2 has the distribution Beta(1, (d - 2)/2), so u = 1 - (1 - r^2)^((d-2)/2) is uniform on (0, 1). Given r, the frame is
spanned by r m + sqrt(1 - r^2) t and w, with (t, w) a uniform frame in the space orthogonal to m. A `CenterMixture`
draws u from a density that is constant on strata, for each of several centers. A great circle gets the weight 1 / q(U),
where q is the density of the mixture relative to the uniform distribution, so the weighted mean is unbiased.

If points of two samples nearly coincide, every point is a center. A point that is displaced by a short vector e moves
on the circle by about |e| / (2 pi sqrt(d - 1) r) turns, at most half a turn. With s = |e| / (pi sqrt(d - 1)), its cost
is modeled as (s^2 / (r^2 + s^2))^(p/2) / 2^p, and the density of the mixture is proportional to the sum of the costs.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sphereot._backends.protocol import Measures
from sphereot.slicing.drawing import haar_matrices

Floats = NDArray[np.float64]

_STRATA = 24
_LARGEST_LOWEST_STRATUM = 0.5
_SMALLEST_LENGTH = 0.25  # of the strata, in units of the scale of a center
# Data are concentrated about a center if a length below the scale is less probable than this. In high dimension lengths
# are short, and the tail is heavy for wider samples. Several centers must be tighter by a factor, because those of one
# wide sample are close to its points too.
_TIGHT, _TIGHT_PER_DIM, _TIGHT_ABOUT_SEVERAL = 0.9, 0.03, 0.05
_MAX_CENTERS = 8
_LLOYD_STEPS = 6
# For samples whose points nearly coincide: the share of great circles drawn by the model of `displaced_points`, and the
# expected number of draws below which great circles are rare.
_MODEL_SHARE = 0.7
_RARE_DRAWS = 5.0
_HIGHEST_BLOCK_DIM = 9
_MAX_DISTANCES = 1 << 22  # between points of the two samples
_FEWEST_POINTS = 32
# The squared cost of rare great circles, relative to the squared mean, is below 0.1 for ordinary samples, below 6 for
# tight clusters close to each other, and above 15 for samples whose points nearly coincide.
UNRELIABLE, NEARLY_EQUAL = 1.0, 8.0


@dataclass(frozen=True)
class CenterMixture:
    """Distribution of great circles: a mixture over centers and strata."""

    centers: Floats  # (K, d), unit vectors
    edges: Floats  # (K, B + 1), bounds of the strata of each center, as probabilities u from 0 to 1
    shares: Floats  # (K, B), probabilities of the strata in the mixture; they add up to 1
    # For many centers, the number of consecutive great circles about the same center; None: strata are drawn in order.
    block: int | None = None

    @classmethod
    def of_scales(cls, centers: Floats, scales: Floats) -> "CenterMixture":
        """Make strata of geometrically growing probability, from far below the scales up, with equal shares."""
        dim = centers.shape[1]
        # In high dimension most lengths are below the scale of a wide center, and strata would have no width.
        lowest = np.minimum(probability_of_length((_SMALLEST_LENGTH * scales) ** 2, dim), _LARGEST_LOWEST_STRATUM)
        edges = np.concatenate([np.zeros((len(centers), 1)), lowest[:, None] ** np.linspace(1, 0, _STRATA)], axis=1)
        return cls(centers, edges, np.full((len(centers), _STRATA), 1 / (len(centers) * _STRATA)))

    def draw(self, n: int, generator: np.random.Generator) -> tuple[Floats, Floats, NDArray[np.intp]]:
        """Draw n great circles: frames (n, d, 2), weights (n,) and strata (n,).

        The mean of weights times costs is an unbiased estimate of the mean cost. A great circle from the stratum b of
        the center k has the index k B + b.
        """
        if self.block is None:
            strata, fractions = _draw_stratified(np.ravel(self.shares), n, generator)
            k, b = np.divmod(strata, self.shares.shape[1])
        else:
            k, b, fractions = self._draw_in_blocks(self.block, n, generator)
        low, high = self.edges[k, b], self.edges[k, b + 1]
        # Rounding must not lead out of the stratum, for which the weight is computed.
        u = np.clip(low + fractions * (high - low), low, np.nextafter(high, 0.0))
        frames = self._frames(k, u, generator)
        return frames, 1 / self._density(frames, k, u), k * self.shares.shape[1] + b

    def _draw_in_blocks(
        self, block: int, n: int, generator: np.random.Generator
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
        """Draw centers, strata and positions within the strata; a block has one center, and positions in all strata."""
        chosen, _ = _draw_stratified(np.sum(self.shares, axis=1), -(-n // block), generator)
        k = np.repeat(generator.permutation(chosen), block)[:n]  # the last block may be cut short: any of them
        positions = (generator.permutation(n) + generator.random(n)) / n
        ends = np.cumsum(self.shares[k], axis=1)
        positions *= ends[:, -1]
        b = np.minimum(np.sum(ends <= positions[:, None], axis=1), self.shares.shape[1] - 1)
        rows = np.arange(n)
        return k, b, 1 - np.clip((ends[rows, b] - positions) / self.shares[k, b], 0.0, 1.0)

    def reweight(self, contributions: Floats, strata: NDArray[np.intp]) -> "CenterMixture":
        """Return the mixture whose shares follow the weighted costs of great circles drawn from this one.

        The density that is proportional to the cost has the least variance. Because few great circles were seen, a part
        of the old shares and of the uniform distribution stays, and no weight exceeds 10.
        """
        counts = np.bincount(strata, contributions, minlength=self.shares.size)
        sums: Floats = counts.astype(np.float64).reshape(self.shares.shape)
        uniform = np.diff(self.edges, axis=1) / len(self.centers)
        total = float(np.sum(sums))
        following = self.shares
        if total > 0:
            # Averages over neighboring strata, in each of which a few great circles were seen.
            kernel = np.array([1.0, 2.0, 3.0, 2.0, 1.0])
            reach = np.convolve(np.ones(sums.shape[1]), kernel, "same")
            following = np.array([np.convolve(row / reach, kernel, "same") for row in sums]) / total
        return CenterMixture(self.centers, self.edges, 0.7 * following + 0.2 * self.shares + 0.1 * uniform)

    def _frames(self, k: NDArray[np.intp], u: Floats, generator: np.random.Generator) -> Floats:
        n, dim = len(u), self.centers.shape[1]
        squared = _squared_length(u, dim)
        if dim == 3 and self.block is None:  # angles around the center that are spread for neighbors in u
            golden = (math.sqrt(5) - 1) / 2
            angles = 2 * np.pi * ((generator.random() + golden * np.arange(n)) % 1)
            cosine, sine = np.cos(angles), np.sin(angles)
            tangent = np.moveaxis(np.array([[cosine, -sine], [sine, cosine]]), -1, 0)
        else:
            tangent = _draw_tangent_frames(n, dim - 1, generator)
        frames = np.concatenate([np.zeros((n, 1, 2)), tangent], axis=1)
        frames[:, :, 0] *= np.sqrt(1 - squared)[:, None]
        frames[:, 0, 0] = np.sqrt(squared)
        # These frames are around the first axis. A reflection maps that axis to the center or to its opposite point.
        normals = np.where(self.centers[:, :1] > 0, self.centers, -self.centers)
        normals[:, 0] += 1.0
        normal = (normals / np.linalg.norm(normals, axis=1, keepdims=True))[k]
        frames -= 2 * normal[:, :, None] * np.einsum("ni,nij->nj", normal, frames)[:, None, :]
        return frames

    def _density(self, frames: Floats, centers: NDArray[np.intp], u: Floats) -> Floats:
        """The density of the mixture relative to the uniform distribution of great circles."""
        lengths = np.sum(np.einsum("kd,ndj->knj", self.centers, frames) ** 2, axis=2)
        probabilities = probability_of_length(lengths, self.centers.shape[1])
        probabilities[centers, np.arange(len(u))] = u
        heights = self.shares / np.diff(self.edges, axis=1)
        last = self.shares.shape[1] - 1
        # Edges are powers of the lowest one, so the stratum of a probability follows from its logarithm.
        powers = np.log(np.maximum(probabilities, 1e-300)) / np.log(self.edges[:, 1:2])
        strata = np.clip(np.floor(1 + last * (1 - powers)), 0, last).astype(np.intp)
        return np.asarray(np.sum(np.take_along_axis(heights, strata, axis=1), axis=0))


class DisplacedPoints(NamedTuple):
    """Model of the cost for samples whose points nearly coincide."""

    mixture: CenterMixture  # draws most great circles in proportion to the cost of the model
    mean: float  # mean cost of the model over all great circles
    rare: float  # the part of the mean squared cost from great circles that uniform draws are unlikely to meet

    def is_rare(self, value: float, limit: float) -> bool:
        """Whether rare great circles carry much of a value."""
        return self.rare > limit * max(self.mean, value) ** 2


def displaced_points(
    points: Floats, distances: Floats, masses: Floats, p: float, n_draws: int, n_points: int
) -> DisplacedPoints | None:
    """Model the cost from points and their distances to the other sample; None if all distances are 0.

    The points (K, d) are all or some of the `n_points` points of both samples. Their masses (K,) add up to 1 for both
    samples together. `n_draws` is the number of great circles of an estimate.
    """
    dim = points.shape[1]
    if dim < 3 or not np.any((distances > 0) & (masses > 0)):
        return None
    scales = np.clip(distances / (np.pi * np.sqrt(dim - 1)), 1e-8, 1.0)
    mixture = CenterMixture.of_scales(points, scales)
    widths = np.diff(mixture.edges, axis=1)
    squares = scales[:, None] ** 2
    lengths = _squared_length(mixture.edges[:, :-1] + widths / 2, dim)
    costs = np.where(distances > 0, masses, 0.0)[:, None] * (0.25 * squares / (lengths + squares)) ** (p / 2)
    expected = costs * widths
    total = float(np.sum(expected))
    shares = expected / total
    uniform = np.sum(shares, axis=1, keepdims=True) * widths
    # A point and its neighbor in the other sample have one pole, and together twice the cost.
    rare_widths = np.clip(2 * _RARE_DRAWS / (n_draws * n_points) - mixture.edges[:, :-1], 0.0, widths)
    repeats = n_points / len(points)
    # A displacement counts along one axis of the frame: in a block of d - 1 great circles, along each axis of a basis.
    block = dim - 1 if dim <= _HIGHEST_BLOCK_DIM else 1
    return DisplacedPoints(
        CenterMixture(points, mixture.edges, _MODEL_SHARE * shares + (1 - _MODEL_SHARE) * uniform, block),
        repeats * total,
        repeats * 2 * float(np.sum(costs**2 * rare_widths)),
    )


def near_points(measures: Measures, p: float, count: int) -> DisplacedPoints | None:
    """Model points that nearly coincide with points of the other sample; None if a few points show none."""
    if len(measures) == 1:
        return None
    weighted = []
    for measure in measures:
        points, weights = measure.in_numpy()
        mass = np.ones(len(points)) if weights is None else weights
        weighted.append((points[mass > 0], mass[mass > 0] / np.sum(mass) / 2))
    few, has_equal = _model_displacements(weighted, _FEWEST_POINTS, p, count)
    if not has_equal and (few is None or not few.is_rare(0.0, UNRELIABLE)):
        return few
    most = max(_FEWEST_POINTS, _MAX_DISTANCES // max(len(points) for points, _ in weighted))
    return _model_displacements(weighted, most, p, count)[0]


def _model_displacements(
    weighted: list[tuple[Floats, Floats]], most: int, p: float, count: int
) -> tuple[DisplacedPoints | None, bool]:
    """Model at most `most` points of each sample; also return whether some of them are in both samples."""
    generator = np.random.default_rng(0)  # which points are used must not change what is drawn later
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
    return np.asarray(np.linalg.norm(points.astype(np.float64) - others[nearest], axis=1))


def _draw_tangent_frames(n: int, dim: int, generator: np.random.Generator) -> Floats:
    """Draw frames (t, w), shape (n, dim, 2), in blocks: each axis of a random basis is once t and once w of a block.

    The cost of a tight sample is nearly a quadratic form of w, whose mean over a block is exact.
    """
    if n < dim:
        axes = haar_matrices(generator.standard_normal, 1, dim, n + 1)[0].T
        return np.stack([axes[1:], axes[:-1]], axis=-1)
    bases = haar_matrices(generator.standard_normal, -(-n // dim), dim, dim)
    axes = np.moveaxis(bases, 2, 1)  # (blocks, axis, coordinate)
    return np.stack([np.roll(axes, 1, axis=1), axes], axis=-1).reshape(-1, dim, 2)[:n]


def _draw_stratified(shares: Floats, n: int, generator: np.random.Generator) -> tuple[NDArray[np.intp], Floats]:
    """Draw indices by shares, one in each of n equal parts of their sum, and positions in [0, 1] within them."""
    positions = (np.arange(n) + generator.random(n)) / n
    ends = np.cumsum(shares)
    ends /= ends[-1]
    index = np.minimum(np.searchsorted(ends, positions, side="right"), ends.size - 1)
    begins = np.concatenate([[0.0], ends[:-1]])
    return index, (positions - begins[index]) / (ends[index] - begins[index])


def _squared_length(u: Floats, dim: int) -> Floats:
    """Invert `probability_of_length`."""
    return np.asarray(-np.expm1(np.log1p(-u) * (2 / (dim - 2))))


def probability_of_length(squared_length: Any, dim: int) -> Floats:
    """The probability that the squared length of the projection of a unit vector on a random plane is smaller."""
    probability: Floats = -np.expm1(np.log1p(-np.minimum(squared_length, 1.0 - 1e-16)) * ((dim - 2) / 2))
    return probability


def centers_of(points: Floats, generator: np.random.Generator) -> CenterMixture | None:
    """Return the mixture for points (N, d) that are concentrated about one or up to eight centers; None for others."""
    dim = points.shape[1]
    if dim < 3:
        return None
    tight = min(_TIGHT, _TIGHT_PER_DIM * dim)
    mean = np.mean(points, axis=0)
    length = float(np.linalg.norm(mean))
    mixture = _mix_centers(points, mean[None, :] / length, tight) if length > 0 else None
    n_centers = min(_MAX_CENTERS, len(points) // 4)
    if mixture is not None or n_centers < 2:
        return mixture
    # k-means on the sphere, starting from points far from each other
    centers = points[[int(generator.integers(len(points)))]]
    for _ in range(n_centers - 1):
        farthest = np.argmin(np.max(points @ centers.T, axis=1))
        centers = np.concatenate([centers, points[farthest, None]])
    for _ in range(_LLOYD_STEPS):
        nearest = np.argmax(points @ centers.T, axis=1)
        sums = (nearest == np.arange(len(centers))[:, None]).astype(np.float64) @ points
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        centers = np.where(lengths > 1e-9, sums / np.maximum(lengths, 1e-9), centers)
    return _mix_centers(points, centers, _TIGHT_ABOUT_SEVERAL * tight)


def _mix_centers(points: Floats, centers: Floats, tight: float) -> CenterMixture | None:
    nearest = np.argmax(points @ centers.T, axis=1)
    squared = np.sum((points - centers[nearest]) ** 2, axis=1)
    scale = _positive_median(squared)
    if scale is None or float(probability_of_length(scale, points.shape[1])) > tight:
        return None
    scales = [_positive_median(squared[nearest == k]) or scale for k in range(len(centers))]
    return CenterMixture.of_scales(centers, np.sqrt(np.minimum(scales, 1.0)))


def _positive_median(squared: Floats) -> float | None:
    """The median, or the mean of values most of which are 0; None if all are 0."""
    if len(squared) == 0:
        return None
    value = float(np.median(squared)) or float(np.mean(squared))
    return value if value > 1e-14 else None
