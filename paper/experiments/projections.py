"""SSW against the number of great circles and the method to draw them (Appendix C.1)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import sphereot
from paper.common import by_run, select
from paper.experiment import Experiment, Table
from paper.run_context import Row, RunContext
from sphereot import plotting
from sphereot._arrays.types import Method
from sphereot.distributions import HypersphericalUniform, VonMisesFisher

_METHODS = ("iid", "orthogonal", "quasi")
_STYLES = {"iid": "-", "orthogonal": "--", "quasi": ":"}


@dataclass(frozen=True)
class Config:
    """Numbers of slices, concentrations (on S^2), dimensions (at `kappa`), sample size, repetitions."""

    counts: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
    kappas: tuple[float, ...] = (1, 10, 50, 100)
    dims: tuple[int, ...] = (3, 10, 50, 100)
    method_dims: tuple[int, ...] = (3, 10, 50)
    kappa: float = 10.0
    n: int = 500
    runs: int = 20
    method_runs: int = 100


def run(config: Config, context: RunContext) -> list[Row]:
    """Compute SSW_2^2 of new samples in every run, as in the paper, and of one fixed pair, so that only slices vary."""

    def fresh(dim: int, kappa: float, count: int, run: int, seed: int) -> Row:
        generator = torch.Generator().manual_seed(seed)
        x, y = _samples(dim, kappa, config.n, generator)
        return {"ssw": sphereot.ssw(x, y, n_projections=count, seed=generator)}

    def same(dim: int, method: Method, count: int, run: int, seed: int) -> Row:
        generator = torch.Generator().manual_seed(context.unit_seed({"part": "the pair", "dim": dim}))
        x, y = _samples(dim, config.kappa, config.n, generator)
        frames = sphereot.great_circles(count, dim, method=method, seed=seed, like=x)
        return {"ssw": sphereot.ssw(x, y, projections=frames)}

    def units(runs: int, **lists: Any) -> list[Row]:
        settings: list[Row] = [{}]
        for name, values in lists.items():
            settings = [setting | {name: value} for setting in settings for value in values]
        return [setting | {"run": r} for setting in settings for r in range(runs)]

    counts = config.counts
    rows = context.measure("kappas", units(config.runs, dim=(3,), kappa=config.kappas, count=counts), fresh)
    rows += context.measure("dims", units(config.runs, dim=config.dims, kappa=(config.kappa,), count=counts), fresh)
    by_method = units(config.method_runs, dim=config.method_dims, method=_METHODS, count=counts)
    return rows + context.measure("methods", by_method, same)


def _samples(dim: int, kappa: float, n: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    pole = torch.zeros(dim, dtype=torch.float64)
    pole[0] = 1.0
    distribution = VonMisesFisher(pole, torch.tensor(float(kappa), dtype=torch.float64))
    uniform = HypersphericalUniform(dim, dtype=torch.float64)
    return distribution.sample((n,), seed=generator), uniform.sample((n,), seed=generator)


def plot(rows: list[Row], config: Config) -> dict[str, Any]:
    """Draw SSW by concentration and by dimension, and the standard deviation of each method."""
    from matplotlib.figure import Figure

    with plotting.style():
        figure = Figure(figsize=(6.6, 2.8))
        left, right = figure.subplots(1, 2)
        for kappa in config.kappas:
            runs = by_run(select(rows, part="kappas", kappa=kappa), "count", "ssw")
            plotting.evolution(*runs, ax=left, label=rf"$\kappa$ = {kappa:g}", log="x")
        for dim in config.dims:
            runs = by_run(select(rows, part="dims", dim=dim), "count", "ssw")
            plotting.evolution(*runs, ax=right, label=f"d = {dim}", log="x")
        left.set(xlabel="projections $L$", ylabel=r"$SSW_2^2$ [turns$^2$]", title="(a) d = 3", ylim=(0, None))
        right.set(xlabel="projections $L$", title=rf"(b) $\kappa$ = {config.kappa:g}", ylim=(0, None))
        for ax in (left, right):
            ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=4)

        methods = Figure(figsize=(3.8, 2.9))
        ax = methods.subplots()
        for dim, color in zip(config.method_dims, plotting.PALETTE, strict=False):
            for method in _METHODS:
                counts, spread = _spread(rows, dim, method)
                label = f"d = {dim}, {method}"
                ax.plot(counts, spread, _STYLES[method], color=color, marker="o", label=label)
        ax.set(xscale="log", yscale="log", xlabel="projections $L$", ylabel="standard deviation [turns$^2$]")
        ax.legend(fontsize=6)
    return {"projections": figure, "methods": methods}


def _spread(rows: list[Row], dim: int, method: str) -> tuple[Any, Any]:
    counts, values = by_run(select(rows, part="methods", dim=dim, method=method), "count", "ssw")
    return counts, np.maximum(values.std(axis=0, ddof=1), 1e-12)


def summarize(rows: list[Row], config: Config) -> Table:
    """Tabulate the relative standard deviation per method, at three numbers of great circles."""
    shown = [config.counts[len(config.counts) // 3], config.counts[2 * len(config.counts) // 3], config.counts[-1]]
    lines = []
    for dim in config.method_dims:
        for method in _METHODS:
            selected = select(rows, part="methods", dim=dim, method=method)
            counts, values = by_run(selected, "count", "ssw")
            relative = values.std(axis=0, ddof=1) / values.mean(axis=0)
            cells = [f"{100 * r:.2g} %" for c, r in zip(counts, relative, strict=True) if c in shown]
            lines.append([str(dim), method, *cells])
    note = f"Standard deviation over its mean of SSW_2^2 of one pair of samples, {config.method_runs} draws of slices."
    return Table(("d", "method", *(f"L = {count}" for count in shown)), lines, note)


EXPERIMENT = Experiment(
    name="projections",
    title="SSW against the number of great circles, drawn in three ways",
    section="Appendix C.1, Figure 'Influence of the number of projections'",
    paper="For around 100 projections the variance seems low enough. No numbers are printed.",
    presets={
        "quick": Config(
            counts=(1, 5, 20, 100), kappas=(1, 10), dims=(3, 10), method_dims=(3, 10), runs=5, method_runs=20
        ),
        "cpu": Config(),
        "paper": Config(),
    },
    run=run,
    plot=plot,
    summarize=summarize,
    measured=("ssw",),
)
