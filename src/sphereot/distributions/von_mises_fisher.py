"""The von Mises-Fisher distribution (Appendix B.3), the analog of a Gaussian on the sphere."""

import torch
from torch import Size, Tensor

from sphereot._support.bessel import bessel_ratio_slope, log_mean_exponential
from sphereot.distributions.axial import AxialDistribution, wide
from sphereot.distributions.cosine_sampling import draw_drops
from sphereot.distributions.implicit_gradients import COSINE, with_quantile_gradient
from sphereot.sphere.maps import log_area

__all__ = ["VonMisesFisher"]


class VonMisesFisher(AxialDistribution):
    """Von Mises-Fisher distribution on S^{d-1}: density proportional to exp(concentration <loc, x>).

    Parameters
    ----------
    loc : tensor, shape (..., d)
        Mean directions: unit vectors, d at least 2.
    concentration : tensor or float, shape (...)
        kappa, at least 0; broadcasts with the batch of `loc`. At 0 the distribution is uniform.
    validate_args : bool, optional
        Check the arguments here and in `log_prob`; on by default, except inside torch.compile.

    Notes
    -----
    The normalizer is computed in double precision whatever the dtype, and holds for d and kappa of any size. Sampling
    is exact: by the inverse cdf on S^2, by Wood's rejection elsewhere. `rsample` has gradients in both parameters:
    through the reflection in `loc`, and implicitly, by quadrature of the cdf, in `concentration` (first order only).

    References
    ----------
    Wood, Simulation of the von Mises Fisher distribution, Communications in Statistics 23(1), 1994.
    Figurnov, Mohamed and Mnih, Implicit Reparameterization Gradients, NeurIPS 2018. https://arxiv.org/abs/1805.08498

    Examples
    --------
    >>> import torch
    >>> from sphereot.distributions import VonMisesFisher
    >>> north = torch.tensor([0.0, 0.0, 1.0])
    >>> distribution = VonMisesFisher(north, 10.0)
    >>> distribution.sample((5,), seed=0).shape
    torch.Size([5, 3])
    >>> distribution.log_prob(torch.stack([north, -north]))
    tensor([  0.4647, -19.5353])
    """

    def log_prob(self, value: Tensor) -> Tensor:
        """Logarithm of the density in the area measure of the sphere, at points (..., d)."""
        if self._validate_args:
            self._validate_sample(value)
        drop = self._drop_of(value)
        scaled = log_mean_exponential(wide(self.concentration), self.dim, scaled=True)
        constant = -log_area(self.dim) - scaled
        return constant.to(drop.dtype) - self.concentration * drop

    def entropy(self) -> Tensor:
        """-E[log p(x)], for the area measure of the sphere."""
        return (log_area(self.dim) - self._relative_entropy()).to(self.loc.dtype)

    def _log_mean_exponential(self) -> Tensor:
        return log_mean_exponential(wide(self.concentration), self.dim)

    def _relative_entropy(self) -> Tensor:
        """KL to the uniform distribution (Appendix C.1), in double precision."""
        kappa = wide(self.concentration)
        return kappa * kappa * bessel_ratio_slope(kappa, self.dim) - self._log_mean_exponential()

    def _cosine_moments(self) -> tuple[Tensor, Tensor, Tensor]:
        kappa = wide(self.concentration)
        slope = bessel_ratio_slope(kappa, self.dim)
        mean = kappa * slope
        return mean, (1.0 - mean * mean - (self.dim - 1) * slope).clamp(min=0.0), slope

    def _drops(self, shape: Size, generator: torch.Generator) -> Tensor:
        kappa = wide(self.concentration)
        drops = draw_drops(kappa, self.dim, tuple(shape), generator)
        return with_quantile_gradient(
            drops, kappa, self.dim, COSINE, lambda k: k * bessel_ratio_slope(k, self.dim) - 1.0
        )
