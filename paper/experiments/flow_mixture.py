"""SSW minimization to a mixture of six von Mises-Fisher distributions, by particles and by a network (Section 5.1)."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import sphereot
from paper.common import select
from paper.experiment import Experiment, Table
from paper.run_context import Row, RunContext
from sphereot import plotting, sphere
from sphereot._support.checkpoints import CheckpointStore
from sphereot.density import SphericalKDE
from sphereot.distributions import VonMisesFisher
from sphereot.optim import ParticleFlow

_MODES = torch.cat([torch.eye(3), -torch.eye(3)])
_RETRACTIONS = {"riemannian": "exp", "projected": "normalize"}
_LABELS = {
    "riemannian": "particles, Riemannian descent",
    "projected": "particles, projected descent",
    "mlp": "network (MLP)",
}

# Radians. Cross-validation would take particles, which keep their distance from each other, for a wider cloud.
_BANDWIDTH = 0.15


@dataclass(frozen=True)
class Config:
    """Particles and size of a batch, epochs, slices, concentration, target sample, step sizes, network, repetitions."""

    n: int = 500
    epochs: int = 2000
    n_projections: int = 1000
    kappa: float = 10.0
    target_size: int = 10_000
    step_size: float = 0.2
    layers: int = 5
    units: int = 100
    lr: float = 1e-4
    runs: int = 5
    fresh_samples: int = 10
    timed_steps: int = 100


def run(config: Config, context: RunContext) -> list[Row]:
    """Run every model from every seed, compare it with fresh samples of the target, and time a step."""

    def work(model: str, run: int, seed: int, checkpoint: CheckpointStore) -> Row:
        generator = torch.Generator().manual_seed(seed)
        target = _draw(config.target_size, config, generator)
        fresh = [_draw(config.n, config, generator) for _ in range(config.fresh_samples)]
        if model == "mlp":
            points, many, losses = _train(target, config, seed, checkpoint)
        else:
            points, losses = _descend(target, _RETRACTIONS[model], config, seed, checkpoint)
            many = points
        frames = sphereot.great_circles(1000, 3, method="quasi", seed=seed, like=points)
        to_fresh = np.mean([float(sphereot.ssw(points, sample, projections=frames)) for sample in fresh])
        among = sphereot.pairwise_ssw(fresh, projections=frames).numpy()
        between = among[np.triu_indices(len(fresh), 1)].mean()
        start = sphere.random_uniform(config.n, 3, seed=seed, like=points)
        cosines, nearest = (many @ _MODES.T).max(dim=1)
        masses = torch.bincount(nearest, minlength=6).numpy() / len(many)
        return {
            "ssw": to_fresh,
            "ssw_between_samples": between,
            "ratio": to_fresh / between,
            "ratio_of_uniform": np.mean([float(sphereot.ssw(start, sample, projections=frames)) for sample in fresh])
            / between,
            "ssw_to_all": sphereot.ssw(points, target, projections=frames),
            "mean_cosine": cosines.mean(),
            "least_mass": masses.min(),
            "greatest_mass": masses.max(),
            "losses": losses,
            "points": np.round(points.double().numpy(), 5),
        }

    units = [{"model": model, "run": r} for model in _LABELS for r in range(config.runs)]
    return context.measure("flows", units, work, checkpoints=True) + context.measure("cost", [{}], _cost_of(config))


def _draw(n: int, config: Config, generator: torch.Generator) -> Tensor:
    modes = _MODES[torch.randint(6, (n,), generator=generator)]
    return VonMisesFisher(modes, config.kappa).sample(seed=generator)


def _descend(
    target: Tensor, retraction: str, config: Config, seed: int, checkpoint: CheckpointStore
) -> tuple[Tensor, list[float]]:
    flow = _particle_flow(target, retraction, config, seed)
    saved = checkpoint.load()
    if saved is not None:
        flow.load_state_dict(saved)
    while len(flow.losses) < config.epochs:
        flow.step()
        checkpoint.save(flow.state_dict)
    return flow.particles.detach(), flow.losses


def _particle_flow(target: Tensor, retraction: Any, config: Config, seed: int) -> ParticleFlow:
    return ParticleFlow(
        [target],
        sphere.random_uniform(config.n, 3, seed=seed, like=target),
        step_size=config.step_size,
        retraction=retraction,
        n_projections=config.n_projections,
        batch_size=config.n,
        seed=seed,
    )


def _train(
    target: Tensor, config: Config, seed: int, checkpoint: CheckpointStore
) -> tuple[Tensor, Tensor, list[float]]:
    """A sample of the trained network as large as a batch, one as large as the target sample, and the losses."""
    generator = torch.Generator().manual_seed(seed)
    network = _network(config, seed)
    optimizer = torch.optim.Adam(network.parameters(), config.lr)
    losses: list[float] = []
    saved = checkpoint.load()
    if saved is not None:
        network.load_state_dict(saved["network"])
        optimizer.load_state_dict(saved["optimizer"])
        generator.set_state(saved["generator"])
        losses = saved["losses"]

    def sample(n: int) -> Tensor:
        base = sphere.random_uniform(n, 3, seed=generator, like=target)
        return nn.functional.normalize(network(base), dim=-1)

    def state() -> dict[str, Any]:
        return {
            "network": network.state_dict(),
            "optimizer": optimizer.state_dict(),
            "generator": generator.get_state(),
            "losses": losses,
        }

    with _one_torch_thread():
        while len(losses) < config.epochs:
            batch = target[torch.randperm(len(target), generator=generator)[: config.n]]
            loss = sphereot.ssw(sample(config.n), batch, n_projections=config.n_projections, seed=generator)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            checkpoint.save(state)
        with torch.no_grad():
            return sample(config.n), sample(config.target_size), losses


@contextmanager
def _one_torch_thread() -> Iterator[None]:
    """Run torch on one thread: the network is small, and torch's threads would compete with those that compute SSW."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _network(config: Config, seed: int) -> nn.Sequential:
    """Multilayer perceptron from R^3 to R^3 with leaky ReLU, whose output is then normalized."""
    with torch.random.fork_rng(devices=[]):  # torch draws initial weights from its global generator
        torch.manual_seed(seed)
        widths = [3] + [config.units] * config.layers
        hidden = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.LeakyReLU())]
        return nn.Sequential(*hidden, nn.Linear(config.units, 3))


