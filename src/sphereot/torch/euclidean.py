"""Euclidean sliced-Wasserstein distance, which the paper compares with, computed by the kernel for circles."""

import torch
from torch import Tensor

from sphereot import circle
from sphereot._arrays.random import torch_generator

__all__ = ["sliced_wasserstein"]

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
    generator = torch_generator(seed, x.device)
    normals = torch.randn(n_projections, x.shape[-1], generator=generator, dtype=x.dtype, device=x.device)
    directions = normals / torch.linalg.vector_norm(normals, dim=-1, keepdim=True)
    heights = [directions @ points.T for points in (x, y)]
    scale = _REACH / torch.stack([h.detach().abs().amax() for h in heights]).amax().clamp(min=torch.finfo(x.dtype).tiny)
    value: Tensor = circle.wasserstein(*(h * scale + 0.25 for h in heights)).mean() / scale**2
    return value
