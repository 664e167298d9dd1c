"""The paper's convolutional encoders and decoders for images of 28x28 and 32x32 pixels (Appendix C.6).

Every number of channels, and with it the larger fully connected layer, is multiplied by `width`; `width=1` are the
networks of the paper. Encoders do not normalize their output: `SphericalAutoencoder` does.
"""

import torch
from torch import Tensor, nn

from sphereot._arrays.validation import as_int, as_positive

_SLOPE = 0.2  # of LeakyReLU
_HIDDEN = 128  # units of the fully connected layer of the 28x28 networks


class _Encoder(nn.Module):
    """Encoder of images of one size; `layers` maps (n, channels, size, size) to (n, latent_dim)."""

    channels: int
    size: int
    latent_dim: int
    layers: nn.Sequential

    def forward(self, images: Tensor) -> Tensor:
        """Codes (n, latent_dim), not normalized, of images (n, channels, size, size)."""
        expected = (self.channels, self.size, self.size)
        if images.ndim != 4 or tuple(images.shape[1:]) != expected:
            raise ValueError(
                f"images: shape is {tuple(images.shape)}, but {type(self).__name__} takes (n, "
                f"{', '.join(map(str, expected))}); crop, pad or reshape them, or use a network for their size."
            )
        return self.layers(images)


class _Decoder(nn.Module):
    """Decoder to images of one size; `layers` maps (n, latent_dim) to (n, channels, size, size)."""

    channels: int
    size: int
    latent_dim: int
    layers: nn.Sequential

    def forward(self, codes: Tensor) -> Tensor:
        """Images (n, channels, size, size) in [0, 1] of codes (n, latent_dim)."""
        if codes.ndim != 2 or codes.shape[1] != self.latent_dim:
            raise ValueError(
                f"codes: shape is {tuple(codes.shape)}, but this {type(self).__name__} takes (n, {self.latent_dim})."
            )
        return self.layers(codes)


class Encoder28(_Encoder):
    """Encoder of gray images of 28x28 pixels, for MNIST and FashionMNIST.

    Parameters
    ----------
    latent_dim : int
        Dimension d of the codes, which lie on S^{d-1} once they are normalized; 11 or 3 in the paper.
    width : float
        Factor of the numbers of channels, 16, 32 and 64 in the paper.

    Notes
    -----
    With c = 16 width channels in the first layer, the convolutions have 279 c^2 + 23 c parameters, and the fully
    connected layers 8192 c + 128 + 129 d.

    Examples
    --------
    >>> import torch
    >>> from paper.learning.networks import Encoder28
    >>> Encoder28(11, width=0.25)(torch.rand(5, 1, 28, 28)).shape
    torch.Size([5, 11])
    """

    channels, size = 1, 28

    def __init__(self, latent_dim: int, width: float = 1.0) -> None:
        super().__init__()
        self.latent_dim = _as_latent_dim(latent_dim)
        c = _channels(16, width)
        self.layers = nn.Sequential(
            *_conv(1, c), *_conv(c, c), nn.AvgPool2d(2),
            *_conv(c, 2 * c), *_conv(2 * c, 2 * c), nn.AvgPool2d(2),
            *_conv(2 * c, 4 * c), *_conv(4 * c, 4 * c), nn.AvgPool2d(2, padding=1),  # 7 pixels become 4
            nn.Flatten(), nn.Linear(64 * c, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, latent_dim),
        )  # fmt: skip


class Decoder28(_Decoder):
    """Decoder to gray images of 28x28 pixels, the counterpart of `Encoder28`.

    Parameters
    ----------
    latent_dim : int
        Dimension of the codes.
    width : float
        Factor of the numbers of channels, 64 and 32 in the paper.

    Examples
    --------
    >>> import torch
    >>> from paper.learning.networks import Decoder28
    >>> Decoder28(11, width=0.25)(torch.rand(5, 11)).shape
    torch.Size([5, 1, 28, 28])
    """

    channels, size = 1, 28

    def __init__(self, latent_dim: int, width: float = 1.0) -> None:
        super().__init__()
        self.latent_dim = _as_latent_dim(latent_dim)
        c = _channels(16, width)
        self.layers = nn.Sequential(
            nn.Linear(latent_dim, _HIDDEN), nn.Linear(_HIDDEN, 64 * c), nn.ReLU(), nn.Unflatten(1, (4 * c, 4, 4)),
            nn.Upsample(scale_factor=2), *_conv(4 * c, 4 * c), *_conv(4 * c, 4 * c),
            nn.Upsample(scale_factor=2), *_conv(4 * c, 4 * c, padding=0), *_conv(4 * c, 2 * c),  # 16 pixels become 14
            nn.Upsample(scale_factor=2), *_conv(2 * c, 2 * c), nn.Conv2d(2 * c, 1, 3, padding=1), nn.Sigmoid(),
        )  # fmt: skip


