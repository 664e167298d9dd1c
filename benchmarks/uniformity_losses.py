"""Losses that spread points over the sphere: time, memory, noise of the gradient, and its size near collapse.

    python -m benchmarks.uniformity_losses [--no-memory]

Time is that of the forward and backward pass in float32. Noise is 1 - cosine between the gradients of two draws, for
the same 512 uniform points in dimension 128; zero for losses without random numbers. "Collapsed / spread" divides the
mean length of the gradient of a point in a cluster of 0.1 radians by that of a uniform point. Memory is the peak for
two views of 32,768 points, measured in a separate process; losses that compare all pairs need gigabytes there.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

from benchmarks.power import Row, markdown
from paper.experiments import term_cost
from paper.learning.view_losses import GaussianPotentialLoss, NTXentLoss, SIGRegLoss, SWUniformityLoss, koleo
from sphereot.torch import UniformityLoss

Loss = Callable[[Tensor], Tensor]

# By name: the loss for a seed, and its name in `term_cost`.
LOSSES: dict[str, tuple[Callable[[int], Loss], str]] = {
    "SSW, exact": (lambda seed: UniformityLoss(method="exact"), "SSW without slices"),
    "SSW, exact, even_weight=10": (lambda seed: UniformityLoss(method="exact", even_weight=10), "SSW, even part"),
    "SSW, 200 great circles": (lambda seed: UniformityLoss(seed=seed), "SSW, L = 200"),
    "SSW, 10 great circles": (lambda seed: UniformityLoss(n_projections=10, seed=seed), "SSW, L = 10"),
    "Gaussian potential": (lambda seed: GaussianPotentialLoss(), "Gaussian potential"),
    "NT-Xent, its uniformity": (lambda seed: partial(_of_views, NTXentLoss(0.5)), "NT-Xent"),
    "KoLeo": (lambda seed: koleo, "KoLeo"),
    "SIGReg, 1,024 directions": (lambda seed: SIGRegLoss(seed=seed), "SIGReg"),
    "SW, 10 directions": (lambda seed: SWUniformityLoss(10, seed=seed), "SW, L = 10"),
}


def _of_views(loss: NTXentLoss, x: Tensor) -> Tensor:
    return loss.forward_components(x, x.flip(0)).uniformity


def points(n: int, dim: int, spread: float = 100.0) -> Tensor:
    """Unit vectors around the first axis; nearly uniform for a large spread."""
    noise = torch.randn(n, dim, generator=torch.Generator().manual_seed(n)) * spread / dim**0.5
    return normalize(noise + torch.eye(dim)[0], dim=1)


def gradient(loss: Loss, x: Tensor) -> Tensor:
    """The part of the gradient that is tangent to the sphere."""
    x = x.clone().requires_grad_()
    loss(x).backward()
    assert x.grad is not None
    return x.grad - (x.grad * x.detach()).sum(1, keepdim=True) * x.detach()


def seconds(loss: Loss, x: Tensor) -> float:
    times: list[float] = []
    while len(times) < 3 or (sum(times) < 2 and len(times) < 200):
        start = time.perf_counter()
        gradient(loss, x)
        times.append(time.perf_counter() - start)
    return min(times)


def measure(name: str, memory: bool) -> Row:
    make, term = LOSSES[name]
    x, equal = points(512, 128), points(1, 128).repeat(64, 1)
    first, second = (gradient(make(seed), x).flatten() for seed in (0, 1))
    collapsed, spread = (gradient(make(0), points(512, 10, s)).norm(dim=1).mean() for s in (0.1, 100.0))
    row: Row = {
        "loss": name,
        "ms, n = 512": f"{1000 * seconds(make(0), x):.2g}",
        "ms, n = 4,096": f"{1000 * seconds(make(0), points(4096, 128)):.2g}",
        "noise": f"{abs(1 - float(cosine_similarity(first, second, dim=0))):.2f}",
        "collapsed / spread": f"{float(collapsed / spread):.2g}",
        "finite at equal points": "yes" if gradient(make(0), equal).isfinite().all() else "no",
    }
    if memory:
        cost = term_cost.measure(term, 32_768, 128, 1)
        row["MB, n = 32,768"] = f"{cost['megabytes']:.2g}" if "megabytes" in cost else cost["failed"]
    return row


def main() -> None:
    """Measure all losses and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-memory", action="store_true", help="leave out the slow measurement of memory")
    arguments = parser.parse_args()
    for k, name in enumerate(LOSSES):
        print(markdown([measure(name, not arguments.no_memory)], header=k == 0), flush=True)


if __name__ == "__main__":
    main()
