"""Closed-form Kullback-Leibler divergences, registered for `torch.distributions.kl_divergence`.

The divergence of von Mises-Fisher to the uniform distribution is that of Appendix C.1.
"""

import torch
from torch import Tensor
from torch.distributions import register_kl

from sphereot.distributions.axial import AxialDistribution, wide
from sphereot.distributions.power_spherical import PowerSpherical
from sphereot.distributions.uniform import HypersphericalUniform
from sphereot.distributions.von_mises_fisher import VonMisesFisher

__all__: list[str] = []

_Distribution = AxialDistribution | HypersphericalUniform


def _batch(p: _Distribution, q: _Distribution) -> torch.Size:
    """Broadcast the batch shapes of two distributions on the same sphere."""
    if p.dim != q.dim:
        raise ValueError(
            f"q: got a distribution in dimension {q.dim}, but p has dimension {p.dim}; both must be on the same sphere."
        )
    return torch.broadcast_shapes(p.batch_shape, q.batch_shape)


@register_kl(HypersphericalUniform, HypersphericalUniform)
def _uniform_uniform(p: HypersphericalUniform, q: HypersphericalUniform) -> Tensor:
    return p.entropy().new_zeros(_batch(p, q))


@register_kl(VonMisesFisher, HypersphericalUniform)
@register_kl(PowerSpherical, HypersphericalUniform)
def _axial_uniform(p: VonMisesFisher | PowerSpherical, q: HypersphericalUniform) -> Tensor:
    return p._relative_entropy().to(p.loc.dtype).expand(_batch(p, q))


@register_kl(HypersphericalUniform, VonMisesFisher)
def _uniform_von_mises_fisher(p: HypersphericalUniform, q: VonMisesFisher) -> Tensor:
    return q._log_mean_exponential().to(q.loc.dtype).expand(_batch(p, q))


@register_kl(HypersphericalUniform, PowerSpherical)
def _uniform_power_spherical(p: HypersphericalUniform, q: PowerSpherical) -> Tensor:
    kappa = wide(q.concentration)
    ends = torch.digamma(kappa.new_tensor([0.5 * (q.dim - 1), q.dim - 1.0]))
    return (q._log_mean_power() - kappa * (ends[0] - ends[1])).to(q.loc.dtype).expand(_batch(p, q))


@register_kl(VonMisesFisher, VonMisesFisher)
@register_kl(PowerSpherical, VonMisesFisher)
def _axial_von_mises_fisher(p: VonMisesFisher | PowerSpherical, q: VonMisesFisher) -> Tensor:
    _batch(p, q)
    cosine, kappa = p._cosine_moments()[0], wide(q.concentration)
    apart = wide(q._drop_of(p.loc))
    cross = q._log_mean_exponential() - kappa * cosine * (1.0 - apart)
    return (p._relative_entropy() + cross).to(p.loc.dtype)
