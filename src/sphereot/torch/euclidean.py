"""Euclidean sliced-Wasserstein distance between samples, computed by the kernel for circles."""

import torch
from torch import Tensor

from sphereot import circle
from sphereot._arrays.libraries import product
from sphereot._arrays.random import torch_generator

__all__ = ["mean_line_cost", "random_directions", "sliced_wasserstein"]

_REACH = 0.2499  # a little less than a quarter turn: rounding must not carry a point across 0, where the circle closes


def sliced_wasserstein(x: Tensor, y: Tensor, n_projections: int, seed: int | torch.Generator | None = None) -> Tensor:
    """Euclidean sliced-Wasserstein distance SW_2^2 between two samples in R^m.

    Parameters
    ----------
    x, y : tensor, shape (n, m) and (k, m)
        The samples.
    n_projections : int
        The number of directions, uniform on the sphere.
    seed : int, torch.Generator or None
        Where the random numbers come from; None draws afresh. torch's global random state is neither read nor changed.

    Returns
    -------
    tensor, shape ()
        Differentiable in both samples.

    Notes
    -----
    It is the mean over directions of W_2^2 between the projected samples (heights). Heights are scaled into half a
    circle, where the shortest way never leads across the other half, so that the cost equals that on the line.

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
    """Uniform directions, (L, m)."""
    generator = torch_generator(seed, x.device)
    normals = torch.randn(n_projections, x.shape[-1], generator=generator, dtype=x.dtype, device=x.device)
    return normals / torch.linalg.vector_norm(normals, dim=-1, keepdim=True)


def mean_line_cost(u: Tensor, v: Tensor) -> Tensor:
    """Mean over rows of W_2^2 between samples on the line, (L, n) and (L, k)."""
    largest = torch.stack([heights.detach().abs().amax() for heights in (u, v)]).amax()
    scale = _REACH / largest.clamp(min=torch.finfo(u.dtype).tiny)
    value: Tensor = circle.wasserstein(u * scale + 0.25, v * scale + 0.25).mean() / scale**2
    return value
