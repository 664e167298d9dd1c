"""Uniformity terms of other losses for embeddings: the Gaussian potential, and the Euclidean sliced distance."""

import math

import torch
from torch import Tensor, nn

from sphereot._arrays.libraries import product
from sphereot._arrays.random import seed_of_draw, torch_generator
from sphereot._arrays.validation import as_int, as_positive
from sphereot._support.checkpoints import InvalidValuesError
from sphereot.sphere import random_uniform
from sphereot.torch.euclidean import sliced_wasserstein
from sphereot.torch.views import described, gathered, nan_of, normalized, options_of, shared_mean

__all__ = ["GaussianPotentialLoss", "SWUniformityLoss"]


class GaussianPotentialLoss(nn.Module):
    """Logarithm of the mean Gaussian potential of all pairs of a batch (Wang and Isola 2020).

    log of the mean over i < j of exp(-t |z_i - z_j|^2), which is least for uniform points.

    Parameters
    ----------
    t : float
        Scale of the potential; 2 in the publication.
    normalize : bool
        Scale the points to unit length first. Without it, points that are not unit vectors are an error.
    gather : bool
        Under `torch.distributed`, take the batch of all ranks; value and gradient are those of one process with it.
    nan_on_invalid : bool
        Return NaN for values that are not valid (NaN, infinity, other lengths than 1), instead of raising an error, so
        that a training can skip the step.

    Examples
    --------
    >>> import torch
    >>> from sphereot.torch import GaussianPotentialLoss
    >>> round(float(GaussianPotentialLoss()(torch.eye(3))), 4)  # all pairs are sqrt(2) apart
    -4.0
    """

    def __init__(
        self, t: float = 2.0, *, normalize: bool = False, gather: bool = False, nan_on_invalid: bool = False
    ) -> None:
        super().__init__()
        self.t = as_positive("t", t, "the scale of the potential")
        self.normalize, self.gather, self.nan_on_invalid = normalize, gather, nan_on_invalid

    def extra_repr(self) -> str:
        """The options."""
        return described(f"t={self.t:g}", **options_of(self))

    def forward(self, x: Tensor) -> Tensor:
        """The loss of `x` (n, d), n of at least 2."""
        x = normalized("x", x, normalize=self.normalize, nan_on_invalid=self.nan_on_invalid)
        (whole,) = gathered(self.gather, x=x)
        n = whole.shape[0]
        if n < 2:
            raise ValueError(f"x: shape is {tuple(x.shape)}, but a potential of pairs needs at least 2 points.")
        lengths = whole.square().sum(1)
        squares = lengths[:, None] + lengths - 2.0 * product(whole, whole.T)
        itself = torch.eye(n, dtype=torch.bool, device=whole.device)
        exponents = (-self.t * squares).masked_fill(itself, -torch.inf)
        value = torch.logsumexp(exponents.flatten(), 0) - math.log(n * (n - 1))
        return shared_mean(self.gather, value)


class SWUniformityLoss(nn.Module):
    """Euclidean sliced-Wasserstein distance SW_2^2 to a sample of the uniform distribution: SW-SSL in the paper.

    Parameters
    ----------
    n_projections : int
        The number of directions, new in every call, as is the sample.
    seed : int, optional
        Makes directions and samples reproducible; the number of draws is part of `state_dict`.
    normalize, gather, nan_on_invalid
        As in `GaussianPotentialLoss`; `gather` needs a seed.

    Examples
    --------
    >>> import torch
    >>> from sphereot.torch import SWUniformityLoss
    >>> z = torch.nn.functional.normalize(torch.randn(64, 8, generator=torch.Generator().manual_seed(0)))
    >>> SWUniformityLoss(50, seed=0)(z).shape
    torch.Size([])
    """

    def __init__(
        self,
        n_projections: int = 200,
        *,
        seed: int | None = None,
        normalize: bool = False,
        gather: bool = False,
        nan_on_invalid: bool = False,
    ) -> None:
        super().__init__()
        self.n_projections = as_int("n_projections", n_projections, 1, "the number of directions")
        self.seed = None if seed is None else as_int("seed", seed, 0, "a seed")
        if gather and seed is None:
            raise ValueError("gather: the ranks must draw the same directions; give the loss a seed.")
        self.normalize, self.gather, self.nan_on_invalid = normalize, gather, nan_on_invalid
        self.register_buffer("draws", torch.zeros((), dtype=torch.int64))

    def extra_repr(self) -> str:
        """The options."""
        values = [self.n_projections] if self.seed is None else [self.n_projections, f"seed={self.seed}"]
        return described(*values, **options_of(self))

    def forward(self, x: Tensor) -> Tensor:
        """The loss of `x` (n, d)."""
        x = normalized("x", x, normalize=self.normalize, nan_on_invalid=self.nan_on_invalid)
        (whole,) = gathered(self.gather, x=x)
        seed = None if self.seed is None else seed_of_draw(self.seed, int(self.draws))
        self.draws += 1
        generator = torch_generator(seed, whole.device)
        target = random_uniform(*whole.shape, seed=generator, like=whole)
        try:
            value = sliced_wasserstein(whole, target, self.n_projections, generator)
        except InvalidValuesError:
            if not self.nan_on_invalid:
                raise
            value = nan_of(whole)
        return shared_mean(self.gather, value)
