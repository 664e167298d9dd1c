"""The compiled kernel as a torch operator: one call computes a cost of CPU tensors and its gradients.

The operator works in eager code, autograd, torch.func and torch.compile. Its inputs are x, a, y, b (points and weights
of two measures; y and b are None for one), frames (None if the points are rows of turns), the order p, `wanted` (which
gradients to compute, in the order x, a, y, b), and `pairs` (None except for the cost without great circles, where it
holds `PairOptions` as two numbers).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sphereot._arrays.libraries import aligned, is_torch_traced
from sphereot._backends.array_api import backend as array_api
from sphereot._backends.native import backend as native
from sphereot._backends.protocol import Measure, Measures, PairOptions, Wanted
from sphereot._backends.torch.derivatives import (
    FORWARD_MODE_ERROR,
    differentiable_once,
    differentiated_by_func,
    has_tangent,
    requires_grad,
)

_PLAIN_TYPES = {Tensor, torch.nn.Parameter, type(None)}


def kernel_cost(measures: Measures, frames: Tensor | None, p: float, pairs: PairOptions | None = None) -> Tensor:
    """`mean_cost`, or `circle_costs` without frames, or `pair_cost` if `pairs` is not None.

    The cost is differentiable in points and weights; `pair_cost` also has second derivatives.
    """
    tensors = [tensor for measure in measures for tensor in measure] + [None] * (4 - 2 * len(measures))
    enabled = torch.is_grad_enabled()
    wanted = [enabled and t is not None and requires_grad(t) for t in tensors]
    inputs = *tensors, frames, p, wanted, None if pairs is None else [float(option) for option in pairs]
    # Eager tensors: no subclass, no tracer, no mode that intercepts operators.
    plain = all(type(t) in _PLAIN_TYPES for t in tensors) and not is_torch_traced()
    if plain and not torch._C._len_torch_dispatch_stack():
        if not any(wanted) and torch.autograd.forward_ad._current_level < 0:
            return _compute(*inputs)[0]
        value: Tensor = _EagerCost.apply(*inputs)
        return value
    if torch.compiler.is_compiling():
        return _with_linear_terms(*inputs) if differentiated_by_func() else cost_operator(*inputs)[0]
    wrapped = any(t is not None and torch._C._functorch.is_functorch_wrapped_tensor(t) for t in tensors)
    outputs: Sequence[Tensor] = (_FunctorchCost.apply if wrapped else cost_operator)(*inputs)
    return outputs[0]


def portable_pair_cost(measure: Measure, options: PairOptions) -> Tensor:
    """`pair_cost` in array-API code; K_d has derivatives of every order, except at coincident points."""
    points, shares = array_api.unit_points(measure.points), array_api.shares_of(measure)
    block_sum: Callable[..., Any] = array_api.block_sum
    followed = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in measure)
    if followed and not is_torch_traced() and not has_tangent(measure):
        # A block of rows is computed again in the backward pass, so that memory never holds all pairs.
        block_sum = partial(checkpoint, block_sum, use_reentrant=False, preserve_rng_state=False)
    sums = [block_sum(points, shares, rows, options.even_weight) for rows in array_api.row_blocks(points)]
    return torch.as_tensor(array_api.cost_of_sum(torch.stack(sums).sum(), shares, *options))


def as_numpy(*tensors: Tensor | None) -> Any:
    """Tensors as arrays for the kernel, which share their memory; None stays None."""
    return [None if t is None else aligned(t.detach().numpy()) for t in tensors]


def _pair_options(pairs: Sequence[float] | None) -> Any:
    return None if pairs is None else PairOptions(bool(pairs[0]), pairs[1])


def _compute(*inputs: Any) -> list[Any]:
    """The cost, then the gradients in x, a, y and b, or None for those not wanted."""
    x, a, y, b, frames, p, wanted, pairs = inputs
    measures = [Measure(*as_numpy(x, a))]
    if y is not None:
        measures.append(Measure(*as_numpy(y, b)))
    wants = [Wanted(*wanted[:2]), Wanted(*wanted[2:])][: len(measures)]
    value, gradients = native.costs_and_gradients(measures, *as_numpy(frames), p, _pair_options(pairs), wants)
    dtype = np.float32 if x.dtype == torch.float32 else np.float64
    arrays = [value, *(array for pair in gradients for array in pair), None, None][:5]
    # By way of NumPy, in a third of the time of torch.tensor.
    return [None if array is None else torch.from_numpy(np.asarray(array, dtype, "C")) for array in arrays]


# ---- autograd ----


class _EagerCost(torch.autograd.Function):
    """Eager fast path: calls the kernel without the torch dispatcher, which takes three times as long."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        value, *gradients = _compute(*inputs)
        _save_gradients(ctx, inputs, gradients)
        cost: Tensor = value
        return cost

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        return _input_gradients(ctx, *upstream)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise NotImplementedError(FORWARD_MODE_ERROR)


