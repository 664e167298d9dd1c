"""Arrays: which library, dtype and device they have, and whether they are fit to work with.

The only place that asks "which library?". Everything here stands before the mathematics: what leaves these functions is
floating, finite, of one library and of the right shape, and bad input has got a message that says how to mend the call.
"""

import math
import operator
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from numbers import Integral, Real
from typing import Any, TypeAlias

import array_api_compat as compat
import numpy as np

from sphereot import _native

__all__ = [
    "Array",
    "as_circle_weights",
    "as_frames",
    "as_order",
    "as_points",
    "as_reals",
    "as_slice_count",
    "as_turns",
    "as_unit_vectors",
    "as_vectors",
    "as_weights",
    "as_whole_number",
    "device",
    "framework",
    "fresh_generator",
    "full_precision",
    "in_host_memory",
    "is_double",
    "is_numpy",
    "is_own_generator",
    "is_torch",
    "is_torch_compiling",
    "is_torch_traced",
    "namespace",
    "normal_source",
    "peek",
    "require_same_dim",
    "require_same_kind",
    "running_sums",
    "take_in_rows",
    "to_kind",
    "to_numpy",
    "without_gradient",
]

Array: TypeAlias = Any
"""An array of any library that follows the array API standard."""

Seed: TypeAlias = Any
"""An int, None, or a generator of the array's own library: numpy Generator, torch.Generator, JAX key."""

DEFAULT_SLICES = 200


# ---- which library ----


def namespace(*arrays: Array) -> Any:
    """The array API namespace that all `arrays` share.

    >>> namespace(np.zeros(3)).__name__.endswith("numpy")
    True
    """
    if all(is_torch(array) for array in arrays):
        from array_api_compat import torch as torch_namespace

        return torch_namespace
    return compat.array_namespace(*arrays)


def framework(array: Array) -> str:
    """The name of the library that `array` comes from, if it is one with a path of its own: numpy, torch, jax or ""."""
    if is_torch(array):
        return "torch"
    if is_numpy(array):
        return "numpy"
    return "jax" if compat.is_jax_array(array) else ""


def is_numpy(array: Array) -> bool:
    """Whether `array` is a NumPy array, which the compiled kernel can read."""
    return isinstance(array, np.ndarray | np.generic)


def is_torch(array: Array) -> bool:
    """Whether `array` is a torch tensor; asked in a way that torch.compile can follow."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def device(array: Array) -> Any:
    """The device that `array` is on."""
    return array.device if is_torch(array) else compat.device(array)


def take_in_rows(values: Array, indices: Array) -> Array:
    """values[row, indices[row, k]], for values (B, n) or (1, n) and indices (B, k), all of them in range."""
    if is_torch(values):
        # `take_along_dim` would first wrap the indices, in three times the time of the gather itself.
        return values.expand(indices.shape[0], -1).gather(-1, indices)
    return namespace(values).take_along_axis(values, indices, axis=-1)


def running_sums(values: Array) -> Array:
    """Cumulative sums along the last axis, in a way that torch.compile follows without a warning."""
    return values.cumsum(-1) if is_torch(values) else namespace(values).cumulative_sum(values, axis=-1)


def require_same_kind(**arrays: Array | None) -> None:
    """Raise unless the named arrays (None is skipped) are of one library and on one device."""
    named = [(name, array) for name, array in arrays.items() if array is not None]
    (first_name, first), *others = named
    for name, array in others:
        if namespace(array) is not namespace(first):
            raise TypeError(
                f"{first_name} is a {_kind(first)} and {name} a {_kind(array)}; convert one, so that both come from "
                "the same library."
            )
        # An array under a trace of JAX may have no device yet.
        if None not in (device(array), device(first)) and device(array) != device(first):
            raise ValueError(
                f"{first_name} is on {device(first)} and {name} on {device(array)}; move one, so that "
                "both are on the same device."
            )


def _kind(array: Array) -> str:
    return f"{type(array).__module__.partition('.')[0]} {type(array).__name__}"


def _as_array(name: str, value: Any) -> Array:
    """`value` itself if a library is behind it; a NumPy array for nested sequences of numbers."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name}: masked arrays are not understood; pass {name}.compressed() or the rows to keep.")
    if is_torch(value) or compat.is_array_api_obj(value):
        return value
    if isinstance(value, Sequence | Real) and not isinstance(value, str | bytes):
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise ValueError(f"{name}: the sequence is ragged; every row needs the same length.") from error
        if array.dtype != object:
            return array
    raise TypeError(f"{name}: got {type(value).__name__}; pass an array (NumPy, PyTorch, JAX, CuPy, ...) of numbers.")


