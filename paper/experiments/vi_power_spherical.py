"""Variational inference of a power spherical distribution by a power spherical sampler, with SSW (Appendix C.5)."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from paper.common import by_run, select
from paper.experiment import Experiment, Table
from paper.run_context import Checkpoint, Row, RunContext
from sphereot import plotting
from sphereot.distributions import PowerSpherical
from sphereot.optim import RiemannianSGD
from sphereot.sampling import PowerSphericalSampler, fit_sampler

_MEAN, _KAPPA = (0.0, 1.0, 0.0), 10.0  # of the target
_START_MEAN, _START_KAPPA = (1.0, 1.0, 1.0), 0.1


@dataclass(frozen=True)
class Config:
    """Steps of the fit and how often it is evaluated; points, Langevin steps, slices, learning rates, runs.

    Attributes
    ----------
    study : tuple of (label, n_particles, mcmc_steps, step_size, metropolis)
        Fits that start at the target, to see where kappa settles and why: `study_runs` of each, of `study_steps` steps
        with `study_projections` slices. The mean of kappa is over the last two thirds of the steps.
    """

    steps: int = 2000
    record_every: int = 50
    n_particles: int = 500
    mcmc_steps: int = 20
    step_size: float = 1e-3
    n_projections: int = 1000
    lr_mean: float = 2.0
    lr_kappa: float = 200.0
    runs: int = 5
    study: tuple[tuple[str, int, int, float, bool], ...] = (
        ("as above", 500, 20, 1e-3, False),
        ("half the step, twice as many", 500, 40, 5e-4, False),
        ("Metropolis-corrected", 500, 20, 1e-3, True),
        ("125 points", 125, 20, 1e-3, False),
        ("2,000 points", 2000, 20, 1e-3, False),
    )
    study_runs: int = 3
    study_steps: int = 1200
    study_projections: int = 100


def run(config: Config, context: RunContext) -> list[Row]:
    """Record mean direction and concentration along the fit, one row per evaluation; then the study of kappa."""

    def fit(run: int, seed: int, checkpoint: Checkpoint) -> Row:
        sampler = PowerSphericalSampler(torch.tensor(_START_MEAN), _START_KAPPA)
        records = _fit(
            sampler,
            config,
            steps=config.steps,
            n_particles=config.n_particles,
            mcmc_steps=config.mcmc_steps,
            step_size=config.step_size,
            n_projections=config.n_projections,
            evaluate_every=config.record_every,
            seed=seed,
            checkpoint=checkpoint,
        )
        return {"curve": [[step, *values] for step, values in records]}

    def settle(label: str, run: int, seed: int, checkpoint: Checkpoint) -> Row:
        _, n_particles, mcmc_steps, step_size, metropolis = next(item for item in config.study if item[0] == label)
        records = _fit(
            PowerSphericalSampler(torch.tensor(_MEAN), _KAPPA),
            config,
            steps=config.study_steps,
            n_particles=n_particles,
            mcmc_steps=mcmc_steps,
            step_size=step_size,
            metropolis=metropolis,
            n_projections=config.study_projections,
            evaluate_every=10,
            seed=seed,
            checkpoint=checkpoint,
        )
        kappa = [values[3] for step, values in records if step > config.study_steps // 3]
        return {"n_particles": n_particles, "step_size": step_size, "kappa": float(np.mean(kappa))}

    fits = context.measure("fit", [{"run": r} for r in range(config.runs)], fit, checkpoints=True)
    rows = [_row(unit["run"], *values) for unit in fits for values in unit["curve"]]
    units = [{"label": item[0], "run": r} for item in config.study for r in range(config.study_runs)]
    return rows + context.measure("study", units, settle, checkpoints=True)


def _fit(sampler: PowerSphericalSampler, config: Config, **options: Any) -> list[tuple[int, list[float]]]:
    """Fit a sampler to the target; its mean direction and concentration along the fit."""
    target = PowerSpherical(torch.tensor(_MEAN), _KAPPA, validate_args=False)

    def parameters(step: int, sampler: PowerSphericalSampler) -> list[float]:
        return [*sampler.distribution().loc.tolist(), sampler.distribution().concentration.item()]

    optimizers = [
        RiemannianSGD([sampler.loc], lr=config.lr_mean),
        torch.optim.SGD([sampler.concentration], lr=config.lr_kappa),
    ]
    fit = fit_sampler(lambda x: -target.log_prob(x), sampler, optimizer=optimizers, evaluate=parameters, **options)
    return fit.records


def _row(run: int, step: int, x: float, y: float, z: float, kappa: float) -> Row:
    return {
        "part": "fit",
        "run": run,
        "step": step,
        "kappa": kappa,
        "degrees": math.degrees(math.atan2(math.hypot(x, z), y)),
        "x": x,
        "y": y,
        "z": z,
    }


def plot(rows: list[Row], config: Config) -> dict[str, Any]:
    """Draw the densities of the first run next to the target, as in the paper, and the parameters along the fit."""
    from matplotlib.figure import Figure

    with plotting.style():
        maps = Figure(figsize=(6.8, 1.7))
        fits = select(rows, part="fit")
        first = {row["step"]: row for row in select(fits, run=0)}
        half, last = config.steps // 2, config.steps
        shown = [("target", _MEAN, _KAPPA)]
        for title, step in (("start", 0), (f"step {half}", half), (f"step {last}", last)):
            row = first[step]
            shown.append((title, (row["x"], row["y"], row["z"]), row["kappa"]))
        grid = plotting.map_points(90)
        top = float(_density(_MEAN, _KAPPA, np.array([_MEAN]))[0])
        for k, (title, mean, kappa) in enumerate(shown):
            ax = maps.add_subplot(1, 4, k + 1, projection="mollweide")
            values = _density(mean, kappa, grid.reshape(-1, 3)).reshape(grid.shape[:2])
            plotting.density_map(values, ax=ax, vmax=top, colorbar=False, graticule="lines")
            ax.set_title(f"{title}, $\\kappa$ = {kappa:.3g}")
        mesh = maps.axes[0].collections[0]
        bar = maps.colorbar(mesh, ax=maps.axes, orientation="horizontal", shrink=0.4, aspect=40, pad=0.08)
        bar.set_label("density (sr$^{-1}$)")

        curves = Figure(figsize=(6.0, 2.4))
        left, right = curves.subplots(1, 2)
        plotting.evolution(*by_run(fits, "step", "degrees"), ax=left)
        plotting.evolution(*by_run(fits, "step", "kappa"), ax=right)
        left.set(xlabel="step", ylabel=r"angle to the target's $\mu$ [degrees]", ylim=(0, None))
        right.axhline(_KAPPA, color="0.5", linewidth=0.8, linestyle="--")
        right.set(xlabel="step", ylabel=r"concentration $\kappa$", ylim=(0, None))
    return {"vi_power_spherical": maps, "vi_power_spherical_curves": curves}


def _density(mean: Any, kappa: float, points: Any) -> Any:
    mean = torch.tensor(mean, dtype=torch.float64)
    distribution = PowerSpherical(mean / torch.linalg.vector_norm(mean), kappa)
    return distribution.log_prob(torch.as_tensor(points)).exp().numpy()


def summarize(rows: list[Row], config: Config) -> Table:
    """Tabulate the parameters at the start, half-way and at the end, and where kappa settles in the study."""
    lines = []
    for step in (0, config.steps // 2, config.steps):
        selected = select(rows, part="fit", step=step)
        degrees, kappa = ([row[name] for row in selected] for name in ("degrees", "kappa"))
        lines.append([f"{step:,}", f"{np.mean(degrees):.2f}", f"{max(degrees):.2f}", _mean_and_range(kappa)])
    for label, *_ in config.study:
        kappa = [row["kappa"] for row in select(rows, part="study", label=label)]
        lines.append([label, "", "", _mean_and_range(kappa)])
    note = f"Target: kappa = {_KAPPA:g}, angle 0. {config.runs} runs, Langevin step {config.step_size:g}. "
    note += "Rows with a label: fits that start at the target; mean of kappa over the last two thirds of the steps."
    return Table(("step", "angle [degrees]", "greatest angle", "kappa (least to greatest)"), lines, note)


def _mean_and_range(values: list[float]) -> str:
    return f"{np.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})"


EXPERIMENT = Experiment(
    name="vi_power_spherical",
    title="SSW variational inference of a power spherical distribution",
    section="Appendix C.5, Figure 'SWVI on Power Spherical Distributions with Mollweide projections'",
    paper="After 2000 steps from mu = (1, 1, 1), kappa = 0.1, the learned distribution is 'close enough' to the target "
    "with mu = (0, 1, 0), kappa = 10; pictures only, at steps 0, 1000 and 2000.",
    presets={
        "quick": Config(
            steps=300,
            record_every=10,
            n_particles=200,
            n_projections=30,
            runs=2,
            study=(("125 points", 125, 20, 1e-3, False),),
            study_runs=1,
            study_steps=60,
            study_projections=30,
        ),
        "cpu": Config(runs=2),
        "paper": Config(),
    },
    run=run,
    plot=plot,
    summarize=summarize,
    measured=("kappa", "degrees", "x", "y", "z"),
)
