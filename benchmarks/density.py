"""Time per epoch of density estimation as in the paper, on the fire data, compared with plain autograd.

    python -m benchmarks.density [--json out.json] [--data fire] [--blocks 48] [--components 100] [--projections 20]

An epoch is SSW_2^2 of all transformed points to the uniform distribution, its gradient, and a step of Adam. The
comparison trains the same flow by plain autograd, with the Jacobian of each block at every step, as a flow trained by
likelihood needs; it uses the same SSW. The share of SSW is that of the loss alone, forward and backward, at the
transformed points. Both are called alternately in one run; float32.
"""

from collections.abc import Callable
from math import inf

import torch
from torch import Tensor

from benchmarks.flows import plain_autograd
from benchmarks.timing import Row, argument_parser, best_of, machine, report
from sphereot import datasets, get_num_threads, great_circles, ssw_uniform
from sphereot.flows import ExponentialMapFlow


def epoch(flow: ExponentialMapFlow, images: Callable[[], Tensor], n_projections: int) -> Callable[[], object]:
    optimizer = torch.optim.Adam(flow.parameters(), lr=0.0)  # a step as in training that does not change the flow

    def run() -> None:
        optimizer.zero_grad()
        to_uniform(images(), n_projections).backward()
        optimizer.step()

    return run


def to_uniform(points: Tensor, n_projections: int) -> Tensor:
    frames = great_circles(n_projections, 3, like=points)
    value: Tensor = ssw_uniform(points, projections=frames)
    return value


def measure(data: str, n_blocks: int, n_components: int, n_projections: int) -> list[Row]:
    x = torch.as_tensor(datasets.load(data).split(0).train.points, dtype=torch.float32)
    flow = ExponentialMapFlow(3, n_blocks, n_components, seed=torch.Generator().manual_seed(0))
    images = flow(x).detach().requires_grad_()
    ours, loss = best_of(
        epoch(flow, lambda: flow(x), n_projections),
        lambda: to_uniform(images, n_projections).backward(),
        repeats=10,
    )
    with_log_det = epoch(flow, lambda: flow.forward_and_log_det(x)[0], n_projections)
    (likelihood,) = best_of(with_log_det, repeats=5)
    tracked = x.clone().requires_grad_()
    peer = epoch(flow, lambda: plain_autograd(flow, tracked)[0], n_projections)
    fast, slow = best_of(epoch(flow, lambda: flow(x), n_projections), peer, repeats=2, min_seconds=0)
    name = f"epoch, {data}, {len(x)} points"
    return [
        Row(name, ours, "s", "of which SSW (share)", loss, loss / ours, 0.1, "less"),
        Row(name, fast, "s", "autograd, Jacobians", slow, slow / fast, 5, "more"),
        Row(f"{name}, log-det", likelihood, "s", "epoch", ours, likelihood / ours, inf, "less"),
    ]


def main() -> None:
    """Measure and print; write the rows to a file with --json."""
    parser = argument_parser(__doc__)
    parser.add_argument("--data", default="fire", help="earthquake, flood, fire or volcano")
    parser.add_argument("--blocks", type=int, default=48, help="blocks of the flow")
    parser.add_argument("--components", type=int, default=100, help="components K of a block")
    parser.add_argument("--projections", type=int, default=20, help="great circles L of an epoch")
    arguments = parser.parse_args()

    torch.set_num_threads(get_num_threads())
    rows = measure(arguments.data, arguments.blocks, arguments.components, arguments.projections)
    print(f"{arguments.blocks} blocks, K = {arguments.components}, L = {arguments.projections}, {machine()}")
    report(rows, arguments.json)


if __name__ == "__main__":
    main()
