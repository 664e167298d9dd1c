"""The power spherical distribution (Appendix C.5): similar to von Mises-Fisher, with a simpler normalizing constant."""

import math

import torch
from torch import Size, Tensor

from sphereot.distributions.axial import AxialDistribution, wide
from sphereot.distributions.implicit_gradients import LOG_COSINE, with_quantile_gradient
from sphereot.sphere.maps import log_area


class PowerSpherical(AxialDistribution):
    """Power spherical distribution on S^{d-1}: density proportional to (1 + <loc, x>)^concentration.

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
    (1 + <loc, x>) / 2 follows Beta((d-1)/2 + kappa, (d-1)/2). `rsample` has gradients in both parameters: by automatic
    differentiation in `loc`, and by quadrature of the cdf in `concentration` (first order).

    References
    ----------
    De Cao and Aziz, The Power Spherical distribution, 2020. https://arxiv.org/abs/2006.04437

    Examples
    --------
    >>> import torch
    >>> from sphereot.distributions import PowerSpherical
    >>> distribution = PowerSpherical(torch.tensor([0.0, 1.0, 0.0]), 10.0)
    >>> distribution.mean
    tensor([0.0000, 0.8333, 0.0000])
    >>> distribution.rsample((4,), seed=0).shape
    torch.Size([4, 3])
    """

    def _log_density(self, drop: Tensor) -> Tensor:
        power = torch.special.xlog1py(self.concentration, (-0.5 * drop).clamp(min=-1.0))
        return power - (log_area(self.dim) + self._log_mean_power()).to(drop.dtype)

    def _beta_parameters(self) -> tuple[Tensor, float]:
        rest = 0.5 * (self.dim - 1)
        return wide(self.concentration) + rest, rest

    def _log_mean_power(self) -> Tensor:
        """Logarithm of E[((1 + t) / 2)^kappa] for the cosine t of a uniform point, in double precision."""
        a, b = self._beta_parameters()
        return torch.lgamma(a) - torch.lgamma(a + b) + math.lgamma(2.0 * b) - math.lgamma(b)

    def _relative_entropy(self) -> Tensor:
        a, b = self._beta_parameters()
        return wide(self.concentration) * (torch.digamma(a) - torch.digamma(a + b)) - self._log_mean_power()

    def _cosine_moments(self) -> tuple[Tensor, Tensor, Tensor]:
        a, b = self._beta_parameters()
        total = a + b
        across = 2.0 * a / (total * (total + 1.0))
        return (a - b) / total, 4.0 * a * b / (total * total * (total + 1.0)), across

    def _drops(self, shape: Size, generator: torch.Generator) -> Tensor:
        a, b = self._beta_parameters()
        kind = torch.finfo(a.dtype)
        pair = torch.stack([a.detach(), torch.full_like(a, b)], dim=-1).expand(*shape, 2)
        # As torch's Beta, but with a generator. The second share has more digits than 1 minus the first.
        drops = 2.0 * torch._sample_dirichlet(pair, generator)[..., 1].clamp(kind.tiny, 1.0 - kind.eps)
        # The relative error of torch's own gradient of Beta is up to 3e-3.
        return with_quantile_gradient(
            drops,
            wide(self.concentration),
            self.dim,
            LOG_COSINE,
            lambda k: torch.digamma(k + b) - torch.digamma(k + 2 * b),
        )
