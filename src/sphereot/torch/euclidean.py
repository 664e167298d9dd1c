"""Euclidean sliced-Wasserstein distance between samples, computed by the kernel for circles."""

import torch
from torch import Tensor

from sphereot import circle
from sphereot._arrays.libraries import product
from sphereot._arrays.random import torch_generator

__all__ = ["mean_line_cost", "random_directions", "sliced_wasserstein"]

_REACH = 0.2499  # less than a quarter turn, so that rounding cannot move a point across 0


def sliced_wasserstein(x: Tensor, y: Tensor, n_projections: int, seed: int | torch.Generator | None = None) -> Tensor:
    """Compute the Euclidean sliced-Wasserstein distance SW_2^2 between two samples in R^m.

    It is the mean over directions of W_2^2 between the projected samples.

    Parameters
    ----------
    x, y : tensor, shape (n, m) and (k, m)
        The samples.
    n_projections : int
        Number of directions, drawn from the uniform distribution on the sphere.
    seed : int, torch.Generator or None, default None
        Seed. With None, every call uses new random numbers. Torch's global random state is not used.

    Returns
    -------
    tensor, shape ()
        The distance, differentiable in both samples.

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([[0.0], [1.0], [5.0]])
    >>> round(float(sliced_wasserstein(x, x + 2, 3)), 3)
    4.0
    """
    directions = random_directions(x, n_projections, seed)
    return mean_line_cost(product(directions, x.T), product(directions, y.T))


def random_directions(x: Tensor, n_projections: int, seed: int | torch.Generator | None) -> Tensor:
    """Draw uniform directions, shape (L, m)."""
    generator = torch_generator(seed, x.device)
    normals = torch.randn(n_projections, x.shape[-1], generator=generator, dtype=x.dtype, device=x.device)
    return normals / torch.linalg.vector_norm(normals, dim=-1, keepdim=True)


def mean_line_cost(u: Tensor, v: Tensor) -> Tensor:
    """Compute the mean over rows of W_2^2 between samples on the line, (L, n) and (L, k)."""
    # Scaled to half a circle: the shortest path never crosses the other half, so the cost is the cost on the line.
    largest = torch.stack([heights.detach().abs().amax() for heights in (u, v)]).amax()
    scale = _REACH / largest.clamp(min=torch.finfo(u.dtype).tiny)
    value: Tensor = circle.wasserstein(u * scale + 0.25, v * scale + 0.25).mean() / scale**2
    return value
