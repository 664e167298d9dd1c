"""The uniform distribution on the sphere, and Kullback-Leibler divergences between the distributions of the package.

The divergences with a closed form are registered for `torch.distributions.kl_divergence`.
"""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import torch
from torch import Size, Tensor
from torch.distributions import Distribution, register_kl

from sphereot._arrays.random import torch_generator
from sphereot.distributions.axial import AxialDistribution, SphereDistribution, is_validating, wide
from sphereot.distributions.power_spherical import PowerSpherical
from sphereot.distributions.von_mises_fisher import VonMisesFisher
from sphereot.sphere.maps import log_area


class HypersphericalUniform(SphereDistribution):
    """Uniform distribution on the sphere S^{d-1}.

    Parameters
    ----------
    dim : int
        Dimension d of the space around the sphere, at least 2.
    batch_shape : sequence of int
        Shape of a batch of distributions.
    dtype, device : optional
        Dtype (torch.float32 or torch.float64) and device of samples and moments; by default those of torch.
    validate_args : bool, optional
        Check points in `log_prob`; on by default, except inside torch.compile.

    Examples
    --------
    >>> import torch
    >>> from sphereot.distributions import HypersphericalUniform
    >>> distribution = HypersphericalUniform(3)
    >>> points = distribution.sample((4,), seed=0)
    >>> distribution.log_prob(points)
    tensor([-2.5310, -2.5310, -2.5310, -2.5310])
    """

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012
    _like: Tensor  # empty; carries dtype and device

    def __init__(
        self,
        dim: int,
        batch_shape: Sequence[int] = (),
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(dim, Integral) or isinstance(dim, bool):
            raise TypeError(f"dim: got {type(dim).__name__}; give an int of at least 2.")
        if dim < 2:
            raise ValueError(f"dim: got {dim}, but a sphere needs at least 2 coordinates (the circle S^1).")
        self._like = torch.empty(0, dtype=dtype, device=device)
        if self._like.dtype not in (torch.float32, torch.float64):
            raise TypeError(f"dtype: got {self._like.dtype}; choose torch.float32 or torch.float64.")
        super().__init__(Size(batch_shape), Size((int(dim),)), validate_args=is_validating(validate_args))

    def __repr__(self) -> str:
        return f"HypersphericalUniform(dim: {self.dim}, batch_shape: {tuple(self.batch_shape)})"

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> "HypersphericalUniform":
        """Repeat the distribution for each member of a larger batch."""
        new = self._get_checked_instance(HypersphericalUniform, _instance)
        torch.broadcast_shapes(self.batch_shape, Size(batch_shape))
        new._like = self._like
        Distribution.__init__(new, Size(batch_shape), self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def mean(self) -> Tensor:
        """The origin."""
        return self._full(0.0, self.batch_shape + self.event_shape)

    @property
    def variance(self) -> Tensor:
        """Variances of the d coordinates, 1 / d each."""
        return self._full(1.0 / self.dim, self.batch_shape + self.event_shape)

    def rsample(self, sample_shape: Sequence[int] = (), *, seed: int | torch.Generator | None = None) -> Tensor:
        """Draw points (*sample_shape, *batch_shape, d); see `VonMisesFisher.sample`."""
        like = self._like
        generator = torch_generator(seed, like.device)
        points = torch.randn(
            self._extended_shape(Size(sample_shape)), generator=generator, dtype=like.dtype, device=like.device
        )
        return points.div_(torch.linalg.vector_norm(points, dim=-1, keepdim=True))

    sample = rsample  # there are no parameters, so points have no gradients

    def log_prob(self, value: Tensor) -> Tensor:
        """Compute the logarithm of the density per unit area of the sphere at points (..., d), which is constant."""
        if self._validate_args:
            self._validate_sample(value)
        shape = torch.broadcast_shapes(value.shape[:-1], self.batch_shape)
        return torch.full(shape, -log_area(self.dim), dtype=value.dtype, device=value.device)

    def entropy(self) -> Tensor:
        """Compute the logarithm of the area of the sphere."""
        return self._full(log_area(self.dim), self.batch_shape)

    def _full(self, value: float, shape: Size) -> Tensor:
        return torch.full(shape, value, dtype=self._like.dtype, device=self._like.device)


def _batch_shape(p: SphereDistribution, q: SphereDistribution) -> torch.Size:
    """Broadcast the batch shapes of two distributions on the same sphere."""
    if p.dim != q.dim:
        raise ValueError(
            f"q: got a distribution in dimension {q.dim}, but p has dimension {p.dim}; both must be on the same sphere."
        )
    return torch.broadcast_shapes(p.batch_shape, q.batch_shape)


@register_kl(HypersphericalUniform, HypersphericalUniform)
def _uniform_uniform(p: HypersphericalUniform, q: HypersphericalUniform) -> Tensor:
    return p.entropy().new_zeros(_batch_shape(p, q))


@register_kl(VonMisesFisher, HypersphericalUniform)
@register_kl(PowerSpherical, HypersphericalUniform)
def _axial_uniform(p: AxialDistribution, q: HypersphericalUniform) -> Tensor:
    return p._relative_entropy().to(p.loc.dtype).expand(_batch_shape(p, q))


@register_kl(HypersphericalUniform, VonMisesFisher)
def _uniform_von_mises_fisher(p: HypersphericalUniform, q: VonMisesFisher) -> Tensor:
    return q._log_mean_exponential().to(q.loc.dtype).expand(_batch_shape(p, q))


@register_kl(HypersphericalUniform, PowerSpherical)
def _uniform_power_spherical(p: HypersphericalUniform, q: PowerSpherical) -> Tensor:
    kappa = wide(q.concentration)
    ends = torch.digamma(kappa.new_tensor([0.5 * (q.dim - 1), q.dim - 1.0]))
    return (q._log_mean_power() - kappa * (ends[0] - ends[1])).to(q.loc.dtype).expand(_batch_shape(p, q))


@register_kl(VonMisesFisher, VonMisesFisher)
@register_kl(PowerSpherical, VonMisesFisher)
def _axial_von_mises_fisher(p: AxialDistribution, q: VonMisesFisher) -> Tensor:
    _batch_shape(p, q)
    cosine, kappa = p._cosine_moments()[0], wide(q.concentration)
    apart = wide(q._drop_of(p.loc))
    cross = q._log_mean_exponential() - kappa * cosine * (1.0 - apart)
    return (p._relative_entropy() + cross).to(p.loc.dtype)
