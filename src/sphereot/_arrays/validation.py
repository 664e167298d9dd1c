"""Input validation.

Each function returns its argument as a finite floating array of the expected shape, or raises an error that explains
how to fix the call.
"""

import math
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.containers import (
    as_plain_array,
    lonlat_of_container,
    numbers_of_table,
    points_and_names,
    weights_of_container,
    without_unit,
)
from sphereot._arrays.libraries import (
    Array,
    aligned,
    device,
    have_unit_length,
    is_half,
    is_numpy,
    is_torch,
    kind_of,
    namespace,
    readable,
    to_numpy,
    unit_length_tolerance,
    wide_dtype,
)
from sphereot._support.text import listed

DEFAULT_SLICES = 200
LARGEST_ORDER = 16.0
LARGEST_SINGLE_ORDER = 4.0  # displacements in float32 are multiples of 2^-24: fourth powers are 2^-96 at least
_MISSING = {"None", "nan", "NaT", "<NA>"}  # as text: labels of pandas, too, whose NA does not compare
_MISSING_TEXTS = {"", "nan", "NaN"}  # numbers that are read as labels, from files too


class InvalidValuesError(ValueError):
    """Error for invalid values of points or weights: NaN, infinity, other lengths than 1, negative weights."""


def require_same_kind(**arrays: Array | None) -> None:
    """Raise an error unless the named arrays (None is skipped) are of one library and on one device."""
    if all(type(array) is np.ndarray for array in arrays.values()):
        return
    named = [(name, array) for name, array in arrays.items() if array is not None]
    (first_name, first), *others = named
    for name, array in others:
        both = f"{first_name} and {name} must be"
        if namespace(array) is not namespace(first):
            raise TypeError(f"{both} from the same library, got a {kind_of(first)} and a {kind_of(array)}.")
        # An array under a trace of JAX may have no device yet.
        if None not in (device(array), device(first)) and device(array) != device(first):
            raise ValueError(f"{both} on the same device, got {device(first)} and {device(array)}.")


def as_same_kind(**arrays: Array) -> list[Any]:
    """Return the named arrays, of one library and on one device; NumPy arrays next to JAX arrays become JAX arrays."""
    if all(type(array) is np.ndarray for array in arrays.values()):
        return list(arrays.values())
    # First without a look at JAX, which torch.compile cannot follow.
    if any(is_numpy(array) for array in arrays.values()) and any(map(compat.is_jax_array, arrays.values())):
        jax = next(namespace(array) for array in arrays.values() if compat.is_jax_array(array))
        arrays = {name: jax.asarray(array) if is_numpy(array) else array for name, array in arrays.items()}
    require_same_kind(**arrays)
    return list(arrays.values())


def _as_kind_of(points: Array, name: str, array: Array) -> Array:
    """Return an array of the library of `points`: arrays of NumPy and JAX are converted to each other."""
    # First without a look at JAX, which torch.compile cannot follow.
    if is_numpy(points):
        # Under a trace an array of JAX has no values to convert.
        if compat.is_jax_array(array) and not isinstance(array, sys.modules["jax"].core.Tracer):
            array = np.asarray(array)
        require_same_kind(**{"x": points, name: array})
        return array
    return as_same_kind(**{"x": points, name: array})[1]


def _as_array(name: str, value: Any, unit: str | None = None) -> Array:
    """Return an array of any library unchanged, and nested sequences of numbers as a NumPy array.

    Angles of astropy are converted to `unit`. Without `unit`, only numbers without a unit are accepted.
    """
    if isinstance(value, np.ma.MaskedArray):
        whole = f"np.ma.compress_rows({name})" if value.ndim == 2 else f"{name}.compressed()"
        raise TypeError(f"{name}: masked arrays are not supported. Pass the values that are not masked, {whole}.")
    if isinstance(value, np.ndarray):
        return aligned(np.asarray(without_unit(name, value, unit)))
    if is_torch(value):
        require_values(name, value)
        return value
    if compat.is_array_api_obj(value):
        return value
    if hasattr(value, "toarray") and hasattr(value, "nnz"):
        raise TypeError(f"{name}: sparse arrays are not supported. Pass {name}.toarray().")
    plain = as_plain_array(name, value)
    if plain is not None:
        return aligned(plain)
    if isinstance(value, Sequence | Real) and not isinstance(value, str | bytes):
        try:
            array = np.asarray(without_unit(name, value, unit))
        except ValueError as error:
            raise ValueError(f"{name}: all rows must have the same length, got a ragged sequence.") from error
        if array.dtype != object:
            return array
    raise TypeError(f"{name} must be an array (NumPy, PyTorch, JAX, ...) or a table, got {type(value).__name__}.")


