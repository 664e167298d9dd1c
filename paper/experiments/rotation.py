"""SSW_2, SSW_1 and SW_2 between two von Mises-Fisher distributions, against the angle of their means (Appendix C.1)."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import ot
import torch

import sphereot
from paper.common import by_run, means, select
from paper.experiment import Experiment, Table
from paper.run_context import Row, RunContext
from sphereot import plotting
from sphereot.distributions import VonMisesFisher

_DISTANCES = {"ssw2": r"$SSW_2^2$ [turns$^2$]", "ssw1": r"$SSW_1$ [turns]", "sw2": r"$SW_2^2$"}


@dataclass(frozen=True)
class Config:
    """Dimensions, steps of pi / 6, sample size, slices, concentration, repetitions.

    Dimensions, sample size and slices are those of the authors' program; the paper does not print them.
    """

    dims: tuple[int, ...] = (3, 25, 50)
    steps: tuple[int, ...] = tuple(range(13))
    n: int = 500
    n_projections: int = 1000
    kappa: float = 10.0
    runs: int = 100


def run(config: Config, context: RunContext) -> list[Row]:
    """Compute the three distances between new samples, for every angle and run."""

    def work(dim: int, step: int, run: int, seed: int) -> Row:
        generator = torch.Generator().manual_seed(seed)
        x, y = (_sample(dim, angle, config, generator) for angle in (0.0, step * math.pi / 6))
        slices: dict[str, Any] = {"n_projections": config.n_projections, "seed": generator}
        # The Euclidean sliced distance of POT, squared as the paper plots it.
        euclidean = ot.sliced_wasserstein_distance(x.numpy(), y.numpy(), n_projections=config.n_projections, seed=seed)
        return {
            "angle": step * 30,
            "ssw2": sphereot.ssw(x, y, **slices),
            "ssw1": sphereot.ssw(x, y, p=1, **slices),
            "sw2": euclidean**2,
        }

    units = [{"dim": d, "step": k, "run": r} for d in config.dims for k in config.steps for r in range(config.runs)]
    return context.measure("rotation", units, work)


def _sample(dim: int, angle: float, config: Config, generator: torch.Generator) -> torch.Tensor:
    mean = torch.zeros(dim, dtype=torch.float64)
    mean[0], mean[1] = math.cos(angle), math.sin(angle)
    distribution = VonMisesFisher(mean, torch.tensor(config.kappa, dtype=torch.float64))
    return distribution.sample((config.n,), seed=generator)


def plot(rows: list[Row], config: Config) -> dict[str, Any]:
    """Draw one panel per distance."""
    from matplotlib.figure import Figure

    with plotting.style():
        figure = Figure(figsize=(6.8, 2.5), layout="constrained")
        for ax, (name, label) in zip(figure.subplots(1, 3), _DISTANCES.items(), strict=True):
            for dim in config.dims:
                angles, values = by_run(select(rows, dim=dim), "angle", name)
                plotting.evolution(angles, values, ax=ax, label=f"d = {dim}", log="y")
            ax.set(xlabel=r"angle $\theta$ [degrees]", ylabel=label, xticks=np.arange(0, 361, 90))
        figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(config.dims))
    return {"rotation": figure}


def summarize(rows: list[Row], config: Config) -> Table:
    """Tabulate the maximum of each curve, and its angle."""
    lines = []
    for dim in config.dims:
        cells = [str(dim)]
        for name in _DISTANCES:
            angles, values = means(select(rows, dim=dim), "angle", name)
            cells.append(f"{values.max():.4g} at {angles[values.argmax()]}°")
        lines.append(cells)
    return Table(("d", "SSW_2^2", "SSW_1", "SW_2^2"), lines, "Maximum of the mean over runs, and where it lies.")


EXPERIMENT = Experiment(
    name="rotation",
    title="SSW_2, SSW_1 and SW_2 between two von Mises-Fisher distributions, against the angle of their means",
    section="Appendix C.1, Figure 'Evolution of SW between vMF samples'",
    paper="A bell that is highest where the means are opposite (180 degrees), with the same shape for the three "
    "distances and different scales. No numbers are printed.",
    presets={
        "quick": Config(dims=(3, 10), steps=(0, 3, 6, 9, 12), n_projections=200, runs=5),
        "cpu": Config(),
        "paper": Config(),
    },
    run=run,
    plot=plot,
    summarize=summarize,
    measured=tuple(_DISTANCES),
)
