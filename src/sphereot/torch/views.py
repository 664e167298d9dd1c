"""What the losses of two augmented views share: checks of the embeddings, and the parts of a loss."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from sphereot._arrays.validation import as_points
from sphereot.torch.distributed import gather_batch, mean_over_ranks, require_like_batches

__all__ = ["LossParts", "as_views", "described", "gathered", "normalized", "shared_mean"]


class LossParts(NamedTuple):
    """Loss of two views with its parts, each a scalar tensor.

    Attributes
    ----------
    total : tensor
        What to minimize.
    alignment : tensor
        How far apart the two views of an image are.
    uniformity : tensor
        How far the embeddings are from being spread over the sphere, without its weight.

    Examples
    --------
    >>> import torch
    >>> parts = LossParts(torch.tensor(3.0), torch.tensor(1.0), torch.tensor(0.1))
    >>> parts.log()
    {'loss': 3.0, 'alignment': 1.0, 'uniformity': 0.10000000149011612}
    """

    total: Tensor
    alignment: Tensor
    uniformity: Tensor

    def backward(self) -> None:
        """Compute the gradient of the total."""
        self.total.backward()

    def item(self) -> float:
        """The total as a number."""
        return float(self.total.item())

    def log(self) -> dict[str, float]:
        """The parts as numbers, to log."""
        names = {"loss": self.total, "alignment": self.alignment, "uniformity": self.uniformity}
        return {name: value.item() for name, value in names.items()}


def as_views(view_a: Tensor, view_b: Tensor, *, normalize: bool) -> tuple[Tensor, Tensor]:
    """Validate the embeddings of two views: unit vectors of equal shapes (n, d), in float32 or float64."""
    for name, view in (("view_a", view_a), ("view_b", view_b)):
        if not isinstance(view, Tensor):
            raise TypeError(f"{name}: got {type(view).__name__}; pass a torch tensor of shape (n, d).")
    if view_a.shape != view_b.shape:
        raise ValueError(
            f"view_b: shape is {tuple(view_b.shape)}, but view_a has {tuple(view_a.shape)}; row i of both must be the "
            "embeddings of two views of image i."
        )
    return normalized("view_a", view_a, normalize=normalize), normalized("view_b", view_b, normalize=normalize)


def normalized(name: str, points: Tensor, *, normalize: bool) -> Tensor:
    """Validate unit vectors, which are scaled to unit length first if `normalize`."""
    if normalize and points.is_floating_point() and points.ndim == 2:
        half = points.dtype in (torch.float16, torch.bfloat16)
        points = nn.functional.normalize(points.float() if half else points, dim=-1)
    try:
        result: Tensor = as_points(name, points)
    except ValueError as error:
        message, remedy = str(error), "normalize them first with"
        if remedy not in message:
            raise
        raise ValueError(message.replace(remedy, f"give the loss normalize=True, or {remedy}")) from None
    return result


def described(*values: object, **flags: object) -> str:
    """Options for the representation of a module: values, and those of the flags that are set."""
    return ", ".join([*map(str, values), *(f"{name}={value!r}" for name, value in flags.items() if value)])


def gathered(gather: bool, **points: Tensor) -> list[Tensor]:
    """The batches of all ranks, if `gather`; otherwise those of this rank."""
    if not gather:
        return list(points.values())
    require_like_batches(**points)
    return [gather_batch(part) for part in points.values()]


def shared_mean(gather: bool, value: Tensor) -> Tensor:
    """The mean over ranks, if `gather`; see `mean_over_ranks`."""
    return mean_over_ranks(value) if gather else value
