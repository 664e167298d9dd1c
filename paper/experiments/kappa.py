"""KL and SSW between von Mises-Fisher and uniform distributions, against the concentration (Appendix C.1)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.distributions import kl_divergence

import sphereot
from paper.common import by_run, means, select
from paper.experiment import Experiment, Table
from paper.run_context import Row, RunContext
from sphereot import plotting
from sphereot.distributions import HypersphericalUniform, VonMisesFisher
from sphereot.stats._kernel_spectrum import gegenbauer_eigenvalues


@dataclass(frozen=True)
class Config:
    """Dimensions d of the space around the sphere, concentrations, sample size, slices, repetitions.

    The dimensions are those of the authors' program; the paper does not print them.
    """

    dims: tuple[int, ...] = (3, 25, 50, 100)
    kappas: tuple[float, ...] = (1, 5, 10, 20, 30, 40, 50, 75, 100, 150, 200, 250)
    n: int = 500
    n_projections: int = 100
    runs: int = 10


def run(config: Config, context: RunContext) -> list[Row]:
    """Compute SSW_2^2 between samples of both, and to the exact uniform distribution; KL by its closed form.

    Points are new in every run. "ssw_same" has the same points in every run, as in the authors' program, so that its
    spread is that of the great circles alone.
    """

    def work(dim: int, kappa: float, run: int, seed: int) -> Row:
        distribution, uniform = _distributions(dim, kappa)

        def draw(generator: torch.Generator) -> list[torch.Tensor]:
            return [each.sample((config.n,), seed=generator) for each in (distribution, uniform)]

        generator = torch.Generator().manual_seed(seed)
        pair_seed = context.unit_seed({"part": "the pair", "dim": dim, "kappa": kappa})
        x, y = draw(generator)
        slices: dict[str, Any] = {"n_projections": config.n_projections, "seed": generator}
        return {
            "kl": kl_divergence(distribution, uniform),
            "exact": integrate_ssw(dim, kappa),
            "ssw": sphereot.ssw(x, y, **slices),
            "ssw_same": sphereot.ssw(*draw(torch.Generator().manual_seed(pair_seed)), **slices),
            "ssw_uniform": sphereot.ssw_uniform(x, **slices),
        }

    units = [{"dim": d, "kappa": k, "run": r} for d in config.dims for k in config.kappas for r in range(config.runs)]
    return context.measure("kappa", units, work)


def integrate_ssw(dim: int, kappa: float) -> float:
    """Compute SSW_2^2 between the two distributions themselves: no points, all great circles.

    By Parseval it is the sum over degrees l of the eigenvalue of K_d times m_l A_l^2, the squared norm of the component
    of degree l of the density. A_l = I_{d/2-1+l}(kappa) / I_{d/2-1}(kappa) is the mean of the Gegenbauer polynomial of
    degree l with the value 1 at the pole.

    >>> round(integrate_ssw(3, 10.0), 6)
    0.046145
    """
    spectrum = gegenbauer_eigenvalues(dim, 100 + int(2 * kappa))
    # Ratios of successive Bessel functions; this recurrence is stable downwards and neither underflows nor overflows.
    ratios = np.empty(len(spectrum.degrees))
    ratio = 0.0
    for degree in spectrum.degrees[::-1]:
        ratio = 1.0 / (2.0 * (dim / 2 - 1 + degree) / kappa + ratio)
        ratios[degree - 1] = ratio
    return float(np.sum(spectrum.shares * np.cumprod(ratios) ** 2))


def plot(rows: list[Row], config: Config) -> dict[str, Any]:
    """Draw KL, and SSW as in the paper and on logarithmic axes; lines are exact, points and bands are measured."""
    from matplotlib.figure import Figure

    grid = np.geomspace(min(config.kappas), max(config.kappas), 60)
    with plotting.style():
        figure = Figure(figsize=(6.8, 2.7), layout="constrained")
        left, *others = figure.subplots(1, 3)
        for dim, color in zip(config.dims, plotting.PALETTE, strict=False):
            selected = select(rows, dim=dim)
            runs = by_run(selected, "kappa", "ssw")
            left.plot(*means(selected, "kappa", "kl"), color=color, label=f"d = {dim}")
            for ax in others:
                ax.plot(grid, [integrate_ssw(dim, kappa) for kappa in grid], color=color)
                log = "both" if ax is others[1] else False
                plotting.evolution(*runs, ax=ax, log=log, color=color, ls="none", marker="o")
        others[1].axhline(1 / (6 * config.n), color="black", linestyle=":", label="1 / (6 n), two uniform samples")
        for ax, title in zip(figure.axes, ("(a) Kullback-Leibler", "(b) SSW", "(c) SSW, log axes"), strict=True):
            label = "KL(vMF, uniform) [nats]" if ax is left else r"$SSW_2^2$ [turns$^2$]"
            ax.set(xlabel=r"concentration $\kappa$", ylabel=label, title=title)
        handles = [handle for ax in (left, others[1]) for handle in ax.get_legend_handles_labels()[0]]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return {"kappa": figure}


def summarize(rows: list[Row], config: Config) -> Table:
    """Tabulate KL, SSW and its exact value at the smallest and largest concentration."""
    low, high = min(config.kappas), max(config.kappas)
    lines = []
    for dim in config.dims:
        cells = [str(dim)]
        for name in ("kl", "ssw", "exact"):
            kappas, values = means(select(rows, dim=dim), "kappa", name)
            cells += [f"{value:.4g}" for kappa, value in zip(kappas, values, strict=True) if kappa in (low, high)]
        lines.append(cells)
    names = ("KL", "SSW_2^2", "exact SSW_2^2")
    columns = ("d", *(f"{name}, kappa={kappa:g}" for name in names for kappa in (low, high)))
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
    measured=("kl", "exact", "ssw", "ssw_same", "ssw_uniform"),
)
