"""JAX backend: the functions of the backend protocol, with gradients in the points and in the weights.

On the CPU the compiled kernel runs inside the JAX program. On other platforms, or without a kernel, the code of
`traced` runs. JAX chooses when it lowers a program, so it works under `jit` too.

JAX hands its buffers to the kernel without a copy (`buffer_callback`), and a call costs about ten microseconds more
than the kernel itself. `jax.pure_callback` costs ten times that, and it waits inside the call for a copy that one of
XLA's threads must make: with one core it hangs as soon as an array exceeds 100 kB (jax 0.10.2).
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.buffer_callback import buffer_callback
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir
from jax.sharding import NamedSharding, PartitionSpec
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, aligned, take_root
from sphereot._backends import native
from sphereot._backends.array_api.backend import relabeled_costs as relabeled_costs
from sphereot._backends.array_api.backend import resampled_costs as resampled_costs
from sphereot._backends.array_api.backend import weight_gradients as weight_gradients
from sphereot._backends.array_api.circle import circle_cut, matched_pairs
from sphereot._backends.jax import traced
from sphereot._backends.native import backend as kernel
from sphereot._backends.protocol import Measure, Measures, PairOptions, Plan, Wanted

T = TypeVar("T")
Gradients = tuple[tuple[Array | None, Array | None], ...]

project = jax.jit(traced.project)
_circle_cut = jax.jit(circle_cut, static_argnums=2)
_traced_gradients = jax.jit(traced.costs_and_gradients, static_argnums=(2, 3, 4))


def slice_costs(measures: Measures, frames: Array, p: float) -> Array:
    """W_p^p on each great circle, shape (L,); not differentiable."""
    return _slice_costs(*on_every_device((tuple(measures), frames)), p)


def mean_cost(measures: Measures, frames: Array, p: float, *, root: bool = False) -> Array:
    """SSW_p^p: the mean of W_p^p over the great circles; with `root` SSW_p."""
    measures, frames = on_every_device((tuple(measures), frames))
    return take_root(_cost(measures, frames, p, None), p, root)


def pair_cost(measure: Measure, *, unbiased: bool = False, even_weight: float = 1.0) -> Array:
    """SSW_2^2 to the uniform distribution without slices: the double sum of K_d over all pairs of points."""
    return _cost(on_every_device((measure,)), None, 2.0, PairOptions(unbiased, even_weight))


def pairwise_costs(measures: Measures, frames: Array, p: float, *, root: bool = False) -> Array:
    """`mean_cost` of the pairs i < j of several measures, in lexicographic order."""
    measures, frames = on_every_device((tuple(measures), frames))
    return take_root(_pairwise(measures, frames, p), p, root)


def circle_costs(measures: Measures, p: float) -> Array:
    """W_p^p on the circle, row by row, shape (B,): between two measures, or of one to the uniform measure."""
    measures = on_every_device(tuple(measures))
    rows = tuple(Measure(u, None if a is None else jnp.broadcast_to(a, u.shape)) for u, a in measures)
    return _cost(rows, None, p, None)


def circle_plan(u: Measure, v: Measure, p: float) -> Plan:
    """The optimal coupling of two measures on the circle, each given as one row of turns."""
    u, v = on_every_device((u, v))
    cut = _circle_cut(u, v, p)
    return Plan(*matched_pairs(u, v, cut), circle_costs([u, v], p)[0], cut[0])


# ---- derivatives ----

# The rules are forward-mode, and linear in the tangents: JAX transposes them, so that reverse mode works too.


@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _cost(measures: Measures, frames: Array | None, p: float, pairs: PairOptions | None) -> Array:
    """`mean_cost`, or `circle_costs` without frames, or `pair_cost` if `pairs` is not None."""
    return _compute(measures, frames, p, pairs, (Wanted(False, False),) * len(measures))[0]


def _cost_jvp(p: float, pairs: PairOptions | None, primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> Any:
    """JVP rule: value and gradients in one call; only gradients whose tangent may be nonzero are computed."""
    (measures, frames), (moves, _) = primals, tangents

    def may_move(tangent: Any) -> bool:
        return tangent is not None and not isinstance(tangent, jax.custom_derivatives.SymbolicZero)

    wanted = tuple(Wanted(may_move(x), may_move(a)) for x, a in moves)
    value, gradients = _value_and_gradients(measures, frames, p, pairs, wanted)
    slope = jnp.zeros_like(value)
    for pair, pair_moves in zip(gradients, moves, strict=True):
        for gradient, move in zip(pair, pair_moves, strict=True):
            if gradient is not None:
                # A sum over each row of turns, or over all numbers if the cost is one number.
                slope = slope + jnp.sum(gradient * move, axis=tuple(range(value.ndim, gradient.ndim)))
    return value, slope


_cost.defjvp(_cost_jvp, symbolic_zeros=True)


@partial(jax.jit, static_argnums=(2, 3, 4))
def _compute(
    measures: Measures, frames: Array | None, p: float, pairs: PairOptions | None, wanted: tuple[Wanted, ...]
) -> tuple[Array, Gradients]:
    by_row = frames is None and pairs is None
    points = measures[0].points
    value = jax.ShapeDtypeStruct(points.shape[:1] if by_row else (), points.dtype)
    gradients = tuple(
        (x if wants.points else None, a if wants.weights else None)
        for (x, a), wants in zip(measures, wanted, strict=True)
    )
    functions = kernel.costs_and_gradients, traced.costs_and_gradients
    return _on_platform(*functions, (value, gradients), measures, frames, p, pairs, wanted, by_row=by_row)


_value_and_gradients = jax.custom_jvp(_compute, nondiff_argnums=(2, 3, 4))


@_value_and_gradients.defjvp
def _second_derivative(
    p: float, pairs: PairOptions | None, wanted: tuple[Wanted, ...], primals: tuple[Any, Any], tangents: tuple[Any, Any]
) -> tuple[Any, Any]:
    """JVP rule of the gradients: `jax.numpy` code has derivatives of every order of the cost without slices."""
    if pairs is None:
        raise NotImplementedError(
            "Costs on great circles have first derivatives only, because the matching jumps, but a gradient was "
            "differentiated again (jax.hessian, or grad of grad). If the inner gradient is a constant, compute it at "
            "jax.lax.stop_gradient(x). sphereot.ssw_uniform(x, method='exact') has second derivatives."
        )
    return jax.jvp(lambda *arrays: _traced_gradients(*arrays, p, pairs, wanted), primals, tangents)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
@partial(jax.jit, static_argnums=2)
def _slice_costs(measures: Measures, frames: Array, p: float) -> Array:
    result = jax.ShapeDtypeStruct(frames.shape[:1], frames.dtype)
    return _on_platform(kernel.slice_costs, traced.slice_costs, result, measures, frames, p)


@_slice_costs.defjvp
def _no_derivative_by_slice(*_: Any) -> Any:
    raise NotImplementedError(
        "Costs on single great circles have no derivative. Differentiate sphereot.ssw, their mean."
    )


@partial(jax.custom_jvp, nondiff_argnums=(2,))
@partial(jax.jit, static_argnums=2)
def _pairwise(measures: Measures, frames: Array, p: float) -> Array:
    result = jax.ShapeDtypeStruct((len(measures) * (len(measures) - 1) // 2,), frames.dtype)
    return _on_platform(kernel.pairwise_costs, traced.pairwise_costs, result, measures, frames, p)


@_pairwise.defjvp
def _pairwise_jvp(p: float, primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Array, Array]:
    measures, frames = primals

    def pair_by_pair(measures: Measures) -> Array:
        return jnp.stack([_cost(pair, frames, p, None) for pair in combinations(measures, 2)])

    value, slope = jax.jvp(pair_by_pair, (measures,), tangents[:1])
    return value, slope


# ---- which implementation ----


def _on_platform(
    function: Callable[..., Any],
    array_code: Callable[..., Any],
    results: Any,
    measures: Measures,
    frames: Array | None,
    *static: Any,
    by_row: bool = False,
) -> Any:
    """A function of the kernel on the CPU, and its counterpart in `traced` elsewhere; returns arrays like `results`."""

    def on_cpu(measures: Measures, frames: Array | None) -> Any:
        return _call_kernel(lambda *arrays: function(*arrays, *static), results, measures, frames, by_row)

    def elsewhere(*arrays: Any) -> Any:
        # Without the barrier, XLA needs minutes to sort the slices of a constant measure while it compiles.
        return array_code(*jax.lax.optimization_barrier(arrays), *static)

    if not native.available:
        return elsewhere(measures, frames)
    return jax.lax.platform_dependent(measures, frames, cpu=on_cpu, default=elsewhere)


def _call_kernel(
    function: Callable[..., Any], results: Any, measures: Measures, frames: Array | None, by_row: bool
) -> Any:
    """Call `function` with NumPy arrays, once per member of a `vmap` batch.

    `by_row`: the measures are rows of turns, and one call computes the rows of all members.
    Under `jit` values cannot be validated, and the kernel relies on valid ones: invalid input gives NaN.
    """
    leaves, tree = jax.tree.flatten(results)

    def compute(valid: Any, outputs: Sequence[Any], measures: Measures, frames: Any) -> Sequence[Any]:
        return jax.tree.leaves(function(measures, frames)) if valid else [np.nan] * len(outputs)

    def host(_: Any, out: Any, measures: Measures, frames: Any) -> None:
        outputs = [np.asarray(buffer) for buffer in out]
        lead = outputs[0].shape[: outputs[0].ndim - len(leaves[0].shape)]
        buffers, structure = jax.tree.flatten((measures, frames))
        inputs = [aligned(np.asarray(buffer)) for buffer in buffers]
        if by_row:
            rows = [np.broadcast_to(a, (*lead, *a.shape[-2:])).reshape(-1, a.shape[-1]) for a in inputs]
            measures = jax.tree.unflatten(structure, rows)[0]
            valid = np.logical_and.reduce([_are_valid(u, a) for u, a in measures])
            if not valid.all():
                measures = [Measure(u[valid], None if a is None else a[valid]) for u, a in measures]
            values = compute(valid.any(), outputs, measures, None)
            for output, value in zip(outputs, values, strict=True):
                flat = output.reshape(-1, *output.shape[len(lead) + 1 :])
                flat[~valid] = np.nan
                flat[valid] = value
            return
        for index in np.ndindex(lead):
            # A dimension of size 1 is shared by all members of the batch.
            part = [a[tuple(0 if a.shape[k] == 1 else i for k, i in enumerate(index))] for a in inputs]
            member, part_frames = jax.tree.unflatten(structure, part)
            all_valid = all(np.all(_are_valid(x, a)) for x, a in member)
            all_valid = all_valid and (part_frames is None or bool(np.isfinite(part_frames).all()))
            for output, value in zip(outputs, compute(all_valid, outputs, member, part_frames), strict=True):
                output[index] = value

    shapes = [jax.ShapeDtypeStruct(like.shape, like.dtype) for like in leaves]
    arrays = jax.tree.map(_require_callbacks.bind, (measures, frames))
    outputs: list[Array] = buffer_callback(host, shapes, vmap_method="expand_dims")(*arrays)
    # JAX assumes that the outputs of a callback are equal on all devices of `jax.shard_map`.
    return jax.tree.unflatten(tree, varying_like(measures, outputs))


def _are_valid(points: NDArray[Any], weights: NDArray[Any] | None) -> NDArray[np.bool_]:
    """Whether each row of points is finite and its weights are finite, nonnegative and not all zero."""
    valid: NDArray[np.bool_] = np.isfinite(points).all(axis=-1)
    if weights is not None:
        valid = valid & (np.isfinite(weights) & (weights >= 0)).all(axis=-1) & (weights > 0).any(axis=-1)
    return valid


def _lower_requirement(context: Any, array: Any) -> list[Any]:
    module = context.module_context
    if module.lowering_parameters.for_export or len(module.platforms) > 1:
        raise NotImplementedError(
            "Programs with the compiled kernel of sphereot cannot be exported, because the kernel is called in this "
            "process. Set the environment variable SPHEREOT_KERNEL=off before Python starts: jax.export then stores "
            "jax.numpy code. Programs only for accelerators can be exported as they are."
        )
    return [array]


# The identity, as an operation of the program: when it is lowered, it learns what the program is for.
_require_callbacks = Primitive("sphereot_require_callbacks")
_require_callbacks.def_impl(lambda array: array)
_require_callbacks.def_abstract_eval(lambda array: array)
batching.primitive_batchers[_require_callbacks] = lambda arrays, axes: (_require_callbacks.bind(*arrays), axes[0])
mlir.register_lowering(_require_callbacks, _lower_requirement)


# ---- programs for several devices: `jax.shard_map`, and meshes with explicit sharding ----


def on_every_device(arrays: T) -> T:
    """Arrays (a tree) that are whole on every device, and vary over the same axes of `jax.shard_map`.

    The order of points on a great circle depends on all of them, so a shard of a measure is not enough.
    """

    def whole(array: Array) -> Array:
        sharding = jax.typeof(array).sharding
        sharded = any(axis is not None for axis in sharding.spec)
        return jax.sharding.reshard(array, NamedSharding(sharding.mesh, PartitionSpec())) if sharded else array

    return varying_like(arrays, jax.tree.map(whole, arrays))


def varying_like(like: Any, arrays: T) -> T:
    """Mark `arrays` (a tree) as different on the devices of each axis of `jax.shard_map` over which `like` varies."""

    def varying_axes(array: Array) -> frozenset[Any]:
        axis_type = getattr(jax.typeof(array), "manual_axis_type", None)  # jax 0.10 or newer
        return axis_type.varying if axis_type else frozenset()

    axes = frozenset[Any]().union(*map(varying_axes, jax.tree.leaves(like)))

    def varying(array: Array) -> Array:
        missing = tuple(axes - varying_axes(array))
        return jax.lax.pcast(array, missing, to="varying") if missing else array

    return jax.tree.map(varying, arrays)
