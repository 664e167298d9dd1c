"""Implicit reparametrization gradients: how a sampled cosine changes with the concentration at a fixed quantile.

The angle theta between a point and the mean direction has a density proportional to

    f(theta) = sin(theta)^{d-2} exp(kappa T(theta)),

with T = cos(theta) for von Mises-Fisher and T = log((1 + cos(theta)) / 2) for the power spherical distribution. With F
its cdf, a quantile moves by d theta / d kappa = -(dF / d kappa) / f(theta), and dF / d kappa is the integral of
(T - E[T]) f.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

_WIDTHS = 12.0

# Gauss-Legendre nodes t and weights on [0, 1], with 1 - t^3 in place of t: dense at 1, where T may have a singularity.
_T, _W = np.polynomial.legendre.leggauss(48)
_LEFT = 0.5 - 0.5 * _T
_NODES = list(zip((1.0 - _LEFT**3).tolist(), (1.5 * _W * _LEFT**2).tolist(), strict=True))


@dataclass(frozen=True)
class Statistic:
    """T, up to a constant, and the absolute value of its second derivative in theta; functions of sin^2(theta / 2)."""

    value: Callable[[Tensor], Tensor]
    curvature: Callable[[Tensor], Tensor]


COSINE = Statistic(lambda h: -2.0 * h, lambda h: (1.0 - 2.0 * h).abs())
"""cos(theta) - 1."""

LOG_COSINE = Statistic(lambda h: torch.log1p(-h), lambda h: 0.5 / (1.0 - h))
"""log((1 + cos(theta)) / 2)."""


def with_quantile_gradient(
    drop: Tensor, concentration: Tensor, dim: int, statistic: Statistic, mean: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return `drop` with the gradient of `drop_derivative` in `concentration`, if that requires a gradient."""
    if not (torch.is_grad_enabled() and concentration.requires_grad):
        return drop
    kappa = concentration.detach()
    return drop + (concentration - kappa) * drop_derivative(drop, kappa, dim, statistic, mean(kappa))


def drop_derivative(drop: Tensor, concentration: Tensor, dim: int, statistic: Statistic, mean: Tensor) -> Tensor:
    """Derivative, of the shape of `drop`, of sampled drops 1 - cos(theta) in the concentration, at a fixed quantile.

    All arrays are in double precision; `mean` is E[T]. Gauss-Legendre quadrature computes the integral, on the side of
    theta on which T - E[T] keeps its sign, as far as f is not negligible.

    On S^2, von Mises-Fisher at kappa = 0: it is t (t - 2) / 2 for a drop t.

    >>> import torch
    >>> zero, one = torch.tensor([0.0, 1.0], dtype=torch.float64)
    >>> drop_derivative(torch.tensor([0.5, 1.0], dtype=torch.float64), zero, 3, COSINE, -one)
    tensor([-0.3750, -0.5000], dtype=torch.float64)
    """
    half_drop = 0.5 * drop
    theta = 2.0 * torch.asin(torch.sqrt(half_drop))
    sine = torch.sqrt(drop * (2.0 - drop))
    # The width of the integrand follows from the curvature of log f.
    curvature = (dim - 2.0) / (sine * sine) + concentration * statistic.curvature(half_drop)
    reach = _WIDTHS / torch.sqrt(curvature.clamp(min=1e-3))
    here = statistic.value(half_drop)
    step = torch.where(here > mean, -torch.minimum(theta, reach), torch.minimum(math.pi - theta, reach))
    log_sine = torch.log(half_drop * (1.0 - half_drop))  # twice that of the sine, up to a constant
    below_one = 1.0 - torch.finfo(drop.dtype).eps
    total = torch.zeros_like(step)
    for node, weight in _NODES:
        half = (torch.sin(0.5 * (theta + node * step)) ** 2).clamp(max=below_one)  # T may be infinite at 1
        there = statistic.value(half)
        log_density = concentration * (there - here)
        if dim > 2:
            log_density = log_density + (0.5 * dim - 1.0) * (torch.log(half * (1.0 - half)) - log_sine)
        total = total + weight * (there - mean) * torch.exp(log_density)
    return sine * step * total
