"""SSW gradient flow of particles to one von Mises-Fisher distribution, epoch by epoch (Appendix C.3)."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

import sphereot
from paper.common import by_run, select
from paper.experiment import Experiment, Table
from paper.run_context import Row, RunContext
from sphereot import plotting, sphere
from sphereot._support.checkpoints import CheckpointStore
from sphereot.density import SphericalKDE
from sphereot.distributions import VonMisesFisher
from sphereot.optim import ParticleFlow

_MEAN = torch.tensor([0.0, 1.0, 0.0])

# Radians. Cross-validation would take particles, which keep their distance from each other, for a wider cloud.
_BANDWIDTH = 0.15


@dataclass(frozen=True)
class Config:
    """Epochs shown (the last one ends the flow), particles, slices, concentration, target sample, step, repetitions.

    The step is that of the authors' program; the paper does not print it.
    """

    epochs: tuple[int, ...] = (0, 100, 1000)
    n: int = 500
    n_projections: int = 1000
    kappa: float = 10.0
    target_size: int = 10_000
    step_size: float = 0.2
    runs: int = 5
    fresh_samples: int = 10


def run(config: Config, context: RunContext) -> list[Row]:
    """Run one flow per seed, and measure the distance to fresh samples of the target at the epochs shown."""

    def work(run: int, seed: int, checkpoint: CheckpointStore) -> Row:
        generator = torch.Generator().manual_seed(seed)
        target = _draw(config.target_size, config, generator)
        shown, losses = _descend(target, config, seed, checkpoint)
        return {f"points_{epoch}": points for epoch, points in shown.items()} | {"losses": losses}

    def compare(run: int, epoch: int, seed: int) -> Row:
        generator = torch.Generator().manual_seed(context.unit_seed({"part": "fresh samples", "run": run}))
        fresh = [_draw(config.n, config, generator) for _ in range(config.fresh_samples)]
        points = sphere.normalize(torch.tensor(select(flows, run=run)[0][f"points_{epoch}"]))
        frames = sphereot.great_circles(1000, 3, method="quasi", seed=seed, like=points)
        to_fresh = np.mean([float(sphereot.ssw(points, sample, projections=frames)) for sample in fresh])
        among = sphereot.pairwise_ssw(fresh, projections=frames).numpy()
        between = among[np.triu_indices(len(fresh), 1)].mean()
        return {"ssw": to_fresh, "ssw_between_samples": between, "ratio": to_fresh / between}

    runs = range(config.runs)
    flows = context.measure("flow", [{"run": r} for r in runs], work, checkpoints=True)
    return flows + context.measure("distance", [{"run": r, "epoch": e} for r in runs for e in config.epochs], compare)


def _draw(n: int, config: Config, generator: torch.Generator) -> Tensor:
    return VonMisesFisher(_MEAN, config.kappa).sample((n,), seed=generator)


def _descend(
    target: Tensor, config: Config, seed: int, checkpoint: CheckpointStore
) -> tuple[dict[int, list[list[float]]], list[float]]:
    """The particles at the epochs shown, and the losses."""
    flow = ParticleFlow(
        [target],
        sphere.random_uniform(config.n, 3, seed=seed, like=target),
        step_size=config.step_size,
        n_projections=config.n_projections,
        batch_size=config.n,
        seed=seed,
    )
    shown: dict[int, list[list[float]]] = {}
    saved = checkpoint.load()
    if saved is not None:
        flow.load_state_dict(saved["flow"])
        shown = saved["shown"]
    while True:
        epoch = len(flow.losses)
        if epoch in config.epochs:
            shown[epoch] = np.round(flow.particles.detach().double().numpy(), 5).tolist()
        if epoch >= max(config.epochs):
            return shown, flow.losses
        flow.step()
        checkpoint.save(lambda: {"flow": flow.state_dict(), "shown": shown})


def plot(rows: list[Row], config: Config) -> dict[str, Any]:
    """Draw maps of the densities, the particles on the sphere, and the distance to the target by epoch."""
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    first = select(rows, part="flow", run=0)[0]
    shown = {epoch: sphere.normalize(np.asarray(first[f"points_{epoch}"])) for epoch in config.epochs}
    distribution = VonMisesFisher(_MEAN.double(), config.kappa)

    def density(points: Any) -> Any:
        return distribution.log_prob(torch.as_tensor(points)).exp().numpy()

    with plotting.style():
        maps = Figure(figsize=(6.2, 4.3))
        panels: dict[str, Any] = {"target": density}
        panels |= {
            f"epoch {epoch} (KDE)": SphericalKDE(_BANDWIDTH).fit(points).density for epoch, points in shown.items()
        }
        highest = float(distribution.log_prob(distribution.mode).exp())
        for k, (title, height) in enumerate(panels.items()):
            ax = maps.add_subplot(2, (len(panels) + 1) // 2, k + 1, projection="mollweide")
            # On a linear scale the first epochs would be dark: the peak is 20 times the uniform density.
            plotting.density_map(
                height, ax=ax, norm=LogNorm(0.01, highest, clip=True), colorbar=False, graticule="lines"
            )
            ax.set_title(title)
        shades = maps.axes[0].collections[0]
        bar = maps.colorbar(shades, ax=maps.axes, location="bottom", shrink=0.5, aspect=40, extend="min")
        ticks = [0.01, 1 / (4 * math.pi), 1.0]
        bar.set_ticks(ticks, labels=["0.01", "0.08\n(uniform)", "1"])
        bar.set_label("density [1/sr]")

        globes = Figure(figsize=(7.0, 2.1))
        sample = distribution.sample((config.n,), seed=0).numpy()
        samples = {f"{config.n} points of the target": sample} | {f"epoch {k}": points for k, points in shown.items()}
        for k, (title, points) in enumerate(samples.items()):
            ax = plotting.sphere_axes(globes.add_subplot(1, len(samples), k + 1, projection="3d"), elev=20, azim=120)
            plotting.scatter_sphere(points, ax=ax, color=plotting.PALETTE[int(k == 0)])
            ax.set_title(title)

        curves = Figure(figsize=(4.0, 2.7))
        ax = curves.subplots()
        losses = np.array([row["losses"] for row in select(rows, part="flow")])
        plotting.evolution(np.arange(1, losses.shape[1] + 1), losses, ax=ax, band="range", log="y", label="particles")
        between = np.mean([row["ssw_between_samples"] for row in select(rows, part="distance")])
        ax.axhline(between, color="0.4", linestyle=":", linewidth=1, label=f"two samples of {config.n}")
        ax.set(xlabel="epoch", ylabel=r"$SSW_2^2$ to a batch [turns$^2$]")
        ax.legend()
    return {"densities": maps, "particles": globes, "losses": curves}


def summarize(rows: list[Row], config: Config) -> Table:
    """Tabulate the distance to fresh samples of the target by epoch."""
    epochs, values = by_run(select(rows, part="distance"), "epoch", "ssw")
    ratios = by_run(select(rows, part="distance"), "epoch", "ratio")[1]
    lines = [
        [str(epoch), f"{values[:, k].mean():.3g}", f"{ratios[:, k].mean():.2f}", f"{ratios[:, k].max():.2f}"]
        for k, epoch in enumerate(epochs)
    ]
    note = (
        f"SSW_2^2 in turns^2 between {config.n} particles and fresh samples of the target, and as a multiple of that "
        f"between two such samples; {config.runs} seeds."
    )
    return Table(("epoch", "SSW_2^2", "ratio, mean", "ratio, at most"), lines, note)


EXPERIMENT = Experiment(
    name="flow_vmf",
    title="SSW gradient flow of particles to one von Mises-Fisher distribution",
    section="Appendix C.3, Figures 'Gradient Flows on SW with a vMF target'",
    paper="Particles and their density at epochs 0, 100 and 1000, which come to the target. No numbers and no step "
    "size are printed; the one here is that of the authors' program.",
    presets={
        "quick": Config(epochs=(0, 30, 300), n_projections=50, step_size=0.3, runs=2, fresh_samples=5),
        "cpu": Config(n_projections=200),
        "paper": Config(),
    },
    run=run,
    plot=plot,
    summarize=summarize,
    measured=("ssw", "ssw_between_samples", "ratio"),
)
