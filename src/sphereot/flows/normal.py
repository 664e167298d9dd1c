"""The standard normal distribution, with a seed; the base distribution of flows on R^m."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Size, Tensor
from torch.distributions import Distribution, constraints

from sphereot._arrays.random import torch_generator

__all__ = ["StandardNormal"]


class StandardNormal(Distribution):
    """Standard normal distribution N(0, I) on R^m, which takes a seed; `torch.distributions.Normal` takes none.

    Parameters
    ----------
    features : int
        The dimension m.
    dtype, device
        Of samples; torch's defaults if None.

    Examples
    --------
    >>> import torch
    >>> StandardNormal(2).log_prob(torch.zeros(1, 2))
    tensor([-1.8379])
    """

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, features: int, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> None:
        self._like = torch.empty(0, dtype=dtype, device=device)
        super().__init__(Size(), Size((features,)), validate_args=False)

    def rsample(self, sample_shape: Sequence[int] = (), *, seed: int | torch.Generator | None = None) -> Tensor:
        """Draw vectors (*sample_shape, m); `seed` is an int, a torch.Generator, or None to draw afresh."""
        shape, like = self._extended_shape(Size(sample_shape)), self._like
        generator = torch_generator(seed, like.device)
        return torch.randn(shape, generator=generator, dtype=like.dtype, device=like.device)

    def sample(self, sample_shape: Sequence[int] = (), *, seed: int | torch.Generator | None = None) -> Tensor:
        """Draw vectors (*sample_shape, m), as `rsample`: there are no parameters to take gradients in."""
        return self.rsample(sample_shape, seed=seed)

    def log_prob(self, value: Tensor) -> Tensor:
        """Logarithm of the density at vectors (..., m)."""
        return -0.5 * ((value * value).sum(-1) + value.shape[-1] * math.log(2.0 * math.pi))
