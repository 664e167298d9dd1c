"""The von Mises-Fisher distribution (Appendix B.3), the analog of a Gaussian on the sphere.

The numbers drawn are drops, 1 - <loc, x>, in double precision: for a large concentration, cosines are close to 1, and
the drop keeps the digits that the cosine would lose.
"""

import math

import torch
from torch import Size, Tensor

from sphereot._support.bessel import bessel_ratio_slope, log_mean_exponential
from sphereot.distributions.axial import AxialDistribution, wide
from sphereot.distributions.implicit_gradients import COSINE, with_quantile_gradient
from sphereot.sphere.maps import log_area

_MAX_ROUNDS = 200  # two of three proposals are accepted in the worst case, so 200 rounds are enough for any sample


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
    The normalizing constant is computed in double precision, and is accurate for d and kappa of any size. Sampling is
    exact: by the inverse cdf on S^2, and by Wood's rejection in other dimensions. `rsample` has gradients in both
    parameters: by automatic differentiation in `loc`, and by quadrature of the cdf in `concentration` (first order).

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

    def _log_density(self, drop: Tensor) -> Tensor:
        scaled = log_mean_exponential(wide(self.concentration), self.dim, scaled=True)
        constant = -log_area(self.dim) - scaled
        return constant.to(drop.dtype) - self.concentration * drop

    def _log_mean_exponential(self) -> Tensor:
        return log_mean_exponential(wide(self.concentration), self.dim)

    def _relative_entropy(self) -> Tensor:
        # Appendix C.1
        kappa = wide(self.concentration)
        return kappa * kappa * bessel_ratio_slope(kappa, self.dim) - self._log_mean_exponential()

    def _cosine_moments(self) -> tuple[Tensor, Tensor, Tensor]:
        kappa = wide(self.concentration)
        slope = bessel_ratio_slope(kappa, self.dim)
        mean = kappa * slope
        return mean, (1.0 - mean * mean - (self.dim - 1) * slope).clamp(min=0.0), slope

    def _drops(self, shape: Size, generator: torch.Generator) -> Tensor:
        kappa = wide(self.concentration)
        fixed = kappa.detach()
        if self.dim == 3:
            fixed = fixed.clamp(min=1e-150)  # where the drop is its limit at 0, 2v, to the last digit
            v = torch.rand(tuple(shape), generator=generator, dtype=kappa.dtype, device=kappa.device)
            drops = v.mul_(torch.expm1(-2.0 * fixed)).log1p_().div_(-fixed)
        else:
            drops = _draw_by_rejection(fixed.expand(shape).reshape(-1), self.dim, generator).reshape(shape)
        # Never a pole, where the length of the tangent has no derivative.
        kind = torch.finfo(drops.dtype)
        drops.clamp_(kind.tiny, 2.0 - 2.0 * kind.eps)
        return with_quantile_gradient(
            drops, kappa, self.dim, COSINE, lambda k: k * bessel_ratio_slope(k, self.dim) - 1.0
        )


def _draw_by_rejection(concentration: Tensor, dim: int, generator: torch.Generator) -> Tensor:
    """Draw from the envelope of Wood (1994) with rejection; each round draws all rejected numbers again."""
    drops = torch.full_like(concentration, math.nan)
    pending, kappa = None, concentration
    for _ in range(_MAX_ROUNDS):
        b = (dim - 1.0) / (2.0 * kappa + torch.sqrt(4.0 * kappa * kappa + (dim - 1.0) ** 2))
        x0 = (1.0 - b) / (1.0 + b)
        gap = 2.0 * b / (1.0 + b)  # 1 - x0
        # Uniform in (0, 1]: the logarithm is finite.
        u, v, w = 1.0 - torch.rand((3, *kappa.shape), generator=generator, dtype=kappa.dtype, device=kappa.device)
        # A symmetric Beta((d-1)/2, (d-1)/2) from two uniforms (Ulrich, 1984).
        cosine = torch.cos(2.0 * math.pi * v)
        if dim > 2:
            cosine = cosine * torch.sqrt(-torch.expm1(torch.log(u) * (2.0 / (dim - 2))))
        beta = 0.5 + 0.5 * cosine
        proposed = 2.0 * b * beta / ((0.5 - 0.5 * cosine) + b * beta)
        excess = proposed / gap - 1.0
        accepted = (dim - 1.0) * torch.log1p(excess * (x0 / (1.0 + x0))) - kappa * gap * excess >= torch.log(w)
        if pending is None:
            drops = torch.where(accepted, proposed, drops)
            pending = torch.nonzero(~accepted).squeeze(-1)
        else:
            drops[pending] = torch.where(accepted, proposed, math.nan)
            pending = pending[~accepted]
        if pending.numel() == 0:
            break
        kappa = concentration[pending]
    return drops
