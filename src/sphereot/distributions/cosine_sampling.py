"""Exact sampling of the cosine <mu, x> of von Mises-Fisher points: inverse cdf on S^2, Wood's rejection elsewhere.

The numbers drawn are drops, 1 - <mu, x>, in double precision: where the concentration is large, cosines crowd just
below 1, and the drop keeps the digits that the cosine would lose.
"""

import math

import torch
from torch import Tensor

__all__ = ["draw_drops"]

_MAX_ROUNDS = 200  # two of three proposals are accepted in the worst case: beyond any sample that fits in memory


def draw_drops(concentration: Tensor, dim: int, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Draw drops 1 - <mu, x> of von Mises-Fisher points.

    Parameters
    ----------
    concentration : tensor, float64, shape (batch)
        kappa, at least 0.
    dim : int
        Dimension d of the space around the sphere.
    shape : tuple of int
        What to draw; ends in the shape of `concentration`.
    generator : torch.Generator
        Source of randomness.

    Returns
    -------
    tensor, float64, shape `shape`
        In (0, 2).

    References
    ----------
    Wood, Simulation of the von Mises Fisher distribution, Communications in Statistics 23(1), 1994.

    Examples
    --------
    >>> import torch
    >>> kappa = torch.tensor(1e4, dtype=torch.float64)
    >>> drops = draw_drops(kappa, 3, (1000,), torch.Generator().manual_seed(0))
    >>> bool((drops.mean() * kappa - 1).abs() < 0.2)
    True
    """
    concentration = concentration.detach()
    if dim == 3:
        drops = _inverse_cdf(concentration, shape, generator)
    else:
        drops = _wood(concentration.expand(shape).reshape(-1), dim, generator).reshape(shape)
    # Never a pole, where the length of the tangent has no derivative.
    kind = torch.finfo(drops.dtype)
    return drops.clamp_(kind.tiny, 2.0 - 2.0 * kind.eps)


def _uniform(shape: tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    """Uniform in (0, 1]: its logarithm is finite."""
    return 1.0 - torch.rand(shape, generator=generator, dtype=like.dtype, device=like.device)


def _inverse_cdf(concentration: Tensor, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    kappa = concentration.clamp(min=1e-150)  # the limit at 0, 2v, is reached to the last digit
    v = torch.rand(shape, generator=generator, dtype=kappa.dtype, device=kappa.device)
    return v.mul_(torch.expm1(-2.0 * kappa)).log1p_().div_(-kappa)


def _wood(concentration: Tensor, dim: int, generator: torch.Generator) -> Tensor:
    """Rejection from the envelope of Wood (1994), in whole arrays: each round redraws what the last one rejected."""
    drops = torch.full_like(concentration, math.nan)
    pending, kappa = None, concentration
    for _ in range(_MAX_ROUNDS):
        proposed, accepted = _propose(kappa, dim, generator)
        if pending is None:
            drops = torch.where(accepted, proposed, drops)
            pending = torch.nonzero(~accepted).squeeze(-1)
        else:
            drops[pending] = torch.where(accepted, proposed, math.nan)
            pending = pending[~accepted]
        if pending.numel() == 0:
            break
        kappa = concentration[pending]
    return drops


def _propose(kappa: Tensor, dim: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Drops from the envelope, one for each `kappa`, and whether each is accepted."""
    b = (dim - 1.0) / (2.0 * kappa + torch.sqrt(4.0 * kappa * kappa + (dim - 1.0) ** 2))
    x0 = (1.0 - b) / (1.0 + b)
    gap = 2.0 * b / (1.0 + b)  # 1 - x0
    u, v, w = _uniform((3, *kappa.shape), kappa, generator)
    # A symmetric Beta((d-1)/2, (d-1)/2) from two uniforms (Ulrich, 1984).
    cosine = torch.cos(2.0 * math.pi * v)
    if dim > 2:
        cosine = cosine * torch.sqrt(-torch.expm1(torch.log(u) * (2.0 / (dim - 2))))
    beta = 0.5 + 0.5 * cosine
    drop = 2.0 * b * beta / ((0.5 - 0.5 * cosine) + b * beta)
    excess = drop / gap - 1.0
    accepted = (dim - 1.0) * torch.log1p(excess * (x0 / (1.0 + x0))) - kappa * gap * excess >= torch.log(w)
    return drop, accepted
