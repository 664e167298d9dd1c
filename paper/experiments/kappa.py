"""KL and SSW between von Mises-Fisher and uniform distributions, against the concentration (Appendix C.1)."""

from dataclasses import dataclass
from typing import Any

import torch
from torch.distributions import kl_divergence

import sphereot
from paper.common import by_run, means, select
from paper.experiment import Experiment, Table
from paper.run_context import Row, RunContext
from sphereot import plotting
from sphereot.distributions import HypersphericalUniform, VonMisesFisher


@dataclass(frozen=True)
class Config:
    """Dimensions d of the space around the sphere, concentrations, sample size, slices, repetitions."""

    dims: tuple[int, ...] = (3, 5, 10, 20, 50, 100)
    kappas: tuple[float, ...] = (1, 5, 10, 20, 30, 40, 50, 75, 100, 150, 200, 250)
    n: int = 500
    n_projections: int = 100
    runs: int = 10


def run(config: Config, context: RunContext) -> list[Row]:
    """Compute SSW_2^2 between samples of both, and to the exact uniform distribution; KL by its closed form."""

    def work(dim: int, kappa: float, run: int, seed: int) -> Row:
        generator = torch.Generator().manual_seed(seed)
        distribution, uniform = _distributions(dim, kappa)
        x, y = (each.sample((config.n,), seed=generator) for each in (distribution, uniform))
        slices: dict[str, Any] = {"n_projections": config.n_projections, "seed": generator}
        return {
            "kl": kl_divergence(distribution, uniform),
            "ssw": sphereot.ssw(x, y, **slices),
            "ssw_uniform": sphereot.ssw_uniform(x, **slices),
        }

    units = [{"dim": d, "kappa": k, "run": r} for d in config.dims for k in config.kappas for r in range(config.runs)]
    return context.measure("kappa", units, work)


def plot(rows: list[Row], config: Config) -> dict[str, Any]:
    """Draw KL on the left, SSW on the right."""
    from matplotlib.figure import Figure

    with plotting.style():
        figure = Figure(figsize=(6.6, 2.6))
        left, right = figure.subplots(1, 2)
        for dim in config.dims:
            selected = select(rows, dim=dim)
            left.plot(*means(selected, "kappa", "kl"), marker="o", label=f"d = {dim}")
            plotting.evolution(*by_run(selected, "kappa", "ssw"), ax=right, label=f"d = {dim}", marker="o")
        left.set(xlabel=r"concentration $\kappa$", ylabel="KL(vMF, uniform) [nats]", title="(a) Kullback-Leibler")
        right.set(xlabel=r"concentration $\kappa$", ylabel=r"$SSW_2^2$ [turns$^2$]", title="(b) SSW")
        left.legend()
    return {"kappa": figure}


def summarize(rows: list[Row], config: Config) -> Table:
    """Tabulate KL and SSW at the smallest and largest concentration."""
    low, high = min(config.kappas), max(config.kappas)
    lines = []
    for dim in config.dims:
        cells = [str(dim)]
        for name in ("kl", "ssw"):
            kappas, values = means(select(rows, dim=dim), "kappa", name)
            cells += [f"{value:.4g}" for kappa, value in zip(kappas, values, strict=True) if kappa in (low, high)]
        lines.append(cells)
    columns = ("d", f"KL, kappa={low:g}", f"KL, kappa={high:g}", f"SSW_2^2, kappa={low:g}", f"SSW_2^2, kappa={high:g}")
    return Table(columns, lines, "SSW_2^2 in square turns; mean over runs.")


def _distributions(dim: int, kappa: float) -> tuple[VonMisesFisher, HypersphericalUniform]:
    pole = torch.zeros(dim, dtype=torch.float64)
    pole[0] = 1.0
    return VonMisesFisher(pole, torch.tensor(float(kappa), dtype=torch.float64)), HypersphericalUniform(
        dim, dtype=torch.float64
    )


EXPERIMENT = Experiment(
    name="kappa",
    title="KL and SSW between von Mises-Fisher and uniform, against the concentration",
    section="Appendix C.1, Figure 'Evolution w.r.t. kappa between vMF(mu, kappa) and vMF(., 0)'",
    paper="Both grow with kappa; KL grows with the dimension, SSW seems to get lower with it. No numbers are printed.",
    presets={
        "quick": Config(dims=(3, 10), kappas=(1, 10, 50, 250), runs=3),
        "cpu": Config(),
        "paper": Config(),
    },
    run=run,
    plot=plot,
    summarize=summarize,
    measured=("kl", "ssw", "ssw_uniform"),
)
