"""Von Mises-Fisher (Appendix B.3) and power spherical distributions (Appendix C.5), and their divergences.

Both are symmetric around a mean direction. A point is drawn in two steps: first its cosine <loc, x>, then a uniform
direction orthogonal to `loc`. The numbers drawn are drops, 1 - <loc, x>, in double precision: for a large
concentration, cosines are close to 1, and the drop keeps the digits that the cosine would lose.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Size, Tensor
from torch.distributions import Distribution, constraints, register_kl

from sphereot._arrays.libraries import full_precision, product, readable
from sphereot._arrays.random import torch_generator
from sphereot._support.bessel import bessel_ratio_slope, log_mean_exponential
from sphereot.distributions.uniform import (
    HypersphericalUniform,
    SphereDistribution,
    broadcast_batches,
    check_points,
    is_validating,
    unit_vector,
    wide,
)
from sphereot.sphere.maps import log_area

_BLOCK = 2**18  # coordinates drawn at a time: intermediate arrays stay in cache, and memory is bounded
_MAX_ROUNDS = 200  # two of three proposals are accepted in the worst case, so 200 rounds are enough for any sample


class AxialDistribution(SphereDistribution):
    """Distribution on S^{d-1} whose density is a function of <loc, x>: base of von Mises-Fisher and power spherical."""

    arg_constraints = {"loc": unit_vector, "concentration": constraints.nonnegative}  # noqa: RUF012

    loc: Tensor
    concentration: Tensor

    def __init__(self, loc: Tensor, concentration: Tensor | float, *, validate_args: bool | None = None) -> None:
        validate = is_validating(validate_args)
        loc, concentration = _parameters(loc, concentration, validate)
        try:
            batch_shape = torch.broadcast_shapes(loc.shape[:-1], concentration.shape)
        except RuntimeError as error:
            raise ValueError(
                f"loc must have a batch shape that broadcasts with concentration {tuple(concentration.shape)}, got "
                f"{tuple(loc.shape[:-1])}. Give one concentration for each mean direction."
            ) from error
        self.loc = loc.expand(*batch_shape, loc.shape[-1])
        self.concentration = concentration.expand(batch_shape)
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=False)  # validated above, with our messages
        self._validate_args = validate

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> "AxialDistribution":
        """Repeat the distribution for each member of a larger batch; nothing is copied."""
        new = self._get_checked_instance(AxialDistribution, _instance)
        batch_shape = Size(batch_shape)
        new.loc = self.loc.expand(*batch_shape, self.dim)
        new.concentration = self.concentration.expand(batch_shape)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def mode(self) -> Tensor:
        """The point of largest density, `loc`. At concentration 0, all points are modes."""
        return self.loc

    @property
    def mean(self) -> Tensor:
        """E[x], a vector in the direction of `loc`, shorter than 1."""
        return self._cosine_moments()[0].to(self.loc.dtype).unsqueeze(-1) * self.loc

    @property
    def variance(self) -> Tensor:
        """Variances of the d coordinates."""
        _, along, across = (moment.to(self.loc.dtype).unsqueeze(-1) for moment in self._cosine_moments())
        squared = self.loc * self.loc
        return along * squared + across * (1.0 - squared)

    def sample(self, sample_shape: Sequence[int] = (), *, seed: int | torch.Generator | None = None) -> Tensor:
        """Draw points, without gradients.

        Parameters
        ----------
        sample_shape : sequence of int, default ()
            Shape of the array of points that is drawn for each member of the batch.
        seed : int, torch.Generator or None, default None
            Seed, or a generator on the device of `loc`. With None, every call uses new random numbers.

        Returns
        -------
        tensor, shape (*sample_shape, *batch_shape, d)
            Unit vectors.
        """
        generator = torch_generator(seed, self.loc.device)
        points = self.loc.new_empty(self._extended_shape(Size(sample_shape)))
        rows = points.view(-1, *self.batch_shape, self.dim)
        n_rows = max(1, _BLOCK // max(1, math.prod(rows.shape[1:])))
        with torch.no_grad():
            for block in rows.split(n_rows):
                self._draw(block, generator)
        return points

    def rsample(self, sample_shape: Sequence[int] = (), *, seed: int | torch.Generator | None = None) -> Tensor:
        """Draw points with gradients in `loc` and `concentration`; see `sample`."""
        out = self.loc.new_empty(self._extended_shape(Size(sample_shape)))
        return self._draw(out, torch_generator(seed, self.loc.device))

    def _draw(self, out: Tensor, generator: torch.Generator) -> Tensor:
        """Draw points of the shape of `out`, in its memory if no gradient is needed."""
        drops = self._drops(out.shape[:-1], generator)
        cosine = (1.0 - drops).to(self.loc.dtype)
        length = torch.sqrt((drops * (2.0 - drops)).to(self.loc.dtype))  # of the part orthogonal to `loc`
        # Points are drawn around the first axis e. The Householder reflection I - 2 h h^T / |h|^2 maps e to `loc` or to
        # -loc; the better conditioned one is used, with the factor -sign.
        sign = torch.where(self.loc[..., 0] < 0, -1.0, 1.0).to(self.loc.dtype)
        mirror = sign[..., None] * self.loc + torch.eye(1, self.dim, dtype=self.loc.dtype, device=self.loc.device)[0]
        if self.dim == 3 and not self.batch_shape:
            return _draw_around_single_loc(mirror, sign, cosine, length, out, generator)
        tangents = out.normal_(generator=generator)
        tangents[..., 0] = 0.0
        length = length / torch.linalg.vector_norm(tangents, dim=-1)
        if mirror.ndim == 1:
            along = product(tangents.reshape(-1, self.dim), mirror[:, None]).reshape(length.shape)
        else:
            along = (tangents * mirror).sum(-1)
        inner = (cosine * mirror[..., 0] + length * along) * (2.0 / (mirror * mirror).sum(-1))
        scale, shift = (-sign * length).unsqueeze(-1), (sign * inner).unsqueeze(-1)
        # In place if no gradient needs the tangents: a new page of memory costs more than the arithmetic.
        points = tangents * scale if shift.requires_grad else tangents.mul_(scale)
        points = points.addcmul_(shift, mirror)
        points[..., 0] -= sign * cosine
        return points

    def log_prob(self, value: Tensor) -> Tensor:
        """Compute the logarithm of the density per unit area of the sphere, at points (..., d)."""
        if self._validate_args:
            self._validate_sample(value)
        return self._log_density(self._drop_of(value))

    def entropy(self) -> Tensor:
        """Compute -E[log p(x)], for the density per unit area of the sphere."""
        return (log_area(self.dim) - self._relative_entropy()).to(self.loc.dtype)

    def _drop_of(self, value: Tensor) -> Tensor:
        """Compute 1 - <loc, x> as half a squared distance, which keeps its digits close to `loc`."""
        value = value.to(torch.promote_types(value.dtype, self.loc.dtype))
        difference = value - self.loc
        return 0.5 * (difference * difference).sum(-1)

    def _drops(self, shape: Size, generator: torch.Generator) -> Tensor:
        """Draw 1 - <loc, x>, differentiable in the concentration."""
        raise NotImplementedError

    def _log_density(self, drop: Tensor) -> Tensor:
        """Logarithm of the density at points with these values of 1 - <loc, x>."""
        raise NotImplementedError

    def _cosine_moments(self) -> tuple[Tensor, Tensor, Tensor]:
        """Mean and variance of the cosine, and the variance of a coordinate across the axis."""
        raise NotImplementedError

    def _relative_entropy(self) -> Tensor:
        """Kullback-Leibler divergence to the uniform distribution, in double precision."""
        raise NotImplementedError


class VonMisesFisher(AxialDistribution):
    """Von Mises-Fisher distribution on S^{d-1}: density proportional to exp(concentration <loc, x>).

    Parameters
    ----------
    loc : tensor, shape (..., d)
        Mean directions, unit vectors with d at least 2.
    concentration : tensor or float, shape (...)
        Concentration kappa, at least 0. It broadcasts with the batch of `loc`. For 0, the distribution is uniform.
    validate_args : bool, optional
        Check the arguments, and the points in `log_prob`. On by default, except inside torch.compile.

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
        return _with_quantile_gradient(
            drops, kappa, self.dim, COSINE, lambda k: k * bessel_ratio_slope(k, self.dim) - 1.0
        )


