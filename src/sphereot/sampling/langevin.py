"""Langevin dynamics on the sphere (Appendix C.5), with or without Metropolis correction; importance weights."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sphereot._arrays.random import torch_generator
from sphereot._arrays.validation import as_int, as_positive, as_unit_vectors
from sphereot.optim.riemannian import tangent_part

Potential = Callable[[Tensor], Tensor]
"""A function V of points (..., d) with values (...), differentiable; the density is proportional to exp(-V)."""


@dataclass(frozen=True)
class Chains:
    """Result of `langevin`: the chains, their acceptance rates and their history.

    Attributes
    ----------
    points : tensor, shape (..., d)
        The chains after the last step.
    acceptance : tensor, shape (...), or None
        Fraction of its proposals that each chain accepted; None without Metropolis correction.
    history : tensor, shape (n, ..., d), or None
        The chains after every `keep_every` steps.
    """

    points: Tensor
    acceptance: Tensor | None
    history: Tensor | None


def langevin(
    potential: Potential,
    start: Tensor,
    *,
    steps: int,
    step_size: float,
    metropolis: bool = False,
    keep_every: int | None = None,
    seed: int | torch.Generator | None = None,
) -> Chains:
    """Sample a density proportional to exp(-V) on the sphere by Langevin dynamics.

    Parameters
    ----------
    potential : callable, points (..., d) -> (...)
        V, up to a constant; autograd computes its gradient. For a distribution p, use ``lambda x: -p.log_prob(x)``.
    start : tensor, shape (..., d)
        Unit vectors at which the chains start. The chains are independent.
    steps : int
        Number of steps of each chain.
    step_size : float
        Step size gamma, in squared radians. A step has a drift of gamma |grad V|, and a standard deviation of
        sqrt(2 gamma) in each direction.
    metropolis : bool, default False
        Accept or reject each step, so that the chains are exact. Without this correction they have a bias, which
        converges to zero with the step size.
    keep_every : int, optional
        Number of steps between two entries of `Chains.history`; by default there is no history.
    seed : int, torch.Generator or None, default None
        Seed. With None, every call uses new random numbers. Torch's global random state is not used.

    Returns
    -------
    Chains
        The chains after the last step, with acceptance rates and history.

    Raises
    ------
    FloatingPointError
        If chains become NaN.

    Notes
    -----
    The geodesic Langevin algorithm moves to exp_x(v), v = Proj_x(-gamma grad V(x) + sqrt(2 gamma) Z), Z ~ N(0, I).

    The proposal of the correction is v, rejected if |v| >= pi. Inside this ball exp_x is one to one, so y = exp_x(v)
    has the density N(v; m(x), 2 gamma) (|v| / sin |v|)^{d-2} with m(x) = -gamma Proj_x(grad V(x)), and the only vector
    back to x is r = log_y(x), with the length of v. The Jacobians are therefore equal, and the exact acceptance ratio
    is exp(V(x) - V(y) + |v - m(x)|^2 / 4 gamma - |r - m(y)|^2 / 4 gamma).

    References
    ----------
    Wang, Lei and Panageas, Fast Convergence of Langevin Dynamics on Manifold, NeurIPS 2020.
    https://arxiv.org/abs/2010.05263

    Examples
    --------
    >>> import torch
    >>> from sphereot import sphere
    >>> from sphereot.sampling import langevin
    >>> start = sphere.random_uniform(2000, 3, seed=0, like=torch.empty(0))
    >>> chains = langevin(lambda x: -5 * x[:, 0], start, steps=100, step_size=0.1, metropolis=True, seed=0)
    >>> bool((chains.points[:, 0].mean() - 0.8).abs() < 0.02)  # coth(5) - 1/5 = 0.8001
    True
    """
    steps = as_int("steps", steps, 1, "the number of steps")
    step_size = as_positive("step_size", step_size, "the step of the Langevin algorithm")
    if keep_every is not None:
        keep_every = as_int("keep_every", keep_every, 1, "the number of steps between two entries of the history")
    if not isinstance(start, Tensor):
        raise TypeError(f"start must be a torch tensor of unit vectors, shape (..., d), got {type(start).__name__}.")
    x = as_unit_vectors("start", start).detach()
    generator = torch_generator(seed, x.device)
    value, gradient = _value_and_gradient(potential, x)
    if not bool(torch.isfinite(value).all() and torch.isfinite(gradient).all()):
        raise ValueError(
            "potential must have finite values and gradients at the points of start, got NaN or infinity. Start where "
            "the density is positive and smooth."
        )
    accepted = torch.zeros_like(value) if metropolis else None
    history = []
    for step in range(1, steps + 1):
        noise = torch.randn(x.shape, generator=generator, dtype=x.dtype, device=x.device)
        v = tangent_part(x, noise.mul(math.sqrt(2.0 * step_size)).sub_(gradient, alpha=step_size))
        length = torch.linalg.vector_norm(v, dim=-1, keepdim=True)
        y = torch.cos(length) * x + torch.sinc(length / math.pi) * v
        y = y / torch.linalg.vector_norm(y, dim=-1, keepdim=True)  # rounding must not add up over many steps
        if accepted is None:
            x = y
            if step < steps:
                value, gradient = _value_and_gradient(potential, x)
        else:
            new_value, new_gradient = _value_and_gradient(potential, y)
            # log q(x | y) - log q(y | x), in which the Jacobians of the exponential map cancel.
            forth = tangent_part(x, noise)  # v - m(x) = sqrt(2 gamma) times this
            back = tangent_part(y, length * torch.sin(length) * x - torch.cos(length) * v + step_size * new_gradient)
            log_proposals = 0.5 * (forth * forth).sum(-1) - (back * back).sum(-1) / (4.0 * step_size)
            log_ratio = value - new_value + log_proposals
            uniform = torch.rand(value.shape, generator=generator, dtype=value.dtype, device=value.device)
            # Comparisons with NaN are false: if V or its gradient is NaN, the chain does not move.
            accept = (uniform.log() < log_ratio) & (length[..., 0] < math.pi)
            x = torch.where(accept[..., None], y, x)
            gradient = torch.where(accept[..., None], new_gradient, gradient)
            value = torch.where(accept, new_value, value)
            accepted += accept
        if keep_every is not None and step % keep_every == 0:
            history.append(x)
    if not bool(torch.isfinite(x).all()):
        raise FloatingPointError(
            f"the Langevin chains became NaN with step_size = {step_size:g}; give a smaller step_size, or "
            "metropolis=True, which rejects such steps."
        )
    kept_points = None if keep_every is None else torch.stack(history) if history else x.new_empty(0, *x.shape)
    return Chains(x, None if accepted is None else accepted / steps, kept_points)


def effective_sample_size(log_weights: Tensor, *, relative: bool = False) -> Tensor:
    """Compute the effective sample size of importance weights, (sum of w)^2 / sum of w^2 (Appendix C.5).

    Parameters
    ----------
    log_weights : tensor, shape (..., n)
        Logarithms of unnormalized weights; -inf for a weight of zero. For points x drawn from a density q and a target
        proportional to exp(-V), they are -V(x) - log q(x). The paper prints exp(-beta u / q) for exp(-beta u) / q.
    relative : bool, default False
        Return a fraction of the n points, in (0, 1], instead of a number of points.

    Returns
    -------
    tensor, shape (...)
        Between 1 (one point has all the weight) and n (equal weights: q is the target).

    Examples
    --------
    >>> import torch
    >>> from sphereot.sampling import effective_sample_size
    >>> effective_sample_size(torch.tensor([0.0, 0.0, 0.0, -torch.inf]))
    tensor(3.)
    >>> effective_sample_size(torch.tensor([0.0, 0.0, 0.0, -torch.inf]), relative=True)
    tensor(0.7500)
    """
    if not isinstance(log_weights, Tensor):
        raise TypeError(f"log_weights must be a torch tensor of shape (..., n), got {type(log_weights).__name__}.")
    if not log_weights.is_floating_point():
        raise TypeError(f"log_weights must have a floating dtype, got {log_weights.dtype}. Convert it with .float().")
    if log_weights.ndim == 0 or log_weights.shape[-1] == 0:
        raise ValueError(f"log_weights must have shape (..., n) with n of at least 1, got {tuple(log_weights.shape)}.")
    largest = log_weights.amax(dim=-1, keepdim=True)
    if not bool(torch.isfinite(largest).all()) or bool(torch.isnan(log_weights).any()):
        raise ValueError(
            "log_weights must be logarithms of finite weights, at least one of them positive, got NaN, +inf, or only "
            "weights of zero."
        )
    weights = torch.exp(log_weights - largest)
    size = weights.sum(-1).square() / weights.square().sum(-1)
    return size / log_weights.shape[-1] if relative else size


def _value_and_gradient(potential: Potential, x: Tensor) -> tuple[Tensor, Tensor]:
    """Compute V and its Euclidean gradient, of which only the tangent part is used."""
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        value = potential(leaf)
        if not isinstance(value, Tensor) or value.shape != x.shape[:-1]:
            got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(
                f"potential must return one value per point, shape {tuple(x.shape[:-1])} for points of shape "
                f"{tuple(x.shape)}, got {got}."
            )
        if not value.requires_grad:
            raise ValueError(
                "potential must be computed with torch operations on the points, got values without a gradient. For a "
                "constant potential, return 0 * x.sum(-1)."
            )
        (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return value.detach(), gradient
