"""Input validation.

Each function returns its argument as a finite floating array of the expected shape, or raises an error that explains
how to fix the call.
"""

import math
import operator
import sys
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.containers import (
    Columns,
    as_plain_array,
    lonlat_of_container,
    numbers_of_table,
    points_and_names,
    points_of_container,
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
        if namespace(array) is not namespace(first):
            raise TypeError(
                f"{first_name} is a {kind_of(first)} and {name} a {kind_of(array)}; convert one, so that both come "
                "from the same library."
            )
        # An array under a trace of JAX may have no device yet.
        if None not in (device(array), device(first)) and device(array) != device(first):
            raise ValueError(
                f"{first_name} is on {device(first)} and {name} on {device(array)}; move one, so that "
                "both are on the same device."
            )


def as_same_kind(**arrays: Array) -> list[Any]:
    """Return the named arrays; they must be of one library and on one device, or a mixture of NumPy and JAX.

    NumPy arrays are converted to arrays of JAX, as jnp does. None is kept.
    """
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
        raise TypeError(
            f"{name}: masked arrays are not supported; pass the values without masked ones, as {whole} has."
        )
    if isinstance(value, np.ndarray):
        return aligned(np.asarray(without_unit(name, value, unit)))
    if is_torch(value):
        require_values(name, value)
        return value
    if compat.is_array_api_obj(value):
        return value
    if hasattr(value, "toarray") and hasattr(value, "nnz"):
        raise TypeError(f"{name}: is sparse, which is not supported; pass {name}.toarray().")
    plain = as_plain_array(name, value)
    if plain is not None:
        return aligned(plain)
    if isinstance(value, Sequence | Real) and not isinstance(value, str | bytes):
        try:
            array = np.asarray(without_unit(name, value, unit))
        except ValueError as error:
            raise ValueError(f"{name}: the sequence is ragged; every row needs the same length.") from error
        if array.dtype != object:
            return array
    raise TypeError(
        f"{name}: got {type(value).__name__}; pass an array (NumPy, PyTorch, JAX, ...) or a table of numbers."
    )


def require_values(name: str, tensor: Array) -> None:
    """Raise an error if a torch tensor is on the meta device."""
    if tensor.is_meta:
        raise TypeError(f"{name}: is on the meta device, which has shapes without values; move it to another device.")


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
        raise TypeError(
            f"{name}: dtype is {array.dtype}, but a real floating dtype is needed; convert first, "
            f"e.g. {name}.astype('float64')."
        )
    # Long doubles and other byte orders are floating too, but no backend computes in them.
    return array if array.dtype in (xp.float32, xp.float64) else xp.astype(array, xp.float64)


# ---- points, turns, weights ----


def as_points(
    name: str, value: Any, columns: Columns | None = None, *, weighted: bool = False, remedy: str = ""
) -> Array:
    """Validate points: unit vectors of shape (n, d), in float32 or float64; tables and other containers are read.

    With `weighted`, the container may hold weights, because the caller reads them (`own_weights`) or does not need
    them. `remedy` is what the caller offers for points of other lengths, such as an option.
    """
    names: list[str] = []
    if columns is not None or not _is_array(value):
        if not weighted and weights_of_container(value) is not None:
            raise ValueError(
                f"{name}: holds weights, which would be ignored here; pass {name}.points, and {name}.weights to a "
                "function that takes weights."
            )
        value, names = points_and_names(name, value, columns)
    half, points = False, value
    if not (type(value) is np.ndarray and value.dtype in (np.float32, np.float64) and value.flags.aligned):
        array = _as_array(name, value)
        half = is_half(array.dtype)
        points = _as_floating(name, array)
    if points.ndim != 2:
        raise ValueError(f"{name}: shape is {tuple(points.shape)}, but points are rows of an array of shape (n, d).")
    n, dim = points.shape
    if n == 0:
        raise ValueError(f"{name}: there are no points (shape {tuple(points.shape)}); give at least one.")
    if dim < 2:
        raise ValueError(f"{name}: points have {dim} coordinate, but a sphere needs at least 2 (the circle S^1).")
    values = points if type(points) is np.ndarray else readable(points)
    if values is not None:
        _require_unit_rows(name, values, half, names, remedy)
    else:
        points = _nan_unless_unit(points, half)
    return points


def _nan_unless_unit(rows: Array, half: bool) -> Array:
    xp = namespace(rows)
    tolerance = unit_length_tolerance(float(xp.finfo(rows.dtype).eps), half=half)
    return _nan_unless(xp.abs(xp.sum(rows * rows, axis=-1) - 1.0) <= 2.0 * tolerance, rows)


def _nan_unless(valid: Array, rows: Array) -> Array:
    """Replace rows (..., n) that are not valid by NaN; their derivatives are NaN too."""
    xp = namespace(rows)
    factors = xp.where(valid, xp.ones_like(valid, dtype=rows.dtype), xp.nan)
    return rows * factors[..., None]


def own_weights(weights: Any, points: Any) -> Any:
    """Return the weights of a sample if they are given, else the weights in the container of its points."""
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


def _require_unit_rows(name: str, points: Array, half: bool, names: Sequence[str] = (), remedy: str = "") -> None:
    """Raise an error unless points (n, d) have unit length; `names` are all columns of a table, if they are points."""
    if have_unit_length(points, half):
        return
    xp = namespace(points)
    tolerance = unit_length_tolerance(float(xp.finfo(points.dtype).eps), half=half)
    largest = xp.max(xp.abs(points), axis=-1, keepdims=True)
    scale = xp.where(xp.isfinite(largest) & (largest > 0), largest, xp.ones_like(largest))
    lengths = scale[:, 0] * xp.linalg.vector_norm(xp.where(xp.isfinite(points), points, 0 * scale) / scale, axis=-1)
    finite = xp.all(xp.isfinite(points), axis=-1)
    fit = finite & (xp.abs(lengths - 1.0) <= tolerance)
    row = int(xp.argmin(xp.astype(fit, xp.int8)))
    or_columns = (
        f"if not all columns ({listed(names)}) are coordinates, name those that are with columns= of "
        "sphereot.sphere.from_table, or "
        if names
        else ""
    )
    if not bool(finite[row]):
        raise InvalidValuesError(f"{name}: row {row} holds NaN or infinity; {or_columns}remove or fix such rows.")
    if points.shape[0] > 1 and have_unit_length(points.T, half):
        raise ValueError(
            f"{name}: shape is {tuple(points.shape)} and the columns are unit vectors, but points are rows of an array "
            f"of shape (n, d); pass {name}.T."
        )
    length = float(lengths[row])
    shown = f"{length:.4g}" if f"{length:.4g}" != "1" else f"1 {'+' if length > 1 else '-'} {abs(length - 1):.1e}"
    mostly_unit = 2 * int(xp.sum(xp.astype(fit, xp.int64))) > points.shape[0]
    largest = xp.max(xp.abs(points), axis=0)
    is_like_degrees = (
        points.shape[1] == 2
        and bool(xp.all(largest <= 360))
        and bool(xp.any(largest <= 90))
        and bool(xp.any(largest > 2 * math.pi))  # others are more likely vectors of the plane
    )
    if is_like_degrees and not mostly_unit:
        raise InvalidValuesError(
            f"{name}: row {row} has length {shown}, but points must be unit vectors; convert longitudes and "
            f"latitudes in degrees with sphereot.sphere.from_lonlat({name})."
        )
    if length == 0.0:
        raise InvalidValuesError(f"{name}: row {row} is the zero vector, which has no direction; remove such rows.")
    or_remedy = f"{remedy}, or " if remedy else ""
    raise InvalidValuesError(
        f"{name}: row {row} has length {shown}, but points must be unit vectors; {or_columns}{or_remedy}normalize them "
        f"first with sphereot.sphere.normalize({name})."
    )


def as_vectors(name: str, value: Any) -> Array:
    """Validate vectors: nonzero and finite, of shape (..., d), in float32 or float64; containers of points are read."""
    vectors = _as_floating(name, _as_array(name, value if _is_array(value) else points_of_container(name, value)))
    if vectors.ndim < 1 or vectors.shape[-1] < 1:
        raise ValueError(f"{name}: shape is {tuple(vectors.shape)}, but vectors are an array of shape (..., d).")
    values = readable(vectors)
    if values is not None:
        xp = namespace(values)
        if not bool(xp.all(xp.isfinite(values))):
            raise ValueError(f"{name}: holds NaN or infinity; remove or fix such vectors.")
        if not bool(xp.all(xp.any(values != 0, axis=-1))):
            raise ValueError(f"{name}: holds a zero vector, which has no direction; remove such vectors.")
    return vectors


def as_unit_vectors(name: str, value: Any) -> Array:
    """Validate unit vectors of any leading shape (..., d), in float32 or float64; containers of points are read."""
    names: list[str] = []
    if not _is_array(value):
        value, names = points_and_names(name, value)
    array = _as_array(name, value)
    half = is_half(array.dtype)
    vectors = _as_floating(name, array)
    if vectors.ndim < 1 or vectors.shape[-1] < 2:
        raise ValueError(
            f"{name}: shape is {tuple(vectors.shape)}, but unit vectors are an array of shape (..., d), d at least 2."
        )
    values = readable(vectors)
    if values is None:
        vectors = _nan_unless_unit(vectors, half)
    elif 0 not in values.shape:
        _require_unit_rows(name, namespace(values).reshape(values, (-1, values.shape[-1])), half, names)
    return vectors


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
    values = readable(array)
    if values is not None and not bool(namespace(values).all(namespace(values).isfinite(values))):
        raise ValueError(f"{name}: holds NaN or infinity; remove or fix such values.")
    return array


def as_lonlat(name: str, value: Any) -> Array:
    """Validate degrees as `as_reals` does; containers that name longitude and latitude are read, longitude first."""
    return as_reals(name, value if _is_array(value) else lonlat_of_container(name, value), unit="deg")


def require_same_dim(x_name: str, x: Array, y_name: str, y: Array) -> None:
    """Raise an error unless the points of `x` and `y` have the same dimension."""
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(
            f"{x_name} has points in dimension {x.shape[-1]} and {y_name} in dimension {y.shape[-1]}; both must lie on "
            "the same sphere."
        )


def require_broadcast(x_name: str, x: Array, y_name: str, y: Array, remedy: str) -> None:
    """Raise an error with a remedy unless the leading shapes of the vectors `x` and `y` broadcast."""
    for i, j in zip(reversed(x.shape[:-1]), reversed(y.shape[:-1]), strict=False):
        if i != j and 1 not in (i, j):
            raise ValueError(
                f"{x_name} has shape {tuple(x.shape)} and {y_name} has shape {tuple(y.shape)}, which do not broadcast; "
                f"{remedy}."
            )


def as_turns(name: str, value: Any) -> Array:
    """Validate turns (coordinates on the circle) of shape (..., n), in float32 or float64.

    A table of one column is a vector of turns.
    """
    turns = _as_floating(name, _as_numbers(name, value, one_is_vector=True, unit="cycle"))
    if turns.ndim < 1:
        raise ValueError(f"{name}: got a single number, but turns are an array of shape (..., n).")
    if turns.shape[-1] == 0:
        raise ValueError(f"{name}: there are no atoms (shape {tuple(turns.shape)}); give at least one.")
    values = readable(turns)
    if values is not None and not bool(namespace(values).all(namespace(values).isfinite(values))):
        raise InvalidValuesError(f"{name}: holds NaN or infinity; remove or fix such atoms.")
    return turns


def as_weights(name: str, value: Any, points_name: str, points: Array) -> Array | None:
    """Validate the weights (n,) of `points`, in their library and device; None (equal weights) stays None."""
    if value is None:
        return None
    weights = _checked_weights(name, value, points)
    if tuple(weights.shape) != (points.shape[0],):
        raise ValueError(
            f"{name}: shape is {tuple(weights.shape)}, but {points_name} has {points.shape[0]} points and needs one "
            f"weight each, shape ({points.shape[0]},)."
        )
    return weights


def as_masses(name: str, value: Any, points_name: str, n: int) -> NDArray[np.float64]:
    """Validate weights (n,) whose size matters, not their ratios alone; a NumPy array in float64, zeros included."""
    array = _as_numbers(name, value, one_is_vector=True)
    xp = namespace(array)
    if not (xp.isdtype(array.dtype, ("real floating", "integral")) or is_half(array.dtype)):
        raise TypeError(f"{name}: dtype is {array.dtype}, but weights are real numbers.")
    if is_half(array.dtype):
        array = xp.astype(array, xp.float32)
    masses: NDArray[np.float64] = np.ascontiguousarray(to_numpy(array), dtype=np.float64)
    if masses.shape != (n,):
        raise ValueError(
            f"{name}: shape is {masses.shape}, but {points_name} has {n} points and needs one weight each, "
            f"shape ({n},)."
        )
    if not np.all(np.isfinite(masses)):
        raise ValueError(f"{name}: holds NaN or infinity.")
    if not np.all(masses >= 0):
        raise ValueError(f"{name}: the smallest is {float(np.min(masses)):.4g}, but weights cannot be negative.")
    return masses


def as_circle_weights(name: str, value: Any, turns_name: str, turns: Array) -> Array | None:
    """Validate the weights (n,) or (..., n) of `turns`; None (equal weights) stays None."""
    if value is None:
        return None
    weights = _checked_weights(name, value, turns)
    if weights.ndim < 1 or weights.shape[-1] != turns.shape[-1]:
        raise ValueError(
            f"{name}: shape is {tuple(weights.shape)}, but {turns_name} has {turns.shape[-1]} atoms and needs one "
            f"weight each, shape ({turns.shape[-1]},) or (..., {turns.shape[-1]})."
        )
    return weights


def _checked_weights(name: str, value: Any, like: Array) -> Array:
    array = _as_numbers(name, value, one_is_vector=True)
    if not (is_torch(value) or compat.is_array_api_obj(value)):  # a plain list: follow the points
        array = namespace(like).asarray(array, device=device(like))
    array = _as_kind_of(like, name, array)
    xp = namespace(array)
    if not (xp.isdtype(array.dtype, ("real floating", "integral")) or is_half(array.dtype)):
        raise TypeError(f"{name}: dtype is {array.dtype}, but weights are real numbers.")
    if is_half(array.dtype):
        array = xp.astype(array, xp.float32)
    values = readable(array)
    if values is not None:
        _require_usable_weights(name, values)
    elif array.ndim > 0:
        usable = xp.all(xp.isfinite(array) & (array >= 0), axis=-1) & xp.any(array > 0, axis=-1)
        array = _nan_unless(usable, array)
    # NumPy's weights go to the kernel, which sums masses in double precision.
    dtype = xp.float64 if is_numpy(array) else like.dtype
    if array.dtype != dtype and xp.isdtype(array.dtype, "real floating") and array.ndim > 0:
        array = array / xp.max(array, axis=-1, keepdims=True)  # weights are relative, and must fit the narrower type
    return xp.astype(array, dtype)


def _require_usable_weights(name: str, weights: Array) -> None:
    xp = namespace(weights)
    if not bool(xp.all(xp.isfinite(weights))):
        raise InvalidValuesError(f"{name}: holds NaN or infinity.")
    if not bool(xp.all(weights >= 0)):
        raise InvalidValuesError(
            f"{name}: the smallest is {float(xp.min(weights)):.4g}, but weights cannot be negative."
        )
    if weights.ndim >= 1 and weights.shape[-1] > 0 and not bool(xp.all(xp.max(weights, axis=-1) > 0)):
        raise InvalidValuesError(f"{name}: all weights are zero; at least one must be positive.")


# ---- labels ----


def require_labels(name: str, labels: Any) -> None:
    """Raise an error if labels are missing: None, NaN, NaT or empty text, in an array or a sequence.

    One rule for groups, keys and times: rows without a label would otherwise become one group, or a group each.

    >>> require_labels("groups", ["anna", "", None])
    Traceback (most recent call last):
    ValueError: groups: 2 of 3 labels are missing (null, NaN or empty text); fill them in, or leave these rows out.
    """
    values = np.asarray(labels) if hasattr(labels, "__array__") else np.asarray(labels, dtype=object)
    if values.dtype.kind in "biu":
        return
    given = values.ravel()
    missing = sum(
        label.strip() in _MISSING_TEXTS if isinstance(label, str) else str(label) in _MISSING
        for label in (given if values.dtype.kind in "mM" else given.tolist())  # as a list, times would be ints
    )
    if missing:
        raise ValueError(
            f"{name}: {missing} of {values.size} labels are missing (null, NaN or empty text); fill them in, or leave "
            "these rows out."
        )


# ---- orders, slices ----


def as_int(name: str, value: Any, minimum: int, what: str) -> int:
    """Validate an integer of at least `minimum`; `what` describes it in the error message."""
    number: int | None
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number < minimum:
        raise ValueError(f"{name}: got {value!r}, but {what} must be an int of at least {minimum}; give such a number.")
    return number


def as_positive(name: str, value: Any, what: str) -> float:
    """Validate a positive, finite number; `what` describes it in the error message.

    >>> as_positive("lr", 0, "a learning rate")
    Traceback (most recent call last):
    ValueError: lr: got 0, but a learning rate is a positive number; give such a number.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < math.inf:
        raise ValueError(f"{name}: got {value!r}, but {what} is a positive number; give such a number.")
    return float(value)


def as_weight_factor(name: str, value: Any, what: str) -> float:
    """Validate a finite number of at least 0; `what` describes it in the error message."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < math.inf:
        raise ValueError(f"{name}: got {value!r}, but {what} is a number of at least 0; give such a number.")
    return float(value)


def as_level(alpha: Any) -> float:
    """The level of a test: a number above 0 and at most 0.5."""
    if isinstance(alpha, bool) or not isinstance(alpha, int | float | np.floating) or not 0 < alpha <= 0.5:
        raise ValueError(f"alpha: got {alpha!r}, but a level is above 0 and at most 0.5; 0.05 is usual.")
    return float(alpha)


def as_order(p: Any) -> float:
    """Validate the order p of a distance: a number from 1 to `LARGEST_ORDER`."""
    if not isinstance(p, Real) or isinstance(p, bool):
        raise TypeError(f"p: got {type(p).__name__}; the order is a real number, at least 1.")
    if not 1.0 <= float(p) < math.inf:
        raise ValueError(f"p: got {p}, but the order must be a finite number of at least 1.")
    if float(p) > LARGEST_ORDER:
        raise ValueError(
            f"p: got {p}, but the order must be at most {LARGEST_ORDER:g}; give a smaller "
            "p, for example 4, which follows the large displacements already."
        )
    return float(p)


def in_precision_of_order(points: Array, p: float) -> Array:
    """Points in float64 for orders above 4, whose powers underflow in float32; unchanged for others."""
    if p <= LARGEST_SINGLE_ORDER:
        return points
    return namespace(points).astype(points, wide_dtype(points), copy=False)


def as_slice_count(n_projections: Any, projections: Array | None = None) -> int:
    """Validate the number of great circles; by default that of `projections`, or 200."""
    if n_projections is not None:
        if not isinstance(n_projections, Integral) or isinstance(n_projections, bool):
            raise TypeError(
                f"n_projections: got {type(n_projections).__name__}, but the number of great circles is an int; frames "
                "are passed as projections."
            )
        if n_projections < 1:
            raise ValueError(f"n_projections: got {n_projections}, but at least one slice is needed.")
    if projections is None:
        return DEFAULT_SLICES if n_projections is None else int(n_projections)
    if n_projections is not None and n_projections != projections.shape[0]:
        raise ValueError(
            f"n_projections: got {n_projections} beside {projections.shape[0]} projections; leave n_projections "
            "out, or make it that number."
        )
    return int(projections.shape[0])


def as_frames(projections: Any, points: Array, name: str = "projections") -> Array:
    """Validate orthonormal frames (L, d, 2) for `points`, and convert them to their dtype."""
    dim = points.shape[1]
    if isinstance(projections, Real):
        raise TypeError(
            f"projections: got the number {projections}, but the great circles themselves are an array of shape "
            f"(L, {dim}, 2); pass n_projections={projections}, or projections=sphereot.great_circles({projections}, "
            f"{dim})."
        )
    frames = _as_kind_of(points, name, _as_floating(name, _as_array(name, projections)))
    xp = namespace(frames)
    if frames.ndim != 3 or frames.shape[1:] != (dim, 2) or frames.shape[0] == 0:
        raise ValueError(
            f"{name}: shape is {tuple(frames.shape)}, but points in dimension {dim} need frames of shape "
            f"(L, {dim}, 2) with L at least 1, as sphereot.great_circles(L, {dim}) gives."
        )
    values = readable(frames)
    if values is not None and not _are_orthonormal(values):
        raise ValueError(
            f"{name}: the frames are not orthonormal (U^T U is not the identity); draw them with "
            f"sphereot.great_circles(L, {dim}) or orthonormalize their columns."
        )
    return xp.astype(frames, points.dtype, copy=False)


def _are_orthonormal(frames: Array) -> bool:
    xp = namespace(frames)
    first, second = frames[..., 0], frames[..., 1]
    tolerance = max(1e-6, 1e4 * float(xp.finfo(frames.dtype).eps))
    gram = ((first, first, 1.0), (second, second, 1.0), (first, second, 0.0))
    # Comparisons with NaN are false.
    return all(float(xp.max(xp.abs(xp.vecdot(u, v) - inner))) <= tolerance for u, v, inner in gram)


def as_method(method: Any, *, also: tuple[str, ...] = ()) -> Any:
    """Validate how great circles are drawn: "iid", "orthogonal" or "quasi", or another that a function has.

    >>> as_method("grid")
    Traceback (most recent call last):
    ValueError: method: got 'grid', which is unknown; choose one of 'iid', 'orthogonal', 'quasi'.
    """
    methods = ("iid", "orthogonal", "quasi", *also)
    if not isinstance(method, str) or method not in methods:
        raise ValueError(f"method: got {method!r}, which is unknown; choose one of {', '.join(map(repr, methods))}.")
    return method
