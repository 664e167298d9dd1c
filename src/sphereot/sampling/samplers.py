"""Samplers to fit: modules whose points have gradients in their parameters."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from sphereot._arrays.validation import as_whole_number
from sphereot.distributions import HypersphericalUniform, PowerSpherical

__all__ = ["NetworkSampler", "PowerSphericalSampler", "Sampler"]


class Sampler(Protocol):
    """What `fit_sampler` fits: anything with `rsample`, as laws and normalizing flows have it."""

    def rsample(self, sample_shape: Sequence[int], *, seed: int | torch.Generator | None = None) -> Tensor:
        """Draw unit vectors (*sample_shape, d) that have gradients in the parameters."""


class PowerSphericalSampler(nn.Module):
    """The power spherical law with parameters to learn.

    Parameters
    ----------
    loc : tensor, shape (d,)
        Mean direction to start from; scaled to unit length.
    concentration : float
        kappa to start from, positive.

    Notes
    -----
    The parameters are `loc` and `concentration`. The law takes loc / |loc|, so that an optimizer that leaves the sphere
    does no harm, and |concentration|, so that a step across zero is turned back.

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
            raise ValueError(f"concentration: found {concentration}, but a positive number is needed to start from.")
        law = PowerSpherical(loc / torch.linalg.vector_norm(loc), concentration)
        self.loc = nn.Parameter(law.loc.clone())
        self.concentration = nn.Parameter(law.concentration.clone())

    def law(self) -> PowerSpherical:
        """The law at the present parameters, with gradients in them."""
        # Not checked again: NaN parameters are the business of whoever runs the optimizer.
        return PowerSpherical(
            self.loc / torch.linalg.vector_norm(self.loc), self.concentration.abs(), validate_args=False
        )

    def rsample(self, sample_shape: Sequence[int] = (), *, seed: int | torch.Generator | None = None) -> Tensor:
        """Draw points (*sample_shape, d) with gradients in the parameters."""
        return self.law().rsample(sample_shape, seed=seed)

    def log_prob(self, value: Tensor) -> Tensor:
        """Logarithm of the density at points (..., d)."""
        return self.law().log_prob(value)


class NetworkSampler(nn.Module):
    """A network that takes uniform points of a sphere to points of the sphere: its output, scaled to unit length.

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
        self.noise_dim = as_whole_number("noise_dim", noise_dim, 2, "the dimension of the noise")

    def rsample(self, sample_shape: Sequence[int] = (), *, seed: int | torch.Generator | None = None) -> Tensor:
        """Draw points (*sample_shape, d) with gradients in the network's parameters."""
        like: Any = next(self.network.parameters(), torch.empty(0))
        noise = HypersphericalUniform(self.noise_dim, dtype=like.dtype, device=like.device)
        points = self.network(noise.sample(sample_shape, seed=seed))
        return points / torch.linalg.vector_norm(points, dim=-1, keepdim=True)
