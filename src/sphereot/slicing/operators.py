"""Torch operators that draw great circles: when a compiled graph runs, not when it is traced, and under torch.func."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sphereot._arrays.libraries import floating_dtype
from sphereot._arrays.random import seed_of_draw
from sphereot.slicing.drawing import draw_frames


@torch.library.custom_op("sphereot::great_circles", mutates_args=(), tags=(torch.Tag.nondeterministic_seeded,))
def _great_circles(n_projections: int, dim: int, method: str, seed: int | None, like: Tensor) -> Tensor:
    frames: Tensor = draw_frames(n_projections, dim, method, seed, like)
    return frames


@_great_circles.register_fake
def _(n_projections: int, dim: int, method: str, seed: int | None, like: Tensor) -> Tensor:
    return like.new_empty((n_projections, dim, 2), dtype=floating_dtype(like))


@torch.library.custom_op("sphereot::next_great_circles", mutates_args=("draws",))
def _next_great_circles(n_projections: int, dim: int, method: str, seed: int, draws: Tensor, like: Tensor) -> Tensor:
    frames = _great_circles(n_projections, dim, method, seed_of_draw(seed, int(draws)), like)
    draws += 1
    return frames


@_next_great_circles.register_fake
def _(n_projections: int, dim: int, method: str, seed: int, draws: Tensor, like: Tensor) -> Tensor:
    return like.new_empty((n_projections, dim, 2), dtype=floating_dtype(like))


def _drawn_for_members(
    op: Any, info: Any, in_dims: Sequence[int | None], args: Sequence[Any]
) -> tuple[Tensor, int | None]:
    """The vmap rule: circles without a seed follow `randomness`; with a seed, the members of a batch share them.

    `like` is the last argument.
    """
    n_projections, dim, method, seed, *draws, like = args
    like = like if in_dims[-1] is None else like.select(in_dims[-1], 0)
    settings = (n_projections, dim, method, seed, *draws, like)
    if seed is None and info.randomness == "error":
        raise RuntimeError(
            "seed: great circles would be drawn at random inside torch.func.vmap; give a seed, or call vmap with "
            "randomness='same' (the members share their circles) or randomness='different'."
        )
    if seed is None and info.randomness == "different":
        return torch.stack([op(*settings) for _ in range(info.batch_size)]), 0
    return op(*settings), None


for _op in (_great_circles, _next_great_circles):
    _op.register_vmap(lambda info, in_dims, *args, op=_op: _drawn_for_members(op, info, in_dims, args))


def great_circles_operator(n_projections: int, dim: int, method: str, seed: int | None, like: Tensor) -> Tensor:
    """`sphereot.great_circles` as one operator, drawn when a compiled graph runs, not when it is traced."""
    frames: Tensor = _great_circles(n_projections, dim, method, seed, like.detach())
    return frames


def next_great_circles_operator(
    n_projections: int, dim: int, method: str, seed: int, draws: Tensor, like: Tensor
) -> Tensor:
    """The great circles of draw number `draws` of a seeded loss, as one operator that also increments `draws`."""
    frames: Tensor = _next_great_circles(n_projections, dim, method, seed, draws, like.detach())
    return frames