class PowerSpherical(AxialDistribution):
    """Power spherical distribution on S^{d-1}: density proportional to (1 + <loc, x>)^concentration.

    It is similar to von Mises-Fisher, with a simpler normalizing constant.

    Parameters
    ----------
    loc, concentration, validate_args : tensor, tensor or float, bool
        As in `VonMisesFisher`.

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
        return _with_quantile_gradient(
            drops,
            wide(self.concentration),
            self.dim,
            LOG_COSINE,
            lambda k: torch.digamma(k + b) - torch.digamma(k + 2 * b),
        )


# ---- Kullback-Leibler divergences with a closed form ----


@register_kl(VonMisesFisher, HypersphericalUniform)
@register_kl(PowerSpherical, HypersphericalUniform)
def _axial_uniform(p: AxialDistribution, q: HypersphericalUniform) -> Tensor:
    return p._relative_entropy().to(p.loc.dtype).expand(broadcast_batches(p, q))


@register_kl(HypersphericalUniform, VonMisesFisher)
def _uniform_von_mises_fisher(p: HypersphericalUniform, q: VonMisesFisher) -> Tensor:
    return q._log_mean_exponential().to(q.loc.dtype).expand(broadcast_batches(p, q))


@register_kl(HypersphericalUniform, PowerSpherical)
def _uniform_power_spherical(p: HypersphericalUniform, q: PowerSpherical) -> Tensor:
    kappa = wide(q.concentration)
    ends = torch.digamma(kappa.new_tensor([0.5 * (q.dim - 1), q.dim - 1.0]))
    return (q._log_mean_power() - kappa * (ends[0] - ends[1])).to(q.loc.dtype).expand(broadcast_batches(p, q))


@register_kl(VonMisesFisher, VonMisesFisher)
@register_kl(PowerSpherical, VonMisesFisher)
def _axial_von_mises_fisher(p: AxialDistribution, q: VonMisesFisher) -> Tensor:
    broadcast_batches(p, q)
    cosine, kappa = p._cosine_moments()[0], wide(q.concentration)
    apart = wide(q._drop_of(p.loc))
    cross = q._log_mean_exponential() - kappa * cosine * (1.0 - apart)
    return (p._relative_entropy() + cross).to(p.loc.dtype)


# ---- parameters and drawing ----


def _parameters(loc: Any, concentration: Any, validate: bool) -> tuple[Tensor, Tensor]:
    """Convert both parameters to tensors of one floating type, on the device of `loc`."""
    is_half = isinstance(loc, Tensor) and loc.dtype in (torch.float16, torch.bfloat16)
    if validate or not isinstance(loc, Tensor):
        loc = check_points("loc", loc)
    if is_half:  # computations are in float32, in which the length of a rounded vector is not 1
        loc = torch.nn.functional.normalize(loc.float(), dim=-1)
    if not isinstance(concentration, Tensor):
        concentration = torch.as_tensor(concentration, dtype=loc.dtype, device=loc.device)
    if concentration.is_complex():
        raise TypeError(f"concentration must be a real number or tensor, got dtype {concentration.dtype}.")
    dtype = torch.promote_types(loc.dtype, concentration.dtype)
    loc, concentration = loc.to(dtype), concentration.to(dtype)
    if validate:
        if loc.device != concentration.device:
            raise ValueError(
                f"concentration must be on the device of loc ({loc.device}), got a tensor on {concentration.device}."
            )
        valid = (concentration >= 0) & torch.isfinite(concentration)
        readable_valid = readable(valid)
        if readable_valid is None:
            concentration = torch.where(valid, concentration, torch.nan)
        elif not readable_valid.all():
            raise ValueError(
                f"concentration must be finite and at least 0, got {float(concentration[~valid][0]):.4g}. To "
                "concentrate points around the opposite pole, pass -loc."
            )
    return loc, concentration


def _draw_around_single_loc(
    mirror: Tensor, sign: Tensor, cosine: Tensor, length: Tensor, out: Tensor, generator: torch.Generator
) -> Tensor:
    """Draw around one mean direction on S^2: an angle instead of normals, and one product with a 3 x 3 matrix."""
    kind = {"dtype": mirror.dtype, "device": mirror.device}
    angle = torch.rand(cosine.shape, generator=generator, **kind).mul_(2.0 * math.pi)
    before = torch.stack([cosine, length * torch.cos(angle), length * torch.sin(angle)]).reshape(3, -1).T
    twice = torch.outer(mirror, mirror) * (2.0 / (mirror * mirror).sum())
    matrix = sign * (twice - torch.eye(3, **kind))
    if before.requires_grad or matrix.requires_grad:
        return torch.as_tensor(product(before, matrix)).view(out.shape)  # the matrix is symmetric
    with full_precision(out):
        torch.mm(before, matrix, out=out.view(-1, 3))
    return out


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


# ---- implicit reparametrization gradients ----


# Gauss-Legendre nodes t and weights on [0, 1], with 1 - t^3 in place of t: dense at 1, where T may have a singularity.
_T, _W = np.polynomial.legendre.leggauss(48)
_LEFT = 0.5 - 0.5 * _T
_NODES = list(zip((1.0 - _LEFT**3).tolist(), (1.5 * _W * _LEFT**2).tolist(), strict=True))
_WIDTHS = 12.0


@dataclass(frozen=True)
class Statistic:
    """T, up to a constant, and the absolute value of its second derivative in theta; functions of sin^2(theta / 2)."""

    value: Callable[[Tensor], Tensor]
    curvature: Callable[[Tensor], Tensor]


COSINE = Statistic(lambda h: -2.0 * h, lambda h: (1.0 - 2.0 * h).abs())
"""cos(theta) - 1, for von Mises-Fisher."""

LOG_COSINE = Statistic(lambda h: torch.log1p(-h), lambda h: 0.5 / (1.0 - h))
"""log((1 + cos(theta)) / 2), for the power spherical distribution."""


def _with_quantile_gradient(
    drop: Tensor, concentration: Tensor, dim: int, statistic: Statistic, mean: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return `drop` with the gradient of `drop_derivative` in `concentration`, if that requires a gradient."""
    if not (torch.is_grad_enabled() and concentration.requires_grad):
        return drop
    kappa = concentration.detach()
    return drop + (concentration - kappa) * drop_derivative(drop, kappa, dim, statistic, mean(kappa))


