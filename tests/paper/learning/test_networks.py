"""The paper's networks: sizes, parameter counts by formula, refusal of other images."""

from itertools import pairwise

import pytest

torch = pytest.importorskip("torch")

from paper.learning.networks import Decoder28, Decoder32, Encoder28, Encoder32, paper_networks


def count(network):
    return sum(parameter.numel() for parameter in network.parameters())


def conv(inputs, outputs, size):
    return size * size * inputs * outputs + outputs


def linear(inputs, outputs):
    return inputs * outputs + outputs


@pytest.mark.parametrize(("width", "dim"), [(1.0, 11), (1.0, 3), (0.5, 11), (0.25, 65)])
def test_parameters_of_28_pixel_networks(width, dim):
    """Layer by layer, as the appendix lists them: 16, 32 and 64 channels of 3x3, fully connected 128."""
    a, b, c = (round(width * k) for k in (16, 32, 64))
    convolutions = conv(1, a, 3) + conv(a, a, 3) + conv(a, b, 3) + conv(b, b, 3) + conv(b, c, 3) + conv(c, c, 3)
    assert count(Encoder28(dim, width)) == convolutions + linear(16 * c, 128) + linear(128, dim)
    convolutions = 3 * conv(c, c, 3) + conv(c, b, 3) + conv(b, b, 3) + conv(b, 1, 3)
    assert count(Decoder28(dim, width)) == linear(dim, 128) + linear(128, 16 * c) + convolutions


@pytest.mark.parametrize(("width", "dim"), [(1.0, 65), (0.25, 65), (0.125, 11)])
def test_parameters_of_32_pixel_networks(width, dim):
    """128, 256, 512 and 1024 channels of 4x4, each with two numbers per channel of batch normalization."""
    channels = [round(width * k) for k in (128, 256, 512, 1024)]
    steps = list(pairwise(channels))
    normalized = 2 * sum(channels)
    convolutions = conv(3, channels[0], 4) + sum(conv(a, b, 4) for a, b in steps)
    assert count(Encoder32(dim, width)) == convolutions + normalized + linear(4 * channels[-1], dim)
    transposed = sum(conv(b, a, 4) for a, b in steps) + conv(channels[0], 3, 4)
    normalized = 2 * sum(channels[:-1])
    assert count(Decoder32(dim, width)) == linear(dim, 4 * channels[-1]) + transposed + normalized


@pytest.mark.parametrize(("size", "channels"), [(28, 1), (32, 3)])
def test_shapes_and_range(size, channels):
    encoder, decoder = paper_networks(size, 7, width=0.125, seed=0)
    codes = encoder(torch.rand(4, channels, size, size))
    images = decoder(codes).detach()
    assert (codes.shape, images.shape) == ((4, 7), (4, channels, size, size))
    assert 0 <= float(images.min()) <= float(images.max()) <= 1


def test_seed_gives_the_same_weights_and_leaves_the_global_state():
    state = torch.random.get_rng_state()
    first, second = (paper_networks(28, 3, width=0.25, seed=5)[0].state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Encoder28(3)(torch.rand(2, 1, 32, 32)), r"images: shape is \(2, 1, 32, 32\), but Encoder28 takes"),
        (lambda: Encoder28(3)(torch.rand(2, 28, 28)), r"takes \(n, 1, 28, 28\)"),
        (lambda: Encoder32(3, 0.125)(torch.rand(2, 1, 28, 28)), r"Encoder32 takes \(n, 3, 32, 32\)"),
        (lambda: Decoder28(3)(torch.rand(2, 4)), r"codes: shape is \(2, 4\), but this Decoder28 takes \(n, 3\)"),
        (lambda: paper_networks(64, 3), r"size: got 64, but the paper has networks for 28 \(gray\) and 32"),
        (lambda: Encoder28(1), r"latent_dim: .*, got 1"),
        (lambda: Encoder28(3, width=0.01), r"width: got 0.01"),
        (lambda: Encoder28(3, width=-1), r"width: .*, got -1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
