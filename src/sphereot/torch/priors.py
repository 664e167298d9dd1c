"""Samples of a prior on the sphere: the uniform distribution, a torch distribution, a mixture, or given points."""

from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, MixtureSameFamily

from sphereot._arrays.validation import as_points
from sphereot.distributions import HypersphericalUniform, PowerSpherical, VonMisesFisher

__all__ = ["Prior", "prior_dim", "sample_prior", "validated_prior"]

Prior: TypeAlias = Distribution | Tensor
"""A distribution on the sphere, or points (m, d) of one."""

_SEEDED = (HypersphericalUniform, PowerSpherical, VonMisesFisher)  # their `sample` takes a seed


def validated_prior(prior: Any) -> Prior | None:
    """Check that a prior is a single distribution of unit vectors, or a sample (m, d) of unit vectors."""
    if prior is None:
        return None
    if isinstance(prior, Distribution):
        if len(prior.event_shape) != 1 or tuple(prior.batch_shape) != ():
            raise ValueError(
                f"prior: batch shape is {tuple(prior.batch_shape)} and event shape {tuple(prior.event_shape)}, but one "
                "distribution of vectors is needed; index the batch, or make a torch.distributions.MixtureSameFamily."
            )
        points = sample_prior(prior, 16, torch.Generator().manual_seed(0))
        lengths = torch.linalg.vector_norm(points, dim=-1)
        if not bool(((lengths - 1.0).abs() < 1e-3).all()):
            raise ValueError(
                f"prior: draws vectors of length {float(lengths[0]):.4g}, but codes lie on the unit sphere; choose a "
                "distribution of sphereot.distributions."
            )
        return prior
    if isinstance(prior, np.ndarray):
        prior = torch.from_numpy(prior)
    if isinstance(prior, Tensor):
        sample: Tensor = as_points("prior", prior)
        return sample.detach()
    raise TypeError(
        f"prior: got {type(prior).__name__}; give None (uniform), a distribution of sphereot.distributions, a mixture "
        "of them, or an array or tensor (m, d) of unit vectors."
    )


def prior_dim(prior: Prior) -> int:
    """Dimension d of the space around the sphere."""
    return int(prior.shape[1]) if isinstance(prior, Tensor) else int(prior.event_shape[0])


def sample_prior(prior: Prior, n: int, generator: torch.Generator) -> Tensor:
    """Draw n points of a prior, (n, d), from a generator on the CPU.

    Points are drawn from a given sample without replacement, as long as it has n.

    Examples
    --------
    >>> import torch
    >>> from sphereot.autoencoders.priors import sample_prior
    >>> sample_prior(torch.eye(3), 2, torch.Generator().manual_seed(0)).shape
    torch.Size([2, 3])
    """
    if isinstance(prior, Tensor):
        m = prior.shape[0]
        rows = torch.randperm(m, generator=generator)[:n] if n <= m else torch.randint(m, (n,), generator=generator)
        return prior[rows.to(prior.device)]
    if isinstance(prior, Independent) and prior.reinterpreted_batch_ndims == 0:
        return sample_prior(prior.base_dist, n, generator)
    if isinstance(prior, _SEEDED):
        points: Tensor = prior.sample((n,), seed=generator)
        return points
    components = getattr(prior, "component_distribution", None)
    if isinstance(prior, MixtureSameFamily) and isinstance(components, PowerSpherical | VonMisesFisher):
        chosen = torch.multinomial(prior.mixture_distribution.probs, n, replacement=True, generator=generator)
        drawn = type(components)(components.loc[chosen], components.concentration[chosen], validate_args=False)
        return drawn.sample(seed=generator)
    # Other distributions draw from torch's global random state, which is put back.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
        return prior.sample((n,))
