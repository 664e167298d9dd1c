"""SSW_p^p between all pairs of several samples."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any, overload

from numpy.typing import NDArray

from sphereot._arrays.containers import SampleColumns, is_table
from sphereot._arrays.libraries import Array, device, namespace
from sphereot._arrays.types import ArrayT, Frames, Method, Numbers, NumpyPoints, Points, Seed, SupportsDLPack
from sphereot._arrays.validation import (
    as_order,
    as_same_kind,
    as_samples,
    as_weights,
    in_precision_of_order,
    own_weights,
    require_same_dim,
)
from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure, Measures
from sphereot._support.keyword_options import options_by_name
from sphereot.distance.arguments import frames_for

__all__ = ["pairwise_matrix", "pairwise_ssw", "several_measures"]


@overload
def pairwise_ssw(
    measures: Sequence[NumpyPoints] | NDArray[Any],
    *,
    p: float = ...,
    weights: Sequence[Numbers | None] | None = ...,
    n_projections: int | None = ...,
    projections: Frames | None = ...,
    method: Method = ...,
    seed: Seed = ...,
    root: bool = ...,
    columns: SampleColumns | None = ...,
) -> NDArray[Any]: ...


@overload
def pairwise_ssw(
    measures: Sequence[ArrayT | NumpyPoints] | ArrayT,
    *,
    p: float = ...,
    weights: Sequence[Numbers | None] | None = ...,
    n_projections: int | None = ...,
    projections: Frames | None = ...,
    method: Method = ...,
    seed: Seed = ...,
    root: bool = ...,
    columns: SampleColumns | None = ...,
) -> ArrayT: ...


@overload
def pairwise_ssw(
    measures: Sequence[Points] | SupportsDLPack,
    *,
    p: float = ...,
    weights: Sequence[Numbers | None] | None = ...,
    n_projections: int | None = ...,
    projections: Frames | None = ...,
    method: Method = ...,
    seed: Seed = ...,
    root: bool = ...,
    columns: SampleColumns | None = ...,
) -> Any: ...


@options_by_name
def pairwise_ssw(
    measures: Sequence[Points] | SupportsDLPack,
    *,
    p: float = 2,
    weights: Sequence[Numbers | None] | None = None,
    n_projections: int | None = None,
    projections: Frames | None = None,
    method: Method = "iid",
    seed: Seed = None,
    root: bool = False,
    columns: SampleColumns | None = None,
) -> Array:
    """SSW_p^p between all pairs of several samples, on shared great circles.

    Parameters
    ----------
    measures : sequence of N arrays, shapes (n_i, d)
        Unit vectors; or one array of shape (N, n, d).
    p : float
        Order, from 1 to 16.
    weights : sequence of N arrays, shapes (n_i,), or None
        Nonnegative weights of each sample; None stands for equal weights, of all or of one.
    n_projections, projections, method, seed, root
        As in `ssw`.
    columns : str, int or sequence of them, or N sequences, optional
        As in `ssw`: for all tables among the samples, or a list for each sample.

    Returns
    -------
    array, shape (N, N)
        Symmetric, with zeros on the diagonal. Each sample is projected and sorted once per slice.

    Examples
    --------
    >>> import numpy as np
    >>> import sphereot
    >>> rng = np.random.default_rng(0)
    >>> samples = [sphereot.sphere.normalize(rng.normal(size=(100, 3)) + [k, 0, 0]) for k in range(3)]
    >>> d = sphereot.pairwise_ssw(samples, seed=0)
    >>> bool(d[0, 2] > d[0, 1]), bool(d[0, 1] == d[1, 0])
    (True, True)
    """
    p = as_order(p)
    validated = several_measures(measures, weights, columns, p=p)
    frames = frames_for(validated[0].points, n_projections, projections, seed, method)
    return pairwise_matrix(validated, frames, p, root=root)


def several_measures(
    measures: Any, weights: Sequence[Array | None] | None, columns: SampleColumns | None = None, *, p: float = 2
) -> Measures:
    """Validate several samples and their weights, and convert them to a common dtype."""
    if not isinstance(measures, Sequence) and not hasattr(measures, "__dlpack__") and is_table(measures):
        raise TypeError(f"measures: got {type(measures).__name__}, one table; pass a list of samples.")
    count = len(measures)
    if count == 0:
        raise ValueError("measures: there are none; give at least one sample.")
    if weights is not None and len(weights) != count:
        raise ValueError(f"weights: got {len(weights)} for {count} measures; give one array, or None, for each.")
    names = [f"measures[{i}]" for i in range(count)]
    masses = [own_weights(None if weights is None else weights[i], measures[i]) for i in range(count)]
    points = as_samples(columns, weighted=True, **{name: measures[i] for i, name in enumerate(names)})
    points = as_same_kind(**dict(zip(names, points, strict=True)))
    for name, x in zip(names, points, strict=True):
        require_same_dim(names[0], points[0], name, x)
    xp = namespace(points[0])
    dtype = xp.result_type(*points)
    points = [in_precision_of_order(xp.astype(x, dtype, copy=False), p) for x in points]
    return [Measure(points[i], as_weights(f"weights[{i}]", masses[i], name, points[i])) for i, name in enumerate(names)]


def pairwise_matrix(measures: Measures, frames: Array, p: float, *, root: bool) -> Array:
    """`pairwise_ssw` of validated measures on the great circles of `frames`."""
    count, first = len(measures), measures[0].points
    xp, dtype = namespace(first), first.dtype
    if count == 1:
        return xp.zeros((1, 1), dtype=dtype, device=device(first))
    costs = xp.astype(backend_for(first).pairwise_costs(measures, frames, p, root=root), dtype, copy=False)
    # Entry (i, j) of the square is the cost of its pair; a zero in front serves the diagonal.
    index = [[0] * count for _ in range(count)]
    for k, (i, j) in enumerate(combinations(range(count), 2), start=1):
        index[i][j] = index[j][i] = k
    flat = xp.asarray([k for row in index for k in row], device=device(costs))
    return xp.reshape(xp.take(xp.concat([xp.zeros_like(costs[:1]), costs]), flat), (count, count))
