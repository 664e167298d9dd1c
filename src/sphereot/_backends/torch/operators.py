"""Operators on CPU tensors: one call of the kernel gives the value and the gradients.

Registered with `torch.library`, so that `torch.compile`, `torch.func` and autograd know their shapes, derivatives and
batching. An operator returns the cost and the gradients that are wanted (empty tensors for the others); the backward
pass only multiplies. Gradients of gradients are not defined: the matching jumps where the cut does.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sphereot._arrays.libraries import aligned, is_torch_traced
from sphereot._backends.native import backend as native
from sphereot._backends.native import gradients
from sphereot._backends.native.frames import FrameSeed
from sphereot._backends.native.gradients import Wanted
from sphereot._backends.protocol import Measure, Measures

__all__ = ["circle_costs", "mean_cost", "once"]

_SECOND_DERIVATIVE = (
    "sphereot: the gradient of SSW has no derivative of its own here (double backward); compute it without "
    "create_graph=True, or detach it."
)
_FORWARD_MODE = (
    "sphereot: SSW has no forward-mode derivatives in PyTorch (torch.func.jvp, jacfwd, hessian); use reverse mode: "
    "backward(), torch.func.grad, vjp or jacrev."
)


_FUNCTIONS: dict[Any, Callable[..., tuple[Tensor, ...]]] = {}  # those behind the operators, for input that was checked


def _operator(name: str, n_points: int) -> Callable[[Callable[..., tuple[Tensor, ...]]], Any]:
    """Registers an operator whose first arguments are points or turns, and the next as many their weights.

    Under a trace nobody has looked at the values yet. What has no distance gets NaN, as it does in JAX.
    """

    def register(function: Callable[..., tuple[Tensor, ...]]) -> Any:
        @wraps(function)
        def checked(*args: Any) -> tuple[Tensor, ...]:
            given = args[: 2 * n_points]
            if all(_is_fit(t, are_weights=k >= n_points) for k, t in enumerate(given)):
                return function(*args)
            harmless = [None if t is None else torch.ones_like(t) for t in given]
            return tuple(t.fill_(torch.nan) for t in function(*harmless, *args[2 * n_points :]))

        op = torch.library.custom_op(name, checked, mutates_args=(), device_types="cpu")
        _FUNCTIONS[op] = function
        return op

    return register


def _is_fit(values: Tensor | None, are_weights: bool) -> bool:
    """Whether the values are finite, and as weights not negative, and somewhere positive in each row."""
    if values is None:
        return True
    fit = bool(torch.isfinite(values).all())
    return fit and (not are_weights or bool((values >= 0).all() and (values.amax(dim=-1) > 0).all()))


# Each operator takes which gradients are wanted: points and weights of the first measure, then of the second. With
# `root` a mean is that of a large order, and its root is given (see `sphereot._arrays.orders`).


@_operator("sphereot::mean_cost", 2)
def _mean_cost(
    x: Tensor,
    y: Tensor,
    a: Tensor | None,
    b: Tensor | None,
    frames: Tensor,
    p: float,
    wanted: Sequence[bool],
    root: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    value, first, second = _mean_and_gradients([(x, a), (y, b)], frames, p, wanted, root)
    return value, *first, *second


@_mean_cost.register_fake
def _(x: Tensor, y: Tensor, a: Any, b: Any, frames: Any, p: float, wanted: Sequence[bool], root: bool) -> Any:
    return x.new_empty(()), *_fakes(x, wanted, [x.shape, x.shape[:1], y.shape, y.shape[:1]])


@_operator("sphereot::mean_cost_uniform", 1)
def _mean_cost_uniform(
    x: Tensor, a: Tensor | None, frames: Tensor, p: float, wanted: Sequence[bool], root: bool
) -> tuple[Tensor, Tensor, Tensor]:
    value, pair = _mean_and_gradients([(x, a)], frames, p, wanted, root)
    return value, *pair


@_mean_cost_uniform.register_fake
def _(x: Tensor, a: Any, frames: Tensor, p: float, wanted: Sequence[bool], root: bool) -> tuple[Tensor, ...]:
    return x.new_empty(()), *_fakes(x, wanted, [x.shape, x.shape[:1]])


@_operator("sphereot::circle_costs", 2)
def _circle_costs(
    u: Tensor, v: Tensor, a: Tensor | None, b: Tensor | None, p: float, wanted: Sequence[bool]
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    costs, first, second = _costs_and_gradients([(u, a), (v, b)], p, wanted)
    return costs, *first, *second


@_circle_costs.register_fake
def _(u: Tensor, v: Tensor, a: Any, b: Any, p: float, wanted: Sequence[bool]) -> tuple[Tensor, ...]:
    return u.new_empty(u.shape[:1]), *_fakes(u, wanted, [u.shape, u.shape, v.shape, v.shape])


@_operator("sphereot::circle_costs_uniform", 1)
def _circle_costs_uniform(
    u: Tensor, a: Tensor | None, p: float, wanted: Sequence[bool]
) -> tuple[Tensor, Tensor, Tensor]:
    costs, pair = _costs_and_gradients([(u, a)], p, wanted)
    return costs, *pair


@_circle_costs_uniform.register_fake
def _(u: Tensor, a: Any, p: float, wanted: Sequence[bool]) -> tuple[Tensor, ...]:
    return u.new_empty(u.shape[:1]), *_fakes(u, wanted, [u.shape, u.shape])


def _mean_and_gradients(
    tensors: Sequence[tuple[Tensor, Tensor | None]],
    frames: Tensor | FrameSeed,
    p: float,
    wanted: Sequence[bool],
    root: bool,
) -> list[Any]:
    """The mean cost, or its root, and for each measure the gradients in points and weights; empty if not wanted."""
    x = tensors[0][0]
    measures, (frames_array,) = [Measure(*_numpy(*pair)) for pair in tensors], _numpy(frames)
    if not any(wanted):
        value = native.mean_cost(measures, frames_array, p, root=root)
        return [_scalar(value, x), *(_empty_pair(x) for _ in measures)]
    differentiate = gradients.distance_gradients if root else gradients.mean_gradients
    value, pairs = differentiate(measures, frames_array, p, _wanted_by_measure(wanted))
    return [_scalar(value, x), *(_gradient_tensors(x, pair) for pair in pairs)]


def _costs_and_gradients(
    tensors: Sequence[tuple[Tensor, Tensor | None]], p: float, wanted: Sequence[bool]
) -> list[Any]:
    """The costs of rows of turns, and for each measure the gradients in turns and weights; empty if not wanted."""
    u = tensors[0][0]
    measures = [Measure(*_numpy(*pair)) for pair in tensors]
    if not any(wanted):
        return [torch.from_numpy(native.circle_costs(measures, p)), *(_empty_pair(u) for _ in measures)]
    costs, pairs = gradients.circle_gradients(measures, p, _wanted_by_measure(wanted))
    return [torch.from_numpy(costs), *(_gradient_tensors(u, pair) for pair in pairs)]


def _wanted_by_measure(wanted: Sequence[bool]) -> list[Wanted]:
    return [Wanted(*wanted[k : k + 2]) for k in range(0, len(wanted), 2)]


def _numpy(*tensors: Tensor | FrameSeed | None) -> Any:
    return [aligned(t.detach().contiguous().numpy()) if isinstance(t, Tensor) else t for t in tensors]


def _scalar(value: float, like: Tensor) -> Tensor:
    # By way of NumPy: a third of the time of torch.tensor.
    return torch.from_numpy(np.asarray(value, np.float32 if like.dtype == torch.float32 else np.float64))


def _empty_pair(like: Tensor) -> list[Tensor]:
    return [like.new_empty((0,)), like.new_empty((0,))]


def _fakes(like: Tensor, wanted: Sequence[bool], shapes: Sequence[Sequence[int]]) -> list[Tensor]:
    return [like.new_empty(shape if want else (0,)) for want, shape in zip(wanted, shapes, strict=True)]


def _gradient_tensors(like: Tensor, gradient: Sequence[Any]) -> list[Tensor]:
    dtype = np.float32 if like.dtype == torch.float32 else np.float64
    return [
        like.new_empty((0,)) if part is None else torch.from_numpy(np.ascontiguousarray(part, dtype))
        for part in gradient
    ]


# ---- derivatives: the saved gradients, times what comes from above ----


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)  # no zeros in place of the gradients of gradients, which nobody reads
    _keep(ctx, inputs, output[1:])


def _keep(ctx: Any, inputs: tuple[Any, ...], gradients: tuple[Tensor, ...]) -> None:
    tensors = [t for t in inputs if t is None or isinstance(t, Tensor)]
    ctx.weight_shapes = [None if t is None else t.shape for t in tensors]
    ctx.n_gradients = len(gradients)
    ctx.save_for_backward(*gradients, *(t for t in tensors if t is not None and _requires_grad(t)))


def _scaled(ctx: Any, above: Tensor | None) -> list[Tensor | None]:
    if above is None:
        return [None] * ctx.n_gradients
    saved = ctx.saved_tensors  # once: a checkpoint computes them when they are asked for
    gradients, inputs = saved[: ctx.n_gradients], saved[ctx.n_gradients :]
    return [None if g.numel() == 0 else once(_times(g, above), inputs) for g in gradients]


def once(gradient: Tensor, inputs: Sequence[Tensor]) -> Tensor:
    """A gradient that refuses to be differentiated again in the inputs of the function that it belongs to."""
    if not torch.is_grad_enabled() or torch.compiler.is_compiling():
        return gradient
    guarded: Tensor = _NoSecondDerivative.apply(gradient, *inputs)
    return guarded


def _times(gradient: Tensor, above: Tensor) -> Tensor:
    """A gradient times what comes from above, one number for each of its rows or one for all."""
    plain = type(gradient) is Tensor and not torch.is_grad_enabled() and not is_torch_traced()
    if above.ndim == 0 and plain and not torch._C._functorch.is_legacy_batchedtensor(above):
        # In NumPy: torch would wake its threads for one product, and they would then spin beside the kernel's.
        return torch.from_numpy(gradient.numpy() * above.numpy())
    return gradient * above.reshape(above.shape + (1,) * (gradient.ndim - above.ndim))


class _NoSecondDerivative(torch.autograd.Function):
    """Lets a gradient pass, and refuses to be differentiated: without it the second derivative would silently be 0."""

    generate_vmap_rule = True

    @staticmethod
    def forward(gradient: Tensor, *inputs: Tensor) -> Tensor:
        return gradient.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        raise RuntimeError(_SECOND_DERIVATIVE)


def _summed(gradient: Tensor | None, shape: Sequence[int] | None) -> Tensor | None:
    """The gradient of weights that all rows share is the sum over the rows."""
    if gradient is None or shape is None or gradient.shape == torch.Size(shape):
        return gradient
    return gradient.sum(dim=0, keepdim=True)


def _mean_cost_backward(ctx: Any, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
    dx, da, dy, db = _scaled(ctx, upstream[0])
    return dx, dy, da, db, None, None, None, None


def _mean_cost_uniform_backward(ctx: Any, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
    return *_scaled(ctx, upstream[0]), None, None, None, None


def _circle_costs_backward(ctx: Any, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
    du, da, dv, db = _scaled(ctx, upstream[0])
    return du, dv, _summed(da, ctx.weight_shapes[2]), _summed(db, ctx.weight_shapes[3]), None, None


def _circle_costs_uniform_backward(ctx: Any, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
    du, da = _scaled(ctx, upstream[0])
    return du, _summed(da, ctx.weight_shapes[1]), None, None


_BACKWARD = {
    _mean_cost: _mean_cost_backward,
    _mean_cost_uniform: _mean_cost_uniform_backward,
    _circle_costs: _circle_costs_backward,
    _circle_costs_uniform: _circle_costs_uniform_backward,
}


# ---- batching: one call a member, stacked ----


def _one_by_one(call: Any, info: Any, in_dims: Sequence[int | None], args: Sequence[Any]) -> tuple[Any, Any]:
    members = [
        call(*(arg.select(dim, k) if isinstance(dim, int) else arg for arg, dim in zip(args, in_dims, strict=True)))
        for k in range(info.batch_size)
    ]
    outputs = tuple(torch.stack(parts) for parts in zip(*members, strict=True))
    return outputs, (0,) * len(outputs)


for _op, _backward in _BACKWARD.items():
    _op.register_autograd(_backward, setup_context=_save)
    _op.register_vmap(lambda info, in_dims, *args, op=_op: _one_by_one(op, info, in_dims, args))


class _UnderFunc(torch.autograd.Function):
    """An operator under the transforms of `torch.func`, which do not follow the autograd of `torch.library`."""

    @staticmethod
    def forward(op: Any, *args: Any) -> Any:
        return op(*args)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        op, *args = inputs
        ctx.op = op
        _save(ctx, tuple(args), output)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        return None, *_BACKWARD[ctx.op](ctx, *upstream)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise NotImplementedError(_FORWARD_MODE)

    @staticmethod
    def vmap(info: Any, in_dims: Sequence[int | None], op: Any, *args: Any) -> tuple[Any, Any]:
        return _one_by_one(lambda *member: _UnderFunc.apply(op, *member), info, in_dims[1:], args)


class _AtOnce(torch.autograd.Function):
    """The function behind an operator on plain tensors, when nobody traces: a third of the dispatcher's time."""

    @staticmethod
    def forward(ctx: Any, op: Any, *args: Any) -> Any:
        ctx.op = op
        value, *gradients = _FUNCTIONS[op](*args)
        _keep(ctx, args, tuple(gradients))
        return value

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        return None, *_BACKWARD[ctx.op](ctx, *upstream)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise NotImplementedError(_FORWARD_MODE)