def require_values(name: str, tensor: Array) -> None:
    """Raise an error if a torch tensor is on the meta device."""
    if tensor.is_meta:
        raise TypeError(f"{name} is on the meta device, which has shapes without values. Move it to another device.")


def _is_array(value: Any) -> bool:
    """Whether a value is an array that needs no reading; torch.compile can trace this check for tensors."""
    return isinstance(value, np.ndarray) or is_torch(value) or compat.is_jax_array(value)


def _as_numbers(name: str, value: Any, *, one_is_vector: bool, unit: str | None = None) -> Array:
    """Return an array, also from the numbers of a table, (n, k), or (n,) of a single column if `one_is_vector`."""
    if not _is_array(value):
        value = numbers_of_table(name, value, one_is_vector=one_is_vector, unit=unit)
    return _as_array(name, value, unit)


def _as_floating(name: str, array: Array) -> Array:
    """Convert to float32 or float64; half types are widened, other dtypes are an error."""
    xp = namespace(array)
    if is_half(array.dtype):
        return xp.astype(array, xp.float32)
    if not xp.isdtype(array.dtype, "real floating"):
        raise TypeError(f"{name} must have a real floating dtype, got {array.dtype}. Pass {name}.astype('float64').")
    # Long doubles and other byte orders are floating too, but no backend computes in them.
    return array if array.dtype in (xp.float32, xp.float64) else xp.astype(array, xp.float64)


def _require_finite(name: str, array: Array, what: str) -> None:
    values = readable(array)
    if values is not None and not bool(namespace(values).all(namespace(values).isfinite(values))):
        raise InvalidValuesError(f"{name} holds NaN or infinity. Remove or fix such {what}.")


# ---- points ----


def as_points(name: str, value: Any, *, weighted: bool = False, remedy: str = "") -> Array:
    """Validate points: unit vectors of shape (n, d), in float32 or float64; tables and other containers are read.

    With `weighted`, the container may hold weights. `remedy` is an option of the caller for points of other lengths.
    """
    if not weighted and own_weights(None, value) is not None:
        raise ValueError(f"{name} holds weights, which would be ignored here. Pass {name}.points for equal weights.")
    points, half, names = _read_vectors(name, value)
    if points.ndim != 2:
        raise ValueError(f"{name} must have shape (n, d), with one point per row, got {tuple(points.shape)}.")
    n, dim = points.shape
    if n == 0:
        raise ValueError(f"{name}: there are no points (shape {tuple(points.shape)}). Pass at least one.")
    if dim < 2:
        raise ValueError(f"{name}: points have {dim} coordinate, but a sphere needs at least 2 (the circle S^1).")
    return _check_lengths(name, points, half, names, remedy)


def as_unit_vectors(name: str, value: Any) -> Array:
    """Validate unit vectors of any leading shape (..., d), in float32 or float64; containers of points are read."""
    vectors, half, names = _read_vectors(name, value)
    if vectors.ndim < 1 or vectors.shape[-1] < 2:
        raise ValueError(f"{name} must have shape (..., d) with d at least 2, got {tuple(vectors.shape)}.")
    return _check_lengths(name, vectors, half, names)


def as_vectors(name: str, value: Any) -> Array:
    """Validate vectors: nonzero and finite, of shape (..., d), in float32 or float64; containers of points are read."""
    vectors, _, _ = _read_vectors(name, value)
    if vectors.ndim < 1 or vectors.shape[-1] < 1:
        raise ValueError(f"{name} must have shape (..., d), got {tuple(vectors.shape)}.")
    _require_finite(name, vectors, "vectors")
    values = readable(vectors)
    if values is not None and not bool(namespace(values).all(namespace(values).any(values != 0, axis=-1))):
        raise ValueError(f"{name} holds a zero vector, which has no direction. Remove such vectors.")
    return vectors


