"""Losses of two views that the paper compares with: NT-Xent, the Gaussian potential, Euclidean sliced uniformity."""

import math

import torch
from torch import Tensor, nn

from sphereot._arrays.libraries import product
from sphereot._arrays.random import seed_of_draw, torch_generator
from sphereot._arrays.validation import InvalidValuesError, as_int, as_positive
from sphereot.sphere import random_uniform
from sphereot.torch.alignment import EmbeddingLoss, LossParts
from sphereot.torch.euclidean import sliced_wasserstein
from sphereot.torch.losses import make_nan


class NTXentLoss(EmbeddingLoss):
    """NT-Xent: each embedding must find the other view of its image among all others of the batch.

    Over the 2 n embeddings of both views, the mean of -<z_i, z_i'> / tau + log sum_{j != i} exp(<z_i, z_j> / tau),
    where i' is the other view of i. The first term is the alignment, the second the uniformity.

    Parameters
    ----------
    temperature : float
        tau; 0.5 suits CIFAR10 in the publication, 0.2 is what the code of the paper takes.
    normalize : bool
        Scale the embeddings to unit length first. Without it, vectors of other lengths are an error.
    gather : bool
        Under `torch.distributed`, take the batch of all ranks; value and gradient are those of one process with it.
    nan_on_invalid : bool
        Return NaN for values that are not valid (NaN, infinity, other lengths than 1), instead of raising an error, so
        that a training can skip the step.

    Examples
    --------
    >>> import torch
    >>> from paper.learning.view_losses import NTXentLoss
    >>> z = torch.eye(4)
    >>> round(float(NTXentLoss(temperature=0.5)(z, z)), 4)  # log(1 + 6 exp(-2))
    0.5944
    """

    def __init__(
        self,
        temperature: float = 0.5,
        *,
        normalize: bool = False,
        gather: bool = False,
        nan_on_invalid: bool = False,
    ) -> None:
        super().__init__(normalize=normalize, gather=gather, nan_on_invalid=nan_on_invalid)
        self.temperature = as_positive("temperature", temperature, "the temperature")

    def _shown_values(self) -> list[str]:
        return [f"temperature={self.temperature:g}"]

    def forward(self, view_a: Tensor, view_b: Tensor) -> Tensor:
        """The loss of the embeddings (n, d) of two views; for n = 1 it is 0."""
        return self.forward_components(view_a, view_b).total

    def forward_components(self, view_a: Tensor, view_b: Tensor) -> LossParts:
        """The loss with its parts, alignment and uniformity."""
        a, b = self._read_views(view_a, view_b)
        a, b = self._gather_batches(view_a=a, view_b=b)
        both = torch.cat([a, b])
        similarities = product(both, both.T) / self.temperature
        itself = torch.eye(len(both), dtype=torch.bool, device=both.device)
        uniformity = torch.logsumexp(similarities.masked_fill(itself, -torch.inf), dim=1).mean()
        alignment = -(a * b).sum(1).mean() / self.temperature
        alignment, uniformity = (self._average(part) for part in (alignment, uniformity))
        return LossParts(alignment + uniformity, alignment, uniformity)


