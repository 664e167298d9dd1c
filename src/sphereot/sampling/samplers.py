"""Samplers for variational inference: modules that draw points with gradients in their parameters."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from sphereot._arrays.validation import as_int
from sphereot.distributions import HypersphericalUniform, PowerSpherical

__all__ = ["NetworkSampler", "PowerSphericalSampler", "Sampler"]


class Sampler(Protocol):
    """What `fit_sampler` needs of a sampler: `rsample`, as distributions and normalizing flows have it."""

    def rsample(self, sample_shape: Sequence[int], *, seed: int | torch.Generator | None = None) -> Tensor:
        """Draw unit vectors (*sample_shape, d) that have gradients in the parameters."""


class PowerSphericalSampler(nn.Module):
    """Power spherical distribution with learnable mean direction and concentration.

    Parameters
    ----------
    loc : tensor, shape (d,)
        Mean direction to start from; scaled to unit length.
    concentration : float
        kappa to start from, positive.

    Notes
    -----
    The parameters are `loc` and `concentration`. The distribution takes loc / |loc|, so that an optimizer that leaves
    the sphere does no harm, and |concentration|, so that a step across zero is reflected.

    Examples
    --------
    >>> import torch
    >>> from sphereot.sampling import PowerSphericalSampler
    >>> sampler = PowerSphericalSampler(torch.ones(3), 0.1)
    >>> sampler.rsample((5,), seed=0).shape
    torch.Size([5, 3])
    """

    def __init__(self, loc: Tensor, concentration: float) -> None:
        super().__init__()
        loc = torch.as_tensor(loc).detach()
        if not concentration > 0:
            raise ValueError(f"concentration: got {concentration}, but the start must be positive; give such a number.")
        start = PowerSpherical(loc / torch.linalg.vector_norm(loc), concentration)
        self.loc = nn.Parameter(start.loc.clone())
        self.concentration = nn.Parameter(start.concentration.clone())

    def distribution(self) -> PowerSpherical:
        """The distribution with the current parameters, and gradients in them."""
        # Not validated: whoever runs the optimizer looks for NaN in the parameters.
        return PowerSpherical(
            self.loc / torch.linalg.vector_norm(self.loc), self.concentration.abs(), validate_args=False
        )

    def rsample(self, sample_shape: Sequence[int] = (), *, seed: int | torch.Generator | None = None) -> Tensor:
        """Draw points (*sample_shape, d) with gradients in the parameters."""
        return self.distribution().rsample(sample_shape, seed=seed)

    def log_prob(self, value: Tensor) -> Tensor:
        """Logarithm of the density at points (..., d)."""
        return self.distribution().log_prob(value)


class NetworkSampler(nn.Module):
    """Sampler that maps uniform noise on a sphere by a network, whose output is scaled to unit length.

    Parameters
    ----------
    network : nn.Module
        From (n, noise_dim) to (n, d); any multilayer perceptron will do. A zero output has no direction.
    noise_dim : int
        Dimension of the space around the sphere that the noise is from.

    Examples
    --------
    >>> import torch
    >>> from sphereot.sampling import NetworkSampler
    >>> network = torch.nn.Sequential(torch.nn.Linear(3, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
    >>> NetworkSampler(network, 3).rsample((5,), seed=0).shape
    torch.Size([5, 3])
    """

    def __init__(self, network: nn.Module, noise_dim: int) -> None:
        super().__init__()
        self.network = network
        self.noise_dim = as_int("noise_dim", noise_dim, 2, "the dimension of the noise")

    def rsample(self, sample_shape: Sequence[int] = (), *, seed: int | torch.Generator | None = None) -> Tensor:
        """Draw points (*sample_shape, d) with gradients in the network's parameters."""
        like: Any = next(self.network.parameters(), torch.empty(0))
        noise = HypersphericalUniform(self.noise_dim, dtype=like.dtype, device=like.device)
        points = self.network(noise.sample(sample_shape, seed=seed))
        return points / torch.linalg.vector_norm(points, dim=-1, keepdim=True)
