"""Sliced-Wasserstein variational inference (Algorithm 2): fit a sampler to a density known up to a constant."""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from sphereot._arrays.random import torch_generator
from sphereot._arrays.validation import as_int, as_points, as_positive, as_slice_count
from sphereot._support.checkpoints import (
    Callback,
    CheckpointStore,
    DivergenceError,
    LastGood,
    StateFile,
    digest,
    require_same_work,
    run_steps,
    store_name,
)
from sphereot._support.extras import Progress
from sphereot.distance import ssw
from sphereot.distributions import HypersphericalUniform, PowerSpherical
from sphereot.sampling.langevin import Potential, langevin
from sphereot.torch.euclidean import sliced_wasserstein


class Sampler(Protocol):
    """Interface of samplers for `fit_sampler`: the method `rsample` of distributions and normalizing flows."""

    def rsample(self, sample_shape: Sequence[int], *, seed: int | torch.Generator | None = None) -> Tensor:
        """Draw unit vectors (*sample_shape, d) that have gradients in the parameters."""


class PowerSphericalSampler(nn.Module):
    """Power spherical distribution with learnable mean direction and concentration.

    Parameters
    ----------
    loc : tensor, shape (d,)
        Initial mean direction, scaled to unit length.
    concentration : float
        Initial concentration kappa, positive.

    Notes
    -----
    The parameters are `loc` and `concentration`. The distribution uses loc / |loc|, because an optimizer can leave the
    sphere, and |concentration|, so that a step across zero is reflected.

    Examples
    --------
    >>> import torch
    >>> from sphereot.sampling import PowerSphericalSampler
    >>> sampler = PowerSphericalSampler(torch.ones(3), 0.1)
    >>> sampler.rsample((5,), seed=0).shape
    torch.Size([5, 3])
    """

    def __init__(self, loc: Tensor, concentration: float) -> None:
        super().__init__()
        loc = torch.as_tensor(loc).detach()
        if not concentration > 0:
            raise ValueError(f"concentration must be positive, got {concentration}.")
        start = PowerSpherical(loc / torch.linalg.vector_norm(loc), concentration)
        self.loc = nn.Parameter(start.loc.clone())
        self.concentration = nn.Parameter(start.concentration.clone())

    def distribution(self) -> PowerSpherical:
        """Return the distribution with the current parameters, differentiable in them."""
        # Without validation: `fit_sampler` detects NaN.
        return PowerSpherical(
            self.loc / torch.linalg.vector_norm(self.loc), self.concentration.abs(), validate_args=False
        )

    def rsample(self, sample_shape: Sequence[int] = (), *, seed: int | torch.Generator | None = None) -> Tensor:
        """Draw points (*sample_shape, d) with gradients in the parameters."""
        return self.distribution().rsample(sample_shape, seed=seed)

    def log_prob(self, value: Tensor) -> Tensor:
        """Compute the logarithm of the density at points (..., d)."""
        return self.distribution().log_prob(value)


class NetworkSampler(nn.Module):
    """Sampler that maps uniform noise on a sphere by a network, whose output is scaled to unit length.

    Parameters
    ----------
    network : nn.Module
        Network that maps (n, noise_dim) to (n, d), for example a multilayer perceptron. Its output must not be zero.
    noise_dim : int
        Dimension of the space around the sphere of the noise.

    Examples
    --------
    >>> import torch
    >>> from sphereot.sampling import NetworkSampler
    >>> network = torch.nn.Sequential(torch.nn.Linear(3, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
    >>> NetworkSampler(network, 3).rsample((5,), seed=0).shape
    torch.Size([5, 3])
    """

    def __init__(self, network: nn.Module, noise_dim: int) -> None:
        super().__init__()
        self.network = network
        self.noise_dim = as_int("noise_dim", noise_dim, 2, "the dimension of the noise")

    def rsample(self, sample_shape: Sequence[int] = (), *, seed: int | torch.Generator | None = None) -> Tensor:
        """Draw points (*sample_shape, d) with gradients in the parameters of the network."""
        like: Any = next(self.network.parameters(), torch.empty(0))
        noise = HypersphericalUniform(self.noise_dim, dtype=like.dtype, device=like.device)
        points = self.network(noise.sample(sample_shape, seed=seed))
        return points / torch.linalg.vector_norm(points, dim=-1, keepdim=True)


