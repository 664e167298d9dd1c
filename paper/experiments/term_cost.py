"""Seconds and peak memory of a uniformity term with its gradient: run in a separate process, which `measure` starts."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from paper.learning.view_losses import GaussianPotentialLoss, NTXentLoss, SIGRegLoss, SWUniformityLoss, koleo
from paper.run_context import Row
from sphereot.sphere import random_uniform
from sphereot.torch import UniformityLoss

_ROOT = Path(__file__).parents[2]


def _sum_over_views(loss: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, y: loss(x) + loss(y)


TERMS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "NT-Xent": NTXentLoss(0.2),
    "Gaussian potential": _sum_over_views(GaussianPotentialLoss()),
    "SW, L = 10": _sum_over_views(SWUniformityLoss(10)),
    "SSW, L = 10": _sum_over_views(UniformityLoss(n_projections=10)),
    "SSW, L = 200": _sum_over_views(UniformityLoss()),
    "SSW without slices": _sum_over_views(UniformityLoss(method="exact")),
}


# These are not in the paper.
_OTHERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "SSW, even part": _sum_over_views(UniformityLoss(method="exact", even_weight=10)),
    "KoLeo": _sum_over_views(koleo),
    "SIGReg": _sum_over_views(SIGRegLoss(seed=0)),
}


def measure(term: str, n: int, dim: int, repeats: int) -> Row:
    """Measure a term of two views (n, dim) in a separate process."""
    command = [sys.executable, "-W", "ignore", "-m", "paper.experiments.term_cost", term, *map(str, (n, dim, repeats))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=_ROOT)
    if done.returncode != 0:
        return {"failed": done.stderr.strip().splitlines()[-1][:200] if done.stderr.strip() else "killed"}
    seconds, memory = done.stdout.split()
    return {"seconds": float(seconds), "megabytes": float(memory) / 1e6}


def main(term: str, n: int, dim: int, repeats: int) -> None:
    """Print the least seconds of several, and the peak of the memory in bytes (-1 if it is unknown)."""
    loss = (TERMS | _OTHERS)[term]
    x, y = (random_uniform(n, dim, seed=seed, like=torch.zeros(1)).requires_grad_() for seed in (1, 2))
    loss(x[:64], y[:64]).backward()
    try:
        Path("/proc/self/clear_refs").write_text("5")  # reset the peak
        before = _kilobytes("VmRSS")
    except OSError:
        before = None
    best = float("inf")
    for _ in range(repeats):
        x.grad = y.grad = None
        start = time.perf_counter()
        loss(x, y).backward()
        best = min(best, time.perf_counter() - start)
    print(best, -1 if before is None else 1024 * (_kilobytes("VmHWM") - before))


def _kilobytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