def drop_derivative(drop: Tensor, concentration: Tensor, dim: int, statistic: Statistic, mean: Tensor) -> Tensor:
    """Compute the derivative of sampled drops 1 - cos(theta) in the concentration, at a fixed quantile.

    All arrays are in double precision; `mean` is E[T]. The angle theta between a point and the mean direction has a
    density f(theta) proportional to sin(theta)^{d-2} exp(kappa T(theta)). With F its cdf, a quantile moves by
    d theta / d kappa = -(dF / d kappa) / f(theta), and dF / d kappa is the integral of (T - E[T]) f. Gauss-Legendre
    quadrature computes it on the side of theta on which T - E[T] keeps its sign, as far as f is not negligible.

    For von Mises-Fisher on S^2 at kappa = 0, the derivative is t (t - 2) / 2 for a drop t.

    >>> zero, one = torch.tensor([0.0, 1.0], dtype=torch.float64)
    >>> drop_derivative(torch.tensor([0.5, 1.0], dtype=torch.float64), zero, 3, COSINE, -one)
    tensor([-0.3750, -0.5000], dtype=torch.float64)
    """
    half_drop = 0.5 * drop
    theta = 2.0 * torch.asin(torch.sqrt(half_drop))
    sine = torch.sqrt(drop * (2.0 - drop))
    # The width of the integrand follows from the curvature of log f.
    curvature = (dim - 2.0) / (sine * sine) + concentration * statistic.curvature(half_drop)
    reach = _WIDTHS / torch.sqrt(curvature.clamp(min=1e-3))
    here = statistic.value(half_drop)
    step = torch.where(here > mean, -torch.minimum(theta, reach), torch.minimum(math.pi - theta, reach))
    log_sine = torch.log(half_drop * (1.0 - half_drop))  # twice that of the sine, up to a constant
    below_one = 1.0 - torch.finfo(drop.dtype).eps
    total = torch.zeros_like(step)
    for node, weight in _NODES:
        half = (torch.sin(0.5 * (theta + node * step)) ** 2).clamp(max=below_one)  # T may be infinite at 1
        there = statistic.value(half)
        log_density = concentration * (there - here)
        if dim > 2:
            log_density = log_density + (0.5 * dim - 1.0) * (torch.log(half * (1.0 - half)) - log_sine)
        total = total + weight * (there - mean) * torch.exp(log_density)
    return sine * step * total
