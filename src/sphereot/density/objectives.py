"""What a flow is trained on: the distance of the transformed data from the prior, or their likelihood, or both."""

from collections.abc import Callable

import torch
from torch import Tensor

from sphereot.distance import ssw_uniform
from sphereot.flows import Flow
from sphereot.torch.euclidean import sliced_wasserstein

__all__ = ["OBJECTIVES", "Objective"]

Objective = Callable[[Flow, Tensor, int, torch.Generator], Tensor]
"""A loss of a flow at a batch (n, d), with so many slices, drawn from a generator."""


def _ssw(flow: Flow, x: Tensor, n_projections: int, generator: torch.Generator) -> Tensor:
    """SSW_2^2 of the transformed data to the uniform measure, exact on every slice (Proposition 1)."""
    z = flow.transform(x)
    if z.shape[-1] != x.shape[-1]:
        raise ValueError(
            "loss: 'ssw' compares with the uniform measure on the sphere, but this model takes data to a plane; "
            "choose 'sw' or 'nll' for it."
        )
    value: Tensor = ssw_uniform(z, n_projections=n_projections, seed=generator)
    return value


def _sw(flow: Flow, x: Tensor, n_projections: int, generator: torch.Generator) -> Tensor:
    """SW_2^2 between the transformed data and as large a sample of the prior, in the space around it."""
    prior = flow.base.sample((len(x),), generator=generator)
    return sliced_wasserstein(flow.transform(x), prior, n_projections, generator)


def _nll(flow: Flow, x: Tensor, n_projections: int, generator: torch.Generator) -> Tensor:
    """Mean negative log-likelihood."""
    return -flow.log_prob(x).mean()


def _ssw_and_nll(flow: Flow, x: Tensor, n_projections: int, generator: torch.Generator) -> Tensor:
    """Likelihood, with SSW that keeps the transformed data uniform at large scales. One pass gives both."""
    z, log_det = flow.transform.forward_and_log_det(x)
    if z.shape[-1] != x.shape[-1]:
        raise ValueError("loss: 'ssw+nll' needs a model that stays on the sphere; choose 'nll' for this one.")
    likelihood = (flow.base.log_prob(z) + log_det).mean()
    value: Tensor = ssw_uniform(z, n_projections=n_projections, seed=generator) - likelihood
    return value


OBJECTIVES: dict[str, Objective] = {"ssw": _ssw, "sw": _sw, "nll": _nll, "ssw+nll": _ssw_and_nll}
