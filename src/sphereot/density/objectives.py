"""Training losses of normalizing flows: SSW or SW of the transformed data to the base, likelihood, or both."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sphereot._arrays.types import UniformMethod
from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure
from sphereot.flows import Flow
from sphereot.slicing.circles import great_circles
from sphereot.torch.euclidean import sliced_wasserstein

__all__ = ["OBJECTIVES", "CircleSampling", "Objective"]


@dataclass(frozen=True)
class CircleSampling:
    """Number of great circles (or directions) per epoch, method to draw them, and random generator.

    With the method "exact" none are drawn: SSW is the mean over all great circles.
    """

    n_projections: int
    method: UniformMethod
    generator: torch.Generator


Objective = Callable[[Flow, Tensor, CircleSampling], Tensor]
"""Loss of a flow at points (n, d)."""


def _ssw(flow: Flow, x: Tensor, circles: CircleSampling) -> Tensor:
    """SSW_2^2 of the transformed data to the uniform distribution, exact on every great circle (Proposition 1)."""
    z = flow.transform(x)
    if z.shape[-1] != x.shape[-1]:
        raise ValueError(
            "loss: got 'ssw', which compares with the uniform distribution on the sphere, but this model maps data to "
            "R^m; choose 'sw' or 'nll'."
        )
    return _to_uniform(z, circles)


def _sw(flow: Flow, x: Tensor, circles: CircleSampling) -> Tensor:
    """Euclidean SW_2^2 between the transformed data and a sample of the base of the same size."""
    prior = flow.base.sample((len(x),), seed=circles.generator)
    return sliced_wasserstein(flow.transform(x), prior, circles.n_projections, circles.generator)


def _nll(flow: Flow, x: Tensor, circles: CircleSampling) -> Tensor:
    """Mean negative log-likelihood."""
    return -flow.log_prob(x).mean()


def _ssw_and_nll(flow: Flow, x: Tensor, circles: CircleSampling) -> Tensor:
    """SSW_2^2 to the uniform distribution plus the mean negative log-likelihood, in one pass of the flow."""
    z, log_det = flow.transform.forward_and_log_det(x)
    if z.shape[-1] != x.shape[-1]:
        raise ValueError("loss: got 'ssw+nll', which needs a model from the sphere to itself; choose 'nll'.")
    likelihood = (flow.base.log_prob(z) + log_det).mean()
    return _to_uniform(z, circles) - likelihood


def _to_uniform(z: Tensor, circles: CircleSampling) -> Tensor:
    # Not `ssw_uniform`, which validates in every epoch: a flow maps unit vectors to unit vectors, unless it diverged.
    value: Tensor
    if not torch.isfinite(z.detach()).all():
        return z.sum()  # not finite either, which `train` reports
    if circles.method == "exact":
        value = backend_for(z).pair_cost(Measure(z))
        return value
    frames = great_circles(circles.n_projections, z.shape[-1], method=circles.method, seed=circles.generator, like=z)
    value = backend_for(z).mean_cost((Measure(z),), frames, 2.0)
    return value


OBJECTIVES: dict[str, Objective] = {"ssw": _ssw, "sw": _sw, "nll": _nll, "ssw+nll": _ssw_and_nll}
