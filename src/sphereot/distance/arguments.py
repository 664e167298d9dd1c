"""What the distances share: validated arguments, great circles, the root of order p."""

from typing import Any

from sphereot._arrays.libraries import Array, namespace, without_gradient
from sphereot._arrays.orders import LARGEST_PLAIN_ORDER
from sphereot._arrays.validation import (
    as_frames,
    as_order,
    as_points,
    as_slice_count,
    as_weights,
    require_same_dim,
    require_same_kind,
)
from sphereot.slicing.circles import great_circles

__all__ = ["frames_for", "is_rooted_at_once", "rooted", "two_measures"]


def two_measures(
    x: Array, y: Array, p: float, x_weights: Array | None, y_weights: Array | None
) -> tuple[float, Array, Array, Array | None, Array | None]:
    """The validated arguments of a comparison, both point sets in their common dtype."""
    p = as_order(p)
    x, y = as_points("x", x), as_points("y", y)
    require_same_kind(x=x, y=y)
    require_same_dim("x", x, "y", y)
    xp = namespace(x)
    dtype = xp.result_type(x, y)
    x, y = xp.astype(x, dtype, copy=False), xp.astype(y, dtype, copy=False)
    return p, x, y, as_weights("x_weights", x_weights, "x", x), as_weights("y_weights", y_weights, "y", y)


def frames_for(x: Array, n_projections: int | None, projections: Array | None, seed: Any) -> Array:
    """Frames (L, d, 2) of the great circles of a call: `projections` validated, or drawn."""
    if projections is None:
        return great_circles(as_slice_count(n_projections), x.shape[1], seed=seed, like=x)
    frames = as_frames(projections, x)
    as_slice_count(n_projections, frames)
    return without_gradient(frames)  # on no path are the circles themselves differentiated


def is_rooted_at_once(p: float, root: bool) -> bool:
    """Whether SSW_p is wanted of an order so large that SSW_p^p may vanish: paths compute it without that, then."""
    return root and p > LARGEST_PLAIN_ORDER


def rooted(value: Array, p: float, root: bool) -> Array:
    """SSW_p of SSW_p^p if `root` is set."""
    if not root or p == 1:
        return value
    # The root has no derivative at 0; gradients there are 0, the limit of those of SSW_p^p.
    xp = namespace(value)
    positive = value > 0
    roots = xp.where(positive, xp.where(positive, value, xp.ones_like(value)) ** (1.0 / p), xp.zeros_like(value))
    return roots[()] if roots.ndim == 0 else roots
