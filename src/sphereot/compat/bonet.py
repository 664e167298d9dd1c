"""The two distances of the public program of the paper (Bonet et al., 2023), with its names and arguments, in PyTorch.

Replace ``from sw_sphere import sliced_wasserstein_sphere`` by
``from sphereot.compat.bonet import sliced_wasserstein_sphere``. The great circles are those of the program after the
same `torch.manual_seed`. Values agree up to the errors of its bisection; for p = 1 it leaves out a part of the cost.
"""

import torch
from torch import Tensor

from sphereot.distance import ssw, ssw_uniform
from sphereot.sphere import normalize

__all__ = ["sliced_wasserstein_sphere", "sliced_wasserstein_sphere_unif"]


def sliced_wasserstein_sphere(
    Xs: Tensor,
    Xt: Tensor,
    num_projections: int,
    device: torch.device | str,
    u_weights: Tensor | None = None,
    v_weights: Tensor | None = None,
    p: float = 2,
) -> Tensor:
    """Compute SSW_p^p between two samples (n, d) and (m, d) of vectors, which are scaled to unit length.

    The arguments are those of the program: `u_weights` and `v_weights` are weights of the points, `device` is where the
    great circles are drawn.

    Examples
    --------
    >>> import torch
    >>> from sphereot.compat.bonet import sliced_wasserstein_sphere
    >>> x, y = torch.eye(3)[:2], torch.eye(3)[1:]
    >>> sliced_wasserstein_sphere(x, y, 100, "cpu", p=1).shape
    torch.Size([])
    """
    circles = _draw_as_program(num_projections, Xs.shape[1], device)
    x, y = normalize(Xs), normalize(Xt)
    return ssw(x, y, p=p, x_weights=u_weights, y_weights=v_weights, projections=circles.to(Xs))


def sliced_wasserstein_sphere_unif(Xs: Tensor, num_projections: int, device: torch.device | str) -> Tensor:
    """Compute SSW_2^2 between vectors (n, d), which are scaled to unit length, and the uniform distribution.

    Examples
    --------
    >>> import torch
    >>> from sphereot.compat.bonet import sliced_wasserstein_sphere_unif
    >>> bool(sliced_wasserstein_sphere_unif(torch.eye(3), 100, "cpu") < 1 / 12)
    True
    """
    return ssw_uniform(normalize(Xs), projections=_draw_as_program(num_projections, Xs.shape[1], device).to(Xs))


def _draw_as_program(num_projections: int, dim: int, device: torch.device | str) -> Tensor:
    frames: Tensor = torch.linalg.qr(torch.randn((num_projections, dim, 2), device=device))[0]
    return frames
