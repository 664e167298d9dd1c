"""Time until the standard error is 1 % of the value: `ssw_estimate` compared with POT with independent great circles.

    python -m benchmarks.precision [--json out.json] [--figure precision.svg] [--dims 3 10 128] [--points 1000 10000]

POT draws independent great circles, so it needs V / 0.01^2 of them, V being the relative variance of the cost of one,
which is estimated from 4,000 great circles. Its time is that number times the time per great circle of a shorter run
in the same process. For ours, the error is also measured: the root mean square over 20 seeds of the difference to a
value from many more great circles. The samples are two von Mises-Fisher distributions, 30 degrees apart, float32.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import ot
from numpy.typing import NDArray
from scipy.stats import vonmises_fisher

import sphereot
from benchmarks.timing import machine, write_json

Points = NDArray[np.float32]
TOLERANCE = 0.01
SEEDS = 20
COUNTS = (16, 32, 64, 128, 256, 512, 1024)


def samples(dim: int, n: int) -> tuple[Points, Points]:
    """Two von Mises-Fisher samples whose modes are 30 degrees apart."""
    generator = np.random.default_rng(dim)
    north, east = np.eye(dim)[:2]
    concentration = 10.0 if dim == 3 else 2.0 * dim
    modes = north, np.cos(np.pi / 6) * north + np.sin(np.pi / 6) * east
    x, y = (
        np.asarray(vonmises_fisher(mode, concentration).rvs(n, random_state=generator)).astype(np.float32)
        for mode in modes
    )
    return x, y


def least_time(work: Callable[[], Any], repeats: int) -> float:
    """The least wall time of several repeats, in seconds, after one that does not count."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def pot_seconds_per_circle(x: Points, y: Points) -> float:
    """Time of one great circle in POT, the least of three runs; in one call more would take more memory."""
    count = max(10, 200_000 // len(x))
    return least_time(lambda: ot.sliced_wasserstein_sphere(x, y, n_projections=count, p=2, seed=0), 3) / count


def errors(x: Points, y: Points, truth: float, **options: Any) -> float:
    """Root mean square over seeds of the relative difference to the true value."""
    values = [sphereot.ssw_estimate(x, y, seed=seed, **options).value for seed in range(SEEDS)]
    return float(np.sqrt(np.mean((np.array(values) / truth - 1) ** 2)))


def measure(dim: int, n: int) -> dict[str, Any]:
    """One row: times to the tolerance and their ratio, and the error of our estimates by time."""
    x, y = samples(dim, n)
    costs = np.asarray(sphereot.ssw_estimate(x, y, n_projections=4000, method="iid", seed=1).slice_costs, float)
    variance = float(costs.var(ddof=1) / costs.mean() ** 2)
    truth = sphereot.ssw_estimate(x, y, n_projections=20_000, seed=10**6).value
    per_circle = pot_seconds_per_circle(x, y)
    pot = variance / TOLERANCE**2 * per_circle
    repeats = 20 if n < 5000 else 5
    estimate = sphereot.ssw_estimate(x, y, seed=0, rtol=TOLERANCE)
    ours = least_time(lambda: sphereot.ssw_estimate(x, y, seed=0, rtol=TOLERANCE), repeats)
    curve = []
    for count in COUNTS:
        seconds = least_time(lambda count=count: sphereot.ssw_estimate(x, y, seed=0, n_projections=count), repeats)
        curve.append({"n_projections": count, "seconds": seconds, "error": errors(x, y, truth, n_projections=count)})
    return {
        "dim": dim,
        "n": n,
        "relative_variance": variance,
        "pot_circles": variance / TOLERANCE**2,
        "pot_seconds_per_circle": per_circle,
        "pot_seconds": pot,
        "method": estimate.method,
        "n_projections": estimate.n_projections,
        "n_replicates": estimate.n_replicates,
        "n_controls": estimate.n_controls,
        "seconds": ours,
        "error": errors(x, y, truth, rtol=TOLERANCE),
        "ratio": pot / ours,
        "curve": curve,
    }


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Error against time on logarithmic axes, one panel per dimension and number of points."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot as plt

    points = sorted({row["n"] for row in rows})
    figure, axes = plt.subplots(
        1, len(points), figsize=(4.2 * len(points), 3.4), sharey=True, layout="constrained", sharex=True
    )
    for axis, n in zip(np.atleast_1d(axes), points, strict=True):
        for color, row in zip(("C0", "C1", "C2", "C3"), [row for row in rows if row["n"] == n], strict=False):
            seconds, error = (np.array([part[key] for part in row["curve"]]) for key in ("seconds", "error"))
            axis.plot(seconds, 100 * error, "o-", ms=3, color=color, label=f"sphereot, d = {row['dim']}")
            wanted = np.array([0.1, 0.003])
            circles = row["relative_variance"] / wanted**2
            needed = circles * row["pot_seconds_per_circle"]
            axis.plot(needed, 100 * wanted, "--", color=color, label=f"POT, d = {row['dim']}")
        axis.axhline(100 * TOLERANCE, color="0.6", lw=0.8)
        axis.set(xscale="log", yscale="log", xlabel="time (seconds)", title=f"{n:,} points in each sample")
        axis.grid(alpha=0.3)
    np.atleast_1d(axes)[0].set_ylabel("error of SSW$_2^2$ in percent")
    np.atleast_1d(axes)[0].legend(fontsize=7, loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)


def main() -> None:
    """Measure and print; write rows and a figure with --json and --figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("--figure", type=Path, help="also draw error against time to this file")
    parser.add_argument("--dims", type=int, nargs="+", default=[3, 10, 128], help="dimensions d of the space")
    parser.add_argument("--points", type=int, nargs="+", default=[1000, 10_000], help="points in each sample")
    arguments = parser.parse_args()
    rows = []
    head = {"d": 4, "n": 8, "POT circles": 13, "POT": 11, "circles": 9, "sphereot": 12, "error": 8, "ratio": 10}
    print("".join(f"{name:>{width}}" for name, width in head.items()) + "  method")
    for dim in arguments.dims:
        for n in arguments.points:
            row = measure(dim, n)
            rows.append(row)
            controls = f", {row['n_controls']} controls" if row["n_controls"] else ""
            print(
                f"{dim:>4}{n:>8,}{row['pot_circles']:>13,.0f}{row['pot_seconds']:>9,.1f} s{row['n_projections']:>9,}"
                f"{1e3 * row['seconds']:>9,.2f} ms{row['error']:>8.2%}{row['ratio']:>9,.0f}x"
                f"  {row['method']}{controls}",
                flush=True,
            )
    if arguments.json:
        write_json(arguments.json, {"machine": machine(), "rows": rows})
    if arguments.figure:
        draw(rows, arguments.figure)


if __name__ == "__main__":
    main()