class GaussianPotentialLoss(EmbeddingLoss):
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
    >>> from paper.learning.view_losses import GaussianPotentialLoss
    >>> round(float(GaussianPotentialLoss()(torch.eye(3))), 4)  # all pairs are sqrt(2) apart
    -4.0
    """

    def __init__(
        self, t: float = 2.0, *, normalize: bool = False, gather: bool = False, nan_on_invalid: bool = False
    ) -> None:
        super().__init__(normalize=normalize, gather=gather, nan_on_invalid=nan_on_invalid)
        self.t = as_positive("t", t, "the scale of the potential")

    def _shown_values(self) -> list[str]:
        return [f"t={self.t:g}"]

    def forward(self, x: Tensor) -> Tensor:
        """The loss of `x` (n, d), n of at least 2."""
        x = self._read_points("x", x)
        (whole,) = self._gather_batches(x=x)
        n = whole.shape[0]
        if n < 2:
            raise ValueError(f"x: shape is {tuple(x.shape)}, but a potential of pairs needs at least 2 points.")
        lengths = whole.square().sum(1)
        squares = lengths[:, None] + lengths - 2.0 * product(whole, whole.T)
        itself = torch.eye(n, dtype=torch.bool, device=whole.device)
        exponents = (-self.t * squares).masked_fill(itself, -torch.inf)
        value = torch.logsumexp(exponents.flatten(), 0) - math.log(n * (n - 1))
        return self._average(value)


class SWUniformityLoss(EmbeddingLoss):
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
    >>> from paper.learning.view_losses import SWUniformityLoss
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
        super().__init__(normalize=normalize, gather=gather, nan_on_invalid=nan_on_invalid)
        self.n_projections = as_int("n_projections", n_projections, 1, "the number of directions")
        self.seed = None if seed is None else as_int("seed", seed, 0, "a seed")
        if gather and seed is None:
            raise ValueError("gather: the ranks must draw the same directions; give the loss a seed.")
        self.register_buffer("draws", torch.zeros((), dtype=torch.int64))

    def _shown_values(self) -> list[str]:
        return [str(self.n_projections)] if self.seed is None else [str(self.n_projections), f"seed={self.seed}"]

    def forward(self, x: Tensor) -> Tensor:
        """The loss of `x` (n, d)."""
        x = self._read_points("x", x)
        (whole,) = self._gather_batches(x=x)
        seed = None if self.seed is None else seed_of_draw(self.seed, int(self.draws))
        self.draws += 1
        generator = torch_generator(seed, whole.device)
        target = random_uniform(*whole.shape, seed=generator, like=whole)
        try:
            value = sliced_wasserstein(whole, target, self.n_projections, generator)
        except InvalidValuesError:
            if not self.nan_on_invalid:
                raise
            value = make_nan(whole)
        return self._average(value)


def koleo(x: Tensor) -> Tensor:
    """Compute the KoLeo loss of unit vectors (n, d): minus the mean log distance to the nearest other point.

    Sablayrolles et al. (2019), "Spreading vectors for similarity search", with the offset of 1e-8 of DINOv2.
    """
    itself = torch.eye(len(x), dtype=torch.bool, device=x.device)
    nearest = product(x, x.T).detach().masked_fill(itself, -torch.inf).argmax(1)
    return -((x - x[nearest]).norm(dim=1) + 1e-8).log().mean()


class SIGRegLoss(nn.Module):
    """Test statistic of Epps and Pulley along random directions, for points on the sphere of radius sqrt(d).

    The mean over directions of n times the squared distance between the characteristic functions of the projections
    and of the standard normal distribution. Balestriero and LeCun (2025), "LeJEPA", arXiv 2511.08544.

    Parameters
    ----------
    n_directions, n_points : int
        The number of directions, new in every call, and of points of the characteristic function in [-5, 5].
    seed : int
        Makes the directions reproducible; the number of draws is part of `state_dict`.

    Examples
    --------
    >>> import torch
    >>> from paper.learning.view_losses import SIGRegLoss
    >>> z = torch.nn.functional.normalize(torch.randn(64, 8, generator=torch.Generator().manual_seed(0)))
    >>> loss = SIGRegLoss(seed=0)
    >>> bool(loss(z) < loss(z.abs() / z.norm(dim=1, keepdim=True)))
    True
    """

    def __init__(self, n_directions: int = 1024, n_points: int = 17, *, seed: int) -> None:
        super().__init__()
        self.n_directions, self.n_points, self.seed = n_directions, n_points, seed
        self.register_buffer("draws", torch.zeros((), dtype=torch.int64))

    def extra_repr(self) -> str:
        """Return the options."""
        return f"{self.n_directions}, {self.n_points}, seed={self.seed}"

    def forward(self, x: Tensor) -> Tensor:
        """Compute the loss of unit vectors (n, d)."""
        n, dim = x.shape
        generator = torch_generator(seed_of_draw(self.seed, int(self.draws)), x.device)
        self.draws += 1
        directions = random_uniform(self.n_directions, dim, seed=generator, like=x)
        t = torch.linspace(-5.0, 5.0, self.n_points, dtype=x.dtype, device=x.device)
        normal = torch.exp(-(t**2) / 2)
        phases = (math.sqrt(dim) * x @ directions.T)[..., None] * t
        distances = (phases.cos().mean(0) - normal) ** 2 + phases.sin().mean(0) ** 2
        return n * torch.trapezoid(normal * distances, t).mean()
