"""First derivatives from gradients that the forward pass has computed; second and forward-mode ones are errors.

The forward pass saves the gradients, and the backward pass multiplies them with the upstream gradient. Gradients of
gradients are not defined: the matching jumps where the cut does.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sphereot._arrays.libraries import is_torch_traced

__all__ = [
    "FORWARD_MODE_ERROR",
    "differentiable_once",
    "input_gradients",
    "requires_grad",
    "save_gradients",
]

FORWARD_MODE_ERROR = (
    "sphereot: SSW has no forward-mode derivatives in PyTorch (torch.func.jvp, jacfwd, hessian); use reverse mode: "
    "backward(), torch.func.grad, vjp or jacrev."
)
_SECOND_DERIVATIVE_ERROR = (
    "sphereot: the gradient of SSW has no derivative of its own here (double backward); compute it without "
    "create_graph=True, or detach it."
)


def save_gradients(ctx: Any, inputs: Sequence[Any], gradients: Sequence[Tensor]) -> None:
    """Save for the backward pass the gradients in points and weights of each measure, empty where not requested.

    `inputs` are those of the operator: the points of all measures, their weights, then constants.
    """
    n_measures = len(gradients) // 2
    tensors = [t for t in inputs if isinstance(t, Tensor)]
    ctx.weight_shapes = [None if t is None else t.shape for t in inputs[n_measures : 2 * n_measures]]
    ctx.n_gradients = len(gradients)
    ctx.n_constants = len(inputs) - len(gradients)
    ctx.save_for_backward(*gradients, *(t for t in tensors if requires_grad(t)))


def input_gradients(ctx: Any, upstream: Tensor | None) -> tuple[Tensor | None, ...]:
    """The gradients in all inputs of the operator from the upstream gradient of its cost."""
    if upstream is None:
        return (None,) * (ctx.n_gradients + ctx.n_constants)
    saved = ctx.saved_tensors  # read once: under a checkpoint, reading computes them again
    gradients, inputs = saved[: ctx.n_gradients], saved[ctx.n_gradients :]
    scaled = [None if g.numel() == 0 else differentiable_once(_times(g, upstream), inputs) for g in gradients]
    weights = [_summed_to(g, shape) for g, shape in zip(scaled[1::2], ctx.weight_shapes, strict=True)]
    return *scaled[0::2], *weights, *(None,) * ctx.n_constants


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


def _times(gradient: Tensor, upstream: Tensor) -> Tensor:
    """A gradient times the upstream gradient, which is one number, or one per row."""
    plain = type(gradient) is Tensor and not torch.is_grad_enabled() and not is_torch_traced()
    if upstream.ndim == 0 and plain and not torch._C._functorch.is_legacy_batchedtensor(upstream):
        # In NumPy: torch would wake its threads for one product, and they would then spin beside the kernel's.
        return torch.from_numpy(gradient.numpy() * upstream.numpy())
    return gradient * upstream.reshape(upstream.shape + (1,) * (gradient.ndim - upstream.ndim))


def _summed_to(gradient: Tensor | None, shape: Sequence[int] | None) -> Tensor | None:
    """Sum a gradient over the rows where its weights are one row that all rows share."""
    if gradient is None or shape is None or gradient.shape == torch.Size(shape):
        return gradient
    return gradient.sum(dim=0, keepdim=True)


def requires_grad(tensor: Tensor) -> bool:
    """Whether autograd follows a tensor, outside of the transforms of torch.func or inside any of them."""
    if torch.compiler.is_compiling():
        return tensor.requires_grad
    while not tensor.requires_grad and torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor.requires_grad