@torch.compiler.assume_constant_result
def _differentiated_by_func() -> bool:
    """Whether a transform of `torch.func` around the call differentiates, asked while torch.compile traces."""
    transforms = torch._C._functorch.get_interpreter_stack() or []
    return any(transform.key() != torch._C._functorch.TransformType.Vmap for transform in transforms)


def _with_linear_terms(
    op: Any, tensors: Sequence[Tensor | None], p: float, wanted: Sequence[bool], *root: bool
) -> Tensor:
    """The cost of an operator where torch.compile traces a derivative of `torch.func`.

    Those follow neither the autograd of `torch.library` nor, under torch.compile, an autograd.Function. So the
    derivative comes from terms that are 0, but have the gradient for their slope. The power of 3/2 has the slope 0 too,
    and makes second derivatives NaN, which would silently be 0 without it.
    """
    count = len(wanted) // 2
    measures = [t for k in range(count) for t in (tensors[k], tensors[count + k])]
    fixed = [None if t is None else t.detach() for t in tensors]
    # All that may be wanted: nothing tells here whether a transform looks at a tensor.
    value, *gradients = op(*fixed, p, [t is not None for t in measures], *root)
    for tensor, gradient in zip(measures, gradients, strict=True):
        if tensor is not None:
            zero = tensor - tensor.detach()
            terms = gradient * zero + zero.abs() ** 1.5
            value = value + terms.sum(dim=tuple(range(value.ndim, terms.ndim)))
    return value


