"""Steps along geodesics of the sphere, and parallel transport of tangent vectors along them.

The exponential map goes as far as the tangent vector is long. The retraction of projected gradient descent, which adds
the tangent vector and normalizes, stays on the same geodesic and goes as far as the arc tangent of that length
(Appendices B.2 and C.3). So both are an arc: a direction and an angle.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["RETRACTIONS", "Arc", "arc", "carry", "move", "tangent_part"]

RETRACTIONS = ("exp", "normalize")
"""How a tangent vector moves a point: by the exponential map, or by adding the vector and normalizing."""


@dataclass(frozen=True)
class Arc:
    """Arcs from points: unit tangent vectors (..., d), zero where there is no step; cosine and sine of the angles."""

    direction: Tensor
    cosine: Tensor
    sine: Tensor


def tangent_part(x: Tensor, v: Tensor) -> Tensor:
    """Project vectors (..., d) on the tangent spaces at unit vectors `x`; maps Euclidean to Riemannian gradients."""
    return v - (x * v).sum(-1, keepdim=True) * x


def arc(step: Tensor, retraction: str) -> Arc:
    """Arcs of tangent steps (..., d), by the exponential map or by normalization (see `RETRACTIONS`).

    >>> arc(torch.tensor([[0.0, 1.0], [0.0, 0.0]]), "normalize").sine  # 45 degrees for a step as long as the radius
    tensor([[0.7071],
            [0.0000]])
    """
    length = torch.linalg.vector_norm(step, dim=-1, keepdim=True)
    direction = step / torch.where(length > 0, length, 1.0)
    if retraction == "normalize":
        longer = torch.hypot(length, torch.ones_like(length))
        return Arc(direction, 1.0 / longer, length / longer)
    # By sinc(t) = sin(pi t) / (pi t): torch's own sine and cosine wake threads, even for a few numbers, which then
    # compete with those that compute SSW.
    half = length / 2 * torch.sinc(length / (2 * torch.pi))
    return Arc(direction, 1.0 - 2.0 * half * half, length * torch.sinc(length / torch.pi))


def move(x: Tensor, arc: Arc) -> Tensor:
    """Move unit vectors (..., d) along arcs."""
    moved = arc.cosine * x + arc.sine * arc.direction
    return moved / torch.linalg.vector_norm(moved, dim=-1, keepdim=True)  # rounding must not add up over many steps


def carry(x: Tensor, arc: Arc, v: Tensor) -> Tensor:
    """Parallel transport of tangent vectors (..., d) at `x` along arcs: only the part along the arc changes.

    >>> x, v = torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 2.0, 1.0])
    >>> carry(x, arc(torch.tensor([0.0, torch.pi / 2, 0.0]), "exp"), v).round()
    tensor([-2.,  0.,  1.])
    """
    along = (arc.direction * v).sum(-1, keepdim=True)
    return v + along * ((arc.cosine - 1.0) * arc.direction - arc.sine * x)
