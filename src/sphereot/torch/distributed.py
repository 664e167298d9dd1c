"""Sharing a loss over the processes of `torch.distributed`: every rank holds a part of the batch.

The points of all ranks are gathered, the slices are shared out, and the mean over slices is taken over the ranks. Every
rank ends with the value that one process would have, and its points with the gradient they would have there.
"""

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.nn.functional import all_gather

__all__ = ["gather_batch", "mean_over_ranks", "own_share", "world_size"]


def world_size() -> int:
    """The number of processes; 1 where `torch.distributed` is not in use."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def gather_batch(points: Tensor) -> Tensor:
    """The points of all ranks, one after the other, differentiably. Every rank must hold as many."""
    return points if world_size() == 1 else torch.cat(all_gather(points))


def own_share(frames: Tensor) -> Tensor:
    """The slices that this rank computes."""
    if world_size() == 1:
        return frames
    if frames.shape[0] % world_size():
        raise ValueError(
            f"gather: {frames.shape[0]} slices cannot be shared evenly by {world_size()} ranks; make n_projections a "
            "multiple of the number of ranks."
        )
    return frames[dist.get_rank() :: world_size()]


def mean_over_ranks(value: Tensor) -> Tensor:
    """The mean of the ranks' values, the same on each.

    A rank's own value enters it with 1 / ranks, and so does its gradient: `gather_batch` adds up what the ranks send
    back for a point, and the point ends with the gradient that it would have in one process.
    """
    ranks = world_size()
    if ranks == 1:
        return value
    total = value.detach().clone()
    dist.all_reduce(total)
    return value / ranks + (total - value.detach()) / ranks