_PLAIN = {Tensor, torch.nn.Parameter, FrameSeed, type(None)}


def _are_plain(tensors: Sequence[Tensor | FrameSeed | None]) -> bool:
    """Whether nothing stands between the tensors and their numbers: no subclass, no tracer, no mode that listens."""
    return (
        all(type(t) in _PLAIN for t in tensors) and not is_torch_traced() and not torch._C._len_torch_dispatch_stack()
    )


def _call(op: Any, given: Sequence[Tensor | FrameSeed | None], *rest: Any) -> Tensor:
    """The cost that an operator gives, on tensors of any kind."""
    if _are_plain(given):
        plain_result: Tensor = _AtOnce.apply(op, *given, *rest)
        return plain_result
    tensors = [torch.from_numpy(t.array()) if isinstance(t, FrameSeed) else t for t in given]
    if torch.compiler.is_compiling() and _differentiated_by_func():
        return _with_linear_terms(op, tensors, *rest)
    transformed = not torch.compiler.is_compiling() and any(
        t is not None and torch._C._functorch.is_functorch_wrapped_tensor(t) for t in tensors
    )
    result: Tensor = (_UnderFunc.apply(op, *tensors, *rest) if transformed else op(*tensors, *rest))[0]
    return result


# ---- what the backend calls ----


