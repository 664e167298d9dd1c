"""Runtime of SSW and of other distances, against points, slices and dimensions (Figure 'Runtime comparison')."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import ot
import torch

import sphereot
from paper.common import select
from paper.experiment import Experiment, Table
from paper.run_context import Row, RunContext
from sphereot import plotting, sphere
from sphereot.distributions import HypersphericalUniform, VonMisesFisher


@dataclass(frozen=True)
class Config:
    """Sizes; where the curves of the slow methods end; slices; repetitions and the seconds after which they stop.

    `counts`, `curve_sizes` and `dims` are for the time of SSW_2 alone against slices, points and dimensions, with at
    most `largest_array` coordinates in a sample.
    """

    sizes: tuple[int, ...] = (100, 1000, 10_000, 50_000, 100_000, 500_000, 1_000_000)
    largest_matrix: int = 10_000
    largest_peer: int = 100_000
    n_projections: int = 200
    repeats: int = 20
    seconds: float = 20.0
    kappa: float = 10.0
    counts: tuple[int, ...] = (10, 30, 100, 300, 1000, 3000, 10_000)
    curve_sizes: tuple[int, ...] = (100, 1000, 10_000, 100_000, 1_000_000)
    dims: tuple[int, ...] = (3, 100, 1000)
    largest_array: int = 100_000_000


# ---- what is timed: functions of two float32 samples ----


def _wasserstein(x: torch.Tensor, y: torch.Tensor, n_projections: int) -> float:
    cost = _squared_geodesics(x, y)
    return float(ot.emd2([], [], cost, numItermax=100_000_000))


def _sinkhorn(x: torch.Tensor, y: torch.Tensor, n_projections: int) -> float:
    # The settings of the authors' program.
    options = {"reg": 1.0, "numItermax": 10_000, "stopThr": 1e-15, "warn": False}
    return float(ot.sinkhorn2([], [], _squared_geodesics(x, y), **options))


def _squared_geodesics(x: torch.Tensor, y: torch.Tensor) -> Any:
    # By the matrix product: for the cost of a plan the arccosine is accurate enough, and its time is the least.
    return np.arccos(np.clip(x.numpy().astype(np.float64) @ y.numpy().astype(np.float64).T, -1.0, 1.0)) ** 2


def _euclidean_sliced(x: torch.Tensor, y: torch.Tensor, n_projections: int) -> float:
    return float(ot.sliced_wasserstein_distance(x, y, n_projections=n_projections))


def _peer(x: torch.Tensor, y: torch.Tensor, n_projections: int) -> float:
    return float(ot.sliced_wasserstein_sphere(x, y, n_projections=n_projections))


def _ssw2(x: torch.Tensor, y: torch.Tensor, n_projections: int) -> float:
    return float(sphereot.ssw(x, y, n_projections=n_projections))


def _ssw1(x: torch.Tensor, y: torch.Tensor, n_projections: int) -> float:
    return float(sphereot.ssw(x, y, p=1, n_projections=n_projections))


def _ssw2_uniform(x: torch.Tensor, y: torch.Tensor, n_projections: int) -> float:
    return float(sphereot.ssw_uniform(x, n_projections=n_projections))


_METHODS: dict[str, tuple[str, Callable[[torch.Tensor, torch.Tensor, int], float]]] = {
    "wasserstein": ("W (POT, linear program)", _wasserstein),
    "sinkhorn": ("Sinkhorn (POT, regularization 1)", _sinkhorn),
    "sw2": (r"$SW_2$ (POT)", _euclidean_sliced),
    "pot_ssw2": (r"$SSW_2$ (POT, bisection)", _peer),
    "ssw2": (r"$SSW_2$ (sphereot)", _ssw2),
    "ssw1": (r"$SSW_1$ (sphereot)", _ssw1),
    "ssw2_uniform": (r"$SSW_2$ to uniform (sphereot)", _ssw2_uniform),
}


# ---- the experiment ----


def run(config: Config, context: RunContext) -> list[Row]:
    """Time all methods on S^2; then SSW_2 by slices and dimension, and by points and dimension."""

    def on_sphere(method: str, n: int, seed: int) -> Row:
        x, y = _samples(3, n, config.kappa, seed)
        return _times(_METHODS[method][1], x, y, config.n_projections, config)

    def of_ssw(dim: int, n: int, count: int, seed: int) -> Row:
        x, y = _samples(dim, n, config.kappa, seed)
        return _times(_ssw2, x, y, count, config)

    largest = {"wasserstein": config.largest_matrix, "sinkhorn": config.largest_matrix, "pot_ssw2": config.largest_peer}
    methods = [
        {"method": method, "n": n} for method in _METHODS for n in config.sizes if n <= largest.get(method, math.inf)
    ]
    rows = context.measure("methods", methods, on_sphere)
    by_count = [{"dim": dim, "n": 500, "count": count} for dim in config.dims for count in config.counts]
    rows += context.measure("projections", by_count, of_ssw)
    by_size = [
        {"dim": dim, "n": n, "count": config.n_projections}
        for dim in config.dims
        for n in config.curve_sizes
        if dim * n <= config.largest_array
    ]
    return rows + context.measure("samples", by_size, of_ssw)


def _samples(dim: int, n: int, kappa: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    pole = torch.zeros(dim)
    pole[0] = 1.0
    x = VonMisesFisher(pole, torch.tensor(kappa)).sample((n,), seed=generator)
    return sphere.normalize(x), HypersphericalUniform(dim).sample((n,), seed=generator)


def _times(
    method: Callable[[torch.Tensor, torch.Tensor, int], float],
    x: torch.Tensor,
    y: torch.Tensor,
    count: int,
    config: Config,
) -> Row:
    if len(x) <= 1000:  # the first call includes loading, which is negligible for long calls
        method(x, y, count)
    times: list[float] = []
    while len(times) < config.repeats and sum(times) < config.seconds:
        start = time.perf_counter()
        method(x, y, count)
        times.append(time.perf_counter() - start)
    # The median: other work on the machine lengthens some runs, and a mean would show that work.
    return {
        "seconds": float(np.median(times)),
        "mean_seconds": float(np.mean(times)),
        "least_seconds": min(times),
        "repeats": len(times),
    }


def plot(rows: list[Row], config: Config) -> dict[str, Any]:
    """Draw all methods on log-log axes, and SSW_2 against slices and against points."""
    from matplotlib.figure import Figure

    with plotting.style():
        methods = Figure(figsize=(4.6, 3.2))
        ax = methods.subplots()
        for k, (method, (label, _)) in enumerate(_METHODS.items()):
            selected = select(rows, part="methods", method=method)
            ours = not method.startswith("pot") and method.startswith("ssw")
            line = "-" if ours else "--"
            _curve(ax, selected, "n", label, color=plotting.PALETTE[(3 + k) % 7], linestyle=line)
        ax.set(xlabel="points in each sample $n$", ylabel="time [s]", xscale="log", yscale="log")
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))

        alone = Figure(figsize=(6.6, 2.5))
        left, right = alone.subplots(1, 2)
        for ax, part, name in ((left, "projections", "count"), (right, "samples", "n")):
            for dim in config.dims:
                selected = select(rows, part=part, dim=dim)
                _curve(ax, selected, name, f"d = {dim:,}, exponent {_exponent(selected, name):.2f}")
            ax.legend()
        left.set(
            xlabel="great circles $L$", ylabel="time of SSW$_2$ [s]", xscale="log", yscale="log", title="(a) n = 500"
        )
        right.set(
            xlabel="points in each sample $n$", xscale="log", yscale="log", title=f"(b) L = {config.n_projections}"
        )
    return {"runtime": methods, "runtime_ssw": alone}


def _curve(ax: Any, rows: list[Row], x: str, label: str, **style: Any) -> None:
    ax.plot([row[x] for row in rows], [row["seconds"] for row in rows], marker="o", label=label, **style)


def _exponent(rows: list[Row], name: str) -> float:
    """Exponent of the time in the larger half of the values, where fixed costs matter least."""
    larger = rows[len(rows) // 2 :] if len(rows) > 3 else rows
    return float(np.polyfit(np.log([row[name] for row in larger]), np.log([row["seconds"] for row in larger]), 1)[0])


def summarize(rows: list[Row], config: Config) -> Table:
    """Tabulate seconds by method and size."""
    times = {(row["method"], row["n"]): row["seconds"] for row in select(rows, part="methods")}
    lines = []
    for method, (label, _) in _METHODS.items():
        cells = [f"{times[method, n]:.2g}" if (method, n) in times else "" for n in config.sizes]
        lines.append([label.replace("$", ""), *cells])
    note = (
        f"Seconds, median of up to {config.repeats} runs; {config.n_projections} slices; two samples on S^2, float32."
    )
    return Table(("method", *(f"n = {n:,}" for n in config.sizes)), lines, note)


EXPERIMENT = Experiment(
    name="runtime",
    title="Time of SSW compared with W, Sinkhorn, SW and the SSW of POT",
    section="Section 4, Figure 'Runtime comparison', and Appendix C.2",
    paper="On a GPU, for large samples SSW is much faster than W and grows quasi-linearly; for small ones it takes "
    "longer than W. SSW_1 and SSW_2 to uniform are the fastest. Time is linear in L. No numbers are printed.",
    presets={
        "quick": Config(
            sizes=(100, 1000),
            largest_matrix=1000,
            largest_peer=1000,
            n_projections=50,
            repeats=2,
            seconds=2.0,
            counts=(10, 100),
            curve_sizes=(100, 1000),
            dims=(3, 10),
        ),
        "cpu": Config(
            sizes=(100, 1000, 10_000, 50_000), largest_matrix=5000, largest_peer=10_000, repeats=5, seconds=5.0
        ),
        "paper": Config(),
    },
    run=run,
    plot=plot,
    summarize=summarize,
    measured=("seconds", "mean_seconds", "least_seconds", "repeats"),
)