@dataclass(frozen=True)
class SamplerFit:
    """History of a fit by `fit_sampler`; the sampler itself is fitted in place.

    Attributes
    ----------
    losses : list of float
        SSW_2^2 [turns^2] or SW_2^2 between the points and the same points after the Langevin steps, for each step.
    records : list of (int, value)
        Number of steps, and what `evaluate` returned after them.
    """

    losses: list[float] = field(default_factory=list)
    records: list[tuple[int, Any]] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """The number of steps taken."""
        return len(self.losses)


def fit_sampler(
    potential: Potential,
    sampler: Sampler,
    *,
    steps: int = 2000,
    n_particles: int = 500,
    mcmc_steps: int = 20,
    step_size: float = 1e-3,
    metropolis: bool = False,
    loss: Literal["ssw", "sw"] = "ssw",
    n_projections: int = 200,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
    lr: float = 1e-3,
    seed: int | torch.Generator | None = None,
    evaluate: Callable[[int, Any], Any] | None = None,
    evaluate_every: int = 1,
    callback: Callback | None = None,
    progress: Progress = False,
    checkpoint: str | os.PathLike[str] | CheckpointStore | None = None,
) -> SamplerFit:
    """Fit a sampler to a density known up to a constant, by SSW variational inference.

    Each step draws points, moves copies of them by some Langevin steps toward the target, and descends the gradient of
    the distance between the two samples in the sampler's parameters.

    Parameters
    ----------
    potential : callable, points (n, d) -> (n,)
        V; the target has a density proportional to exp(-V). For a distribution p, use ``lambda x: -p.log_prob(x)``.
    sampler : object with `rsample`
        `PowerSphericalSampler`, `NetworkSampler`, a flow of `sphereot.flows`, or any object whose
        ``rsample((n,), seed=...)`` returns unit vectors with gradients in its parameters. It is fitted in place.
    steps : int, default 2000
        Number K of steps of the optimizer.
    n_particles : int, default 500
        Number N of points that are drawn in each step.
    mcmc_steps : int, default 20
        Number of Langevin steps of these points.
    step_size : float, default 0.001
        Step size gamma of the Langevin steps, in squared radians. The sampler also learns the bias of uncorrected
        steps.
    metropolis : bool, default False
        Correct the Langevin steps, so that the target is their exact stationary distribution.
    loss : {"ssw", "sw"}, default "ssw"
        SSW_2^2 in turns^2, or the Euclidean sliced distance SW_2^2 in the space around the sphere.
    n_projections : int, default 200
        Number of great circles (or directions), new in every step.
    optimizer : torch.optim.Optimizer or sequence of optimizers, optional
        Optimizer of the parameters of the sampler; by default Adam with the learning rate `lr`. Give several optimizers
        if some parameters are points on a sphere and need an optimizer of `sphereot.optim`.
    lr : float, default 0.001
        Learning rate of the default optimizer.
    seed : int, torch.Generator or None, default None
        Seed. With None, every call uses new random numbers. Torch's global random state is not used.
    evaluate : callable (step, sampler) -> value, optional
        Called before the first step (as step 0) and after every `evaluate_every` steps. The values are stored in
        `SamplerFit.records` and in checkpoints. For repeatable runs, seed its random numbers by the step.
    evaluate_every : int, default 1
        Number of steps between two evaluations.
    callback : callable (step, loss, sampler), optional
        Called after each step with the number of steps taken, the loss as a float, and the sampler. The fit stops early
        if it returns True.
    progress : bool or callable (done, total), default False
        Show a progress bar, or call a function with the number of steps taken and their total.
    checkpoint : path, optional
        File for the state of the fit, written every ten seconds. An interrupted fit with the same arguments resumes
        from there and ends with the same numbers. The file is removed at the end. Instead of a path, you can pass an
        object with ``load()``, which returns a state or None, and ``save(state)``, which is called after each step and
        can call `state()` and store the result.

    Returns
    -------
    SamplerFit
        The history.

    Raises
    ------
    ValueError
        If the checkpoint belongs to a fit with another target, other settings or another seed.
    DivergenceError
        If points or loss are not finite. The sampler then has the last parameters with a finite loss, and the attribute
        `result` of the error is the history.

    Examples
    --------
    >>> import torch
    >>> from sphereot.sampling import PowerSphericalSampler, fit_sampler
    >>> sampler = PowerSphericalSampler(torch.tensor([1.0, 1.0, 1.0]), 1.0)
    >>> fit = fit_sampler(lambda x: -10 * x[:, 1], sampler, steps=150, n_particles=200, step_size=0.02,
    ...                   n_projections=50, lr=0.1, seed=0)
    >>> fit.steps, bool(sampler.distribution().loc[1] > 0.98)
    (150, True)
    """
    steps = as_int("steps", steps, 1, "the number of steps")
    n_particles = as_int("n_particles", n_particles, 1, "the number of points")
    every = as_int("evaluate_every", evaluate_every, 1, "the number of steps between two evaluations")
    settings: dict[str, Any] = {
        "n_particles": n_particles,
        "mcmc_steps": as_int("mcmc_steps", mcmc_steps, 1, "the number of Langevin steps"),
        "step_size": as_positive("step_size", step_size, "the step of the Langevin algorithm"),
        "metropolis": bool(metropolis),
        "loss": loss,
        "n_projections": as_slice_count(n_projections),
    }
    if loss not in _LOSSES:
        raise ValueError(f"loss must be one of {', '.join(map(repr, _LOSSES))}, got {loss!r}.")
    if not callable(getattr(sampler, "rsample", None)):
        raise TypeError(
            f"sampler must have a method rsample(shape, seed=...), got {type(sampler).__name__}. Wrap a network in "
            "sphereot.sampling.NetworkSampler."
        )
    optimizers = _optimizers(optimizer, sampler, lr)
    groups = [group for each in optimizers for group in each.param_groups]
    parameters: list[Tensor] = [parameter for group in groups for parameter in group["params"]]
    generator = torch_generator(seed, parameters[0].device)
    store = StateFile(Path(checkpoint)) if isinstance(checkpoint, str | os.PathLike) else checkpoint
    work = {} if store is None else _work(settings, optimizers, parameters, seed)
    state = _State(SamplerFit(), optimizers, parameters, generator, work)
    saved = None if store is None else store.load()
    if store is not None and saved is not None:
        state.restore(saved, potential, store_name(store))
        if state.fit.steps > steps:
            raise ValueError(
                f"steps must be at least {state.fit.steps}, because the state in {store_name(store)} was saved after "
                f"{state.fit.steps} steps, got {steps}. Give more steps, or remove the file to start again."
            )
    elif evaluate is not None:
        state.fit.records.append((0, evaluate(0, sampler)))
    last_good = LastGood(parameters)

    def diverged(what: str) -> DivergenceError:
        last_good.restore()
        rates = ", ".join(f"{group['lr']:g}" for group in groups if "lr" in group)
        return DivergenceError(
            f"{what} in step {state.fit.steps + 1}: the optimizer's learning rate ({rates or 'not named'}) or the "
            f"Langevin step_size ({settings['step_size']:g}) is too large; give smaller values. The sampler has the "
            "last parameters with a finite loss.",
            state.fit,
        )

    def take(step: int) -> float:
        points = sampler.rsample((n_particles,), seed=generator)
        if not bool(torch.isfinite(points.detach()).all()):
            raise diverged("the sampler returned NaN")
        if step == 1:
            as_points("sampler", points)
            if not points.requires_grad:
                raise ValueError("sampler must have a differentiable rsample, got points without a gradient.")
        try:
            drifted = langevin(
                potential,
                points.detach(),
                steps=settings["mcmc_steps"],
                step_size=settings["step_size"],
                metropolis=settings["metropolis"],
                seed=generator,
            ).points
        except FloatingPointError:
            raise diverged("the Langevin chains became NaN") from None
        if store is not None and state.probe is None:
            state.probe = _values_at(potential, points.detach())
        value = _LOSSES[loss](points, drifted, settings["n_projections"], generator)
        loss_value = value.item()
        if not math.isfinite(loss_value):
            raise diverged(f"the loss is {loss_value}")
        last_good.keep()
        for each in optimizers:
            each.zero_grad()
        value.backward()
        for each in optimizers:
            each.step()
        if step == steps and not all(bool(torch.isfinite(parameter).all()) for parameter in parameters):
            raise diverged("a parameter is NaN")
        state.fit.losses.append(loss_value)
        if evaluate is not None and step % every == 0:
            state.fit.records.append((step, evaluate(step, sampler)))
        return loss_value

    run_steps(
        take,
        steps,
        label="fit_sampler",
        done=state.fit.steps,
        progress=progress,
        callback=callback,
        state=lambda: sampler,
        save=None if store is None else lambda: store.save(state.as_dict),
    )
    if store is not checkpoint and isinstance(store, StateFile):
        store.remove()
    return state.fit


