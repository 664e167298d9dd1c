"""Importance sampling of great circles, for samples that are concentrated about a few centers.

Points within a small distance c of a center m are projected onto the great circle of a frame U with displacements
multiplied by 1 / r, where r = |U^T m|. The cost of a great circle grows as r^-p for r > c: the rare great circles
whose planes are nearly orthogonal to m carry much of the mean, and independent great circles miss them.

r^2 has the distribution Beta(1, (d - 2)/2), so u = 1 - (1 - r^2)^((d-2)/2) is uniform on (0, 1). Given r, the frame is
spanned by r m + sqrt(1 - r^2) t and w, with (t, w) a uniform frame in the space orthogonal to m. A `CenterMixture`
draws u from a density that is constant on strata, for each of several centers. A great circle gets the weight 1 / q(U),
where q is the density of the mixture relative to the uniform distribution, so the weighted mean is unbiased.

Samples whose points nearly coincide have as many centers as points. A point x that is displaced by a short vector e
moves on the circle by about |e| / (2 pi sqrt(d - 1) r) turns, r = |U^T x|, and by at most half a turn. Each point
contributes the cost (s^2 / (r^2 + s^2))^(p/2) / 2^p, s = |e| / (pi sqrt(d - 1)), and the density of the mixture is
proportional to the sum of these costs.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sphereot.slicing.drawing import haar_matrices

Floats = NDArray[np.float64]

_STRATA = 24
_LARGEST_LOWEST_STRATUM = 0.5
_SMALLEST_LENGTH = 0.25  # of the strata, in units of the scale of a center
# Data are concentrated about a center if a length below the scale is less probable than this. In high dimension lengths
# are short, and the tail is heavy for wider samples. Several centers must be tighter by a factor: those of one wide
# sample are close to its points too.
_TIGHT, _TIGHT_PER_DIM, _TIGHT_ABOUT_SEVERAL = 0.9, 0.03, 0.05
_MAX_CENTERS = 8
# For samples whose points nearly coincide: the share of great circles drawn by the model of `displaced_points`, and the
# expected number of draws below which great circles count as rare.
_MODEL_SHARE = 0.7
_RARE_DRAWS = 5.0
_HIGHEST_BLOCK_DIM = 9
_LLOYD_STEPS = 6
_GOLDEN_TURN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class CenterMixture:
    """Distribution of great circles: a mixture over centers and strata.

    Attributes
    ----------
    centers : array, shape (K, d)
        Unit vectors.
    edges : array, shape (K, B + 1)
        Bounds of the strata of each center, as probabilities u from 0 to 1.
    shares : array, shape (K, B)
        Probabilities of the strata in the mixture; they add up to 1.
    block : int, optional
        For many centers, the number of consecutive great circles about the same center. Without it, strata are drawn
        in order.
    """

    centers: Floats
    edges: Floats
    shares: Floats
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
        """Draw n great circles.

        Returns
        -------
        frames : array, shape (n, d, 2)
        weights : array, shape (n,)
            The mean of weights times costs is an unbiased estimate of the mean cost.
        strata : array, shape (n,)
            Index k B + b of the stratum b of the center k that each was drawn from.
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
        """Draw centers, strata and places within the strata; a block has one center and places in all its strata."""
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
        sums: Floats = np.bincount(strata, contributions, minlength=self.shares.size).reshape(self.shares.shape)
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
            angles = 2 * np.pi * ((generator.random() + _GOLDEN_TURN * np.arange(n)) % 1)
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
        density: Floats = np.sum(np.take_along_axis(heights, strata, axis=1), axis=0)
        return density


class DisplacedPoints(NamedTuple):
    """Model of the cost for samples whose points nearly coincide."""

    mixture: CenterMixture
    """Great circles, most of them in proportion to the cost of the model."""
    mean: float
    """The mean cost of the model over all great circles."""
    rare: float
    """The part of the mean squared cost from great circles that uniform draws are unlikely to meet."""


def displaced_points(
    points: Floats, distances: Floats, masses: Floats, p: float, n_draws: int, n_points: int
) -> DisplacedPoints | None:
    """Model the cost from points and their distances to the other sample; None if all distances are 0.

    Parameters
    ----------
    points : array, shape (K, d)
        Points of both samples, all or some of them.
    distances : array, shape (K,)
    masses : array, shape (K,)
        Weights of the points, which add up to 1 for both samples together.
    p : float
    n_draws, n_points : int
        Numbers of great circles of an estimate, and of points of both samples.
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
    is_rare = np.clip(2 * _RARE_DRAWS / (n_draws * n_points) - mixture.edges[:, :-1], 0.0, widths)
    repeats = n_points / len(points)
    # A displacement counts along one axis of the frame: in a block of d - 1 great circles, along each axis of a basis.
    block = dim - 1 if dim <= _HIGHEST_BLOCK_DIM else 1
    return DisplacedPoints(
        CenterMixture(points, mixture.edges, _MODEL_SHARE * shares + (1 - _MODEL_SHARE) * uniform, block),
        repeats * total,
        repeats * 2 * float(np.sum(costs**2 * is_rare)),
    )


def _draw_tangent_frames(n: int, dim: int, generator: np.random.Generator) -> Floats:
    """Draw frames (t, w), shape (n, dim, 2), in blocks: each axis of a random basis is once t and once w of a block.

    The cost of a tight sample depends on w, nearly as a quadratic form, whose mean over a block is exact.
    """
    if n < dim:
        axes = haar_matrices(generator.standard_normal, 1, dim, n + 1)[0].T
        return np.stack([axes[1:], axes[:-1]], axis=-1)
    bases = haar_matrices(generator.standard_normal, -(-n // dim), dim, dim)
    axes = np.moveaxis(bases, 2, 1)  # (blocks, axis, coordinate)
    frames = np.stack([np.roll(axes, 1, axis=1), axes], axis=-1)
    blocks: Floats = frames.reshape(-1, dim, 2)[:n]
    return blocks


def _draw_stratified(shares: Floats, n: int, generator: np.random.Generator) -> tuple[NDArray[np.intp], Floats]:
    """Draw indices by shares, one in each of n equal parts of their sum, and places between 0 and 1 within them."""
    positions = (np.arange(n) + generator.random(n)) / n
    ends = np.cumsum(shares)
    ends /= ends[-1]
    index = np.minimum(np.searchsorted(ends, positions, side="right"), ends.size - 1)
    begins = np.concatenate([[0.0], ends[:-1]])
    return index, (positions - begins[index]) / (ends[index] - begins[index])


def _squared_length(u: Floats, dim: int) -> Floats:
    """Invert `probability_of_length`."""
    squared: Floats = -np.expm1(np.log1p(-u) * (2 / (dim - 2)))
    return squared


def probability_of_length(squared_length: Any, dim: int) -> Floats:
    """The probability that the projection of a unit vector on a random plane is shorter than this."""
    probability: Floats = -np.expm1(np.log1p(-np.minimum(squared_length, 1.0 - 1e-16)) * ((dim - 2) / 2))
    return probability


def centers_of(points: Floats, generator: np.random.Generator) -> CenterMixture | None:
    """Return the mixture for points that are concentrated about one or up to eight centers; None for others.

    Parameters
    ----------
    points : array, shape (N, d)
        A sample of both measures, of equal weights.
    """
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
    # k-means on the sphere, begun with points far from each other
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
