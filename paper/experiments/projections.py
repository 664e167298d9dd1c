"""SSW against the number of great circles and the method to draw them (Appendix C.1)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import sphereot
from paper.common import by_run, select
from paper.experiment import Experiment, Table
from paper.experiments.kappa import integrate_ssw
from paper.run_context import Row, RunContext
from sphereot import plotting
from sphereot._arrays.types import Method
from sphereot.distributions import HypersphericalUniform, VonMisesFisher

_METHODS = ("iid", "orthogonal", "quasi")
_STYLES = {"iid": "-", "orthogonal": "--", "quasi": ":"}


@dataclass(frozen=True)
class Config:
    """Numbers of slices, concentrations (on S^2), dimensions (at `kappa`), sample size, repetitions.

    Concentrations and dimensions are those of the authors' program; the paper does not print them.
    """

    counts: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
    kappas: tuple[float, ...] = (1, 10, 20, 50, 100, 200)
    dims: tuple[int, ...] = (3, 100, 500, 1000, 2000)
    method_dims: tuple[int, ...] = (3, 10, 50)
    kappa: float = 10.0
    n: int = 500
    runs: int = 20
    method_runs: int = 100


def run(config: Config, context: RunContext) -> list[Row]:
    """Compute SSW_2^2 of one pair of samples, as in the authors' program, so that only great circles vary.

    "ssw_new" has new points in every run.
    """

    def measure(dim: int, kappa: float, count: int, run: int, seed: int) -> Row:
        generator = torch.Generator().manual_seed(seed)
        new = _samples(dim, kappa, config.n, generator)
        return {
            "exact": integrate_ssw(dim, kappa),
            "ssw": sphereot.ssw(*pair(dim, kappa), n_projections=count, seed=generator),
            "ssw_new": sphereot.ssw(*new, n_projections=count, seed=generator),
        }

    def by_method(dim: int, method: Method, count: int, run: int, seed: int) -> Row:
        x, y = pair(dim, config.kappa)
        frames = sphereot.great_circles(count, dim, method=method, seed=seed, like=x)
        return {"ssw": sphereot.ssw(x, y, projections=frames)}

    def pair(dim: int, kappa: float) -> tuple[torch.Tensor, torch.Tensor]:
        seed = context.unit_seed({"part": "the pair", "dim": dim, "kappa": kappa})
        return _samples(dim, kappa, config.n, torch.Generator().manual_seed(seed))

    def units(runs: int, **lists: Any) -> list[Row]:
        settings: list[Row] = [{}]
        for name, values in lists.items():
            settings = [setting | {name: value} for setting in settings for value in values]
        return [setting | {"run": r} for setting in settings for r in range(runs)]

    counts = config.counts
    rows = context.measure("kappas", units(config.runs, dim=(3,), kappa=config.kappas, count=counts), measure)
    rows += context.measure("dims", units(config.runs, dim=config.dims, kappa=(config.kappa,), count=counts), measure)
    of_methods = units(config.method_runs, dim=config.method_dims, method=_METHODS, count=counts)
    return rows + context.measure("methods", of_methods, by_method)


def _samples(dim: int, kappa: float, n: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    pole = torch.zeros(dim, dtype=torch.float64)
    pole[0] = 1.0
    distribution = VonMisesFisher(pole, torch.tensor(float(kappa), dtype=torch.float64))
    uniform = HypersphericalUniform(dim, dtype=torch.float64)
    return distribution.sample((n,), seed=generator), uniform.sample((n,), seed=generator)


def plot(rows: list[Row], config: Config) -> dict[str, Any]:
    """Draw SSW by concentration and by dimension with exact values, and the standard deviation of each method."""
    from matplotlib.figure import Figure

    with plotting.style():
        figure = Figure(figsize=(6.6, 3.0))
        axes = figure.subplots(1, 2)
        panels: list[tuple[str, str, str, tuple[float, ...]]] = [
            ("kappas", "kappa", r"$\kappa$", config.kappas),
            ("dims", "dim", "d", config.dims),
        ]
        for ax, (part, name, symbol, values) in zip(axes, panels, strict=True):
            for value, color in zip(values, plotting.PALETTE, strict=False):
                selected = select(rows, part=part, **{name: value})
                runs = by_run(selected, "count", "ssw")
                plotting.evolution(*runs, ax=ax, label=f"{symbol} = {value:g}", log="both", color=color)
                ax.axhline(selected[0]["exact"], color=color, linestyle=":")
        axes[0].set(xlabel="great circles $L$", ylabel=r"$SSW_2^2$ [turns$^2$]", title="(a) d = 3")
        axes[1].set(xlabel="great circles $L$", title=rf"(b) $\kappa$ = {config.kappa:g}")
        for ax in axes:
            ax.plot([], [], color="black", linestyle=":", label="exact, no sample")
            ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=3)

        methods = Figure(figsize=(3.8, 2.9))
        ax = methods.subplots()
        for dim, color in zip(config.method_dims, plotting.PALETTE, strict=False):
            for method in _METHODS:
                counts, spread = _spread(rows, dim, method)
                label = f"d = {dim}, {method}"
                ax.plot(counts, spread, _STYLES[method], color=color, marker="o", label=label)
        ax.set(xscale="log", yscale="log", xlabel="great circles $L$", ylabel="standard deviation [turns$^2$]")
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
    measured=("exact", "ssw", "ssw_new"),
)
