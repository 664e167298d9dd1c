"""Combined permutation tests: several statistics share their labelings, and the smallest weighted p-value decides.

Let p_k(b) be the rank p-value of the statistic T_k for the labeling b among all labelings; the labeling 0 is the
observed one. The combined statistic is min_k p_k(b) / w_k, and ties are ordered by the mean of log p_k(b). The combined
p-value is the rank of the observed labeling. It is exact, because all labelings are exchangeable.

SSW sees differences of odd degree and distances. The statistic of the even part of K_d sees differences that are
symmetric under x -> -x, such as axes and bands. With points X, and w = 1/n on the first sample and -1/m on the second,
it is w^T K_even(X X^T) w.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import NDArray

from sphereot._backends.protocol import Labelings
from sphereot._backends.uniform_kernel import variance_polynomials
from sphereot._support.text import p_value_text

Statistic = Literal["combined", "ssw"]

EVEN, AXIAL = "even part", "axial SSW_1"
_WEIGHTS = {"SSW_1": 3.0, "SSW_2": 3.0, EVEN: 2.0, AXIAL: 2.0}
_AXES = "their axes or bands (symmetric under x -> -x)"
_MEANINGS = {
    "SSW_1": "the locations of points or clusters",
    "SSW_2": "their mean direction or concentration",
    EVEN: _AXES,
    AXIAL: _AXES,
}
MAX_POINTS_IN_GRAM = 2500
"""Of larger pools, a random sample of this size enters the statistic of the even part."""

_EVEN_AT_0 = 1 / 48  # the even part at equal points, in every dimension
_MAX_DOUBLE = 1000  # points; with more, single precision is faster, and symmetry makes no ties
_ROWS = 256  # of the matrix of pairs in memory
_LABELINGS = 1024
_GRAM_TOLERANCE = 1e-10  # of the largest value, or of its expected size; rounding is far below, the spread far above


class LabelingSet(NamedTuple):
    """Labelings with the same number of points in the first sample, and their numbers; 0 is the observed labeling."""

    labelings: Labelings
    columns: NDArray[np.intp]


@dataclass(frozen=True)
class Component:
    """One of the statistics of a combined test.

    Attributes
    ----------
    name : str
        "SSW_1", "SSW_2", "even part", or for sketches "axial SSW_1".
    statistic : float
        Its value: SSW_p^p in turns to the power p; without a unit for the even part.
    null_mean, null_deviation : float
        Mean and standard deviation of the statistic under the null hypothesis.
    p_value : float
        P-value of this statistic only.
    """

    name: str
    statistic: float
    null_mean: float
    null_deviation: float
    p_value: float


def components_text(components: Sequence[Component]) -> str:
    """List the p-values of the components."""
    return ", ".join(f"{component.name} {p_value_text(component.p_value)}" for component in components)


def meaning_text(components: Sequence[Component]) -> str:
    """Say in words which component has the smallest weighted p-value."""
    strongest = min(components, key=lambda component: component.p_value / _WEIGHTS[component.name])
    return f"the samples differ most in {_MEANINGS[strongest.name]}"


def as_statistic(statistic: str) -> Statistic:
    """Validate the statistic of a test."""
    for name in get_args(Statistic):
        if statistic == name:
            return cast(Statistic, name)
    raise ValueError(f"statistic must be 'combined' or 'ssw', got {statistic!r}.")


def as_order_shown(p: float | None, statistic: Statistic, dim: int, default: float) -> float:
    """Return the order of the distance that a test shows.

    For a combined test, it is 1 for locations (dimensions 2 and 3) and 2 for embeddings by default.
    """
    if statistic == "ssw":
        return float(default if p is None else p)  # histories store the text of the number
    shown = (1.0 if dim <= 3 else 2.0) if p is None else p
    if shown not in (1, 2):
        raise ValueError(f"p must be 1 or 2 with statistic='combined', got {shown:g}. Use statistic='ssw'.")
    return shown


def combine(values: Mapping[str, NDArray[np.float64]]) -> tuple[float, tuple[Component, ...]]:
    """Combine statistics by name, each for all labelings, the observed one first; equal values must be ties."""
    p_values = np.array([_rank_p_values(of_labelings) for of_labelings in values.values()])
    weights = np.array([_WEIGHTS[name] for name in values])
    least, logs = np.min(p_values / weights[:, None], axis=0), np.mean(np.log(p_values), axis=0)
    extreme = (least < least[0]) | ((least == least[0]) & (logs <= logs[0]))
    components = tuple(
        Component(name, float(all_[0]), float(np.mean(all_[1:])), float(np.std(all_[1:])), float(p[0]))
        for (name, all_), p in zip(values.items(), p_values, strict=True)
    )
    return float(np.mean(extreme)), components


def join_ties(values: NDArray[np.float64], tolerance: float) -> NDArray[np.float64]:
    """Give values equal numbers if they follow each other, in order, within a tolerance.

    >>> join_ties(np.array([0.3, 0.1, 0.3 + 1e-16, 0.5]), 1e-15)
    array([0.3, 0.1, 0.3, 0.5])
    """
    order = np.argsort(values)
    ordered = values[order]
    first = np.concatenate([[True], np.diff(ordered) > tolerance])
    joined = np.empty_like(values)
    joined[order] = ordered[np.maximum.accumulate(np.where(first, np.arange(len(values)), 0))]
    return joined


def even_statistics(
    pool: NDArray[Any], sets: Sequence[LabelingSet], generator: np.random.Generator, *, paired: bool = False
) -> NDArray[np.float64]:
    """Compute the statistic of the even part for all labelings of a pool (N, d).

    The sample of a large pool is drawn without regard to the labels, so the test stays exact. Row k and row k + N / 2
    are `paired` if labelings exchange them: then whole pairs are drawn.
    """
    units = len(pool) // 2 if paired else len(pool)
    rows = np.sort(generator.permutation(units)[: MAX_POINTS_IN_GRAM // (2 if paired else 1)])
    if paired:
        rows = np.concatenate([rows, rows + units])
    # Equal points share a row of the matrix, so that their contrasts cancel without rounding.
    points = np.ascontiguousarray(pool[rows])
    as_bytes = points.view(np.dtype((np.void, points.dtype.itemsize * points.shape[1]))).ravel()
    _, firsts, inverse, sizes = np.unique(as_bytes, return_index=True, return_inverse=True, return_counts=True)
    order, starts = np.argsort(inverse), np.cumsum(sizes) - sizes
    points = points[firsts].astype(np.float64)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    if len(points) > _MAX_DOUBLE:
        points = points.astype(np.float32)
    contrasts = np.zeros((len(points), sum(len(columns) for _, columns in sets)))
    for labelings, columns in sets:
        bits = np.unpackbits(labelings.bits[:, rows], axis=0, count=labelings.n_labelings, bitorder="little")
        first = np.maximum(bits.sum(axis=1, keepdims=True, dtype=np.float64), 1.0)
        second = np.maximum(len(rows) - first, 1.0)
        of_rows = np.where(bits, 1.0 / first, -1.0 / second).T
        contrasts[:, columns] = np.add.reduceat(of_rows[order], starts, axis=0)
    values = np.zeros(contrasts.shape[1])
    for start in range(0, len(points), _ROWS):
        stop = start + _ROWS
        kernel = _even_kernel(points[start:stop] @ points[start:].T, points.shape[1]).astype(np.float64)
        np.fill_diagonal(kernel, _EVEN_AT_0)  # equal points, where a rounded cosine has the largest error
        kernel[:, _ROWS:] *= 2  # pairs with later rows, which stand for both of their orders
        for begin in range(0, len(values), _LABELINGS):
            part = slice(begin, begin + _LABELINGS)
            values[part] += np.einsum("ib,ib->b", contrasts[start:stop, part], kernel @ contrasts[start:, part])
    return join_ties(values, _GRAM_TOLERANCE * max(float(np.max(np.abs(values))), _EVEN_AT_0 / len(rows)))


def _even_kernel(cosines: NDArray[Any], dim: int) -> NDArray[Any]:
    """Compute (K_d(gamma) + K_d(pi - gamma)) / 2; cosines of 1 or -1 up to rounding count as 1."""
    nearest = np.abs(cosines)
    nearest[nearest > 1 - 4 * np.finfo(cosines.dtype).eps] = 1
    to_axis, sine_squares = np.arccos(nearest), np.maximum(1 - nearest * nearest, np.finfo(np.float32).tiny)
    polynomials = variance_polynomials(dim, double=cosines.dtype == np.float64)
    smooth, logarithmic = (np.array(part[::-1], cosines.dtype) for part in polynomials)
    u = 2 * sine_squares - 1
    variance = sine_squares * (np.polyval(smooth, u) + np.polyval(logarithmic, u) * np.log(sine_squares))
    return np.asarray(_EVEN_AT_0 - (to_axis * (math.pi - to_axis) - variance) / (8 * math.pi**2))


def _rank_p_values(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute for every value the share of values that are at least as large."""
    return (len(values) - np.searchsorted(np.sort(values), values, side="left")) / len(values)
