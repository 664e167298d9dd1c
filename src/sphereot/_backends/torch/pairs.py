"""SSW_2 to the uniform distribution without slices, with derivatives of every order and in forward mode."""

from functools import partial

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sphereot._arrays.libraries import is_torch_traced
from sphereot._backends.array_api.backend import block_sum, cost_of_sum, row_blocks, shares_of, unit_points
from sphereot._backends.protocol import Measure
from sphereot._backends.torch.transforms import differentiated_by_func


def portable_pair_cost(measure: Measure, *, unbiased: bool) -> Tensor:
    """The cost in array-API terms; K_d has derivatives of every order, except at coincident points."""
    points, shares = unit_points(measure.points), shares_of(measure)
    followed = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in measure)
    if followed and not is_torch_traced() and not has_tangent(measure):
        # A block of rows is computed again in the backward pass, so that never all pairs are held.
        again = partial(checkpoint, block_sum, use_reentrant=False, preserve_rng_state=False)
        sums = [again(points, shares, rows) for rows in row_blocks(points)]
    else:
        sums = [block_sum(points, shares, rows) for rows in row_blocks(points)]
    return torch.as_tensor(cost_of_sum(torch.stack(sums).sum(), shares, unbiased))


def is_differentiated_again(measure: Measure) -> bool:
    """Whether a transform of torch.func around the call asks for more than the gradient that the kernel gives.

    Forward mode does, and so do two derivatives: of two transforms, or of one and of autograd outside of it.
    """
    if not is_torch_traced():
        return False
    if torch.compiler.is_compiling():  # which transforms there are cannot be told while it traces
        return differentiated_by_func()
    kinds = torch._C._functorch.TransformType
    keys = [transform.key() for transform in torch._C._functorch.get_interpreter_stack() or []]
    return kinds.Jvp in keys or keys.count(kinds.Grad) > 1 or any(map(_requires_grad_outside, measure))


def has_tangent(measure: Measure) -> bool:
    """Whether the tensors are those of forward mode (`torch.autograd.forward_ad`)."""
    if torch.compiler.is_compiling():
        return False
    return any(t is not None and torch.autograd.forward_ad.unpack_dual(t).tangent is not None for t in measure)


def _requires_grad_outside(tensor: Tensor | None) -> bool:
    """Whether autograd follows a tensor outside of all transforms of torch.func."""
    if tensor is None:
        return False
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor.requires_grad
