"""The compiled kernel inside JAX programs on the CPU; the same functions as `traced`.

JAX hands over its buffers as they are (`buffer_callback`): nothing is copied, and a call costs some ten microseconds
beyond the kernel's own time. `jax.pure_callback` costs ten times that, and it waits inside the call for a copy that one
of XLA's threads must make: with one core it hangs as soon as an array passes 100 kB (jax 0.10.2).
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental.buffer_callback import buffer_callback
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, aligned
from sphereot._backends import native
from sphereot._backends.jax.devices import varying_like
from sphereot._backends.native import backend as native_backend
from sphereot._backends.protocol import Measure, Measures, Wanted

available: bool = native.serves(np.zeros(0))

Kernel = Callable[[Measures, Array | None], Sequence[Any]]


def costs(measures: Measures, frames: Array | None, p: float) -> Array:
    """W_p^p of rows of turns, (B,), where `frames` is None; else the mean over the slices of points."""

    def kernel(measures: Measures, frames: Array | None) -> Sequence[Any]:
        if frames is None:
            return [native_backend.circle_costs(measures, p)]
        return [native_backend.mean_cost(measures, frames, p)]

    return _call(kernel, [_value(measures, frames)], measures, frames)[0]


def gradients(
    measures: Measures, frames: Array | None, p: float, wanted: Sequence[Wanted]
) -> tuple[Array, tuple[tuple[Array | None, Array | None], ...]]:
    """`costs`, and the gradients in the points and weights of each measure; None where not wanted."""

    def kernel(measures: Measures, frames: Array | None) -> Sequence[Any]:
        if frames is None:
            return jax.tree.leaves(native_backend.circle_gradients(measures, p, wanted))
        return jax.tree.leaves(native_backend.mean_gradients(measures, frames, p, wanted))

    like = tuple(
        (x if wants.points else None, a if wants.weights else None)
        for (x, a), wants in zip(measures, wanted, strict=True)
    )
    leaves, tree = jax.tree.flatten((_value(measures, frames), like))
    value_and_gradients: tuple[Array, Any] = jax.tree.unflatten(tree, _call(kernel, leaves, measures, frames))
    return value_and_gradients


def slice_costs(measures: Measures, frames: Array, p: float) -> Array:
    """W_p^p on each great circle, (L,)."""
    result = jax.ShapeDtypeStruct(frames.shape[:1], frames.dtype)

    def kernel(measures: Measures, frames: Any) -> Sequence[Any]:
        return [native_backend.slice_costs(measures, frames, p)]

    return _call(kernel, [result], measures, frames)[0]


def pairwise_means(measures: Measures, frames: Array, p: float) -> Array:
    """Means over the slices of the costs of the pairs i < j, in order; each measure is sorted once per slice."""
    result = jax.ShapeDtypeStruct((len(measures) * (len(measures) - 1) // 2,), frames.dtype)

    def kernel(measures: Measures, frames: Any) -> Sequence[Any]:
        return [native_backend.pairwise_costs(measures, frames, p)]

    return _call(kernel, [result], measures, frames)[0]


def pair_cost(measures: Measures, frames: None, unbiased: bool) -> Array:
    """SSW_2^2 of one measure to the uniform distribution, without slices."""
    return pair_gradients(measures, frames, unbiased, Wanted(False, False))[0]


def pair_gradients(
    measures: Measures, frames: None, unbiased: bool, wanted: Wanted
) -> tuple[Array, tuple[Array | None, Array | None]]:
    """`pair_cost`, and its gradients in points and weights; None where not wanted."""
    ((points, weights),) = measures

    def kernel(measures: Measures, frames: None) -> Sequence[Any]:
        return jax.tree.leaves(native_backend.pair_gradients(measures[0], wanted, unbiased=unbiased))

    value = jax.ShapeDtypeStruct((), points.dtype)
    like = (points if wanted.points else None, weights if wanted.weights else None)
    leaves, tree = jax.tree.flatten((value, like))
    outputs = _call(kernel, leaves, measures, frames, by_row=False)
    value_and_gradients: tuple[Array, tuple[Array | None, Array | None]] = jax.tree.unflatten(tree, outputs)
    return value_and_gradients


def _value(measures: Measures, frames: Array | None) -> jax.ShapeDtypeStruct:
    points = measures[0][0]
    return jax.ShapeDtypeStruct(points.shape[:1] if frames is None else (), points.dtype)


def _call(
    kernel: Kernel,
    results: Sequence[Any],
    measures: Measures,
    frames: Array | None,
    *,
    by_row: bool | None = None,
) -> list[Array]:
    """Call `kernel` with NumPy arrays, once per member of a `vmap` batch; gives arrays like `results`.

    `by_row`: the measures are rows of turns, and one call takes the rows of all members; by default so without frames.
    Under `jit` values cannot be validated, and the kernel relies on valid ones: invalid input gives NaN.
    """

    def host(_: Any, out: Any, measures: Measures, frames: Any) -> None:
        outputs = [np.asarray(buffer) for buffer in out]
        lead = outputs[0].shape[: outputs[0].ndim - len(results[0].shape)]
        buffers, tree = jax.tree.flatten((measures, frames))
        inputs = [aligned(np.asarray(buffer)) for buffer in buffers]
        if by_row or (by_row is None and frames is None):
            rows = [np.broadcast_to(a, (*lead, *a.shape[-2:])).reshape(-1, a.shape[-1]) for a in inputs]
            flat = [a.reshape(-1, *a.shape[len(lead) + 1 :]) for a in outputs]
            _fill_rows(kernel, flat, jax.tree.unflatten(tree, rows)[0])
            return
        for index in np.ndindex(lead):
            member = jax.tree.unflatten(tree, [_at(a, index) for a in inputs])
            others = [t for t in member[1:] if t is not None]
            valid = all(np.all(_are_valid(x, a)) for x, a in member[0]) and all(np.all(np.isfinite(t)) for t in others)
            for output, value in zip(outputs, kernel(*member) if valid else [np.nan] * len(outputs), strict=True):
                output[index] = value

    shapes = [jax.ShapeDtypeStruct(like.shape, like.dtype) for like in results]
    inputs = jax.tree.map(_require_callbacks.bind, (measures, frames))
    outputs: list[Array] = buffer_callback(host, shapes, vmap_method="expand_dims")(*inputs)
    # JAX takes the outputs of a callback for equal on all devices of `jax.shard_map`, whatever its inputs are.
    return varying_like(measures, outputs)


def _fill_rows(kernel: Kernel, outputs: Sequence[NDArray[Any]], measures: Measures) -> None:
    """Compute all valid rows in one call of `kernel`; the others get NaN."""
    valid = np.logical_and.reduce([_are_valid(u, a) for u, a in measures])
    if not valid.all():
        measures = [Measure(u[valid], None if a is None else a[valid]) for u, a in measures]
    values = kernel(measures, None) if valid.any() else [np.nan] * len(outputs)
    for output, value in zip(outputs, values, strict=True):
        output[~valid] = np.nan
        output[valid] = value


def _are_valid(points: NDArray[Any], weights: NDArray[Any] | None) -> NDArray[np.bool_]:
    """Whether each row of points is finite and its weights are finite, nonnegative and not all zero."""
    valid: NDArray[np.bool_] = np.isfinite(points).all(axis=-1)
    if weights is not None:
        valid = valid & (np.isfinite(weights) & (weights >= 0)).all(axis=-1) & (weights > 0).any(axis=-1)
    return valid


def _at(array: NDArray[Any], index: tuple[int, ...]) -> NDArray[Any]:
    """The part of `array` for one member of the batch; a dimension of size 1 is shared by all members."""
    return array[tuple(0 if array.shape[k] == 1 else i for k, i in enumerate(index))]


def _lower_requirement(context: Any, array: Any) -> list[Any]:
    module = context.module_context
    if module.lowering_parameters.for_export or len(module.platforms) > 1:
        raise NotImplementedError(
            "Programs with the compiled kernel of sphereot cannot be exported, because the kernel is called in this "
            "process. Set the environment variable SPHEREOT_KERNEL=off before Python starts: jax.export then stores "
            "jax.numpy code. Programs for accelerators alone can be exported as they are."
        )
    return [array]


# The identity, as an operation of the program: it is asked to lower itself, and knows then what the program is for.
_require_callbacks = Primitive("sphereot_require_callbacks")
_require_callbacks.def_impl(lambda array: array)
_require_callbacks.def_abstract_eval(lambda array: array)
batching.primitive_batchers[_require_callbacks] = lambda arrays, axes: (_require_callbacks.bind(*arrays), axes[0])
mlir.register_lowering(_require_callbacks, _lower_requirement)
