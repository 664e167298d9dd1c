"""Measure every figure that the README claims, in one run (`make bench`).

Times are the minimum of several repeats, with other packages in the same run, for float32 points on S^2 unless said
otherwise. Each row has a bar; a row that misses it is marked, and the command exits with 1.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import ot
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

import sphereot
from benchmarks import sizes, training, variance
from benchmarks.timing import Row, best_of, machine, peak_memory, sphere_sample, write_json

RNG = np.random.default_rng(0)


def against_pot(n: int, p: int, bar: float) -> Iterator[Row]:
    x, y = sphere_sample(RNG, n), sphere_sample(RNG, n)
    tx, ty = torch.from_numpy(x), torch.from_numpy(y)
    peer_repeats = 5 if n < 1000 else 2
    (ours,) = best_of(lambda: sphereot.ssw(x, y, p=p, seed=0), repeats=20)
    for name, a, b in (("POT (NumPy)", x, y), ("POT (PyTorch)", tx, ty)):
        (theirs,) = best_of(
            lambda a=a, b=b: ot.sliced_wasserstein_sphere(a, b, n_projections=200, p=p, seed=0),
            repeats=peer_repeats,
            min_seconds=0,
        )
        yield Row(f"SSW_{p}, n=m={n:,}, L=200", ours, "s", name, theirs, theirs / ours, bar, "more")


def uniform_against_pot() -> Iterator[Row]:
    x = sphere_sample(RNG, 10_000)
    tx = torch.from_numpy(x)
    # Measured one after the other: PyTorch's threads keep spinning for a while after a call and would slow the others.
    (ours,) = best_of(lambda: sphereot.ssw_uniform(x, seed=0), repeats=20)
    (numpy_peer,) = best_of(lambda: ot.sliced_wasserstein_sphere_unif(x, n_projections=200, seed=0))
    (torch_peer,) = best_of(lambda: ot.sliced_wasserstein_sphere_unif(tx, n_projections=200, seed=0), repeats=20)
    for name, theirs in (("POT (NumPy)", numpy_peer), ("POT (PyTorch)", torch_peer)):
        yield Row("SSW_2 to uniform, n=10,000, L=200", ours, "s", name, theirs, theirs / ours, 8, "more")


def one_thread_against_sorting() -> Iterator[Row]:
    x, y = sphere_sample(RNG, 10_000), sphere_sample(RNG, 10_000)
    frames = sphereot.great_circles(200, 3, seed=0, like=x)
    u, v = sphereot.project(x, frames), sphereot.project(y, frames)
    threads = sphereot.get_num_threads()
    sphereot.set_num_threads(1)
    try:
        ours, sorting = best_of(
            lambda: sphereot.ssw(x, y, projections=frames),
            lambda: (np.sort(u, axis=1), np.sort(v, axis=1)),
            repeats=20,
        )
    finally:
        sphereot.set_num_threads(threads)
    yield Row(
        "one thread, n=m=10,000, L=200", ours, "s", "np.sort of the projections", sorting, ours / sorting, 2.5, "less"
    )


def large_dimension() -> Iterator[Row]:
    x, y = sphere_sample(RNG, 10_000, 768), sphere_sample(RNG, 10_000, 768)
    frames = sphereot.great_circles(200, 768, seed=0, like=x)
    rows = np.ascontiguousarray(frames.transpose(0, 2, 1).reshape(400, 768))
    ours, products = best_of(lambda: sphereot.ssw(x, y, projections=frames), lambda: (rows @ x.T, rows @ y.T))
    yield Row("d=768, n=m=10,000, L=200", ours, "s", "bare matrix products", products, ours / products, 2.5, "less")


def growth() -> Iterator[Row]:
    times = {}
    for n in (1_000, 1_000_000):
        x, y = sphere_sample(RNG, n), sphere_sample(RNG, n)
        (times[n],) = best_of(lambda x=x, y=y: sphereot.ssw(x, y, n_projections=50, seed=0), repeats=3)
    expected = 1_000 * np.log(1_000_000) / np.log(1_000)
    figure = float(times[1_000_000] / times[1_000] / expected)
    yield Row(
        "from n=1,000 to 1,000,000, L=50", times[1_000_000], "s", "n=1,000 x n log n", times[1_000], figure, 1.3, "less"
    )


def memory() -> Iterator[Row]:
    setup = """
