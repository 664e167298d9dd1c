"""A kernel function as a torch operator that works in eager code, autograd, torch.func and torch.compile."""

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, TypeAlias

import torch
from torch import Tensor

from sphereot._arrays.libraries import is_torch_traced
from sphereot._backends.torch.derivatives import FORWARD_MODE_ERROR, input_gradients, save_gradients
from sphereot._backends.torch.transforms import (
    FunctorchOp,
    apply_per_member,
    differentiated_by_func,
    is_transformed,
    setup_context,
    with_linear_terms,
)

Outputs: TypeAlias = tuple[Tensor, ...]
"""The cost, then the gradients in points and weights of each measure: empty tensors for those not requested."""

_PLAIN_TYPES = {Tensor, torch.nn.Parameter, type(None)}


class KernelOp:
    """An operator whose forward pass gives the cost and its gradients in one call of the kernel.

    Parameters
    ----------
    name : str
        Under which `torch.library` knows it, e.g. "sphereot::mean_cost".
    n_measures : int
        The first `n_measures` arguments are points or turns, the next `n_measures` are their weights.
    forward : callable
        Gives the outputs for arguments with valid values. The annotations of its arguments are the operator's schema.
    fake : callable
        Gives empty tensors of the outputs' shapes, for torch.compile.
    smooth : callable, optional
        The cost of the same arguments in terms that autograd differentiates, if it has second derivatives.
    """

    def __init__(
        self,
        name: str,
        n_measures: int,
        forward: Callable[..., Outputs],
        fake: Callable[..., Outputs],
        smooth: Callable[..., Tensor] | None = None,
    ) -> None:
        self.forward, self.smooth = forward, smooth
        self.registered = _register(name, n_measures, forward, fake, smooth)

    def __call__(self, tensors: Sequence[Tensor | None], *constants: Any) -> Tensor:
        """The cost, differentiable in points and weights; `tensors` may be subclasses or traced.

        The first two constants are the order and which gradients are wanted.
        """
        if _are_plain(tensors):
            wanted = constants[1]
            if not any(wanted) and torch.autograd.forward_ad._current_level < 0:
                return self.forward(*tensors, *constants)[0]
            cost: Tensor = _EagerOp.apply(self, *tensors, *constants)
            return cost
        if torch.compiler.is_compiling() and differentiated_by_func():
            return with_linear_terms(self.registered, tensors, *constants)
        if is_transformed(tensors):
            outputs: Outputs = FunctorchOp.apply(self.registered, *tensors, *constants)
        else:
            outputs = self.registered(*tensors, *constants)
        return outputs[0]


class _EagerOp(torch.autograd.Function):
    """Eager fast path: calls the kernel without the torch dispatcher, which takes three times as long."""

    @staticmethod
    def forward(ctx: Any, op: KernelOp, *args: Any) -> Tensor:
        cost, *gradients = op.forward(*args)
        save_gradients(ctx, args, gradients, op.smooth)
        return cost

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        return None, *input_gradients(ctx, upstream[0])

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise NotImplementedError(FORWARD_MODE_ERROR)


def _are_plain(tensors: Sequence[Tensor | None]) -> bool:
    """Whether the tensors are eager ones: no subclass, no tracer, no mode that intercepts operators."""
    return (
        all(type(t) in _PLAIN_TYPES for t in tensors)
        and not is_torch_traced()
        and not torch._C._len_torch_dispatch_stack()
    )


def _register(
    name: str,
    n_measures: int,
    forward: Callable[..., Outputs],
    fake: Callable[..., Outputs],
    smooth: Callable[..., Tensor] | None,
) -> Any:
    """Register an operator with `torch.library`: its shapes, its derivative and its batching.

    Where values could not be validated because a graph was traced, invalid ones give NaN, as in JAX.
    """

    @wraps(forward)
    def checked(*args: Any) -> Outputs:
        tensors = args[: 2 * n_measures]
        if all(_is_valid(t, are_weights=k >= n_measures) for k, t in enumerate(tensors)):
            return forward(*args)
        ones = [None if t is None else torch.ones_like(t) for t in tensors]
        return tuple(t.fill_(torch.nan) for t in forward(*ones, *args[2 * n_measures :]))

    op = torch.library.custom_op(name, checked, mutates_args=(), device_types="cpu")
    op.register_fake(fake)
    op.register_autograd(
        lambda ctx, *upstream: input_gradients(ctx, upstream[0]), setup_context=partial(setup_context, smooth=smooth)
    )
    op.register_vmap(lambda info, in_dims, *args: apply_per_member(op, info, in_dims, args))
    return op


def _is_valid(values: Tensor | None, are_weights: bool) -> bool:
    """Whether the values are finite and, for weights, nonnegative with a positive one in each row."""
    if values is None:
        return True
    if not torch.isfinite(values).all():
        return False
    return not are_weights or bool((values >= 0).all() and (values.amax(dim=-1) > 0).all())
