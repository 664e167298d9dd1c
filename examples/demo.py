"""Compare two samples on the sphere, time it beside POT, and draw what was compared.

Run with `make demo`, or `python examples/demo.py [--out FOLDER]`.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np
import ot
from rich.console import Console
from rich.table import Table

import sphereot

matplotlib.use("Agg")
import matplotlib.pyplot as plt

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#767676"  # told apart by color-blind readers, and in grey print


def two_samples(n: int = 500) -> tuple[np.ndarray, np.ndarray]:
    """Two mixtures of three clusters; in the second, one cluster has moved."""
    rng = np.random.default_rng(0)
    centers = np.array([[1.0, 0.3, 0.2], [-0.4, 1.0, 0.5], [-0.3, -0.8, -0.6]])
    moved = centers + np.array([[0, 0, 0], [0, 0, 0], [0.5, 0.5, 0.4]])
    x, y = (c[rng.integers(3, size=n)] + 0.25 * rng.normal(size=(n, 3)) for c in (centers, moved))
    return sphereot.sphere.normalize(x), sphereot.sphere.normalize(y)


def distances(console: Console, x: np.ndarray, y: np.ndarray) -> None:
    """Distances with their Monte-Carlo standard errors."""
    table = Table(title="SSW_2^2 of two samples of 500 points on S^2, 1,000 great circles")
    for column in ("between", "value", "standard error", "SSW_2 in degrees"):
        table.add_column(column, justify="left" if column == "between" else "right")
    uniform = sphereot.sphere.random_uniform(500, 3, seed=1)
    for name, a, b in (
        ("first and second sample", x, y),
        ("first sample and uniform", x, None),
        ("second sample and uniform", y, None),
        ("500 uniform points and uniform", uniform, None),
    ):
        estimate = sphereot.ssw_estimate(a, b, n_projections=1000, seed=0)
        degrees = 360 * estimate.value**0.5
        table.add_row(name, f"{estimate.value:.5f}", f"{estimate.standard_error:.1e}", f"{degrees:.2f}")
    console.print(table)


def speed(console: Console) -> None:
    """Our time beside POT's, in the same run."""
    table = Table(title=f"SSW_2, 200 great circles, {sphereot.get_num_threads()} threads")
    for column in ("points", "sphereot", "POT", "ratio"):
        table.add_column(column, justify="right")
    for n, repeats in ((500, 5), (5000, 1)):
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
    costs = sphereot.ssw_estimate(x, y, projections=frames).slice_costs
    frame = frames[np.argmax(costs)]
    figure = plt.figure(figsize=(12, 4.6), layout="constrained")
    on_map = figure.add_subplot(1, 2, 1, projection="mollweide")
    on_circle = figure.add_subplot(1, 2, 2, projection="polar")

    t = np.linspace(0, 2 * np.pi, 400)
    lon, lat = lonlat(np.stack([np.cos(t), np.sin(t)], axis=1) @ frame.T)
    order = np.argsort(lon)
    on_map.plot(lon[order], lat[order], color="black", lw=1.2, label="great circle", zorder=1)
    for points, color, name in ((x, BLUE, "first sample"), (y, ORANGE, "second sample")):
        on_map.scatter(*lonlat(points), s=7, color=color, alpha=0.6, lw=0, label=name, zorder=2)
    on_map.grid(color=GREY, alpha=0.3)
    on_map.tick_params(labelsize=7, colors=GREY)
    on_map.set_title("500 points each on the sphere (degrees)")
    on_map.legend(loc="upper center", bbox_to_anchor=(0.5, -0.04), ncols=3, frameon=False)

    turns = [sphereot.project(points, frame[None])[0] for points in (x, y)]
    edges = np.linspace(0, 1, 49)
    for u, color, sign in ((turns[0], BLUE, 1), (turns[1], ORANGE, -1)):
        height = np.histogram(u, edges)[0] / len(u)
        bottom = 1.0 if sign > 0 else 1.0 - 4 * height
        on_circle.bar(2 * np.pi * edges[:-1], 4 * height, 2 * np.pi / 48, bottom=bottom, align="edge", color=color)
    on_circle.plot(t, np.ones_like(t), color="black", lw=1.2)
    on_circle.set(yticks=[], ylim=(0, 1.55), xticks=np.arange(4) * np.pi / 2)
    on_circle.set_xticklabels([f"{k / 4:g}" for k in range(4)], color=GREY, size=9)
    on_circle.tick_params(pad=-2)
    on_circle.grid(visible=False)
    on_circle.spines["polar"].set_visible(False)
    cost = float(np.max(costs))
    on_circle.set_title(f"their projections on that great circle (turns)\n$W_2^2$ = {cost:.4f} there")
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}")
    figure.savefig(aside, dpi=150, format="png")
    aside.replace(path)


def lonlat(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Longitude and latitude in radians."""
    return np.arctan2(points[:, 1], points[:, 0]), np.arcsin(np.clip(points[:, 2], -1, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture (default: out)")
    path = parser.parse_args().out / "demo.png"
    console = Console()
    console.print(str(sphereot.info()), highlight=False)
    x, y = two_samples()
    distances(console, x, y)
    speed(console)
    picture(path, x, y)
    console.print(f"Picture: {path}")


if __name__ == "__main__":
    main()