def _cost_of(config: Config) -> Any:
    def work(seed: int) -> Row:
        """Milliseconds per step of the flow, and per call of SSW with its gradient."""
        target = _draw(config.target_size, config, torch.Generator().manual_seed(seed))
        flow = _particle_flow(target, "exp", config, seed)
        x, y = flow.particles.detach().clone().requires_grad_(), target[: config.n].contiguous()

        def call() -> None:
            sphereot.ssw(x, y, n_projections=config.n_projections).backward()

        flow_times, call_times = [], []
        for _ in range(config.timed_steps):  # alternating, so that other load on the machine affects both equally
            flow_times.append(_milliseconds(flow.step))
            call_times.append(_milliseconds(call))
        step, ssw_alone = np.median(flow_times), np.median(call_times)
        return {"step_ms": step, "ssw_ms": ssw_alone, "cost_ratio": step / ssw_alone}

    return work


def _milliseconds(action: Any) -> float:
    start = time.perf_counter()
    action()
    return 1e3 * (time.perf_counter() - start)


def plot(rows: list[Row], config: Config) -> dict[str, Any]:
    """Draw the densities on maps, the target first, and the losses by epoch."""
    from matplotlib.figure import Figure

    with plotting.style():
        maps = Figure(figsize=(6.2, 4.3))
        grid = plotting.map_points()
        panels: dict[str, Any] = {"target: six von Mises-Fisher distributions": lambda x: _density(x, config)}
        for model, label in _LABELS.items():
            points = np.asarray(select(rows, part="flows", model=model, run=0)[0]["points"])
            panels[f"{label} (KDE)"] = SphericalKDE(_BANDWIDTH).fit(sphere.normalize(points)).density
        drawn = {title: density(grid.reshape(-1, 3)).reshape(grid.shape[:2]) for title, density in panels.items()}
        highest = max(float(values.max()) for values in drawn.values())
        for k, (title, values) in enumerate(drawn.items()):
            ax = maps.add_subplot(2, 2, k + 1, projection="mollweide")
            plotting.density_map(values, ax=ax, vmax=highest, colorbar=False, graticule="lines")
            ax.set_title(title)
        shades = maps.axes[0].collections[0]
        maps.colorbar(shades, ax=maps.axes, location="bottom", shrink=0.5, aspect=40, label="density [1/sr]")

        curves = Figure(figsize=(4.4, 2.9))
        ax = curves.subplots()
        epochs = np.unique(np.geomspace(1, config.epochs, 60).astype(int))
        for model, label in _LABELS.items():
            losses = np.array([row["losses"] for row in select(rows, part="flows", model=model)])
            # The mean since the epoch shown before: single ones have the noise of their slices and batches.
            means = [losses[:, a:b].mean(axis=1) for a, b in zip([0, *epochs[:-1]], epochs, strict=True)]
            plotting.evolution(epochs, np.array(means).T, ax=ax, label=label, log="both", band="range")
        between = np.mean([row["ssw_between_samples"] for row in select(rows, part="flows")])
        ax.axhline(between, color="0.4", linestyle=":", linewidth=1, label=f"two samples of {config.n}")
        ax.set(xlabel="epoch", ylabel=r"$SSW_2^2$ to a batch [turns$^2$]", ylim=(None, 0.8), xlim=(1, config.epochs))
        ax.legend(ncols=2, fontsize=6, loc="upper right")
    return {"densities": maps, "losses": curves}


