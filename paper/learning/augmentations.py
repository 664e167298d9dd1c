"""Random augmentations of a batch of images, by kornia: crop, flip, color jitter, gray scale (Appendix C.7)."""

from typing import Any

import torch
from torch import Tensor, nn

from sphereot._arrays.random import torch_generator
from sphereot._arrays.validation import as_int
from sphereot._support.extras import require


class Augmentation(nn.Module):
    """Random crop and resize, horizontal flip, color jitter and gray scale, each image by itself.

    The defaults are those of Wang and Isola (2020), which the paper uses. Gray images get the crop alone, and no flip:
    mirrored digits are other digits.

    Parameters
    ----------
    size : int
        Height and width of the result in pixels.
    channels : {1, 3}
        Gray or color.
    crop : (float, float)
        Range of the share of the image that is cropped, before it is resized.
    jitter : float
        Range of brightness, contrast, saturation and hue; 0 for none.
    gray : float
        Probability of a color image to become gray.
    flip : bool, optional
        Whether half of the images are mirrored; by default color images are.

    Examples
    --------
    >>> import torch
    >>> from paper.learning.augmentations import Augmentation
    >>> augment = Augmentation(32)
    >>> images = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    >>> view_a, view_b = augment.two_views(images, seed=0)
    >>> view_a.shape, torch.equal(view_a, view_b), torch.equal(view_a, augment.two_views(images, seed=0)[0])
    (torch.Size([4, 3, 32, 32]), False, True)
    """

    def __init__(
        self,
        size: int = 32,
        channels: int = 3,
        *,
        crop: tuple[float, float] = (0.2, 1.0),
        jitter: float = 0.4,
        gray: float = 0.2,
        flip: bool | None = None,
    ) -> None:
        super().__init__()
        require("kornia", "Augmentation", extra="paper")
        from kornia import augmentation as kornia

        self.size, self.channels = as_int("size", size, 2, "the size of images"), channels
        if channels not in (1, 3):
            raise ValueError(f"channels: got {channels!r}; choose 1 (gray) or 3 (color).")
        if not 0 < crop[0] <= crop[1] <= 1:
            raise ValueError(f"crop: got {crop!r}, but shares 0 < least <= most <= 1 are needed.")
        if not 0 <= jitter <= 0.5:
            raise ValueError(f"jitter: got {jitter!r}, but a range from 0 to 0.5 is needed.")
        if not 0 <= gray <= 1:
            raise ValueError(f"gray: got {gray!r}, but a probability is needed.")
        steps: list[Any] = [kornia.RandomResizedCrop((size, size), scale=crop)]
        if flip or (flip is None and channels == 3):
            steps.append(kornia.RandomHorizontalFlip())
        if channels == 3:
            if jitter > 0:
                steps.append(kornia.ColorJitter(jitter, jitter, jitter, jitter, p=1.0))
            steps.append(kornia.RandomGrayscale(p=gray))
        self.steps = nn.Sequential(*steps)

    def forward(self, images: Tensor, seed: int | torch.Generator | None = None) -> Tensor:
        """Augmented images (n, channels, size, size) in [0, 1].

        Parameters
        ----------
        images : tensor, shape (n, channels, height, width)
            In [0, 1].
        seed : int, torch.Generator or None
            Where random numbers come from; None: new numbers in every call. torch's global random state is put back.
        """
        if images.ndim != 4 or images.shape[1] != self.channels or not images.is_floating_point():
            raise ValueError(
                f"images: shape is {tuple(images.shape)} and dtype {images.dtype}, but floats "
                f"(n, {self.channels}, height, width) are needed."
            )
        drawn = int(torch.randint(2**62, (), generator=torch_generator(seed, "cpu")))
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(drawn)  # kornia draws from the global random state
            augmented: Tensor = self.steps(images)
        return augmented.clamp(0.0, 1.0)

    def two_views(self, images: Tensor, seed: int | torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Two augmentations of every image."""
        generator = torch_generator(seed, "cpu")
        return self(images, seed=generator), self(images, seed=generator)