def _as_floating(name: str, array: Array) -> Array:
    """`array` in float32 or float64; half types are widened, everything else is refused."""
    xp = namespace(array)
    if not xp.isdtype(array.dtype, "real floating"):
        if _is_half(array.dtype):
            return xp.astype(array, xp.float32)
        raise TypeError(
            f"{name}: dtype is {array.dtype}, but a real floating dtype is needed; convert first, "
            f"e.g. {name}.astype('float64')."
        )
    if _is_half(array.dtype):
        return xp.astype(array, xp.float32)
    # Long doubles and foreign byte orders are floating too, but nothing computes in them.
    return array if array.dtype in (xp.float32, xp.float64) else xp.astype(array, xp.float64)


def _is_half(dtype: Any) -> bool:
    return str(dtype).rpartition(".")[2] in {"float16", "bfloat16"}


def to_numpy(array: Array) -> Any:
    """The values of `array` as a NumPy array in main memory, for what only NumPy does: pictures, estimators."""
    if is_torch(array):
        return array.detach().cpu().numpy()
    if is_numpy(array) or compat.is_jax_array(array):
        return np.asarray(array)
    return array.get() if compat.is_cupy_array(array) else np.from_dlpack(array)


def _readable(array: Array) -> Array | None:
    """The values of `array` to look at, or None where a look is impossible or would stall a device.

    Under a trace (jax.jit, torch.compile, torch.func.vmap) there are no values yet, and on an accelerator a look would
    wait for all queued work. CPU tensors are looked at through NumPy: no gradient, and no threads for so little work.
    """
    if is_torch(array):
        return None if array.device.type != "cpu" or is_torch_traced() else array.detach().numpy()
    if compat.is_jax_array(array):
        if isinstance(array, sys.modules["jax"].core.Tracer) or any(d.platform != "cpu" for d in array.devices()):
            return None
        return np.asarray(array)  # looked at by jax.numpy, a constant would become part of a trace around the call
    return None if compat.is_cupy_array(array) else array


def in_host_memory(array: Array | None) -> bool:
    """Whether `array` is a torch tensor whose memory NumPy can share."""
    return array is not None and is_torch(array) and array.device.type == "cpu" and not is_torch_traced()


def is_double(array: Array) -> bool:
    """Whether the numbers are float64."""
    return bool(array.dtype == namespace(array).float64)


def peek(array: Array) -> float | None:
    """The number in `array`, of shape (), or None where it cannot be looked at (see `_readable`)."""
    value = _readable(array)
    return None if value is None else float(value)


def is_torch_traced() -> bool:
    """Whether torch tensors stand for others: in torch.compile, or under a transform of torch.func."""
    torch = sys.modules["torch"]
    return bool(torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is not None)


def full_precision(array: Array | None) -> AbstractContextManager[Any]:
    """A context in which matrix products have the precision of their arrays: torch.autocast is off."""
    if array is None or not is_torch(array):
        return nullcontext()
    context: AbstractContextManager[Any] = sys.modules["torch"].autocast(array.device.type, enabled=False)
    return context


def is_torch_compiling(like: Array | None) -> bool:
    """Whether torch.compile is tracing, so that random numbers must be drawn by an operator of the graph."""
    return like is not None and bool(is_torch(like)) and bool(sys.modules["torch"].compiler.is_compiling())


# ---- points, turns, weights ----


def as_points(name: str, value: Any) -> Array:
    """Unit vectors (n, d) in float32 or float64, or an error that names the fault."""
    array = _as_array(name, value)
    half = _is_half(array.dtype)
    points = _as_floating(name, array)
    if points.ndim != 2:
        raise ValueError(f"{name}: shape is {tuple(points.shape)}, but points are rows of an array of shape (n, d).")
    n, dim = points.shape
    if n == 0:
        raise ValueError(f"{name}: there are no points (shape {tuple(points.shape)}); give at least one.")
    if dim < 2:
        raise ValueError(f"{name}: points have {dim} coordinate, but a sphere needs at least 2 (the circle S^1).")
    values = _readable(points)
    if values is not None:
        _require_unit_rows(name, values, half)
    return points


