"""Sample complexity of SSW and of the geodesic Wasserstein distance (Appendix C.1)."""

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
from sphereot import plotting, sphere
from sphereot.distributions import HypersphericalUniform


@dataclass(frozen=True)
class Config:
    """Dimensions, sample sizes (the linear program stops at `largest_program`), slices, repetitions."""

    dims: tuple[int, ...] = (3, 10, 50, 100)
    sizes: tuple[int, ...] = (10, 32, 100, 316, 1000, 3162, 10000)
    largest_program: int = 1000
    n_projections: int = 200
    runs: int = 20


def run(config: Config, context: RunContext) -> list[Row]:
    """Compute SSW_2 and W_2 between two uniform samples, both in turns."""

    def work(dim: int, n: int, run: int, seed: int) -> Row:
        generator = torch.Generator().manual_seed(seed)
        distribution = HypersphericalUniform(dim, dtype=torch.float64)
        x, y = (distribution.sample((n,), seed=generator) for _ in range(2))
        row: Row = {"ssw": sphereot.ssw(x, y, n_projections=config.n_projections, seed=generator, root=True)}
        if n <= config.largest_program:
            turns = sphere.geodesic_distance(x[:, None, :], y[None, :, :]).numpy() / (2 * math.pi)
            row["w"] = math.sqrt(ot.emd2([], [], turns**2, numItermax=10_000_000))
        return row

    units = [{"dim": d, "n": n, "run": r} for d in config.dims for n in config.sizes for r in range(config.runs)]
    return context.measure("samples", units, work)


def plot(rows: list[Row], config: Config) -> dict[str, Any]:
    """Draw both distances against the sample size: SSW solid, W dashed."""
    from matplotlib.figure import Figure

    with plotting.style():
        figure = Figure(figsize=(3.8, 3.0))
        ax = figure.subplots()
        for dim, color in zip(config.dims, plotting.PALETTE, strict=False):
            selected = select(rows, dim=dim)
            plotting.evolution(*by_run(selected, "n", "ssw"), ax=ax, color=color, label=f"SSW, d = {dim}", log="both")
            solved = by_run([row for row in selected if "w" in row], "n", "w")
            plotting.evolution(*solved, ax=ax, color=color, label=f"W, d = {dim}", log="both", linestyle="--")
        ax.set(xlabel="sample size $n$", ylabel="distance of order 2 [turns]")
        ax.legend(ncols=2, fontsize=6)
    return {"samples": figure}


def summarize(rows: list[Row], config: Config) -> Table:
    """Tabulate the exponents of n, fitted over the sizes of at least 100."""
    lines = []
    for dim in config.dims:
        selected = [row for row in select(rows, dim=dim) if row["n"] >= min(100, sorted(config.sizes)[-2])]
        slopes = [_exponent(*means([row for row in selected if name in row], "n", name)) for name in ("ssw", "w")]
        rate = f"-1/{dim - 1}" if dim > 3 else "-1/2, with a logarithm"
        lines.append([str(dim), *(f"{slope:.3f}" for slope in slopes), "-1/2", rate])
    note = "Slope of log distance against log n, least squares over n of at least 100; theory for n to infinity."
    return Table(("d", "SSW_2", "W_2", "theory, SSW", "theory, W"), lines, note)


def _exponent(sizes: Any, values: Any) -> float:
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


EXPERIMENT = Experiment(
    name="samples",
    title="Sample complexity of SSW and of the geodesic Wasserstein distance",
    section="Appendix C.1, Figure 'Spherical Sliced-Wasserstein and Wasserstein distance between samples of the "
    "uniform'",
    paper="The rate of SSW does not depend on the dimension; that of W does. No numbers are printed.",
    presets={
        "quick": Config(dims=(3, 10), sizes=(10, 32, 100, 316), largest_program=316, runs=5),
        "cpu": Config(),
        "paper": Config(),
    },
    run=run,
    plot=plot,
    summarize=summarize,
    measured=("ssw", "w"),
)
