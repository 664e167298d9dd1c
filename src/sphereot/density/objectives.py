"""What a flow is trained on: the distance of the transformed data from the prior, or their likelihood, or both."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sphereot.distance import ssw_uniform
from sphereot.flows import Flow
from sphereot.slicing.circles import great_circles
from sphereot.torch.euclidean import sliced_wasserstein

__all__ = ["OBJECTIVES", "Objective", "Slices"]


@dataclass(frozen=True)
class Slices:
    """How many great circles (or directions) an epoch draws, by which method, from where."""

    count: int
    method: str
    generator: torch.Generator


Objective = Callable[[Flow, Tensor, Slices], Tensor]
"""A loss of a flow at a batch (n, d)."""


def _ssw(flow: Flow, x: Tensor, slices: Slices) -> Tensor:
    """SSW_2^2 of the transformed data to the uniform measure, exact on every slice (Proposition 1)."""
    z = flow.transform(x)
    if z.shape[-1] != x.shape[-1]:
        raise ValueError(
            "loss: 'ssw' compares with the uniform measure on the sphere, but this model takes data to a plane; "
            "choose 'sw' or 'nll' for it."
        )
    return _to_uniform(z, slices)


def _sw(flow: Flow, x: Tensor, slices: Slices) -> Tensor:
    """SW_2^2 between the transformed data and as large a sample of the prior, in the space around it."""
    prior = flow.base.sample((len(x),), seed=slices.generator)
    return sliced_wasserstein(flow.transform(x), prior, slices.count, slices.generator)


def _nll(flow: Flow, x: Tensor, slices: Slices) -> Tensor:
    """Mean negative log-likelihood."""
    return -flow.log_prob(x).mean()


def _ssw_and_nll(flow: Flow, x: Tensor, slices: Slices) -> Tensor:
    """Likelihood, with SSW that keeps the transformed data uniform at large scales. One pass gives both."""
    z, log_det = flow.transform.forward_and_log_det(x)
    if z.shape[-1] != x.shape[-1]:
        raise ValueError("loss: 'ssw+nll' needs a model that stays on the sphere; choose 'nll' for this one.")
    likelihood = (flow.base.log_prob(z) + log_det).mean()
    return _to_uniform(z, slices) - likelihood


def _to_uniform(z: Tensor, slices: Slices) -> Tensor:
    frames = great_circles(slices.count, z.shape[-1], method=slices.method, seed=slices.generator, like=z)
    value: Tensor = ssw_uniform(z, projections=frames)
    return value


OBJECTIVES: dict[str, Objective] = {"ssw": _ssw, "sw": _sw, "nll": _nll, "ssw+nll": _ssw_and_nll}