def _density(points: Any, config: Config) -> Any:
    at = torch.as_tensor(points, dtype=torch.float64)
    distribution = VonMisesFisher(_MODES.double(), config.kappa)
    return (torch.logsumexp(distribution.log_prob(at[:, None, :]), dim=1) - math.log(6)).exp().numpy()


def summarize(rows: list[Row], config: Config) -> Table:
    """Tabulate distances and masses of the modes per model; worst of all seeds."""
    lines = []
    for model, label in _LABELS.items():
        selected = select(rows, part="flows", model=model)
        lines.append(
            [
                label,
                f"{np.mean([row['ssw'] for row in selected]):.3g}",
                f"{np.mean([row['ssw_between_samples'] for row in selected]):.3g}",
                f"{max(row['ratio'] for row in selected):.2f}",
                f"{100 * min(row['least_mass'] for row in selected):.1f} to "
                f"{100 * max(row['greatest_mass'] for row in selected):.1f} %",
                f"{np.mean([row['ssw_to_all'] for row in selected]):.2g}",
                f"{np.mean([row['mean_cosine'] for row in selected]):.3f}",
            ]
        )
    cost = select(rows, part="cost")[0]
    before = np.mean([row["ratio_of_uniform"] for row in select(rows, part="flows")])
    note = (
        f"SSW_2^2 in turns^2, means over {config.runs} seeds; ratio of the first two columns and masses: the worst "
        f"seed. Uniform points, the start, have a ratio of {before:.2f}, so "
        "the last columns say more: the distance to all target points, and the mean cosine to the nearest mode, "
        f"{_mean_cosine(config):.3f} for the target and 0.832 for uniform points. A step of the particle flow took "
        f"{cost['step_ms']:.2f} ms, {cost['cost_ratio']:.2f} times its call of SSW with gradient."
    )
    columns = ("model", "to samples", "among samples", "ratio", "mass of a mode", "to all", "cosine")
    return Table(columns, lines, note)


def _mean_cosine(config: Config) -> float:
    """Mean cosine of the angle between a point of the target and its nearest mode, by the midpoint rule on a map."""
    points = plotting.map_points(180).reshape(-1, 3)
    mass = _density(points, config) * np.sqrt(1.0 - points[:, 2] ** 2)
    return float(np.sum(mass * np.abs(points).max(axis=1)) / np.sum(mass))


EXPERIMENT = Experiment(
    name="flow_mixture",
    title="Minimizing SSW to a mixture of six von Mises-Fisher distributions, over particles and over a network",
    section="Section 5.1 and Appendix C.3, Figure 'Minimization of SSW with respect to a mixture of vMF'",
    paper="Densities of 500 particles and of a network that show the six modes of the target. No numbers are printed, "
    "and for the particles neither a step size nor the size of the target sample. Batches of 500 from 10,000 points "
    "are what the published code takes in the flow to one distribution.",
    presets={
        "quick": Config(
            epochs=250, n_projections=100, step_size=2.0, lr=2e-3, runs=2, fresh_samples=5, timed_steps=20
        ),
        "cpu": Config(epochs=1000, n_projections=200, step_size=1.0, runs=5, lr=2e-4),
        "paper": Config(),
    },
    run=run,
    plot=plot,
    summarize=summarize,
    measured=(
        "ssw", "ssw_between_samples", "ratio", "ratio_of_uniform", "ssw_to_all", "mean_cosine", "least_mass",
        "greatest_mass", "step_ms", "ssw_ms", "cost_ratio",
    ),
)  # fmt: skip
