"""Slice functions for torch tensors: the kernel on the CPU, array-API code with autograd on other devices.

Where the kernel serves, one fused call gives value and gradients. Elsewhere the portable path runs on the device
without looking at a value, block by block of slices. Memory stays bounded: a mean is differentiated block by block as
it is computed; other costs, where there is more than one block, are computed again in the backward pass.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sphereot._arrays.libraries import aligned, is_torch_traced
from sphereot._arrays.orders import LARGEST_PLAIN_ORDER, costs_of, power_mean, rooted_in_unit, unit_of
from sphereot._arrays.validation import as_whole_number
from sphereot._backends import native as _native
from sphereot._backends.array_api import costs as portable
from sphereot._backends.array_api.circle import circle_distance, circle_distance_uniform
from sphereot._backends.array_api.costs import on_grid, project
from sphereot._backends.native import costs as native
from sphereot._backends.native.frames import FramesToDraw
from sphereot._backends.torch import operators as ops

__all__ = [
    "circle_costs",
    "circle_costs_uniform",
    "circle_cuts",
    "mean_cost",
    "mean_cost_uniform",
    "mean_distance",
    "mean_distance_uniform",
    "on_grid",
    "pairwise_distances",
    "portable_path",
    "project",
    "slice_costs",
    "slice_costs_uniform",
    "summed_pairwise_costs",
]


@dataclass(frozen=True)
class _Settings:
    force: bool = False
    block_size: int | None = None


_settings = _Settings()


@contextmanager
def portable_path(*, force: bool | None = None, block_size: int | None = None) -> Iterator[None]:
    """Within this context, and in all threads, settings of the path that tensors off the CPU take.

    Parameters
    ----------
    force : bool, optional
        Send CPU tensors there too: to test it, or to compare.
    block_size : int, optional
        The number of slices held at once. By default as many as make some two million turns.
    """
    global _settings
    if block_size is not None:
        as_whole_number("block_size", block_size, 1, "the number of slices held at once")
    before = _settings
    changes = {"force": force, "block_size": block_size}
    _settings = replace(before, **{name: value for name, value in changes.items() if value is not None})  # type: ignore[arg-type]
    try:
        yield
    finally:
        _settings = before


def _kernel_serves(tensor: Tensor) -> bool:
    return _native.available and tensor.device.type == "cpu" and not _settings.force


def mean_cost(
    x: Tensor,
    y: Tensor,
    a: Tensor | None,
    b: Tensor | None,
    frames: Tensor,
    p: float,
    block_size: int | None = None,
) -> Tensor:
    """The mean over slices of W_p^p, differentiable in the points, and on the CPU in the weights."""
    if _kernel_serves(x):
        return ops.mean_cost(x, y, a, b, frames, p)
    _refuse_weight_gradients(a, b)
    return _mean_in_blocks(_costs(p), (x, y, a, b), frames, x.shape[0] + y.shape[0], block_size)


def mean_cost_uniform(
    x: Tensor, a: Tensor | None, frames: Tensor | FramesToDraw, p: float, block_size: int | None = None
) -> Tensor:
    """The mean over slices of W_p^p to the uniform measure, differentiable in points and weights."""
    if _kernel_serves(x):
        return ops.mean_cost_uniform(x, a, frames, p)
    if isinstance(frames, FramesToDraw):
        frames = torch.from_numpy(frames.array())
    return _mean_in_blocks(_costs_uniform(p), (x, a), frames, x.shape[0], block_size)


def mean_distance(
    x: Tensor,
    y: Tensor,
    a: Tensor | None,
    b: Tensor | None,
    frames: Tensor,
    p: float,
    block_size: int | None = None,
) -> Tensor:
    """The root of order p of `mean_cost`, for large orders: right where the mean itself vanishes."""
    if _kernel_serves(x):
        return ops.mean_distance(x, y, a, b, frames, p)
    _refuse_weight_gradients(a, b)
    return _distance_in_blocks(_distances(p), _costs, p, (x, y, a, b), frames, x.shape[0] + y.shape[0], block_size)


def mean_distance_uniform(
    x: Tensor, a: Tensor | None, frames: Tensor | FramesToDraw, p: float, block_size: int | None = None
) -> Tensor:
    """The root of order p of `mean_cost_uniform`, for large orders."""
    if _kernel_serves(x):
        return ops.mean_distance_uniform(x, a, frames, p)
    if isinstance(frames, FramesToDraw):
        frames = torch.from_numpy(frames.array())
    return _distance_in_blocks(_distances_uniform(p), _costs_uniform, p, (x, a), frames, x.shape[0], block_size)


def slice_costs(x: Tensor, y: Tensor, a: Tensor | None, b: Tensor | None, frames: Tensor, p: float) -> Tensor:
    """W_p^p on each slice, shape (L,)."""
    if not _differentiated(x, y, a, b):
        if _kernel_serves(x):
            return torch.from_numpy(native.slice_costs(*_numpy(x, y, a, b, frames), p))
        if p > LARGEST_PLAIN_ORDER:
            distances = _in_blocks(_distances(p), (x, y, a, b), frames, x.shape[0] + y.shape[0])
            return torch.as_tensor(costs_of(distances, p))
    _refuse_weight_gradients(a, b)
    return _in_blocks(_costs(p), (x, y, a, b), frames, x.shape[0] + y.shape[0])


def slice_costs_uniform(x: Tensor, a: Tensor | None, frames: Tensor, p: float) -> Tensor:
    """W_p^p to the uniform measure on each slice, shape (L,)."""
    if not _differentiated(x, a):
        if _kernel_serves(x):
            return torch.from_numpy(native.slice_costs_uniform(*_numpy(x, a, frames), p))
        if p > LARGEST_PLAIN_ORDER:
            return torch.as_tensor(costs_of(_in_blocks(_distances_uniform(p), (x, a), frames, x.shape[0]), p))
    return _in_blocks(_costs_uniform(p), (x, a), frames, x.shape[0])


def summed_pairwise_costs(measures: Sequence[tuple[Tensor, Tensor | None]], frames: Tensor, p: float) -> Tensor:
    """Sums over all slices of the costs of the pairs i < j, in order."""
    tensors = [t for pair in measures for t in pair]
    if _kernel_serves(frames) and not _differentiated(*tensors):
        arrays = [_numpy(*measure) for measure in measures]
        return torch.from_numpy(native.summed_pairwise_costs(arrays, *_numpy(frames), p))
    count = len(measures)
    pairs = [(measures[i], measures[j]) for i in range(count) for j in range(i + 1, count)]
    return frames.shape[0] * torch.stack([mean_cost(x, y, a, b, frames, p) for (x, a), (y, b) in pairs])


def pairwise_distances(measures: Sequence[tuple[Tensor, Tensor | None]], frames: Tensor, p: float) -> Tensor:
    """`mean_distance` of the pairs i < j, in order."""
    if _kernel_serves(frames) and not _differentiated(*(t for pair in measures for t in pair)):
        arrays = [_numpy(*measure) for measure in measures]
        return torch.from_numpy(native.pairwise_distances(arrays, *_numpy(frames), p))
    pairs = combinations(measures, 2)
    return torch.stack([mean_distance(x, y, a, b, frames, p) for (x, a), (y, b) in pairs])


def circle_costs(u: Tensor, v: Tensor, a: Tensor | None, b: Tensor | None, p: float) -> Tensor:
    """W_p^p on the circle, row by row, differentiable in the turns, and on the CPU in the weights."""
    if _kernel_serves(u):
        return ops.circle_costs(u, v, a, b, p)
    _refuse_weight_gradients(a, b)
    return portable.circle_costs(u, v, a, b, p)


def circle_costs_uniform(u: Tensor, a: Tensor | None, p: float) -> Tensor:
    """W_p^p to the uniform measure, row by row, differentiable in turns and weights."""
    if _kernel_serves(u):
        return ops.circle_costs_uniform(u, a, p)
    return portable.circle_costs_uniform(u, a, p)


def circle_cuts(u: Tensor, v: Tensor, a: Tensor | None, b: Tensor | None, p: float) -> Tensor:
    """The optimal cut of each row, in units of mass."""
    with torch.no_grad():
        return portable.circle_cuts(u, v, a, b, p)


# ---- the portable path, a block of slices at a time ----


def _costs(p: float, unit: Tensor | None = None) -> Callable[..., Tensor]:
    def costs(x: Tensor, y: Tensor, a: Tensor | None, b: Tensor | None, block: Tensor) -> Tensor:
        return portable.circle_costs(project(x, block), project(y, block), _row(a), _row(b), p, unit)

    return costs


def _costs_uniform(p: float, unit: Tensor | None = None) -> Callable[..., Tensor]:
    def costs(x: Tensor, a: Tensor | None, block: Tensor) -> Tensor:
        return portable.circle_costs_uniform(project(x, block), _row(a), p, unit)

    return costs


def _distances(p: float) -> Callable[..., Tensor]:
    def distances(x: Tensor, y: Tensor, a: Tensor | None, b: Tensor | None, block: Tensor) -> Tensor:
        return circle_distance(project(x, block), project(y, block), _row(a), _row(b), p)

    return distances


def _distances_uniform(p: float) -> Callable[..., Tensor]:
    def distances(x: Tensor, a: Tensor | None, block: Tensor) -> Tensor:
        return circle_distance_uniform(project(x, block), _row(a), p)

    return distances


def _blocks(frames: Tensor, atoms: int, size: int | None) -> tuple[Tensor, ...]:
    return torch.split(frames, size or _settings.block_size or max(1, portable.TURNS_A_BLOCK // atoms))


def _in_blocks(
    costs: Callable[..., Tensor],
    tensors: tuple[Tensor | None, ...],
    frames: Tensor,
    atoms: int,
    size: int | None = None,
) -> Tensor:
    """Costs of all slices. Where they are differentiated, and are several blocks, each is computed again for that.

    The transforms of torch.func cannot do so, and hold all blocks.
    """
    blocks = _blocks(frames, atoms, size)
    transformed = is_torch_traced() and not torch.compiler.is_compiling()
    if len(blocks) == 1 or transformed or not _differentiated(*tensors):
        return torch.cat([costs(*tensors, block) for block in blocks])
    return torch.cat(
        [checkpoint(costs, *tensors, block, use_reentrant=False, preserve_rng_state=False) for block in blocks]
    )


def _mean_in_blocks(
    costs: Callable[..., Tensor],
    tensors: tuple[Tensor | None, ...],
    frames: Tensor,
    atoms: int,
    size: int | None,
) -> Tensor:
    """The mean of the costs of all slices."""
    if not _differentiated(*tensors) or is_torch_traced():
        return _in_blocks(costs, tensors, frames, atoms, size).mean()
    mean: Tensor = _MeanWithGradients.apply(costs, _blocks(frames, atoms, size), *tensors)
    return mean


def _distance_in_blocks(
    distances: Callable[..., Tensor],
    costs: Callable[..., Callable[..., Tensor]],
    p: float,
    tensors: tuple[Tensor | None, ...],
    frames: Tensor,
    atoms: int,
    size: int | None,
) -> Tensor:
    """The root of order p of the mean cost of all slices; it is differentiated in units of its own value."""
    with torch.no_grad():
        held = tuple(None if t is None else t.detach() for t in tensors)
        distance = power_mean(_in_blocks(distances, held, frames, atoms, size), p).detach()
    if not _differentiated(*tensors) and not is_torch_traced():
        return distance
    mean = _mean_in_blocks(costs(p, unit_of(distance)), tensors, frames, atoms, size)
    return torch.as_tensor(rooted_in_unit(distance, mean, p))


class _MeanWithGradients(torch.autograd.Function):
    """A mean over blocks of slices, each differentiated as soon as it is computed: nothing is kept, or computed again.

    All slices count the same in the mean, so the backward pass only multiplies.
    """

    @staticmethod
    def forward(ctx: Any, costs: Callable[..., Tensor], blocks: Sequence[Tensor], *tensors: Tensor | None) -> Tensor:
        needed = ctx.needs_input_grad[2:]
        pairs = list(zip(tensors, needed, strict=True))
        leaves = [None if t is None else t.detach().requires_grad_(need) for t, need in pairs]
        wanted = [leaf for leaf in leaves if leaf is not None and leaf.requires_grad]
        share = 1.0 / sum(block.shape[0] for block in blocks)
        values, gradients = [], [torch.zeros_like(leaf) for leaf in wanted]
        for block in blocks:
            with torch.enable_grad():
                part = share * costs(*leaves, block).sum()
            values.append(part.detach())
            for gradient, one in zip(gradients, torch.autograd.grad(part, wanted), strict=True):
                gradient += one
        ctx.needed = needed
        ctx.save_for_backward(*gradients, *(t for t, need in pairs if need))
        return torch.stack(values).sum()

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        saved, count = ctx.saved_tensors, sum(ctx.needed)  # once: a checkpoint computes them when they are asked for
        gradients, inputs = saved[:count], saved[count:]
        scaled = iter(ops.once(gradient * upstream[0], inputs) for gradient in gradients)
        return None, None, *(next(scaled) if need else None for need in ctx.needed)


def _differentiated(*tensors: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


def _refuse_weight_gradients(*weights: Tensor | None) -> None:
    """Holding the cut gives a wrong derivative in the weights; their dual potentials are the kernel's to compute."""
    if _differentiated(*weights):
        raise RuntimeError(
            "sphereot: gradients in the weights are computed by the compiled kernel, for CPU tensors; move the tensors "
            "to the CPU, or detach the weights."
        )


def _row(weights: Tensor | None) -> Tensor | None:
    return None if weights is None else weights[None, :]


def _numpy(*tensors: Tensor | None) -> Any:
    return [None if t is None else aligned(t.detach().numpy()) for t in tensors]