def _require_unit_rows(name: str, points: Array, half: bool) -> None:
    xp = namespace(points)
    # Wide enough for rows normalized in their own precision, narrow enough to catch rows that were never normalized.
    tolerance = 0.05 if half else max(1e-6, 1e3 * float(xp.finfo(points.dtype).eps))
    if _native.kernel is not None and is_numpy(points) and points.flags.c_contiguous:
        if _native.kernel.have_unit_length(points, 2.0 * tolerance):
            return
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            squares = xp.vecdot(points, points)
        if bool(xp.all(xp.abs(squares - 1.0) <= 2.0 * tolerance)):  # comparisons with NaN are false
            return
    largest = xp.max(xp.abs(points), axis=-1, keepdims=True)
    scale = xp.where(xp.isfinite(largest) & (largest > 0), largest, xp.ones_like(largest))
    lengths = scale[:, 0] * xp.linalg.vector_norm(xp.where(xp.isfinite(points), points, 0 * scale) / scale, axis=-1)
    finite = xp.all(xp.isfinite(points), axis=-1)
    fit = finite & (xp.abs(lengths - 1.0) <= tolerance)
    row = int(xp.argmin(xp.astype(fit, xp.int8)))
    if not bool(finite[row]):
        raise ValueError(f"{name}: row {row} holds NaN or infinity; remove or mend such rows.")
    length = float(lengths[row])
    if length == 0.0:
        raise ValueError(f"{name}: row {row} is the zero vector, which has no direction; remove such rows.")
    raise ValueError(
        f"{name}: row {row} has length {length:.4g}, but points must be unit vectors; normalize them first with "
        f"sphereot.sphere.normalize({name})."
    )


def as_vectors(name: str, value: Any) -> Array:
    """Nonzero, finite vectors (..., d) in float32 or float64."""
    vectors = _as_floating(name, _as_array(name, value))
    if vectors.ndim < 1 or vectors.shape[-1] < 1:
        raise ValueError(f"{name}: shape is {tuple(vectors.shape)}, but vectors are an array of shape (..., d).")
    values = _readable(vectors)
    if values is not None:
        xp = namespace(values)
        if not bool(xp.all(xp.isfinite(values))):
            raise ValueError(f"{name}: holds NaN or infinity; remove or mend such vectors.")
        if not bool(xp.all(xp.any(values != 0, axis=-1))):
            raise ValueError(f"{name}: holds a zero vector, which has no direction; remove such vectors.")
    return vectors


def as_unit_vectors(name: str, value: Any) -> Array:
    """Unit vectors (..., d), one or many, in float32 or float64; as `as_points` but for the shape."""
    array = _as_array(name, value)
    half = _is_half(array.dtype)
    vectors = _as_floating(name, array)
    if vectors.ndim < 1 or vectors.shape[-1] < 2:
        raise ValueError(
            f"{name}: shape is {tuple(vectors.shape)}, but unit vectors are an array of shape (..., d), d at least 2."
        )
    values = _readable(vectors)
    if values is not None and 0 not in values.shape:
        _require_unit_rows(name, namespace(values).reshape(values, (-1, values.shape[-1])), half)
    return vectors


def as_reals(name: str, value: Any) -> Array:
    """Finite real numbers of any shape, in float32 or float64; whole numbers become floating."""
    array = _as_array(name, value)
    xp = namespace(array)
    if xp.isdtype(array.dtype, "integral"):
        array = xp.astype(array, xp.zeros(()).dtype)
    array = _as_floating(name, array)
    values = _readable(array)
    if values is not None and not bool(namespace(values).all(namespace(values).isfinite(values))):
        raise ValueError(f"{name}: holds NaN or infinity; remove or mend such values.")
    return array


def require_same_dim(x_name: str, x: Array, y_name: str, y: Array) -> None:
    """Raise unless the points of `x` and `y` have as many coordinates."""
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(
            f"{x_name} has points in dimension {x.shape[-1]} and {y_name} in dimension {y.shape[-1]}; both must lie on "
            "the same sphere."
        )


def as_turns(name: str, value: Any) -> Array:
    """Turns (..., n) in float32 or float64."""
    turns = _as_floating(name, _as_array(name, value))
    if turns.ndim < 1:
        raise ValueError(f"{name}: got a single number, but turns are an array of shape (..., n).")
    if turns.shape[-1] == 0:
        raise ValueError(f"{name}: there are no atoms (shape {tuple(turns.shape)}); give at least one.")
    values = _readable(turns)
    if values is not None and not bool(namespace(values).all(namespace(values).isfinite(values))):
        raise ValueError(f"{name}: holds NaN or infinity; remove or mend such atoms.")
    return turns


