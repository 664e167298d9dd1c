"""Time and memory of SSW as a loss in PyTorch, forward and backward, against POT and a training step of a network."""

from collections.abc import Callable, Iterator

import numpy as np
import ot
import torch
from torch import Tensor, nn

import sphereot
from benchmarks.timing import Row, best_of, peak_memory, sphere_sample
from paper.learning.networks import paper_networks
from sphereot.torch import SphericalAutoencoder, SSWLoss, UniformityLoss, array_api_backend

RNG = np.random.default_rng(1)


def points(n: int, d: int) -> Tensor:
    return torch.from_numpy(sphere_sample(RNG, n, d))


def step(x: Tensor, loss: Callable[[Tensor], Tensor]) -> Callable[[], None]:
    """One forward and backward pass of `loss` at `x`."""
    leaf = x.clone().requires_grad_()

    def run() -> None:
        leaf.grad = None
        loss(leaf).backward()

    return run


def backward_against_pot() -> Iterator[Row]:
    x, y = points(500, 3), points(500, 3)
    (forward,) = best_of(lambda: sphereot.ssw(x, y, n_projections=1000, seed=0), repeats=20)
    (ours,) = best_of(step(x, lambda t: sphereot.ssw(t, y, n_projections=1000, seed=0)), repeats=20)
    (theirs,) = best_of(
        step(x, lambda t: ot.sliced_wasserstein_sphere(t, y, n_projections=1000, seed=0)), repeats=2, min_seconds=0
    )
    work = "SSW_2 forward + backward, n=m=500, L=1000"
    yield Row(work, ours, "s", "POT (PyTorch)", theirs, theirs / ours, 200, "more")
    yield Row(work, ours, "s", "our forward pass", forward, ours / forward, 2.5, "less")


def uniformity_against_pot() -> Iterator[Row]:
    x = points(512, 128)
    (ours,) = best_of(step(x, UniformityLoss()), repeats=20)
    (theirs,) = best_of(step(x, lambda t: ot.sliced_wasserstein_sphere_unif(t, n_projections=200)), repeats=20)
    work = "UniformityLoss fwd + bwd, n=512, d=128, L=200"
    yield Row(work, ours, "s", "POT (PyTorch)", theirs, theirs / ours, 5, "more")


def exact_uniformity() -> Iterator[Row]:
    """The mean over all great circles compared with 200 of them, forward and backward."""
    for n, d, bar in ((512, 128, 0.7), (10_000, 3, 25)):
        x = points(n, d)
        ours, sliced = best_of(step(x, UniformityLoss(method="exact")), step(x, UniformityLoss()), repeats=40)
        work = f"exact UniformityLoss fwd + bwd, n={n:,}, d={d}"
        yield Row(work, ours, "s", "our 200 slices", sliced, ours / sliced, bar, "less")


def loss_against_network() -> Iterator[Row]:
    """The loss at n = m = 512 must not take longer than a step of the network with only 32 images."""
    x, y = points(512, 128), points(512, 128)
    network, images = resnet18(128), torch.randn(32, 3, 32, 32)
    loss = SSWLoss(seed=0)
    (ours,) = best_of(step(x, lambda t: loss(t, y)), repeats=20)
    (theirs,) = best_of(lambda: network(images).sum().backward(), repeats=3, min_seconds=0)
    work = "SSWLoss fwd + bwd, n=m=512, d=128, L=200"
    yield Row(work, ours, "s", "ResNet18 step, 32 images", theirs, ours / theirs, 1, "less")


def autoencoder_step() -> Iterator[Row]:
    """The divergence in a training step of the paper's autoencoder for MNIST: 500 images, S^10, 1000 great circles."""
    codes, sample = points(500, 11), points(500, 11)
    images = torch.rand(500, 1, 28, 28).contiguous(memory_format=torch.channels_last)
    divergences = {"": UniformityLoss(n_projections=1000), " without slices": UniformityLoss(method="exact")}
    model = SphericalAutoencoder(*paper_networks(28, 11, seed=0), divergences[""], 10.0, latent_dim=11)
    model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def train_step() -> None:
        optimizer.zero_grad()
        model.losses(images).total.backward()
        optimizer.step()

    (whole,) = best_of(train_step, repeats=5)
    times = {name: best_of(step(codes, divergence), repeats=20)[0] for name, divergence in divergences.items()}
    for name, seconds in times.items():
        yield Row(f"SSWAE{name}: divergence", seconds, "s", "its training step", whole, seconds / whole, 0.03, "less")
    to_uniform = step(codes, lambda t: ot.sliced_wasserstein_sphere_unif(t, n_projections=1000))
    to_sample = step(codes, lambda t: ot.sliced_wasserstein_sphere(t, sample, n_projections=1000))
    for name, work in (("POT, to uniform", to_uniform), ("POT, to a sample", to_sample)):
        (theirs,) = best_of(work, repeats=2, min_seconds=0)
        yield Row("SSWAE: divergence", times[""], "s", name, theirs, theirs / times[""], 5, "more")


def array_api_backend_against_pot() -> Iterator[Row]:
    x, y = points(10_000, 3), points(10_000, 3)
    with array_api_backend(force=True):
        (ours,) = best_of(step(x, lambda t: sphereot.ssw(t, y, seed=0)), repeats=3, min_seconds=0)
    (theirs,) = best_of(
        step(x, lambda t: ot.sliced_wasserstein_sphere(t, y, n_projections=200, seed=0)), repeats=1, min_seconds=0
    )
    work = "array-API backend fwd + bwd, n=m=10,000, L=200"
    yield Row(work, ours, "s", "POT (PyTorch)", theirs, theirs / ours, 10, "more")


def memory_of_backward() -> Iterator[Row]:
    setup = """
import torch, sphereot
x, y = (sphereot.sphere.random_uniform(100_000, 3, seed=s, like=torch.zeros(1)) for s in (1, 2))
x.requires_grad_()
sphereot.ssw(x[:10], y[:10]).backward()
"""
    extra = peak_memory(setup, "sphereot.ssw(x, y, seed=0).backward()") / 1e6
    work = "extra memory fwd + bwd, n=m=100,000, L=200"
    yield Row(work, extra, "MB", "the inputs", 2.4, extra, 200, "less")


class _Residual(nn.Module):
    def __init__(self, channels_in: int, channels: int, stride: int):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, 1, 1, bias=False),
            nn.BatchNorm2d(channels),
        )
        same = stride == 1 and channels_in == channels
        self.skip = nn.Identity() if same else nn.Conv2d(channels_in, channels, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.skip(x))


def resnet18(n_outputs: int) -> nn.Module:
    """A network of ResNet18's layers and widths, for images of 32 x 32."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    channels_in = 64
    for channels, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        layers.append(_Residual(channels_in, channels, stride))
        channels_in = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, n_outputs))
