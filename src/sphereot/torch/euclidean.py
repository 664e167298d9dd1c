"""Euclidean sliced-Wasserstein distances, which the paper compares with, computed by the kernel for circles."""

import torch
from torch import Tensor

from sphereot import circle
from sphereot._arrays.libraries import product
from sphereot._arrays.random import torch_generator

__all__ = ["circular_sliced_wasserstein", "sliced_wasserstein"]

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
    directions = _directions(x, n_projections, seed)
    return _mean_line_cost(product(directions, x.T), product(directions, y.T))


def circular_sliced_wasserstein(
    x: Tensor, y: Tensor, n_projections: int, radius: float = 2.0, seed: int | torch.Generator | None = None
) -> Tensor:
    r"""Generalized sliced-Wasserstein distance GSW_2^2 with the circular defining function.

    Slices are spheres instead of hyperplanes: a point x is projected to g(x, theta) = \|x - radius * theta\|, its
    distance from a center on the sphere of this radius (Kolouri et al. 2019, *Generalized Sliced Wasserstein
    Distances*).

    Parameters
    ----------
    x, y : tensor, shape (n, m) and (k, m)
        The samples.
    n_projections : int
        The number of centers, uniform on the sphere of this radius.
    radius : float
        Distance of the centers from the origin.
    seed : int, torch.Generator or None
        As in `sliced_wasserstein`.

    Returns
    -------
    tensor, shape ()
        Differentiable in both samples.

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([[0.0, 0.0]])  # every center is 2 away from the origin
    >>> round(float(circular_sliced_wasserstein(x, x, 5, seed=0)), 6)
    0.0
    """
    centers = radius * _directions(x, n_projections, seed)
    # The product form of the distance loses half of the digits where a point lies near a center.
    exact = "donot_use_mm_for_euclid_dist"
    return _mean_line_cost(
        torch.cdist(centers, x, compute_mode=exact), torch.cdist(centers, y.to(x.dtype), compute_mode=exact)
    )


def _directions(x: Tensor, n_projections: int, seed: int | torch.Generator | None) -> Tensor:
    """Uniform directions, (L, m)."""
    generator = torch_generator(seed, x.device)
    normals = torch.randn(n_projections, x.shape[-1], generator=generator, dtype=x.dtype, device=x.device)
    return normals / torch.linalg.vector_norm(normals, dim=-1, keepdim=True)


def _mean_line_cost(u: Tensor, v: Tensor) -> Tensor:
    """Mean over rows of W_2^2 between samples on the line, (L, n) and (L, k)."""
    largest = torch.stack([heights.detach().abs().amax() for heights in (u, v)]).amax()
    scale = _REACH / largest.clamp(min=torch.finfo(u.dtype).tiny)
    value: Tensor = circle.wasserstein(u * scale + 0.25, v * scale + 0.25).mean() / scale**2
    return value
