"""First derivatives from gradients that the forward pass has computed.

The forward pass saves the gradients, and the backward pass multiplies them with the upstream gradient. Second and
forward-mode derivatives of costs on great circles are errors, since the matching jumps where the cut does. A cost
without slices has second derivatives: they are those of its array-API code.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from sphereot._arrays.libraries import is_torch_traced

FORWARD_MODE_ERROR = (
    "sphereot: costs on great circles have no forward-mode derivatives in PyTorch (torch.func.jvp, jacfwd, hessian); "
    "use reverse mode: backward(), torch.func.grad, vjp or jacrev. To the uniform distribution, method='exact' has "
    "forward-mode derivatives."
)
_SECOND_DERIVATIVE_ERROR = (
    "sphereot: the gradient of a cost on great circles has no derivative of its own (double backward), because the "
    "matching jumps; compute it without create_graph=True, or detach it. To the uniform distribution, method='exact' "
    "has second derivatives."
)


def save_gradients(
    ctx: Any, inputs: Sequence[Any], gradients: Sequence[Tensor], smooth: Callable[..., Tensor] | None = None
) -> None:
    """Save for the backward pass the gradients in points and weights of each measure, empty where not requested.

    `inputs` are those of the operator: the points of all measures, their weights, then constants. `smooth` is a
    function of them that has second derivatives, if the cost has any.
    """
    n_measures = len(gradients) // 2
    measures, constants = inputs[: len(gradients)], inputs[len(gradients) :]
    ctx.weight_shapes = [None if t is None else t.shape for t in measures[n_measures:]]
    ctx.n_gradients = len(gradients)
    ctx.smooth, ctx.constants = smooth, constants
    ctx.given = [t is not None for t in measures]
    ctx.save_for_backward(*gradients, *(t for t in measures if t is not None))


def input_gradients(ctx: Any, upstream: Tensor | None) -> tuple[Tensor | None, ...]:
    """The gradients in all inputs of the operator from the upstream gradient of its cost."""
    if upstream is None:
        return (None,) * (ctx.n_gradients + len(ctx.constants))
    saved = ctx.saved_tensors  # read once: under a checkpoint, reading computes them again
    gradients, inputs = saved[: ctx.n_gradients], saved[ctx.n_gradients :]
    if ctx.smooth is not None and torch.is_grad_enabled() and not torch.compiler.is_compiling():
        rest = iter(inputs)
        tensors = [next(rest) if given else None for given in ctx.given]
        wanted = [t for t in tensors if t is not None and t.requires_grad]
        found = iter(torch.autograd.grad(ctx.smooth(*tensors, *ctx.constants), wanted, upstream, create_graph=True))
        parts = [next(found) if t is not None and t.requires_grad else None for t in tensors]
        return *parts, *(None,) * len(ctx.constants)
    scaled = [None if g.numel() == 0 else differentiable_once(_times(g, upstream), inputs) for g in gradients]
    weights = [_summed_to(g, shape) for g, shape in zip(scaled[1::2], ctx.weight_shapes, strict=True)]
    return *scaled[0::2], *weights, *(None,) * len(ctx.constants)


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