def mean_cost(measures: Measures, frames: Tensor | FrameSeed, p: float, *, root: bool) -> Tensor:
    """SSW_p^p, differentiable in points and weights; with `root`, for large orders only, SSW_p."""
    op = _mean_cost if len(measures) == 2 else _mean_cost_uniform
    return _call(op, (*_points_then_weights(measures), frames), p, _wanted(measures), root)


def circle_costs(measures: Measures, p: float) -> Tensor:
    """W_p^p on the circle, row by row, differentiable in turns and weights."""
    op = _circle_costs if len(measures) == 2 else _circle_costs_uniform
    return _call(op, _points_then_weights(measures), p, _wanted(measures))


def _points_then_weights(measures: Measures) -> list[Tensor | None]:
    return [points for points, _ in measures] + [weights for _, weights in measures]


def _wanted(measures: Measures) -> list[bool]:
    """Whether autograd will ask for the gradient in the points and in the weights of each measure."""
    enabled = torch.is_grad_enabled()
    return [enabled and t is not None and _requires_grad(t) for measure in measures for t in measure]


def _requires_grad(tensor: Tensor) -> bool:
    """Whether autograd follows a tensor, outside of the transforms of torch.func or inside any of them."""
    if torch.compiler.is_compiling():
        return tensor.requires_grad
    while not tensor.requires_grad and torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor.requires_grad
