"""Move points on the sphere onto a target sample by gradient descent on SSW, in PyTorch."""

import argparse

import torch

import sphereot
from sphereot.torch import SSWLoss


def match(steps: int, n: int = 200) -> tuple[float, float]:
    """SSW_2^2 between the points and the target before and after."""
    generator = torch.Generator().manual_seed(0)
    target = torch.randn(n, 3, generator=generator) * 0.3 + torch.tensor([1.0, 0.5, 0.0])
    target = torch.nn.functional.normalize(target)
    points = torch.nn.functional.normalize(torch.randn(n, 3, generator=generator)).requires_grad_()
    loss = SSWLoss(n_projections=100, seed=0)
    before = float(sphereot.ssw(points.detach(), target, seed=1))
    for step in range(steps):
        value = loss(points, target)
        (gradient,) = torch.autograd.grad(value, points)
        with torch.no_grad():
            # Each point carries 1 / n of the mass: n times the gradient is its own force.
            points.copy_(torch.nn.functional.normalize(points - 5.0 * n * gradient))
        if step % max(1, steps // 10) == 0:
            print(f"step {step:4d}  SSW_2^2 {float(value.detach()):.6f}")
    return before, float(sphereot.ssw(points.detach(), target, seed=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200, help="descent steps (default: 200)")
    before, after = match(parser.parse_args().steps)
    print(f"SSW_2^2 to the target: {before:.6f} before, {after:.6f} after")


if __name__ == "__main__":
    main()