def _read_vectors(name: str, value: Any) -> tuple[Array, bool, list[str]]:
    """A floating array, whether its dtype was half precision, and the columns if it was read from all of a table."""
    if type(value) is np.ndarray and value.dtype in (np.float32, np.float64) and value.flags.aligned:
        return value, False, []
    value, names = (value, []) if _is_array(value) else points_and_names(name, value)
    array = _as_array(name, value)
    return _as_floating(name, array), is_half(array.dtype), names


def _check_lengths(name: str, vectors: Array, half: bool, names: Sequence[str], remedy: str = "") -> Array:
    """Raise an error unless all vectors (..., d) have length 1; without values (`readable`), bad ones become NaN."""
    values = vectors if type(vectors) is np.ndarray else readable(vectors)
    if values is None:
        xp = namespace(vectors)
        tolerance = unit_length_tolerance(float(xp.finfo(vectors.dtype).eps), half=half)
        return _nan_unless(xp.abs(xp.sum(vectors * vectors, axis=-1) - 1.0) <= 2.0 * tolerance, vectors)
    if values.ndim != 2:
        values = namespace(values).reshape(values, (-1, values.shape[-1]))
    _require_unit_rows(name, values, half, names, remedy)
    return vectors


def _nan_unless(valid: Array, rows: Array) -> Array:
    """Replace rows (..., n) that are not valid by NaN; their derivatives are NaN too."""
    xp = namespace(rows)
    factors = xp.where(valid, xp.ones_like(valid, dtype=rows.dtype), xp.nan)
    return rows * factors[..., None]


def _require_unit_rows(name: str, points: Array, half: bool, names: Sequence[str], remedy: str) -> None:
    """Raise an error unless points (n, d) have unit length; `names` are all columns of a table, if they are points."""
    if have_unit_length(points, half):
        return
    tolerance = unit_length_tolerance(float(namespace(points).finfo(points.dtype).eps), half=half)
    rows = to_numpy(points).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        is_unit = np.abs(np.sum(rows**2, axis=1) - 1) <= 2 * tolerance  # comparisons with NaN are false
        has_unit_columns = len(rows) > 1 and np.all(np.abs(np.sum(rows**2, axis=0) - 1) <= 2 * tolerance)
    row = int(np.argmin(is_unit))
    choose = (
        f" If not all columns ({listed(names)}) are coordinates, name those that are with columns= of "
        "sphereot.sphere.from_table."
        if names
        else ""
    )
    if not np.isfinite(rows[row]).all():
        raise InvalidValuesError(f"{name}: row {row} holds NaN or infinity. Remove or fix such rows.{choose}")
    if has_unit_columns:
        raise ValueError(
            f"{name} must have shape (n, d), with one point per row, got {tuple(rows.shape)} with unit vectors in "
            f"columns. Pass {name}.T."
        )
    length = math.hypot(*rows[row])
    shown = f"{length:.4g}" if f"{length:.4g}" != "1" else f"1 {'+' if length > 1 else '-'} {abs(length - 1):.1e}"
    message = f"{name}: row {row} has length {shown}, but points must be unit vectors."
    # Numbers below 2 pi are more likely vectors of the plane than degrees.
    largest = np.max(np.abs(rows), axis=0)
    if rows.shape[1] == 2 and largest.min() <= 90 and 2 * math.pi < largest.max() <= 360 and is_unit.mean() <= 0.5:
        raise InvalidValuesError(
            f"{message} Convert longitudes and latitudes in degrees with sphereot.sphere.from_lonlat({name})."
        )
    if length == 0.0:
        raise InvalidValuesError(f"{name}: row {row} is the zero vector, which has no direction. Remove such rows.")
    or_remedy = f", or {remedy}" if remedy else ""
    raise InvalidValuesError(
        f"{message}{choose} Normalize them first with sphereot.sphere.normalize({name}){or_remedy}."
    )


def require_same_dim(x_name: str, x: Array, y_name: str, y: Array) -> None:
    """Raise an error unless the points of `x` and `y` have the same dimension."""
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(
            f"{x_name} has points in dimension {x.shape[-1]} and {y_name} in dimension {y.shape[-1]}. "
            "Both must be on the same sphere."
        )


def require_broadcast(x_name: str, x: Array, y_name: str, y: Array, remedy: str) -> None:
    """Raise an error with a remedy unless the leading shapes of the vectors `x` and `y` broadcast."""
    for i, j in zip(reversed(x.shape[:-1]), reversed(y.shape[:-1]), strict=False):
        if i != j and 1 not in (i, j):
            raise ValueError(
                f"{x_name} has shape {tuple(x.shape)} and {y_name} has shape {tuple(y.shape)}, which do not broadcast; "
                f"{remedy}."
            )


