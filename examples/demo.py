"""Compare samples on the sphere, compare the speed with POT, find drift in a stream of windows, and let particles flow.

Run with `make demo`, or `python examples/demo.py [--out FOLDER]`. All data are made here: von Mises-Fisher mixtures.
"""

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import ot
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

import sphereot
from sphereot import plotting
from sphereot.report import drift_page
from sphereot.stats import drift_test

MEANS = sphereot.sphere.normalize(np.array([[1.0, 0.3, 0.2], [-0.4, 1.0, 0.5], [-0.3, -0.8, -0.6]]))
MOVED = sphereot.sphere.normalize(MEANS + np.array([[0, 0, 0], [0, 0, 0], [0.7, 0.6, 0.9]]))
KAPPA = 15.0


def mixture(n: int, means: np.ndarray = MEANS, kappa: float = KAPPA, seed: int = 0) -> np.ndarray:
    """Draw from a mixture of von Mises-Fisher distributions on S^2, of equal weights."""
    rng = np.random.default_rng(seed)
    mean = means[rng.integers(len(means), size=n)]
    height = 1 + np.log(rng.uniform(np.exp(-2 * kappa), 1, size=n)) / kappa  # the cdf along the mean, inverted
    side = sphereot.sphere.normalize(sphereot.sphere.to_tangent(mean, rng.normal(size=(n, 3))))
    return sphereot.sphere.normalize(height[:, None] * mean + np.sqrt(1 - height**2)[:, None] * side)


def distances(console: Console, x: np.ndarray, y: np.ndarray) -> None:
    """Distances with their Monte-Carlo standard errors."""
    table = Table(title="SSW_2^2 of two samples of 500 points on S^2, 1,000 great circles")
    for column in ("between", "value", "standard error", "SSW_2 in degrees"):
        table.add_column(column, justify="left" if column == "between" else "right")
    uniform = sphereot.sphere.random_uniform(500, 3, seed=1)
    for name, a, b in (
        ("first and second sample", x, y),
        ("first sample and uniform", x, None),
        ("500 uniform points and uniform", uniform, None),
    ):
        estimate = sphereot.ssw_estimate(a, b, n_projections=1000, seed=0)
        degrees = 360 * estimate.value**0.5
        table.add_row(name, f"{estimate.value:.5f}", f"{estimate.standard_error:.1e}", f"{degrees:.2f}")
    console.print(table)


def speed(console: Console) -> None:
    """Our time and POT's, in the same run."""
    table = Table(title=f"SSW_2, 200 great circles, {sphereot.get_num_threads()} threads")
    for column in ("points", "sphereot", "POT", "ratio"):
        table.add_column(column, justify="right")
    for n, repeats in ((500, 3), (2000, 1)):
        x, y = (sphereot.sphere.random_uniform(n, 3, seed=s).astype(np.float32) for s in (1, 2))
        ours = least_time(lambda x=x, y=y: sphereot.ssw(x, y, seed=0), 20)
        theirs = least_time(lambda x=x, y=y: ot.sliced_wasserstein_sphere(x, y, n_projections=200, seed=0), repeats)
        table.add_row(f"{n:,} and {n:,}", f"{1e3 * ours:.2f} ms", f"{1e3 * theirs:.0f} ms", f"{theirs / ours:.0f}x")
    console.print(table)


def least_time(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def picture(path: Path, x: np.ndarray, y: np.ndarray) -> None:
    """The points on a Mollweide map, and their projections on the great circle where they differ most."""
    frames = sphereot.great_circles(200, 3, seed=0)
    frame = frames[np.argmax(sphereot.ssw_estimate(x, y, projections=frames).slice_costs)]
    with plotting.style():
        figure = Figure(figsize=(7.2, 2.8))
        on_map = figure.add_subplot(1, 2, 1, projection="mollweide")
        for points, color, name in (
            (x, plotting.PALETTE[0], "first sample"),
            (y, plotting.PALETTE[1], "second sample"),
        ):
            plotting.scatter_map(points, ax=on_map, color=color, label=name)
        on_map.set_title("two samples of 500 points, blue and orange")
        on_circle = plotting.circle_projections([x, y], frame, ax=figure.add_subplot(1, 2, 2))
        on_circle.set_title("on the great circle where they differ most")
        plotting.save(on_map, path.with_suffix(""), formats=("png",))


def drift(console: Console, path: Path) -> None:
    """Compare six windows with a reference; in the last three, one component moves away. Ends in a report."""
    reference = mixture(1000, seed=10)
    shares = (0, 0, 0, 0.4, 0.7, 1)
    on_the_way = [sphereot.sphere.normalize((1 - share) * MEANS + share * MOVED) for share in shares]
    windows = [mixture(400, means, seed=20 + k) for k, means in enumerate(on_the_way)]
    labels = [f"week {k}" for k in range(1, len(windows) + 1)]
    found = drift_test(reference, windows, labels=labels, seed=0)
    drift_page(path, found, title="Demo: drift of a mixture on the sphere")
    console.print(str(found), highlight=False, soft_wrap=True)


def gradient_flow(path: Path) -> None:
    """Particles that start uniform and go down the gradient of SSW_2^2 to a sample of the mixture."""
    target, steps = mixture(500), (0, 10, 50, 200)
    result = sphereot.gradient_flow(
        target, n_particles=300, steps=steps[-1], n_projections=100, snapshots=steps, seed=0
    )
    with plotting.style():
        figure = Figure(figsize=(7.2, 4.2))
        for k, step in enumerate(steps):
            ax = figure.add_subplot(2, 2, k + 1, projection="mollweide")
            plotting.scatter_map(target, ax=ax, color="#B0B0B0")
            plotting.scatter_map(result.snapshots[step], ax=ax, color=plotting.PALETTE[1])
            ax.set_title(f"particles (orange) after {step} steps")
        plotting.save(ax, path.with_suffix(""), formats=("png",))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the pictures (default: out)")
    out = parser.parse_args().out
    console = Console()
    console.print(str(sphereot.info()), highlight=False)
    x, y = mixture(500, seed=0), mixture(500, MOVED, seed=1)
    distances(console, x, y)
    speed(console)
    picture(out / "demo.png", x, y)
    drift(console, out / "demo-drift.html")
    written = [("two samples", "demo.png"), ("drift report, for a browser", "demo-drift.html")]
    if find_spec("torch"):
        gradient_flow(out / "demo-flow.png")
        written.append(("gradient flow", "demo-flow.png"))
    else:
        console.print("The gradient flow needs PyTorch: pip install 'sphereot[torch]'.", markup=False)
    for name, file in written:
        console.print(f"{name}: {out / file}", highlight=False)


if __name__ == "__main__":
    main()
