"""A matrix product of tensors that torch.autocast leaves in their precision, in every derivative too."""

from typing import Any

import torch
from torch import Tensor


def full_precision_product(first: Tensor, second: Tensor) -> Tensor:
    """The product of two matrices, or of two batches of the same shape.

    A context that turns autocast off covers the forward pass only. A derivative that is computed under autocast would
    round its products to half precision, where small gradients become 0.
    """
    function = _Product if torch.compiler.is_compiling() else _ForwardModeProduct
    product: Tensor = function.apply(first, second)
    return product


class _Product(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(first: Tensor, second: Tensor) -> Tensor:
        with torch.autocast(first.device.type, enabled=False):
            return first @ second

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        first, second = ctx.saved_tensors
        # Under a compiled transform of torch.func the flags are wrong; there, the graph drops what nothing uses.
        of_first, of_second = (True, True) if torch.compiler.is_compiling() else ctx.needs_input_grad
        return (
            full_precision_product(upstream[0], second.mT) if of_first else None,
            full_precision_product(first.mT, upstream[0]) if of_second else None,
        )


class _ForwardModeProduct(_Product):
    """With forward-mode derivatives, which torch.compile cannot trace."""

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Any:
        first, second = ctx.saved_tensors
        terms = ((tangents[0], second), (first, tangents[1]))
        return sum(full_precision_product(*term) for term in terms if None not in term)
