"""Time to sample from distributions on the sphere, on one core.

    python -m benchmarks.sampling [--json out.json] [--points 1000000] [--concentration 10]

On S^2 the comparison is with `scipy.stats.vonmises_fisher`; at d = 128 with `torch.randn`, which draws as many numbers
and so is a lower bound. The functions of a row are called alternately in one run.
"""

from collections.abc import Iterator

import numpy as np
import torch
from scipy.stats import vonmises_fisher

from benchmarks.timing import Row, argument_parser, best_of, report
from sphereot.distributions import PowerSpherical, VonMisesFisher

REPEATS = 7


def against_scipy(n: int, concentration: float, dtype: torch.dtype) -> Iterator[Row]:
    north = torch.eye(3, dtype=dtype)[2]
    distribution, peer = VonMisesFisher(north, concentration), vonmises_fisher([0.0, 0.0, 1.0], concentration)
    rng = np.random.default_rng(0)
    ours, theirs = best_of(lambda: distribution.sample((n,)), lambda: peer.rvs(n, random_state=rng), repeats=REPEATS)
    yield Row(f"vMF, d = 3, {name(dtype)}", ours, "s", "SciPy (float64)", theirs, theirs / ours, 3, "more")


def against_normals(n: int, dim: int, concentration: float, dtype: torch.dtype) -> Iterator[Row]:
    north = torch.eye(dim, dtype=dtype)[0]
    distributions = {
        "vMF": VonMisesFisher(north, concentration),
        "power spherical": PowerSpherical(north, concentration),
    }
    *ours, theirs = best_of(
        *(lambda each=each: each.sample((n,)) for each in distributions.values()),  # type: ignore[misc]
        lambda: torch.randn(n, dim, dtype=dtype),
        repeats=REPEATS,
    )
    for kind, seconds in zip(distributions, ours, strict=True):
        work = f"{kind}, d = {dim}, {name(dtype)}"
        yield Row(work, seconds, "s", f"torch.randn ({name(dtype)})", theirs, seconds / theirs, 3, "less")


def name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def main() -> None:
    """Measure and print; write the rows to a file with --json."""
    parser = argument_parser(__doc__)
    parser.add_argument("--points", type=int, default=1_000_000, help="points to draw on S^2; a fifth of it at d = 128")
    parser.add_argument("--concentration", type=float, default=10.0, help="kappa of the distributions")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    rows = []
    for dtype in (torch.float32, torch.float64):
        rows += against_scipy(arguments.points, arguments.concentration, dtype)
        rows += against_normals(arguments.points // 5, 128, arguments.concentration, dtype)
    print(f"{arguments.points:,} points at d = 3, {arguments.points // 5:,} at d = 128, one core")
    report(rows, arguments.json)


if __name__ == "__main__":
    main()
