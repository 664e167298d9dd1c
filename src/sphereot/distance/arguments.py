"""Validated arguments of the distance functions: measures and great circles."""

from collections.abc import Mapping
from typing import Any

from sphereot._arrays.containers import SampleColumns
from sphereot._arrays.libraries import Array, namespace, without_gradient
from sphereot._arrays.validation import (
    as_frames,
    as_method,
    as_same_kind,
    as_samples,
    as_slice_count,
    as_weights,
    in_precision_of_order,
    own_weights,
    require_same_dim,
)
from sphereot._backends.protocol import Measure, Measures
from sphereot.slicing.circles import great_circles

__all__ = ["frames_for", "require_exact_options", "two_measures", "without_gradients"]


def two_measures(
    x: Array,
    y: Array,
    x_weights: Array | None = None,
    y_weights: Array | None = None,
    columns: SampleColumns | None = None,
    *,
    p: float = 2,
) -> tuple[Measure, Measure]:
    """Validate two samples and their weights, and convert them to a common dtype; to float64 for orders above 4."""
    x_weights, y_weights = own_weights(x_weights, x), own_weights(y_weights, y)
    x, y = as_samples(columns, weighted=True, x=x, y=y)
    x, y = as_same_kind(x=x, y=y)
    require_same_dim("x", x, "y", y)
    if x.dtype != y.dtype:
        xp = namespace(x)
        dtype = xp.result_type(x, y)
        x, y = xp.astype(x, dtype, copy=False), xp.astype(y, dtype, copy=False)
    x, y = in_precision_of_order(x, p), in_precision_of_order(y, p)
    return (
        Measure(x, as_weights("x_weights", x_weights, "x", x)),
        Measure(y, as_weights("y_weights", y_weights, "y", y)),
    )


def without_gradients(measures: Measures) -> Measures:
    """Detached measures: an estimate with its standard error has no gradient."""
    return [
        Measure(without_gradient(points), None if weights is None else without_gradient(weights))
        for points, weights in measures
    ]


def frames_for(x: Array, n_projections: int | None, projections: Array | None, seed: Any, method: Any = "iid") -> Array:
    """Frames (L, d, 2) for points `x`: `projections` validated, or newly drawn."""
    if projections is None:
        return great_circles(as_slice_count(n_projections), x.shape[1], method=method, seed=seed, like=x)
    as_method(method)
    frames = as_frames(projections, x)
    as_slice_count(n_projections, frames)
    return without_gradient(frames)  # no backend differentiates in the circles themselves


def require_exact_options(p: float, n: int, root: bool, unbiased: bool, given: Mapping[str, Any]) -> None:
    """Raise unless the options of a distance to the uniform distribution fit `method="exact"`.

    Parameters
    ----------
    p, n, root, unbiased
        The order, the number of points, and options of `ssw_uniform`.
    given : mapping
        Options that concern great circles, by name; None where not given.
    """
    if p != 2:
        raise ValueError(f"p: got {p:g}, but method='exact' is for p = 2; give p=2, or another method.")
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name}: got a value, but method='exact' draws no great circles; leave {name} out.")
    if unbiased and root:
        raise ValueError("root: got True with unbiased=True, whose value may be negative; leave one of them out.")
    if unbiased and n < 2:
        raise ValueError(f"x: got {n} point, but unbiased=True needs at least 2; give more points.")
