"""Train an encoder to spread its embeddings over the sphere: `UniformityLoss` in a PyTorch training loop.

Vectors that hide three factors are encoded on S^2; the loss pulls two noisy views of one together, and the batch
towards the uniform measure. There is no temperature to tune, and no negative sample.
"""

import argparse

import torch
from torch import nn

from sphereot.torch import UniformityLoss


def batch(n: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Two noisy views of n points in a space of 16 dimensions that hide 3 factors."""
    factors = torch.randn(n, 3, generator=generator)
    lift = torch.randn(3, 16, generator=torch.Generator().manual_seed(1))
    clean = torch.tanh(factors @ lift)
    return tuple(clean + 0.05 * torch.randn(n, 16, generator=generator) for _ in range(2))  # type: ignore[return-value]


def train(steps: int) -> tuple[float, float]:
    """The uniformity of a fresh batch before and after training (SSW_2^2 to the uniform measure)."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(2)
    encoder = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 3))
    uniformity = UniformityLoss(n_projections=100, normalize=True, seed=0)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=3e-3)

    def spread() -> float:
        with torch.no_grad():
            return float(UniformityLoss(n_projections=500, normalize=True, seed=9)(encoder(batch(512, generator)[0])))

    before = spread()
    for step in range(steps):
        one, other = (nn.functional.normalize(encoder(view)) for view in batch(256, generator))
        alignment = (one - other).square().sum(dim=1).mean()
        loss = alignment + 20 * (uniformity(one) + uniformity(other))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % max(1, steps // 10) == 0:
            print(f"step {step:4d}  alignment {alignment.item():.4f}  loss {loss.item():.4f}")
    return before, spread()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300, help="training steps (default: 300)")
    before, after = train(parser.parse_args().steps)
    print(f"SSW_2^2 of the embeddings to the uniform measure: {before:.4f} before, {after:.4f} after")


if __name__ == "__main__":
    main()