def as_weights(name: str, value: Any, points_name: str, points: Array) -> Array | None:
    """Weights (n,) of `points`, in the dtype, library and device of `points`; None stays None, for equal weights."""
    if value is None:
        return None
    weights = _checked_weights(name, value, points)
    if tuple(weights.shape) != (points.shape[0],):
        raise ValueError(
            f"{name}: shape is {tuple(weights.shape)}, but {points_name} has {points.shape[0]} points and needs one "
            f"weight each, shape ({points.shape[0]},)."
        )
    return weights


def as_circle_weights(name: str, value: Any, turns_name: str, turns: Array) -> Array | None:
    """Weights (n,) or (..., n) of `turns`, as `as_weights`."""
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
    array = _as_array(name, value)
    if not (is_torch(value) or compat.is_array_api_obj(value)):  # a plain list: follow the points
        array = namespace(like).asarray(array, device=device(like))
    require_same_kind(**{"the points": like, name: array})
    xp = namespace(array)
    if not (xp.isdtype(array.dtype, ("real floating", "integral")) or _is_half(array.dtype)):
        raise TypeError(f"{name}: dtype is {array.dtype}, but weights are real numbers.")
    values = _readable(array)
    if values is not None:
        _require_usable_weights(name, values)
    # NumPy's weights go to the kernel, which sums masses in double precision.
    dtype = xp.float64 if is_numpy(array) else like.dtype
    if array.dtype != dtype and xp.isdtype(array.dtype, "real floating") and array.ndim > 0:
        array = array / xp.max(array, axis=-1, keepdims=True)  # weights are relative, and must fit the narrower type
    return xp.astype(array, dtype)


def _require_usable_weights(name: str, weights: Array) -> None:
    xp = namespace(weights)
    if not bool(xp.all(xp.isfinite(weights))):
        raise ValueError(f"{name}: holds NaN or infinity.")
    if not bool(xp.all(weights >= 0)):
        raise ValueError(f"{name}: the smallest is {float(xp.min(weights)):.4g}, but weights cannot be negative.")
    if weights.ndim >= 1 and weights.shape[-1] > 0 and not bool(xp.all(xp.max(weights, axis=-1) > 0)):
        raise ValueError(f"{name}: all weights are zero; at least one must be positive.")


# ---- orders, slices, seeds ----


def as_whole_number(name: str, value: Any, least: int, what: str) -> int:
    """`value`, which is `what`, as an int of at least `least`."""
    number: int | None
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number < least:
        raise ValueError(f"{name}: found {value!r}, but {what} must be an int of at least {least}; give such a number.")
    return number


def as_order(p: Any) -> float:
    """The order p of the distance as a float, at least 1."""
    if not isinstance(p, Real) or isinstance(p, bool):
        raise TypeError(f"p: got {type(p).__name__}; the order is a real number, at least 1.")
    if not 1.0 <= float(p) < math.inf:
        raise ValueError(f"p: got {p}, but the order must be a finite number of at least 1.")
    return float(p)


def as_slice_count(n_projections: Any, projections: Array | None = None) -> int:
    """The number of slices: what is asked for, or the number of `projections`, or the default."""
    if n_projections is not None:
        if not isinstance(n_projections, Integral) or isinstance(n_projections, bool):
            raise TypeError(f"n_projections: got {type(n_projections).__name__}; give a whole number.")
        if n_projections < 1:
            raise ValueError(f"n_projections: got {n_projections}, but at least one slice is needed.")
    if projections is None:
        return DEFAULT_SLICES if n_projections is None else int(n_projections)
    if n_projections is not None and n_projections != projections.shape[0]:
        raise ValueError(
            f"n_projections is {n_projections}, but {projections.shape[0]} projections were given; leave n_projections "
            "out, or give as many."
        )
    return int(projections.shape[0])