import numpy as np, sphereot
x, y = (sphereot.sphere.random_uniform(1_000_000, 3, seed=s).astype(np.float32) for s in (1, 2))
sphereot.ssw(x[:10], y[:10])
"""
    extra = peak_memory(setup, "sphereot.ssw(x, y, seed=0)") / 1e6
    yield Row("extra memory, n=m=1,000,000, L=200", extra, "MB", "the inputs", 24.0, extra, 100, "less")


def concentrated() -> Iterator[Row]:
    n = 10_000

    def around(center: list[float], kappa: float, count: int) -> np.ndarray:
        # For large kappa a von Mises-Fisher distribution is a normal one of variance 1 / kappa in the tangent plane.
        x = np.asarray(center) + RNG.normal(size=(count, 3)) / np.sqrt(kappa)
        return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)

    x, y = sphere_sample(RNG, n), sphere_sample(RNG, n)
    cases: dict[str, tuple[np.ndarray, np.ndarray]] = {
        "vMF, kappa 500": (around([0, 0, 1], 500, n), around([0, 0.1, 1], 500, n)),
        "all points equal": (np.repeat(x[:1], n, axis=0), np.repeat(x[:1], n, axis=0)),
        "two clusters": tuple(
            np.concatenate([around([0, 0, 1], 500, n // 2), around([1, shift, 0], 500, n // 2)]) for shift in (0, 0.1)
        ),
    }
    for name, (u, v) in cases.items():
        ours, uniform = best_of(lambda u=u, v=v: sphereot.ssw(u, v, seed=0), lambda: sphereot.ssw(x, y, seed=0))
        yield Row(f"{name}, n=m=10,000", ours, "s", "uniform data", uniform, ours / uniform, 1.5, "less")


def variance_of_methods() -> Iterator[Row]:
    """Variance of SSW_2^2 at L = 64 relative to independent great circles, mean over four pairs of point clouds."""
    for dim in (3, 32):
        rows = list(variance.measure(dim, 64, 2.0, repeats=300))
        for method in ("orthogonal", "quasi"):
            ratio = float(np.mean([row["ratio"] for row in rows if row["method"] == method]))
            yield Row(
                f'variance, "{method}", S^{dim - 1}, L=64', ratio, "", "independent circles", 1.0, ratio, 1, "less"
            )


GROUPS: dict[str, Callable[[], Iterator[Row]]] = {
    "small": lambda: against_pot(500, 2, 200),
    "large": lambda: against_pot(10_000, 2, 400),
    "order-1": lambda: against_pot(10_000, 1, 300),
    "uniform": uniform_against_pot,
    "weights": sizes.unequal_sizes_and_weights,
    "sorting": one_thread_against_sorting,
    "dimension": large_dimension,
    "growth": growth,
    "memory": memory,
    "concentrated": concentrated,
    "variance": variance_of_methods,
    "backward": training.backward_against_pot,
    "uniformity": training.uniformity_against_pot,
    "exact-uniformity": training.exact_uniformity,
    "network": training.loss_against_network,
    "autoencoder": training.autoencoder_step,
    "portable": training.array_api_backend_against_pot,
    "backward-memory": training.memory_of_backward,
}


def table(rows: list[Row]) -> Table:
    result = Table(title="sphereot and other packages", caption="minimum of several repeats, others in the same run")
    for column in ("work", "ours", "against", "theirs", "figure", "bar", ""):
        result.add_column(column, justify="left" if column in ("work", "against") else "right", no_wrap=True)
    for row in rows:
        scale, unit = (1e3, "ms") if row.unit == "s" else (1, row.unit)
        figure = f"{row.figure:.0f}x faster" if row.better == "more" else f"{row.figure:.2g}x"
        if row.unit == "MB":
            figure = f"{row.figure:.0f} MB"
        bar = f"{'at least' if row.better == 'more' else 'at most'} {row.bar:g}"
        result.add_row(
            row.work,
            f"{row.ours * scale:.3g} {unit}",
            row.against,
            "" if row.theirs is None else f"{row.theirs * scale:.3g} {unit}",
            figure,
            bar,
            "[green]met[/]" if row.met else "[bold red]missed[/]",
        )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"some of: {', '.join(GROUPS)} (default: all)")
    parser.add_argument("--json", type=Path, default=Path("out/bench.json"), help="where to write the figures")
    args = parser.parse_args()
    unknown = set(args.groups) - set(GROUPS)
    if unknown:
        parser.error(f"unknown group {', '.join(sorted(unknown))}; choose from {', '.join(GROUPS)}")
    console = Console(width=max(Console().width, 150))
    rows: list[Row] = []
    for name in track(args.groups or list(GROUPS), description="measuring", console=console, transient=True):
        rows.extend(GROUPS[name]())
    console.print(table(rows))
    write_json(args.json, {"machine": machine(), "rows": [asdict(row) | {"met": row.met} for row in rows]})
    console.print(f"figures written to {args.json}")
    sys.exit(0 if all(row.met for row in rows) else 1)


if __name__ == "__main__":
    main()