# ---- samples with weights ----


def own_weights(weights: Any, points: Any) -> Any:
    """Return the given weights of a sample, or the weights in the container of its points."""
    return weights_of_container(points) if weights is None and not _is_array(points) else weights


def as_samples(
    samples: Mapping[str, Any], weights: Mapping[str, Any] | None = None, *, p: float = 2
) -> list[tuple[Any, Any]]:
    """Validate named samples of points with their weights: of one library, device, dtype and dimension.

    `weights` has a name and a value, which may be None, for each sample. Without it, samples with their own weights are
    an error. Orders p above 4 need float64.
    """
    points = [as_points(name, x, weighted=weights is not None) for name, x in samples.items()]
    if len(points) > 1:
        points = as_same_kind(**dict(zip(samples, points, strict=True)))
    first_name, first = next(iter(samples)), points[0]
    for name, x in zip(samples, points, strict=True):
        require_same_dim(first_name, first, name, x)
    if any(x.dtype != first.dtype for x in points):
        xp = namespace(first)
        dtype = xp.result_type(*points)
        points = [xp.astype(x, dtype, copy=False) for x in points]
    points = [in_precision_of_order(x, p) for x in points]
    if weights is None:
        return [(x, None) for x in points]
    named = zip(samples.items(), points, weights.items(), strict=True)
    return [(x, as_weights(key, own_weights(value, given), name, x)) for (name, given), x, (key, value) in named]


def as_weights(name: str, value: Any, points_name: str, points: Array, *, by_row: bool = False) -> Array | None:
    """Validate the weights (n,) of points (n, d), or (..., n) of turns (..., n) if `by_row`; None stays None."""
    if value is None:
        return None
    weights = _as_relative_weights(name, value, points)
    shape = (*weights.shape[:-1], points.shape[-1]) if by_row else (points.shape[0],)
    _require_one_each(name, weights, points_name, shape)
    return weights


def as_masses(name: str, value: Any, points_name: str, n: int) -> NDArray[np.float64]:
    """Validate weights (n,) whose size matters, not only their ratios; a NumPy array in float64, zeros included."""
    masses: NDArray[np.float64] = np.ascontiguousarray(to_numpy(_as_real_weights(name, value)), dtype=np.float64)
    _require_one_each(name, masses, points_name, (n,))
    _require_nonnegative(name, masses)
    return masses


def _require_one_each(name: str, weights: Array, points_name: str, shape: tuple[int, ...]) -> None:
    if tuple(weights.shape) != shape:
        raise ValueError(
            f"{name} must have one weight for each point of {points_name}, shape {shape}, got {tuple(weights.shape)}."
        )


def _as_relative_weights(name: str, value: Any, like: Array) -> Array:
    array = _as_real_weights(name, value)
    if not (is_torch(value) or compat.is_array_api_obj(value)):  # a plain list: follow the points
        array = namespace(like).asarray(array, device=device(like))
    array = _as_kind_of(like, name, array)
    xp = namespace(array)
    values = readable(array)
    if values is not None:
        _require_nonnegative(name, values)
        if values.ndim > 0 and not bool(namespace(values).all(namespace(values).any(values > 0, axis=-1))):
            raise InvalidValuesError(f"{name}: at least one weight must be positive, got zeros.")
    elif array.ndim > 0:
        usable = xp.all(xp.isfinite(array) & (array >= 0), axis=-1) & xp.any(array > 0, axis=-1)
        array = _nan_unless(usable, array)
    # NumPy's weights go to the kernel, which sums masses in double precision.
    dtype = xp.float64 if is_numpy(array) else like.dtype
    if array.dtype != dtype and xp.isdtype(array.dtype, "real floating") and array.ndim > 0:
        array = array / xp.max(array, axis=-1, keepdims=True)  # weights are relative, and must fit the narrower type
    return xp.astype(array, dtype)


def _as_real_weights(name: str, value: Any) -> Array:
    array = _as_numbers(name, value, one_is_vector=True)
    xp = namespace(array)
    if is_half(array.dtype):
        return xp.astype(array, xp.float32)
    if not xp.isdtype(array.dtype, ("real floating", "integral")):
        raise TypeError(f"{name}: weights must be real numbers, got {array.dtype}.")
    return array


