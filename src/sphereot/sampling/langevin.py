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
"""V of points (..., d), shape (...): the density is proportional to exp(-V). In torch, and differentiable once."""


@dataclass(frozen=True)
class Chains:
    """Result of `langevin`: the chains, their acceptance rates and their history.

    Attributes
    ----------
    points : tensor, shape (..., d)
        The chains after the last step.
    acceptance : tensor, shape (...), or None
        The share of its proposals that each chain accepted; None without Metropolis correction.
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
        V, up to a constant; its gradient comes from autograd. For a distribution p, ``lambda x: -p.log_prob(x)``.
    start : tensor, shape (..., d)
        Unit vectors from which the chains start, independently.
    steps : int
        How many steps each chain takes.
    step_size : float
        gamma, in squared radians: a step has a drift of gamma |grad V| and a spread of sqrt(2 gamma) in each direction.
    metropolis : bool
        Accept or reject each step, so that the chains are exact, at the cost of a few operations. Without it
        they have a bias that goes to zero with the step.
    keep_every : int, optional
        Steps between two entries of `Chains.history`; by default there is no history.
    seed : int, torch.Generator or None
        Where the random numbers come from; None draws afresh. torch's global random state is neither read nor changed.

    Returns
    -------
    Chains

    Raises
    ------
    FloatingPointError
        If chains of finite potential at the start end in NaN.

    Notes
    -----
    The geodesic Langevin algorithm steps to exp_x(v), v = Proj_x(-gamma grad V(x) + sqrt(2 gamma) Z), Z ~ N(0, I).

    The correction takes v, rejected if |v| >= pi, as the proposal. Inside this ball exp_x is one to one, so that
    y = exp_x(v) has the density N(v; m(x), 2 gamma) (|v| / sin |v|)^{d-2} with m(x) = -gamma Proj_x(grad V(x)), and the
    way back is the single vector r = log_y(x), as long as v. The Jacobians are then equal, and what is left to accept
    by is exp(V(x) - V(y) + |v - m(x)|^2 / 4 gamma - |r - m(y)|^2 / 4 gamma): exact, for nothing wraps.

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
        raise TypeError(f"start: got {type(start).__name__}; pass a torch tensor of unit vectors, shape (..., d).")
    x = as_unit_vectors("start", start).detach()
    generator = torch_generator(seed, x.device)
    value, gradient = _value_and_gradient(potential, x)
    if not bool(torch.isfinite(value).all() and torch.isfinite(gradient).all()):
        raise ValueError(
            "potential: got NaN or infinity, as a value or in its gradient, at points of start; start where the "
            "density is positive and smooth."
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
            chance = torch.rand(value.shape, generator=generator, dtype=value.dtype, device=value.device)
            # A NaN compares as false: where V or its gradient is not a number the chain stays.
            accept = (chance.log() < log_ratio) & (length[..., 0] < math.pi)
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
    """Effective sample size of importance weights, (sum of w)^2 / sum of w^2.

    Parameters
    ----------
    log_weights : tensor, shape (..., n)
        Logarithms of unnormalized weights: for points x drawn from a density q, and a target proportional to exp(-V),
        -V(x) - log q(x). A weight of zero is -inf.
    relative : bool
        As a share of the n points, in (0, 1], instead of a number of points.

    Returns
    -------
    tensor, shape (...)
        Between 1 (one point has all the weight) and n (equal weights: q is the target).

    Notes
    -----
    The paper reports it as a percentage (Appendix C.5). Its weights, printed as exp(-beta u / q), are exp(-beta u) / q.

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
        raise TypeError(f"log_weights: got {type(log_weights).__name__}; pass a torch tensor of shape (..., n).")
    if not log_weights.is_floating_point():
        raise TypeError(
            f"log_weights: got dtype {log_weights.dtype}, but a floating dtype is needed; convert with .float()."
        )
    if log_weights.ndim == 0 or log_weights.shape[-1] == 0:
        raise ValueError(
            f"log_weights: got shape {tuple(log_weights.shape)}; give at least one weight, shape (..., n)."
        )
    largest = log_weights.amax(dim=-1, keepdim=True)
    if not bool(torch.isfinite(largest).all()) or bool(torch.isnan(log_weights).any()):
        raise ValueError(
            "log_weights: got NaN, +inf, or nothing but zero weights; give logarithms of finite weights, some of them "
            "positive."
        )
    weights = torch.exp(log_weights - largest)
    size = weights.sum(-1).square() / weights.square().sum(-1)
    return size / log_weights.shape[-1] if relative else size


def _value_and_gradient(potential: Potential, x: Tensor) -> tuple[Tensor, Tensor]:
    """V and its Euclidean gradient; only the tangent part of this counts."""
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        value = potential(leaf)
        if not isinstance(value, Tensor) or value.shape != x.shape[:-1]:
            got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(
                f"potential: got {got} for points of shape {tuple(x.shape)}; return one value per point, shape "
                f"{tuple(x.shape[:-1])}."
            )
        if not value.requires_grad:
            raise ValueError(
                "potential: got values without a gradient in the points; compute them with torch operations on the "
                "points. For a constant potential, return 0 * x.sum(-1)."
            )
        (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return value.detach(), gradient
