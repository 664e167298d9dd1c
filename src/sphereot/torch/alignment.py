"""Alignment and uniformity of two augmented views: the paper's loss for self-supervised learning (Appendix C.7)."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nan, nn

from sphereot._arrays.libraries import is_half
from sphereot._arrays.validation import InvalidValuesError, as_points, as_positive, as_weight_factor
from sphereot.torch.distributed import gather_batch, mean_over_ranks, require_equal_batches
from sphereot.torch.losses import NORMALIZE_REMEDY, UniformityLoss, make_nan, scale_to_unit, widen

_FACTOR = "the factor of the uniformity"


class LossParts(NamedTuple):
    """Loss of two views and its parts, each a scalar tensor, as returned by `forward_components` of the losses.

    Attributes
    ----------
    total : tensor
        The loss to minimize.
    alignment : tensor
        Distance between the two views of an image.
    uniformity : tensor
        Distance of the embeddings to the uniform distribution, without its weight.
    """

    total: Tensor
    alignment: Tensor
    uniformity: Tensor


class EmbeddingLoss(nn.Module):
    """Base of the losses of embeddings (n, d): validation, and batches that are shared by processes."""

    def __init__(self, *, normalize: bool, gather: bool, nan_on_invalid: bool) -> None:
        super().__init__()
        self.normalize, self.gather, self.nan_on_invalid = normalize, gather, nan_on_invalid

    def extra_repr(self) -> str:
        """Return the options that are not the default."""
        flags = [f"{name}=True" for name in ("normalize", "gather", "nan_on_invalid") if getattr(self, name)]
        return ", ".join([*self._shown_values(), *flags])

    def _shown_values(self) -> list[str]:
        """Return the options of a subclass, as `extra_repr` shows them."""
        return []

    def _read_points(self, name: str, points: Tensor) -> Tensor:
        """Validate unit vectors (n, d), and convert them to float32 or float64."""
        if self.normalize and points.is_floating_point() and points.ndim == 2:
            points = scale_to_unit(points)
        try:
            result: Tensor = as_points(name, points, remedy=NORMALIZE_REMEDY)
        except InvalidValuesError:
            if self.nan_on_invalid:
                return widen(points) * nan
            raise
        return result

    def _read_views(self, view_a: Tensor, view_b: Tensor) -> tuple[Tensor, Tensor]:
        """Validate the embeddings of two views."""
        for name, view in (("view_a", view_a), ("view_b", view_b)):
            if not isinstance(view, Tensor):
                raise TypeError(f"{name} must be a torch tensor of shape (n, d), got {type(view).__name__}.")
        if view_a.shape != view_b.shape:
            raise ValueError(
                f"view_b must have the shape of view_a {tuple(view_a.shape)}, got {tuple(view_b.shape)}. Row i of both "
                "must be the embeddings of two views of image i."
            )
        a, b = self._read_points("view_a", view_a), self._read_points("view_b", view_b)
        # The uniformity term validates its points again, in float32, in which a rounded vector has another length.
        return (scale_to_unit(a), scale_to_unit(b)) if is_half(view_a.dtype) else (a, b)

    def _gather_batches(self, **points: Tensor) -> list[Tensor]:
        """Return the batches of all ranks with `gather`, and the batches of this rank without it."""
        if not self.gather:
            return list(points.values())
        require_equal_batches(**points)
        return [gather_batch(part) for part in points.values()]

    def _average(self, value: Tensor) -> Tensor:
        return mean_over_ranks(value) if self.gather else value


class AlignmentUniformityLoss(EmbeddingLoss):
    """Alignment of two views plus weight times the uniformity of both.

    The loss is mean |z^A_i - z^B_i|^2 + weight / 2 (U(z^A) + U(z^B)). In the paper, U is SSW_2^2 to the uniform
    distribution. The loss needs no negative samples and no temperature.

    Parameters
    ----------
    weight : float or callable (step) -> float
        Factor lambda of the uniformity. The paper uses 20 for SSW on S^2. A function is called with the number of
        earlier calls of the loss in training mode, which is part of `state_dict`. For SSW in ten or more dimensions a
        weight that rises in the first half of the training is better than a constant one.
    uniformity : callable, optional
        The term U of embeddings (n, d): a `UniformityLoss` or any function. By default
        ``UniformityLoss(method="exact")``.
    alpha : float, default 2
        Exponent of the distance of two views.
    normalize : bool, default False
        Scale the embeddings to unit length first. Otherwise, vectors of other lengths raise an error.
    gather : bool, default False
        Under `torch.distributed`, average the alignment over all ranks. A given uniformity term must be made with
        ``gather=True`` too. Value and gradients are those of one process with the whole batch. As for `SSWLoss`,
        multiply the loss by the number of ranks under `DistributedDataParallel`.
    nan_on_invalid : bool, default False
        Return NaN for invalid values (NaN, infinity, lengths other than 1) instead of raising an error. A training loop
        can then skip the step.

    Examples
    --------
    >>> import torch
    >>> from sphereot.torch import AlignmentUniformityLoss
    >>> generator = torch.Generator().manual_seed(0)
    >>> images = torch.randn(64, 3, generator=generator)
    >>> view_a, view_b = (images + 0.1 * torch.randn(64, 3, generator=generator) for _ in range(2))
    >>> loss = AlignmentUniformityLoss(weight=20.0, normalize=True)
    >>> total, alignment, uniformity = loss.forward_components(view_a, view_b)
    >>> torch.allclose(loss(view_a, view_b), alignment + 20 * uniformity)
    True
    """

    steps: Tensor  # the number of calls in training mode, if the weight is a function

    def __init__(
        self,
        weight: float | Callable[[int], float],
        uniformity: Callable[[Tensor], Tensor] | None = None,
        *,
        alpha: float = 2.0,
        normalize: bool = False,
        gather: bool = False,
        nan_on_invalid: bool = False,
    ) -> None:
        super().__init__(normalize=normalize, gather=gather, nan_on_invalid=nan_on_invalid)
        if uniformity is not None and not callable(uniformity):
            raise TypeError(
                f"uniformity must be a loss module or a function of points, got {type(uniformity).__name__}."
            )
        if gather and getattr(uniformity, "gather", True) is False:
            raise ValueError(
                "gather must be equal for the loss and its uniformity term, got a term with gather=False. Make it with "
                "gather=True too."
            )
        self.weight = weight if callable(weight) else as_weight_factor("weight", weight, _FACTOR)
        if callable(weight):
            self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.alpha = as_positive("alpha", alpha, "the exponent of the alignment")
        self.uniformity = uniformity or UniformityLoss(method="exact", gather=gather)

    def _shown_values(self) -> list[str]:
        return ["weight=" + (f"{self.weight:g}" if isinstance(self.weight, float) else repr(self.weight))]

    def forward(self, view_a: Tensor, view_b: Tensor) -> Tensor:
        """Compute the loss of the embeddings (n, d) of two views; row i of both belongs to image i."""
        return self.forward_components(view_a, view_b).total

    def forward_components(self, view_a: Tensor, view_b: Tensor) -> LossParts:
        """Compute the loss with its parts: the total, the alignment, and the uniformity without its weight."""
        a, b = self._read_views(view_a, view_b)
        squares = (a - b).square().sum(1)
        distances = squares if self.alpha == 2 else squares.clamp(min=1e-12) ** (self.alpha / 2)
        alignment = self._average(distances.mean())
        try:
            uniformity = (self.uniformity(a) + self.uniformity(b)) / 2
        except InvalidValuesError:
            if not self.nan_on_invalid:
                raise
            uniformity = make_nan(a, b)
        return LossParts(alignment + self._next_weight() * uniformity, alignment, uniformity)

    def _next_weight(self) -> float:
        if isinstance(self.weight, float):
            return self.weight
        weight = as_weight_factor("weight", self.weight(int(self.steps)), _FACTOR)
        if self.training:
            self.steps += 1
        return weight