class _FunctorchCost(_EagerCost):
    """The registered operator under the transforms of torch.func, which do not follow the autograd of torch.library."""

    @staticmethod
    def forward(*inputs: Any) -> Any:
        return cost_operator(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _setup_context(ctx, inputs, output)
        ctx.smooth = False  # `is_differentiated_again` has found no second derivative

    @staticmethod
    def vmap(info: Any, in_dims: Sequence[int | None], *inputs: Any) -> tuple[Any, Any]:
        return _apply_per_member(_FunctorchCost.apply, info, in_dims, *inputs)


def _save_gradients(ctx: Any, inputs: Sequence[Any], gradients: Sequence[Tensor | None]) -> None:
    ctx.save_for_backward(*gradients, *inputs[:4])
    ctx.constants = inputs[4:]
    ctx.smooth = inputs[-1] is not None  # the cost has second derivatives


def _setup_context(ctx: Any, inputs: Sequence[Any], output: tuple[Tensor, ...]) -> None:
    """Save what the backward pass of the registered operator needs; `output` is its cost, then its gradients."""
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)  # no zeros in place of the gradients of gradients, which nobody reads
    _save_gradients(ctx, inputs, output[1:])


def _input_gradients(ctx: Any, upstream: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    """The gradients in all inputs of the operator from the upstream gradient of its cost."""
    of_constants = (None,) * len(ctx.constants)
    if upstream is None:
        return *(None,) * 4, *of_constants
    saved = ctx.saved_tensors  # read once: under a checkpoint, reading computes them again
    gradients, inputs = saved[:4], saved[4:]
    if ctx.smooth and torch.is_grad_enabled() and not torch.compiler.is_compiling():
        followed = [t is not None and t.requires_grad for t in inputs]
        cost = portable_pair_cost(Measure(*inputs[:2]), _pair_options(ctx.constants[-1]))
        sources = [t for t, follows in zip(inputs, followed, strict=True) if follows]
        found = iter(torch.autograd.grad(cost, sources, upstream, create_graph=True))
        return *(next(found) if follows else None for follows in followed), *of_constants
    given = [t for t in inputs if t is not None]
    results: list[Tensor | None] = []
    for gradient, tensor in zip(gradients, inputs, strict=True):
        if gradient is None or gradient.numel() == 0:
            results.append(None)
            continue
        scaled = differentiable_once(_times(gradient, upstream), given)
        # Weights may be one row that all rows of turns share.
        results.append(scaled if scaled.shape == tensor.shape else scaled.sum(dim=0, keepdim=True))
    return *results, *of_constants


def _times(gradient: Tensor, upstream: Tensor) -> Tensor:
    """A gradient times the upstream gradient, which is one number, or one per row."""
    plain = type(gradient) is Tensor and not torch.is_grad_enabled() and not is_torch_traced()
    if upstream.ndim == 0 and plain and not torch._C._functorch.is_legacy_batchedtensor(upstream):
        # In NumPy: torch would wake its threads for one product, and they would then compete with those of the kernel.
        return torch.from_numpy(gradient.numpy() * upstream.numpy())
    return gradient * upstream.reshape(upstream.shape + (1,) * (gradient.ndim - upstream.ndim))


# ---- torch.library, torch.func.vmap and torch.compile ----


@partial(
    torch.library.custom_op,
    "sphereot::kernel_cost",
    mutates_args=(),
    device_types="cpu",
    schema="(Tensor x, Tensor? a, Tensor? y, Tensor? b, Tensor? frames, float p, bool[] wanted, float[]? pairs)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def cost_operator(*inputs: Any) -> tuple[Tensor, ...]:
    """The cost and its gradients, which are empty tensors if not wanted.

    While a graph is traced, values cannot be checked. So invalid points and weights give NaN, as in JAX.
    """
    tensors = inputs[:4]
    valid = all(t is None or torch.isfinite(t).all() for t in tensors) and all(
        a is None or ((a >= 0).all() and (a.amax(dim=-1) > 0).all()) for a in tensors[1::2]
    )
    if not valid:
        inputs = *(None if t is None else torch.ones_like(t) for t in tensors), *inputs[4:]
    outputs = [inputs[0].new_empty((0,)) if t is None else t for t in _compute(*inputs)]
    return tuple(outputs) if valid else tuple(t.fill_(torch.nan) for t in outputs)


@cost_operator.register_fake
def _make_empty_outputs(*inputs: Any) -> tuple[Tensor, ...]:
    x, _, y, _, frames, _, wanted, pairs = inputs
    by_row = frames is None and pairs is None
    shapes = [x.shape[:1] if by_row else ()]
    for points in (x, x if y is None else y):
        shapes += [points.shape, points.shape if by_row else points.shape[:1]]
    return tuple(x.new_empty(shape if want else (0,)) for shape, want in zip(shapes, [True, *wanted], strict=True))


@cost_operator.register_vmap
def _apply_to_batch(info: Any, in_dims: Sequence[int | None], *inputs: Any) -> tuple[Any, Any]:
    return _apply_per_member(cost_operator, info, in_dims, *inputs)


cost_operator.register_autograd(_input_gradients, setup_context=_setup_context)


def _apply_per_member(operator: Any, info: Any, in_dims: Sequence[int | None], *inputs: Any) -> tuple[Any, Any]:
    """The rule of torch.func.vmap: one call per member of the batch, stacked."""
    pairs = list(zip(inputs, in_dims, strict=True))
    members = [
        operator(*(value.select(dim, k) if isinstance(dim, int) else value for value, dim in pairs))
        for k in range(info.batch_size)
    ]
    outputs = tuple(torch.stack(parts) for parts in zip(*members, strict=True))
    return outputs, (0,) * len(outputs)


def _with_linear_terms(*inputs: Any) -> Tensor:
    """The cost where torch.compile traces a derivative of torch.func.

    The derivative comes from added terms whose value is 0 and whose slope is the gradient. The power 3/2 has value and
    slope 0 too, and makes second derivatives NaN, which would silently be 0 without it.
    """
    tensors, (frames, p, _, pairs) = inputs[:4], inputs[4:]
    constants = [None if t is None else t.detach() for t in tensors]
    # All gradients: while torch.compile traces, nothing says in which tensors a transform differentiates.
    value, *gradients = cost_operator(*constants, frames, p, [t is not None for t in tensors], pairs)
    for tensor, gradient in zip(tensors, gradients, strict=True):
        if tensor is not None:
            zero = tensor - tensor.detach()
            terms = gradient * zero + zero.abs() ** 1.5
            value = value + terms.sum(dim=tuple(range(value.ndim, terms.ndim)))
    return value
