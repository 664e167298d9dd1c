"""Time of normalizing flows on the sphere, forward and backward, compared with a lower bound and plain autograd.

    python -m benchmarks.flows [--json out.json] [--points 4284] [--components 100] [--blocks 48] [--threads 2]

A block evaluates K exponentials per point, so the lower bound is a product of (n, 3) with (3, K), its exponential and
the backward pass of both. Then follow the flow of the density estimation, and plain autograd for it with the Jacobian
of each block in the ambient space. The functions of a row are called alternately in one run; float32. A short function
timed alone is less disturbed by other load than in training; several calls in a row are as in training.
"""

from collections.abc import Callable, Sequence
from math import inf

import torch
from torch import Tensor

from benchmarks.timing import Row, argument_parser, best_of, machine, report
from sphereot.distributions import HypersphericalUniform
from sphereot.flows import ExponentialMapFlow, StereographicFlow


def trained(work: Callable[[], Sequence[Tensor] | Tensor], parameters: list[Tensor]) -> Callable[[], object]:
    """`work` followed by the gradient of all its results, with ones from above."""

    def run() -> object:
        results = work()
        results = [results] if isinstance(results, Tensor) else list(results)
        return torch.autograd.grad(results, parameters, [torch.ones_like(result) for result in results])

    return run


def plain_product(x: Tensor, n_components: int) -> Callable[[], object]:
    weights = torch.randn(3, n_components, requires_grad=True)
    return trained(lambda: torch.exp(x @ weights), [x, weights])


def plain_autograd(flow: ExponentialMapFlow, x: Tensor) -> tuple[Tensor, Tensor]:
    """The flow by its formulas, with the Jacobian of every block by autograd, one row at a time."""
    parts = flow.components()
    log_det = x.new_zeros(x.shape[0])
    for alpha, beta, mu in zip(parts.alpha, parts.beta, parts.mu, strict=True):
        g = (alpha * torch.exp(beta * (x @ mu.T - 1))) @ mu
        v = g - (x * g).sum(-1, keepdim=True) * x
        length = torch.linalg.vector_norm(v, dim=-1, keepdim=True)
        y = torch.cos(length) * x + torch.sin(length) * v / length
        rows = [torch.autograd.grad(y[:, k].sum(), x, create_graph=True)[0] for k in range(3)]
        jacobian = torch.stack(rows, dim=1)
        frame = torch.linalg.svd(x.detach()[:, None])[2][:, 1:].mT
        stretched = jacobian @ frame
        log_det = log_det + 0.5 * torch.logdet(stretched.mT @ stretched)
        x = y
    return x, log_det


def in_a_row(work: Callable[[], object], times: int) -> Callable[[], object]:
    return lambda: [work() for _ in range(times)]


def measure(n: int, n_components: int, n_blocks: int) -> list[Row]:
    generator = torch.Generator().manual_seed(0)
    x = HypersphericalUniform(3).sample((n,), seed=generator).requires_grad_()
    block = ExponentialMapFlow(3, 1, n_components, seed=generator)
    whole = ExponentialMapFlow(3, n_blocks, n_components, seed=generator)
    stereo = StereographicFlow(3, seed=generator)
    plain = plain_product(x, n_components)
    block_inputs, all_blocks = [x, *block.parameters()], list(whole.parameters())

    works = plain, trained(lambda: block(x), block_inputs), trained(lambda: block.forward_and_log_det(x), block_inputs)
    rows = []
    for times, repeats in ((1, 300), (20, 20)):
        bound, moved, with_log_det = (s / times for s in best_of(*(in_a_row(w, times) for w in works), repeats=repeats))
        name = "alone" if times == 1 else f"{times} in a row"
        rows += [
            Row(f"block, {name}", moved, "s", "product and exp", bound, moved / bound, 3, "less"),
            Row(
                f"block, log-det, {name}",
                with_log_det,
                "s",
                "product and exp",
                bound,
                with_log_det / bound,
                inf,
                "less",
            ),
        ]
    bound, moved, with_log_det = best_of(
        in_a_row(plain, n_blocks),
        trained(lambda: whole(x), all_blocks),
        trained(lambda: whole.forward_and_log_det(x), all_blocks),
        repeats=10,
    )
    many = f"{n_blocks} products and exp"
    rows += [
        Row(f"{n_blocks} blocks", moved, "s", many, bound, moved / bound, inf, "less"),
        Row(f"{n_blocks} blocks, log-det", with_log_det, "s", many, bound, with_log_det / bound, inf, "less"),
    ]
    slow = trained(lambda: plain_autograd(whole, x), all_blocks)
    ours, theirs = best_of(trained(lambda: whole(x), all_blocks), slow, repeats=3)
    rows.append(Row(f"{n_blocks} blocks", ours, "s", "autograd, Jacobians", theirs, theirs / ours, 5, "more"))
    seconds, theirs = best_of(trained(lambda: whole.forward_and_log_det(x), all_blocks), slow, repeats=3)
    rows.append(
        Row(f"{n_blocks} blocks, log-det", seconds, "s", "autograd, Jacobians", theirs, theirs / seconds, 5, "more")
    )
    with torch.no_grad():
        y = whole(x)
        forward, inverse = best_of(lambda: whole(x), lambda: whole.inverse(y), repeats=3)
    rows.append(Row(f"{n_blocks} blocks, inverse", inverse, "s", "forward", forward, inverse / forward, inf, "less"))
    couplings = trained(lambda: stereo.forward_and_log_det(x), list(stereo.parameters()))
    bound, seconds = best_of(plain, couplings, repeats=20)
    rows.append(Row("stereographic, log-det", seconds, "s", "product and exp", bound, seconds / bound, inf, "less"))
    return rows


def main() -> None:
    """Measure and print; write the rows to a file with --json."""
    parser = argument_parser(__doc__)
    parser.add_argument("--points", type=int, default=4284, help="number n of points")
    parser.add_argument("--components", type=int, default=100, help="components K of a block")
    parser.add_argument("--blocks", type=int, default=48, help="blocks of the flow for density estimation")
    parser.add_argument("--threads", type=int, default=2, help="threads that torch may use")
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    rows = measure(arguments.points, arguments.components, arguments.blocks)
    print(f"n = {arguments.points}, K = {arguments.components}, {arguments.threads} threads, {machine()}")
    report(rows, arguments.json)


if __name__ == "__main__":
    main()
