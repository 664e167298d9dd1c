"""PyTorch backend: the compiled kernel on the CPU, array-API code with autograd on other devices.

On the CPU one fused call gives value and gradients. Elsewhere array-API code runs on the device without copying
values to the host, block by block of slices. Memory stays bounded: a mean is differentiated block by block while it is
computed; other costs of several blocks are computed again in the backward pass.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sphereot._arrays.libraries import full_precision, is_torch_traced, take_root
from sphereot._arrays.validation import as_int
from sphereot._backends import native
from sphereot._backends.array_api import backend as array_api
from sphereot._backends.array_api.backend import TURNS_PER_BLOCK, on_circles
from sphereot._backends.array_api.backend import project as project
from sphereot._backends.array_api.circle import circle_cut, matched_pairs
from sphereot._backends.array_api.circle import weight_gradients as weight_gradients_of_rows
from sphereot._backends.native import backend as kernel
from sphereot._backends.protocol import Labelings, Measure, Measures, PairOptions, Plan, Repeats, n_atoms
from sphereot._backends.torch.derivatives import (
    differentiable_once,
    has_tangent,
    is_differentiated_again,
    requires_grad,
)
from sphereot._backends.torch.operators import as_numpy, kernel_cost, portable_pair_cost


@dataclass(frozen=True)
class _Settings:
    force: bool = False
    block_size: int | None = None


_settings = _Settings()


@contextmanager
def array_api_backend(*, force: bool | None = None, block_size: int | None = None) -> Iterator[None]:
    """Configure the array-API backend, which computes on tensors of other devices than the CPU, in all threads.

    Parameters
    ----------
    force : bool, optional
        Use this backend for CPU tensors too, to test it or to compare.
    block_size : int, optional
        Number of great circles per block in memory. By default, a block has about two million turns.
    """
    global _settings
    if block_size is not None:
        as_int("block_size", block_size, 1, "the number of slices per block")
    before = _settings
    changes = {"force": force, "block_size": block_size}
    _settings = replace(before, **{name: value for name, value in changes.items() if value is not None})  # type: ignore[arg-type]
    try:
        yield
    finally:
        _settings = before


def _kernel_serves(tensor: Tensor) -> bool:
    return not _settings.force and native.serves(tensor)


def slice_costs(measures: Measures, frames: Tensor, p: float) -> Tensor:
    """W_p^p on each great circle, shape (L,): between two measures, or of one to the uniform measure."""
    if not _differentiated(measures) and _kernel_serves(frames):
        return torch.from_numpy(kernel.slice_costs(_in_numpy(measures), *as_numpy(frames), p))
    return _in_blocks(p, measures, frames)


def mean_cost(
    measures: Measures,
    frames: Tensor,
    p: float,
    *,
    root: bool = False,
    block_size: int | None = None,
) -> Tensor:
    """SSW_p^p: the mean of W_p^p over the great circles; with `root` SSW_p.

    Differentiable in points and weights. `block_size` is the number of slices per block of array-API code.
    """
    if _kernel_serves(measures[0].points):
        value = kernel_cost(measures, frames, p)
    else:
        value = _mean_in_blocks(measures, frames, p, block_size)
    return torch.as_tensor(take_root(value, p, root))


def pair_cost(measure: Measure, *, unbiased: bool = False, even_weight: float = 1.0) -> Tensor:
    """SSW_2^2 to the uniform distribution without slices.

    It has derivatives of every order in points and weights, and forward-mode ones.
    """
    options = PairOptions(unbiased, even_weight)
    if _kernel_serves(measure.points) and not (is_differentiated_again(measure) or has_tangent(measure)):
        return kernel_cost([measure], None, 2.0, options)
    return portable_pair_cost(measure, options)


def weight_gradients(measures: Measures, frames: Tensor, p: float) -> Sequence[Tensor]:
    """The gradients (n,) of `mean_cost` between two measures in their weights, which are ones by default."""
    if _kernel_serves(frames):
        gradients = kernel.weight_gradients(_in_numpy(measures), *as_numpy(frames), p)
        return [torch.from_numpy(gradient) for gradient in gradients]
    with torch.no_grad():
        return array_api.weight_gradients(measures, frames, p)


def pairwise_costs(measures: Measures, frames: Tensor, p: float, *, root: bool = False) -> Tensor:
    """`mean_cost` of the pairs i < j of several measures, in lexicographic order."""
    if _kernel_serves(frames) and not (_differentiated(measures) or is_torch_traced()):
        (frames_array,) = as_numpy(frames)
        return torch.from_numpy(kernel.pairwise_costs(_in_numpy(measures), frames_array, p, root=root))
    return torch.stack([mean_cost(pair, frames, p, root=root) for pair in combinations(measures, 2)])


def circle_costs(measures: Measures, p: float) -> Tensor:
    """W_p^p on the circle, row by row, differentiable in the turns and in the weights."""
    if _kernel_serves(measures[0].points):
        return kernel_cost(measures, None, p)
    return _row_costs(measures, p)


def circle_plan(u: Measure, v: Measure, p: float) -> Plan:
    """The optimal coupling of two measures on the circle, each given as one row of turns."""
    with torch.no_grad():
        cut = circle_cut(u, v, p)
    return Plan(*matched_pairs(u, v, cut), circle_costs([u, v], p)[0], cut[0])


def relabeled_costs(pool: Tensor, labelings: Labelings, frames: Tensor, p: float) -> Iterator[tuple[slice, Tensor]]:
    """W_p^p on each great circle between the two samples that each labeling makes of a pooled sample (N, d).

    Yields blocks of great circles with their costs under all labelings, shape (block, n_labelings).
    """
    if not _kernel_serves(pool):
        yield from array_api.relabeled_costs(pool, labelings, frames, p)
        return
    points, frames_array = as_numpy(pool, frames)
    for block, costs in kernel.relabeled_costs(points, labelings, frames_array, p):
        yield block, torch.from_numpy(costs)


def resampled_costs(measures: Measures, repeats: Sequence[Repeats], frames: Tensor, p: float) -> Tensor:
    """W_p^p on each great circle for each resample of one or two measures, shape (L, B)."""
    points = [measure.points for measure in measures]
    if not _kernel_serves(points[0]):
        return array_api.resampled_costs(measures, repeats, frames, p)
    *arrays, frames_array = as_numpy(*points, frames)
    return torch.from_numpy(kernel.resampled_costs([Measure(array) for array in arrays], repeats, frames_array, p))


# ---- array-API code, block by block of slices ----


def _costs(p: float, measures: Measures, block: Tensor) -> Tensor:
    return _row_costs(on_circles(measures, block), p)


def _row_costs(measures: Measures, p: float) -> Tensor:
    """Costs of rows of turns, with gradients in the weights of two measures too.

    Masses are integers to autograd. The gradients come from added terms, whose value is 0 and whose slope they are.
    """
    costs: Tensor = array_api.circle_costs(measures, p)
    if len(measures) == 1 or not any(a is not None and requires_grad(a) for _, a in measures):
        return costs
    with torch.no_grad():
        constant = [Measure(u.detach(), None if a is None else a.detach()) for u, a in measures]
        potentials = weight_gradients_of_rows(constant[0], constant[1], p)
    for (_, a), potential in zip(measures, potentials, strict=True):
        if a is not None:
            costs = costs + (potential * (a - a.detach())).sum(dim=-1)
    return costs


def _blocks(frames: Tensor, measures: Measures, size: int | None) -> tuple[Tensor, ...]:
    return torch.split(frames, size or _settings.block_size or max(1, TURNS_PER_BLOCK // n_atoms(measures)))


def _in_blocks(p: float, measures: Measures, frames: Tensor, size: int | None = None) -> Tensor:
    """Costs of all slices; for the backward pass each block is computed again if there are several.

    The transforms of torch.func cannot do so, and keep all blocks in memory.
    """
    blocks = _blocks(frames, measures, size)
    transformed = is_torch_traced() and not torch.compiler.is_compiling()
    if len(blocks) == 1 or transformed or not _differentiated(measures):
        return torch.cat([_costs(p, measures, block) for block in blocks])
    recomputed = partial(checkpoint, partial(_costs, p), use_reentrant=False, preserve_rng_state=False)
    return torch.cat([recomputed(measures, block) for block in blocks])


def _mean_in_blocks(measures: Measures, frames: Tensor, p: float, size: int | None) -> Tensor:
    """The mean of the costs of all slices."""
    if not _differentiated(measures) or is_torch_traced():
        return _in_blocks(p, measures, frames, size).mean()
    flat = [tensor for measure in measures for tensor in measure]
    mean: Tensor = _MeanWithGradients.apply(p, _blocks(frames, measures, size), *flat)
    return mean


class _MeanWithGradients(torch.autograd.Function):
    """A mean over blocks of slices that differentiates each block at once, so that none is stored or computed again.

    All slices have the same weight in the mean, so the backward pass only multiplies.
    """

    @staticmethod
    def forward(ctx: Any, p: float, blocks: Sequence[Tensor], *tensors: Tensor | None) -> Tensor:
        needed = ctx.needs_input_grad[2:]
        pairs = list(zip(tensors, needed, strict=True))
        leaves = [None if t is None else t.detach().requires_grad_(need) for t, need in pairs]
        measures = [Measure(*leaves[k : k + 2]) for k in range(0, len(leaves), 2)]
        wanted = [leaf for leaf in leaves if leaf is not None and leaf.requires_grad]
        share = 1.0 / sum(block.shape[0] for block in blocks)
        values, gradients = [], [torch.zeros_like(leaf) for leaf in wanted]
        for block in blocks:
            with torch.enable_grad():
                block_mean = share * _costs(p, measures, block).sum()
            values.append(block_mean.detach())
            with full_precision(block):  # a scaler multiplies the gradient later: in half precision, too late
                block_gradients = torch.autograd.grad(block_mean, wanted)
            for total, gradient in zip(gradients, block_gradients, strict=True):
                total += gradient
        ctx.needed = needed
        ctx.save_for_backward(*gradients, *(t for t, need in pairs if need))
        return torch.stack(values).sum()

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        saved, count = ctx.saved_tensors, sum(ctx.needed)  # read once: under a checkpoint, reading computes them again
        gradients, inputs = saved[:count], saved[count:]
        scaled = iter(differentiable_once(gradient * upstream[0], inputs) for gradient in gradients)
        return None, None, *(next(scaled) if need else None for need in ctx.needed)


def _differentiated(measures: Measures) -> bool:
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for measure in measures for t in measure)


def _in_numpy(measures: Measures) -> list[Measure]:
    return [Measure(*as_numpy(*measure)) for measure in measures]