_LOSSES: dict[str, Callable[[Tensor, Tensor, int, torch.Generator], Tensor]] = {
    "ssw": lambda x, y, n_projections, generator: ssw(x, y, n_projections=n_projections, seed=generator),
    "sw": sliced_wasserstein,
}


@dataclass
class _State:
    """All that a later step depends on: history, optimizers, parameters and random generator.

    `work` identifies the fit by its settings. `probe` identifies the target by values of the potential at some points.
    """

    fit: SamplerFit
    optimizers: Sequence[torch.optim.Optimizer]
    parameters: list[Tensor]
    generator: torch.Generator
    work: dict[str, Any]
    probe: tuple[Tensor, Tensor] | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "work": self.work,
            "probe": self.probe,
            "losses": self.fit.losses,
            "records": self.fit.records,
            "parameters": [parameter.detach() for parameter in self.parameters],
            "optimizers": [each.state_dict() for each in self.optimizers],
            "generator": self.generator.get_state(),
        }

    def restore(self, saved: Any, potential: Potential, name: str) -> None:
        if not isinstance(saved, dict) or not set(self.as_dict()) <= set(saved):
            raise ValueError(f"{name}: is not the state of a sampler's fit; remove the file to start again.")
        require_same_work(name, saved["work"], self.work)
        self.probe = saved["probe"]
        if self.probe is not None and _is_other_target(potential, *self.probe):
            raise ValueError(
                f"{name}: is the state of a fit to another target (the potential has other values at the points of "
                "its first step); give the same potential, or remove the file to start again."
            )
        with torch.no_grad():
            for parameter, value in zip(self.parameters, saved["parameters"], strict=True):
                parameter.copy_(value)
        for each, optimizer_state in zip(self.optimizers, saved["optimizers"], strict=True):
            each.load_state_dict(optimizer_state)
        self.generator.set_state(saved["generator"])
        self.fit.losses.extend(saved["losses"])
        self.fit.records.extend(saved["records"])