def as_frames(projections: Any, points: Array) -> Array:
    """Orthonormal frames (L, d, 2) for `points`, in their dtype."""
    frames = _as_floating("projections", _as_array("projections", projections))
    require_same_kind(**{"the points": points, "projections": frames})
    xp = namespace(frames)
    dim = points.shape[1]
    if frames.ndim != 3 or frames.shape[1:] != (dim, 2) or frames.shape[0] == 0:
        raise ValueError(
            f"projections: shape is {tuple(frames.shape)}, but points in dimension {dim} need frames of shape "
            f"(L, {dim}, 2) with L at least 1, as sphereot.great_circles(L, {dim}) gives."
        )
    values = _readable(frames)
    if values is not None and not _are_orthonormal(values):
        raise ValueError(
            "projections: the frames are not orthonormal (U^T U is not the identity); draw them with "
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


def is_own_generator(seed: Seed) -> bool:
    """Whether `seed` draws in the library of the array, rather than in NumPy."""
    return _is_torch_generator(seed) or (not isinstance(seed, Integral | None) and bool(compat.is_jax_array(seed)))


def fresh_generator(like: Array | None) -> Seed:
    """A generator of the library of `like`, newly seeded from entropy, where it draws faster than NumPy; else None."""
    if like is None or not is_torch(like) or is_torch_traced():
        return None
    generator = sys.modules["torch"].Generator(like.device)
    generator.seed()
    return generator


def without_gradient(array: Array) -> Array:
    """`array` cut off from automatic differentiation, where it takes part in it as a torch tensor."""
    return array.detach() if is_torch(array) else array


def to_kind(values: Any, like: Array | None) -> Array:
    """NumPy `values` in the library, floating dtype and device of `like`; as they are if None."""
    if like is None:
        return values
    xp, dtype = namespace(like), _floating_dtype(like)
    # Cast in NumPy: torch would start threads for it.
    values = values.astype(np.float32 if dtype == xp.float32 else np.float64, copy=False)
    return xp.asarray(values, device=device(like))


def normal_source(seed: Seed, like: Array | None = None) -> Callable[[tuple[int, ...]], Array]:
    """A function `draw(shape)` of standard normals, each call going on in one stream.

    The numbers come in the library, dtype and device of `like` (float64 NumPy if None). An int or None seeds NumPy's
    generator whatever the library, so that one seed gives the same slices everywhere; a torch.Generator or a JAX key
    draws on its own device. No global random state is read or changed.
    """
    if _is_torch_generator(seed):
        return _torch_normals(seed, like)
    if not isinstance(seed, Integral | np.random.Generator | None) and compat.is_jax_array(seed):
        return _jax_normals(seed, like)
    if isinstance(seed, bool) or not (seed is None or isinstance(seed, Integral | np.random.Generator)):
        raise TypeError(
            f"seed: got {type(seed).__name__}; give an int, None, or a generator of the array's own library (numpy "
            "Generator, torch.Generator, JAX key)."
        )
    if isinstance(seed, Integral) and seed < 0:
        raise ValueError(f"seed: got {seed}, but a seed cannot be negative.")
    generator = np.random.default_rng(int(seed) if isinstance(seed, Integral) else seed)  # a Generator passes through
    if like is None:
        return lambda shape: generator.standard_normal(shape)
    xp, dtype, place = namespace(like), _floating_dtype(like), device(like)
    return lambda shape: xp.asarray(generator.standard_normal(shape), dtype=dtype, device=place)


def _floating_dtype(like: Array) -> Any:
    """The dtype that computations on `like` have: its own if float32 or float64, else float32."""
    xp = namespace(like)
    return like.dtype if like.dtype in (xp.float32, xp.float64) else xp.float32


def _is_torch_generator(seed: Seed) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(seed, torch.Generator)


def _torch_normals(seed: Seed, like: Array | None) -> Callable[[tuple[int, ...]], Array]:
    if like is None or not is_torch(like):
        raise TypeError(f"seed: a torch.Generator goes with torch tensors, not with {_like_kind(like)}; give an int.")
    torch = sys.modules["torch"]
    return lambda shape: torch.randn(shape, generator=seed, dtype=_floating_dtype(like), device=seed.device).to(
        like.device
    )


def _jax_normals(seed: Seed, like: Array | None) -> Callable[[tuple[int, ...]], Array]:
    if like is None or not compat.is_jax_array(like):
        raise TypeError(f"seed: a JAX key goes with JAX arrays, not with {_like_kind(like)}; give an int.")
    import jax

    key = seed

    def draw(shape: tuple[int, ...]) -> Array:
        nonlocal key
        key, own = jax.random.split(key)
        return jax.random.normal(own, shape, dtype=_floating_dtype(like))

    return draw


def _like_kind(like: Array | None) -> str:
    return "NumPy arrays" if like is None else f"{_kind(like)}s"
