"""Time of unequal sizes, weights and float64, per point and slice, against equal sizes without weights in float32."""

from collections.abc import Callable, Iterator

import numpy as np
import torch

import sphereot
from benchmarks.timing import Row, best_of, sphere_sample

RNG = np.random.default_rng(2)
CASES = ("equal sizes", "m=0.7n", "m=0.7n, weights")
BARS = {"m=0.7n": 1.5, "m=0.7n, weights": 2.2}
FLOAT64_BAR = 1.8


def works(n: int, n_projections: int, dtype: type) -> dict[tuple[str, str], Callable[[], object]]:
    """One call per case, forward and forward + backward."""
    x, y = (torch.from_numpy(sphere_sample(RNG, n, dtype=dtype)) for _ in range(2))
    fewer = y[: 7 * n // 10]
    weights = {
        "x_weights": torch.from_numpy(RNG.exponential(size=n)),
        "y_weights": torch.from_numpy(RNG.exponential(size=len(fewer))),
    }
    arguments: dict[str, tuple[torch.Tensor, dict[str, torch.Tensor]]] = {
        "equal sizes": (y, {}),
        "m=0.7n": (fewer, {}),
        "m=0.7n, weights": (fewer, weights),
    }
    result: dict[tuple[str, str], Callable[[], object]] = {}
    for case, (other, options) in arguments.items():

        def forward(other: torch.Tensor = other, options: dict[str, torch.Tensor] = options) -> object:
            return sphereot.ssw(x, other, n_projections=n_projections, seed=0, **options)

        def backward(other: torch.Tensor = other, options: dict[str, torch.Tensor] = options) -> object:
            a, b = x.clone().requires_grad_(), other.clone().requires_grad_()
            sphereot.ssw(a, b, n_projections=n_projections, seed=0, **options).backward()
            return a.grad

        result[case, "fwd"] = forward
        result[case, "fwd + bwd"] = backward
    return result


def unequal_sizes_and_weights() -> Iterator[Row]:
    """All cases in one loop, so that other load on the machine affects all of them equally."""
    for n, n_projections in ((500, 1000), (10_000, 100)):
        calls: dict[tuple[str, str, str], Callable[[], object]] = {
            (case, passes, dtype.__name__): call
            for dtype in (np.float32, np.float64)
            for (case, passes), call in works(n, n_projections, dtype).items()
        }
        times = dict(zip(calls, best_of(*calls.values(), repeats=15), strict=True))
        points = {case: 2 * n if case == "equal sizes" else n + 7 * n // 10 for case in CASES}
        for passes in ("fwd", "fwd + bwd"):
            for case, bar in BARS.items():
                ours = times[case, passes, "float32"]
                # The time of equal sizes, for the same number of points.
                plain = times["equal sizes", passes, "float32"] * points[case] / points["equal sizes"]
                work = f"{case}, {passes}, n={n:,}, per point"
                yield Row(work, ours, "s", "our equal sizes", plain, ours / plain, bar, "less")
            for case in CASES:
                double, single = times[case, passes, "float64"], times[case, passes, "float32"]
                work = f"float64, {case}, {passes}, n={n:,}"
                yield Row(work, double, "s", "our float32", single, double / single, FLOAT64_BAR, "less")