def _work(
    settings: dict[str, Any],
    optimizers: Sequence[torch.optim.Optimizer],
    parameters: Sequence[Tensor],
    seed: int | torch.Generator | None,
) -> dict[str, Any]:
    """Describe a fit, except its target, by plain values."""
    rates = [
        [type(each).__name__, [{k: str(v) for k, v in group.items() if k != "params"} for group in each.param_groups]]
        for each in optimizers
    ]
    # A generator is identified by its state, and a seed by its number.
    source = digest(seed.get_state().numpy()) if isinstance(seed, torch.Generator) else seed
    return settings | {
        "optimizer": str(rates),
        "parameters": str([list(parameter.shape) for parameter in parameters]),
        "seed": source if source is None or isinstance(source, str) else int(source),
    }


def _values_at(potential: Potential, points: Tensor) -> tuple[Tensor, Tensor]:
    return points.clone(), potential(points.clone()).detach().clone()


def _is_other_target(potential: Potential, points: Tensor, values: Tensor) -> bool:
    """Whether the values of a potential at points differ from given values; a random potential is accepted."""
    first, second = (_values_at(potential, points.to(values.device))[1] for _ in range(2))
    if first.shape != values.shape:
        return True
    if not torch.equal(first.nan_to_num(), second.nan_to_num()):
        return False
    return not torch.allclose(first, values, rtol=1e-4, atol=1e-6, equal_nan=True)


def _optimizers(given: Any, sampler: Any, lr: float) -> Sequence[torch.optim.Optimizer]:
    if given is not None:
        optimizers = [given] if isinstance(given, torch.optim.Optimizer) else list(given)
        if not optimizers or not all(isinstance(each, torch.optim.Optimizer) for each in optimizers):
            raise TypeError(f"optimizer must be one or several optimizers of torch or sphereot.optim, got {given!r}.")
        return optimizers
    parameters = list(sampler.parameters()) if isinstance(sampler, torch.nn.Module) else []
    if not parameters:
        raise ValueError("optimizer must be given if the sampler is not a torch module with parameters, got None.")
    return [torch.optim.Adam(parameters, lr=as_positive("lr", lr, "the learning rate"))]