def _require_nonnegative(name: str, weights: Array) -> None:
    xp = namespace(weights)
    _require_finite(name, weights, "weights")
    if not bool(xp.all(weights >= 0)):
        raise InvalidValuesError(f"{name}: weights cannot be negative, got {float(xp.min(weights)):.4g}.")


# ---- numbers, positions on the circle ----


def as_reals(name: str, value: Any, *, one_is_vector: bool = False, unit: str | None = None) -> Array:
    """Validate finite real numbers of any shape, in float32 or float64; integers become floating.

    Those of a table have shape (n, k); a single column is a vector (n,) if `one_is_vector`. Angles of astropy are
    converted to `unit`; without it only numbers without a unit are accepted.
    """
    array = _as_numbers(name, value, one_is_vector=one_is_vector, unit=unit)
    xp = namespace(array)
    if xp.isdtype(array.dtype, "integral"):
        array = xp.astype(array, xp.zeros(()).dtype)
    array = _as_floating(name, array)
    _require_finite(name, array, "values")
    return array


def as_lonlat(name: str, value: Any) -> Array:
    """Validate degrees as `as_reals` does; containers that name longitude and latitude are read, longitude first."""
    return as_reals(name, value if _is_array(value) else lonlat_of_container(name, value), unit="deg")


def as_turns(name: str, value: Any) -> Array:
    """Validate positions on the circle, in turns, of shape (..., n); a table of one column is a vector."""
    turns = _as_floating(name, _as_numbers(name, value, one_is_vector=True, unit="cycle"))
    if turns.ndim < 1:
        raise ValueError(f"{name} must have shape (..., n), got a single number.")
    if turns.shape[-1] == 0:
        raise ValueError(f"{name}: there are no atoms (shape {tuple(turns.shape)}). Pass at least one.")
    _require_finite(name, turns, "atoms")
    return turns


# ---- labels ----


def require_labels(name: str, labels: Any) -> None:
    """Raise an error if labels are missing: None, NaN, NaT, masked or empty text, in an array or a sequence.

    Rows without a label would otherwise become one group, or one group each.

    >>> require_labels("groups", ["anna", "", None])
    Traceback (most recent call last):
    ValueError: groups: 2 of 3 labels are missing (null, NaN or empty text). Fill them in, or leave out these rows.
    """
    if isinstance(labels, np.ma.MaskedArray):
        masked = zip(np.ma.getdata(labels).ravel(), np.ma.getmaskarray(labels).ravel(), strict=True)
        labels = [None if is_masked else label for label, is_masked in masked]
    values = np.asarray(labels) if hasattr(labels, "__array__") else np.asarray(labels, dtype=object)
    if values.dtype.kind in "biu":
        return
    given = values.ravel()
    missing = sum(
        label.strip() in _MISSING_TEXTS if isinstance(label, str) else str(label) in _MISSING
        for label in (given if values.dtype.kind in "mM" else given.tolist())  # as a list, times would be ints
    )
    if missing:
        found = f"{missing} of {values.size} labels are missing (null, NaN or empty text)"
        raise ValueError(f"{name}: {found}. Fill them in, or leave out these rows.")


# ---- orders, great circles ----


def as_int(name: str, value: Any, minimum: int, what: str) -> int:
    """Validate an integer of at least `minimum`; `what` describes it in the error message."""
    number: int | None
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number < minimum:
        raise ValueError(f"{name}: {what} must be an integer of at least {minimum}, got {value!r}.")
    return number


def as_number(name: str, value: Any, fits: Callable[[float], bool], requirement: str) -> float:
    """Validate a real number; `requirement` is the sentence of the error message that says what it must be."""
    if isinstance(value, bool) or not isinstance(value, Real) or not fits(float(value)):
        raise ValueError(f"{name}: {requirement}, got {value!r}.")
    return float(value)


def as_positive(name: str, value: Any, what: str) -> float:
    """Validate a positive, finite number; `what` describes it in the error message.

    >>> as_positive("lr", 0, "the learning rate")
    Traceback (most recent call last):
    ValueError: lr: the learning rate must be a positive number, got 0.
    """
    return as_number(name, value, lambda number: 0 < number < math.inf, f"{what} must be a positive number")


