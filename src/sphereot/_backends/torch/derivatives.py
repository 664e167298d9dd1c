"""Derivatives of costs in PyTorch: only first derivatives, in autograd, torch.func or torch.compile.

Second and forward-mode derivatives of costs on great circles are errors, since the matching jumps where the cut does.
The cost without great circles has both, in its array-API code.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sphereot._arrays.libraries import is_torch_traced
from sphereot._backends.protocol import Measure

FORWARD_MODE_ERROR = (
    "sphereot: costs on great circles have no forward-mode derivatives in PyTorch (torch.func.jvp, jacfwd, hessian). "
    "Use reverse mode: backward(), torch.func.grad, vjp or jacrev. To the uniform distribution, method='exact' has "
    "forward-mode derivatives."
)
_SECOND_DERIVATIVE_ERROR = (
    "sphereot: the gradient of a cost on great circles has no derivative (double backward), because the matching "
    "jumps. Compute it without create_graph=True, or detach it. To the uniform distribution, method='exact' has "
    "second derivatives."
)


def differentiable_once(gradient: Tensor, inputs: Sequence[Tensor]) -> Tensor:
    """A gradient that raises an error when it is differentiated again in the inputs of its function."""
    if not torch.is_grad_enabled() or torch.compiler.is_compiling():
        return gradient
    guarded: Tensor = _NoSecondDerivative.apply(gradient, *inputs)
    return guarded


class _NoSecondDerivative(torch.autograd.Function):
    """The identity, whose derivative is an error: without it the second derivative would silently be 0."""

    generate_vmap_rule = True

    @staticmethod
    def forward(gradient: Tensor, *inputs: Tensor) -> Tensor:
        return gradient.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        raise RuntimeError(_SECOND_DERIVATIVE_ERROR)


def requires_grad(tensor: Tensor) -> bool:
    """Whether autograd follows a tensor, outside of the transforms of torch.func or inside any of them."""
    if torch.compiler.is_compiling():
        return tensor.requires_grad
    while not tensor.requires_grad and torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor.requires_grad


@torch.compiler.assume_constant_result
def differentiated_by_func() -> bool:
    """Whether a transform of torch.func around the call differentiates; for use while torch.compile traces."""
    transforms = torch._C._functorch.get_interpreter_stack() or []
    return any(transform.key() != torch._C._functorch.TransformType.Vmap for transform in transforms)


def is_differentiated_again(measure: Measure) -> bool:
    """Whether a transform of torch.func around the call asks for more than the gradient that the kernel computes.

    Forward mode does, and so do two derivatives: of two transforms, or of one and of autograd outside of it.
    """
    if not is_torch_traced():
        return False
    if torch.compiler.is_compiling():  # it cannot be told which transforms there are
        return differentiated_by_func()
    functorch = torch._C._functorch
    keys = [transform.key() for transform in functorch.get_interpreter_stack() or []]
    if functorch.TransformType.Jvp in keys or keys.count(functorch.TransformType.Grad) > 1:
        return True
    for tensor in measure:
        while tensor is not None and functorch.is_functorch_wrapped_tensor(tensor):
            tensor = functorch.get_unwrapped(tensor)
        if tensor is not None and tensor.requires_grad:
            return True
    return False


def has_tangent(measure: Measure) -> bool:
    """Whether the tensors are those of forward mode (`torch.autograd.forward_ad`)."""
    if torch.compiler.is_compiling():
        return False
    return any(t is not None and torch.autograd.forward_ad.unpack_dual(t).tangent is not None for t in measure)
