"""What the losses of two augmented views share: checks of the embeddings, and the parts of a loss."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from sphereot._arrays.validation import InvalidValuesError, as_points
from sphereot.torch.distributed import gather_batch, mean_over_ranks, require_like_batches

__all__ = [
    "LossParts",
    "as_views",
    "described",
    "gathered",
    "nan_of",
    "normalized",
    "options_of",
    "scaled_to_unit",
    "shared_mean",
    "with_option_normalize",
]


class LossParts(NamedTuple):
    """A loss of two views and its parts, each a scalar tensor; `forward_components` of the losses returns it.

    Attributes
    ----------
    total : tensor
        What to minimize.
    alignment : tensor
        How far apart the two views of an image are.
    uniformity : tensor
        How far the embeddings are from being spread over the sphere, without its weight.
    """

    total: Tensor
    alignment: Tensor
    uniformity: Tensor


def as_views(view_a: Tensor, view_b: Tensor, **options: bool) -> tuple[Tensor, Tensor]:
    """Validate the embeddings of two views: unit vectors of equal shapes (n, d), with the options of `normalized`."""
    for name, view in (("view_a", view_a), ("view_b", view_b)):
        if not isinstance(view, Tensor):
            raise TypeError(f"{name}: got {type(view).__name__}; pass a torch tensor of shape (n, d).")
    if view_a.shape != view_b.shape:
        raise ValueError(
            f"view_b: shape is {tuple(view_b.shape)}, but view_a has {tuple(view_a.shape)}; row i of both must be the "
            "embeddings of two views of image i."
        )
    return normalized("view_a", view_a, **options), normalized("view_b", view_b, **options)


def normalized(name: str, points: Tensor, *, normalize: bool, nan_on_invalid: bool) -> Tensor:
    """Validate unit vectors (n, d), which are scaled to unit length first if `normalize`; in float32 or float64.

    If `nan_on_invalid`, values that are not valid become NaN instead of an error.
    """
    if normalize and points.is_floating_point() and points.ndim == 2:
        points = scaled_to_unit(points)
    try:
        result: Tensor = as_points(name, points)
    except InvalidValuesError as error:
        if nan_on_invalid:
            return _widened(points) * torch.nan
        raise with_option_normalize(error) from None
    return result


def scaled_to_unit(points: Tensor) -> Tensor:
    """Points (..., d) scaled to unit length, in float32 or float64."""
    return nn.functional.normalize(_widened(points), dim=-1)


def with_option_normalize(error: InvalidValuesError) -> InvalidValuesError:
    """An error whose remedy is to normalize the points names the option of the loss too."""
    remedy = "normalize them first with"
    return InvalidValuesError(str(error).replace(remedy, f"give the loss normalize=True, or {remedy}"))


def nan_of(*tensors: Tensor) -> Tensor:
    """NaN, with NaN as the gradient in the tensors: the value of a loss whose input is not valid."""
    return torch.stack([_widened(tensor).sum() for tensor in tensors]).sum() * torch.nan


def _widened(points: Tensor) -> Tensor:
    return points.float() if points.dtype in (torch.float16, torch.bfloat16) else points


def described(*values: object, **flags: object) -> str:
    """Options for the representation of a module: values, and those of the flags that are set."""
    return ", ".join([*map(str, values), *(f"{name}={value!r}" for name, value in flags.items() if value)])


def options_of(loss: nn.Module) -> dict[str, object]:
    """The options that the losses of embeddings share, for `described`."""
    return {name: getattr(loss, name) for name in ("normalize", "gather", "nan_on_invalid")}


def gathered(gather: bool, **points: Tensor) -> list[Tensor]:
    """The batches of all ranks, if `gather`; otherwise those of this rank."""
    if not gather:
        return list(points.values())
    require_like_batches(**points)
    return [gather_batch(part) for part in points.values()]


def shared_mean(gather: bool, value: Tensor) -> Tensor:
    """The mean over ranks, if `gather`; see `mean_over_ranks`."""
    return mean_over_ranks(value) if gather else value