def as_weight_factor(name: str, value: Any, what: str) -> float:
    """Validate a finite number of at least 0; `what` describes it in the error message."""
    return as_number(name, value, lambda number: 0 <= number < math.inf, f"{what} must be a number of at least 0")


def as_level(alpha: Any) -> float:
    """Validate the significance level of a test."""
    requirement = "the significance level must be above 0 and at most 0.5"
    return as_number("alpha", alpha, lambda number: 0 < number <= 0.5, requirement)


def as_order(p: Any) -> float:
    """Validate the order p of a distance: a number from 1 to `LARGEST_ORDER`."""
    requirement = f"p: the order must be a number from 1 to {LARGEST_ORDER:g}"
    if not isinstance(p, Real) or isinstance(p, bool):
        raise TypeError(f"{requirement}, got {type(p).__name__}.")
    if not 1.0 <= float(p) <= LARGEST_ORDER:
        raise ValueError(f"{requirement}, got {p}.")
    return float(p)


def in_precision_of_order(points: Array, p: float) -> Array:
    """Convert points to float64 for orders above 4, whose powers underflow in float32."""
    if p <= LARGEST_SINGLE_ORDER:
        return points
    return namespace(points).astype(points, wide_dtype(points), copy=False)


def as_slice_count(n_projections: Any, projections: Array | None = None) -> int:
    """Validate the number of great circles; by default the number of `projections`, or 200."""
    if n_projections is not None:
        if not isinstance(n_projections, Integral) or isinstance(n_projections, bool):
            raise TypeError(
                f"n_projections: the number of great circles must be an integer, got {type(n_projections).__name__}. "
                "Pass frames of great circles as projections."
            )
        n_projections = as_int("n_projections", n_projections, 1, "the number of great circles")
    if projections is None:
        return DEFAULT_SLICES if n_projections is None else n_projections
    if n_projections not in (None, projections.shape[0]):
        raise ValueError(
            f"n_projections must match the number of given projections ({projections.shape[0]}), got {n_projections}. "
            "Leave n_projections out when you pass projections."
        )
    return int(projections.shape[0])


def as_frames(projections: Any, points: Array, name: str = "projections") -> Array:
    """Validate orthonormal frames (L, d, 2) for `points`, and convert them to their dtype."""
    dim = points.shape[1]
    if isinstance(projections, Real):
        raise TypeError(
            f"projections must be an array of shape (L, {dim}, 2), got the number {projections}. Pass n_projections="
            f"{projections}, or projections=sphereot.great_circles({projections}, {dim})."
        )
    frames = _as_kind_of(points, name, _as_floating(name, _as_array(name, projections)))
    if frames.ndim != 3 or frames.shape[1:] != (dim, 2) or frames.shape[0] == 0:
        raise ValueError(
            f"{name} must have shape (L, {dim}, 2) for points in dimension {dim}, with L at least 1, got "
            f"{tuple(frames.shape)}. Draw great circles with sphereot.great_circles(L, {dim})."
        )
    values = readable(frames)
    if values is not None and not _are_orthonormal(values):
        raise ValueError(
            f"{name}: the frames are not orthonormal (U^T U is not the identity). Draw them with "
            f"sphereot.great_circles(L, {dim}), or orthonormalize their columns."
        )
    return namespace(frames).astype(frames, points.dtype, copy=False)


def _are_orthonormal(frames: Array) -> bool:
    xp = namespace(frames)
    first, second = frames[..., 0], frames[..., 1]
    tolerance = max(1e-6, 1e4 * float(xp.finfo(frames.dtype).eps))
    gram = ((first, first, 1.0), (second, second, 1.0), (first, second, 0.0))
    # Comparisons with NaN are false.
    return all(float(xp.max(xp.abs(xp.vecdot(u, v) - inner))) <= tolerance for u, v, inner in gram)


def as_method(method: Any, *, also: tuple[str, ...] = ()) -> Any:
    """Validate how great circles are drawn: "iid", "orthogonal" or "quasi", or another method of a function.

    >>> as_method("grid")
    Traceback (most recent call last):
    ValueError: method must be one of 'iid', 'orthogonal', 'quasi', got 'grid'.
    """
    methods = ("iid", "orthogonal", "quasi", *also)
    if not isinstance(method, str) or method not in methods:
        raise ValueError(f"method must be one of {', '.join(map(repr, methods))}, got {method!r}.")
    return method
