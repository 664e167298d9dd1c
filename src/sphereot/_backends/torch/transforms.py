"""Support of torch.func (grad, vmap, vjp) and of its transforms inside torch.compile, for operators of the kernel.

The transforms of torch.func do not follow the autograd of `torch.library`, so there an operator needs an
autograd.Function around it; and under torch.compile, where that is not followed either, terms that carry the
derivative.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from sphereot._backends.torch.derivatives import FORWARD_MODE_ERROR, input_gradients, save_gradients


def is_transformed(tensors: Sequence[Tensor | None]) -> bool:
    """Whether a transform of torch.func, outside of torch.compile, has wrapped any of the tensors."""
    if torch.compiler.is_compiling():
        return False
    return any(t is not None and torch._C._functorch.is_functorch_wrapped_tensor(t) for t in tensors)


def setup_context(
    ctx: Any, inputs: Sequence[Any], output: tuple[Tensor, ...], smooth: Callable[..., Tensor] | None = None
) -> None:
    """Save what the backward pass of an operator needs; `output` is its cost, then its gradients."""
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)  # no zeros in place of the gradients of gradients, which nobody reads
    save_gradients(ctx, inputs, output[1:], smooth)


def apply_per_member(
    op: Callable[..., tuple[Tensor, ...]], info: Any, in_dims: Sequence[int | None], args: Sequence[Any]
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """The vmap rule of an operator: one call per member of the batch, stacked."""
    members = [
        op(*(arg.select(dim, k) if isinstance(dim, int) else arg for arg, dim in zip(args, in_dims, strict=True)))
        for k in range(info.batch_size)
    ]
    outputs = tuple(torch.stack(parts) for parts in zip(*members, strict=True))
    return outputs, (0,) * len(outputs)


class FunctorchOp(torch.autograd.Function):
    """A registered operator under the transforms of torch.func."""

    @staticmethod
    def forward(op: Callable[..., Any], *args: Any) -> Any:
        return op(*args)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        setup_context(ctx, inputs[1:], output)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        return None, *input_gradients(ctx, upstream[0])

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise NotImplementedError(FORWARD_MODE_ERROR)

    @staticmethod
    def vmap(info: Any, in_dims: Sequence[int | None], op: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
        return apply_per_member(lambda *member: FunctorchOp.apply(op, *member), info, in_dims[1:], args)


@torch.compiler.assume_constant_result
def differentiated_by_func() -> bool:
    """Whether a transform of torch.func around the call differentiates; to be asked while torch.compile traces."""
    transforms = torch._C._functorch.get_interpreter_stack() or []
    return any(transform.key() != torch._C._functorch.TransformType.Vmap for transform in transforms)


def with_linear_terms(
    op: Callable[..., tuple[Tensor, ...]],
    tensors: Sequence[Tensor | None],
    p: float,
    wanted: Sequence[bool],
    *options: bool,
) -> Tensor:
    """The cost of an operator where torch.compile traces a derivative of torch.func.

    The derivative comes from added terms whose value is 0 and whose slope is the gradient. The power 3/2 has value and
    slope 0 too, and makes second derivatives NaN, which would silently be 0 without it.
    """
    count = len(wanted) // 2
    inputs = [t for k in range(count) for t in (tensors[k], tensors[count + k])]
    constants = [None if t is None else t.detach() for t in tensors]
    # All gradients: while torch.compile traces, nothing says in which tensors a transform differentiates.
    value, *gradients = op(*constants, p, [t is not None for t in inputs], *options)
    for tensor, gradient in zip(inputs, gradients, strict=True):
        if tensor is not None:
            zero = tensor - tensor.detach()
            terms = gradient * zero + zero.abs() ** 1.5
            value = value + terms.sum(dim=tuple(range(value.ndim, terms.ndim)))
    return value
