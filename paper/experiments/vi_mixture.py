"""Variational inference of a mixture of four von Mises-Fisher distributions, by SSW and by SW (Appendix C.5)."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from paper.common import by_run, select
from paper.experiment import Experiment, Table
from paper.run_context import Checkpoint, Row, RunContext
from sphereot import plotting, sphere
from sphereot.distributions import VonMisesFisher
from sphereot.flows import ExponentialMapFlow, Flow
from sphereot.plotting.difference import DIFFERENCE_COLORS
from sphereot.sampling import effective_sample_size, fit_sampler

_METHODS = {"ssw": "SSWVI", "sw": "SWVI", "ssw_exact": "SSWVI, corrected"}
_CONCENTRATION = 10.0
# Longitude and polar angle. The paper prints the polar angle first, without pi / 2 and with 0.5 in place of 5. These
# values are from its code, and from Rezende et al. (2020), who proposed the target.
_MODES = ((1.5, 0.7 + math.pi / 2), (1.0, -1.0 + math.pi / 2), (5.0, 0.6 + math.pi / 2), (4.0, -0.7 + math.pi / 2))


@dataclass(frozen=True)
class Config:
    """The fit, how often and with how many points it is evaluated, the flow, and runs of each method.

    The paper gives steps, Langevin steps and their size, learning rate, blocks and components. The number of points is
    that of its other example, and the authors' program has 1,000 great circles (preset "circles"); slices and the
    initial flow are ours: equal weights 1 / (components + 1).
    `exact_runs` are with the Metropolis correction, which the paper suggests and does not try.
    """

    steps: int = 10_000
    record_every: int = 250
    n_blocks: int = 6
    n_components: int = 5
    n_particles: int = 500
    mcmc_steps: int = 20
    step_size: float = 0.1
    lr: float = 1e-3
    n_projections: int = 200
    ess_points: int = 10_000
    runs: int = 10
    exact_runs: int = 3


def modes() -> Tensor:
    """Mean directions of the four components, shape (4, 3).

    >>> modes().shape
    torch.Size([4, 3])
    """
    lonlat = [(math.degrees(theta), 90.0 - math.degrees(phi)) for theta, phi in _MODES]
    points: Tensor = sphere.from_lonlat(torch.tensor(lonlat, dtype=torch.float64))
    return points


_MEANS = modes().float()


def run(config: Config, context: RunContext) -> list[Row]:
    """Record the effective sample size along each fit, and at its end the shares of the modes."""

    def work(method: str, run: int, seed: int, checkpoint: Checkpoint) -> Row:
        # All methods of a run start from the same flow, with the same noise.
        run_seed = context.unit_seed({"run": run})
        flow = _flow(config, run_seed)

        def ess_after(step: int, flow: Flow) -> float:
            return _ess(flow, config, run_seed + step)[0]

        fit = fit_sampler(
            _potential,
            flow,
            steps=config.steps,
            n_particles=config.n_particles,
            mcmc_steps=config.mcmc_steps,
            step_size=config.step_size,
            metropolis=method == "ssw_exact",
            loss="sw" if method == "sw" else "ssw",
            n_projections=config.n_projections,
            lr=config.lr,
            seed=run_seed,
            evaluate=ess_after,
            evaluate_every=config.record_every,
            checkpoint=checkpoint,
        )
        ess, points = _ess(flow, config, run_seed)
        nearest = (points @ modes().to(points.dtype).T).argmax(-1)
        shares = (nearest.bincount(minlength=4) / len(points)).tolist()
        return {
            "ess": ess,
            "least_share": min(shares),
            "greatest_share": max(shares),
            "curve": [list(record) for record in fit.records],
            "parameters": parameters_to_vector(flow.parameters()).tolist(),
        }

    runs = {"ssw": config.runs, "sw": config.runs, "ssw_exact": config.exact_runs}
    # Run by run, so that an interrupted experiment has both methods to compare.
    units = [{"method": name, "run": r} for r in range(config.runs) for name in _METHODS if r < runs[name]]
    rows = context.measure("fits", units, work, checkpoints=True)
    curves = [
        {"part": "ess", "method": row["method"], "run": row["run"], "step": step, "ess": ess}
        for row in rows
        for step, ess in row["curve"]
    ]
    return [{name: value for name, value in row.items() if name != "curve"} for row in rows] + curves


def _flow(config: Config, seed: int) -> Flow:
    strength = config.n_components / (config.n_components + 1)
    transform = ExponentialMapFlow(
        3, config.n_blocks, config.n_components, strength=strength, seed=seed, dtype=torch.float32
    )
    return Flow(transform, from_base=True)


def _potential(x: Tensor) -> Tensor:
    return -torch.logsumexp(_CONCENTRATION * (x @ _MEANS.T), -1)


def _ess(flow: Flow, config: Config, seed: int) -> tuple[float, Tensor]:
    """Estimate the effective sample size, in percent; returns also the points used."""
    with torch.no_grad():
        points, log_density = flow.rsample_and_log_prob((config.ess_points,), seed=seed)
        share = effective_sample_size(-_potential(points) - log_density, relative=True)
    return 100 * share.item(), points


def plot(rows: list[Row], config: Config) -> dict[str, Any]:
    """Draw the target, learned over target density of the first run, and the effective sample size along the fits."""
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    with plotting.style():
        maps = Figure(figsize=(6.6, 5.0))
        grid = plotting.map_points(120)
        flat = torch.as_tensor(grid.reshape(-1, 3))
        target = VonMisesFisher(modes(), _CONCENTRATION).log_prob(flat[:, None]).exp().mean(-1).numpy()
        fits = select(rows, part="fits", run=0)
        panels = [maps.add_subplot(2, 2, k + 1, projection="mollweide") for k in range(1 + len(fits))]
        options: dict[str, Any] = {"graticule": "lines", "label": "density [1/sr]"}
        plotting.density_map(target.reshape(grid.shape[:2]), ax=panels[0], **options)
        panels[0].set_title("target")
        # Outside the contours the target is almost zero, so the ratio exceeds the scale.
        scale = {"norm": LogNorm(1 / 8, 8), "cmap": DIFFERENCE_COLORS, "colorbar": False}
        for ax, row in zip(panels[1:], fits, strict=True):
            ratio = _evaluate_density(row["parameters"], flat, config) / target
            plotting.density_map(ratio.reshape(grid.shape[:2]), ax=ax, **(options | scale))
            ax.set_title(f"{_METHODS[row['method']]} / target")
        maps.suptitle("Contours are at 5 % and 50 % of the target's peak", fontsize=7)
        for ax in panels[1:]:
            angles = np.arctan2(grid[0, :, 1], grid[0, :, 0]), np.arcsin(grid[:, 0, 2])
            levels = target.max() * np.array([0.05, 0.5])
            ax.contour(*angles, target.reshape(grid.shape[:2]), levels=levels, colors="black", linewidths=0.6)
            bar = maps.colorbar(
                ax.collections[0], ax=ax, orientation="horizontal", shrink=0.6, aspect=30, pad=0.06, extend="both"
            )
            bar.set_ticks([1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8], labels=["1/8", "1/4", "1/2", "1", "2", "4", "8"])
            bar.minorticks_off()
            bar.set_label("learned density / target density")

        curves = Figure(figsize=(3.8, 2.8))
        ax = curves.subplots()
        for method, label in _METHODS.items():
            selected = select(rows, part="ess", method=method)
            if selected:
                n_runs = len({row["run"] for row in selected})
                plotting.evolution(
                    *by_run(selected, "step", "ess"),
                    ax=ax,
                    label=f"{label} ({n_runs} {'run' if n_runs == 1 else 'runs'})",
                )
        ax.set(xlabel="step", ylabel="effective sample size [%]", ylim=(0, 100))
        ax.legend(loc="lower right")
    return {"vi_mixture": maps, "vi_mixture_ess": curves}


def _evaluate_density(parameters: list[float], points: Tensor, config: Config) -> Any:
    flow = _flow(config, 0).double()
    vector_to_parameters(torch.tensor(parameters, dtype=torch.float64), flow.parameters())
    with torch.no_grad():
        return flow.log_prob(points).exp().numpy()


def summarize(rows: list[Row], config: Config) -> Table:
    """Tabulate the effective sample size half-way and at the end, and the shares of the modes."""
    half = config.steps // 2 // config.record_every * config.record_every
    lines = []
    for method, label in _METHODS.items():
        fits = select(rows, part="fits", method=method)
        if not fits:
            continue
        middle = [row["ess"] for row in select(rows, part="ess", method=method, step=half)]
        last = [row["ess"] for row in fits]
        spread = f" ± {np.std(last, ddof=1):.1f}" if len(last) > 1 else ""
        shares = f"{min(r['least_share'] for r in fits):.3f} to {max(r['greatest_share'] for r in fits):.3f}"
        lines.append([label, str(len(fits)), f"{np.mean(middle):.1f}", f"{np.mean(last):.1f}{spread}", shares])
    pairs = [{row["run"]: row["ess"] for row in select(rows, part="fits", method=method)} for method in ("ssw", "sw")]
    above = sum(pairs[0][run] > pairs[1][run] for run in pairs[1])
    note = (
        f"Effective sample size in percent, mean ± standard deviation over runs; SSWVI ends above SWVI in {above} of "
        f"{len(pairs[1])} runs. Each mode has a share of 0.25 of the target."
    )
    columns = ("method", "runs", f"ESS at {half:,} [%]", f"ESS at {config.steps:,} [%]", "shares of modes")
    return Table(columns, lines, note)


EXPERIMENT = Experiment(
    name="vi_mixture",
    title="SSW variational inference of a mixture of four von Mises-Fisher distributions, compared with SWVI",
    section="Appendix C.5, Figures 'SSWVI on mixture of vMF' and 'Comparison of the ESS between SWVI et SSWVI'",
    paper="The flow learns the four modes, and a figure compares the ESS of SSWVI and SWVI along the fit, mean over 10 "
    "runs. No numbers are printed.",
    presets={
        "quick": Config(
            steps=200,
            record_every=50,
            n_particles=200,
            n_projections=30,
            lr=0.02,
            ess_points=5000,
            runs=2,
            exact_runs=1,
        ),
        "cpu": Config(runs=2, exact_runs=1),
        "paper": Config(),
        # The great circles of the authors' program; fewer runs, because a run takes longer.
        "circles": Config(n_projections=1000, runs=3, exact_runs=1),
    },
    run=run,
    plot=plot,
    summarize=summarize,
    measured=("ess", "least_share", "greatest_share"),
)