class Encoder32(_Encoder):
    """Encoder of color images of 32x32 pixels, for CIFAR10: four convolutions of 4x4 with stride 2.

    Parameters
    ----------
    latent_dim : int
        Dimension of the codes; 65 in the paper.
    width : float
        Factor of the numbers of channels, 128, 256, 512 and 1024 in the paper.

    Examples
    --------
    >>> import torch
    >>> from paper.learning.networks import Encoder32
    >>> Encoder32(65, width=0.125)(torch.rand(5, 3, 32, 32)).shape
    torch.Size([5, 65])
    """

    channels, size = 3, 32

    def __init__(self, latent_dim: int, width: float = 1.0) -> None:
        super().__init__()
        self.latent_dim = _as_latent_dim(latent_dim)
        c = _channels(128, width)
        self.layers = nn.Sequential(
            *_halving(3, c), *_halving(c, 2 * c), *_halving(2 * c, 4 * c), *_halving(4 * c, 8 * c),
            nn.Flatten(), nn.Linear(32 * c, latent_dim),
        )  # fmt: skip


class Decoder32(_Decoder):
    """Decoder to color images of 32x32 pixels, the counterpart of `Encoder32`.

    Parameters
    ----------
    latent_dim : int
        Dimension of the codes.
    width : float
        Factor of the numbers of channels, 1024, 512, 256 and 128 in the paper.

    Examples
    --------
    >>> import torch
    >>> from paper.learning.networks import Decoder32
    >>> Decoder32(65, width=0.125)(torch.rand(5, 65)).shape
    torch.Size([5, 3, 32, 32])
    """

    channels, size = 3, 32

    def __init__(self, latent_dim: int, width: float = 1.0) -> None:
        super().__init__()
        self.latent_dim = _as_latent_dim(latent_dim)
        c = _channels(128, width)
        self.layers = nn.Sequential(
            nn.Linear(latent_dim, 32 * c), nn.Unflatten(1, (8 * c, 2, 2)),
            *_doubling(8 * c, 4 * c), *_doubling(4 * c, 2 * c), *_doubling(2 * c, c),
            nn.ConvTranspose2d(c, 3, 4, stride=2, padding=1), nn.Sigmoid(),
        )  # fmt: skip


def paper_networks(
    size: int, latent_dim: int, width: float = 1.0, seed: int | None = None
) -> tuple[_Encoder, _Decoder]:
    """The paper's encoder and decoder for images of a size.

    Parameters
    ----------
    size : {28, 32}
        Height and width of the images in pixels: 28 (gray) or 32 (color).
    latent_dim, width
        As in `Encoder28`.
    seed : int, optional
        Makes the initial weights reproducible; torch's global random state is not changed. Without one, they are drawn
        from torch's global random state, as torch's layers do.

    Examples
    --------
    >>> from paper.learning.networks import paper_networks
    >>> encoder, decoder = paper_networks(28, latent_dim=11)
    >>> sum(p.numel() for p in encoder.parameters()), sum(p.numel() for p in decoder.parameters())
    (204411, 272417)
    """
    networks: dict[int, tuple[type[_Encoder], type[_Decoder]]] = {
        28: (Encoder28, Decoder28),
        32: (Encoder32, Decoder32),
    }
    if size not in networks:
        raise ValueError(
            f"size: got {size!r}, but the paper has networks for 28 (gray) and 32 (color) pixels; write your own "
            "encoder and decoder for images of another size."
        )
    encoder, decoder = networks[size]
    if seed is None:
        return encoder(latent_dim, width), decoder(latent_dim, width)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return encoder(latent_dim, width), decoder(latent_dim, width)


def _conv(inputs: int, outputs: int, padding: int = 1) -> tuple[nn.Module, nn.Module]:
    return nn.Conv2d(inputs, outputs, 3, padding=padding), nn.LeakyReLU(_SLOPE, inplace=True)


def _halving(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    """A convolution that halves height and width."""
    return nn.Conv2d(inputs, outputs, 4, stride=2, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)


def _doubling(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    """A transposed convolution that doubles height and width."""
    return nn.ConvTranspose2d(inputs, outputs, 4, stride=2, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)


def _channels(base: int, width: float) -> int:
    channels = base * as_positive("width", width, "the factor of the numbers of channels")
    if not 1 <= round(channels) <= 2**20:
        raise ValueError(f"width: got {width!r}, which makes {channels:g} of {base} channels; give another factor.")
    return round(channels)


def _as_latent_dim(latent_dim: int) -> int:
    return as_int("latent_dim", latent_dim, 2, "the dimension of the codes")
