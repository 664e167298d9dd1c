"""Alignment and uniformity of two augmented views: the paper's loss for self-supervised learning (Appendix C.7)."""

from collections.abc import Callable

from torch import Tensor, nn

from sphereot._arrays.validation import InvalidValuesError, as_positive, as_weight_factor
from sphereot.torch.losses import UniformityLoss
from sphereot.torch.views import LossParts, as_views, described, nan_of, options_of, shared_mean

__all__ = ["AlignmentUniformityLoss"]


class AlignmentUniformityLoss(nn.Module):
    """Alignment of two views plus weight times the uniformity of both.

    mean |z^A_i - z^B_i|^2 + weight / 2 (U(z^A) + U(z^B)), with U = SSW_2^2 to the uniform distribution in the paper. It
    needs no negative samples and no temperature.

    Parameters
    ----------
    weight : float
        The factor lambda of the uniformity; 20 for SSW on S^2 in the paper.
    uniformity : callable, optional
        The term U of embeddings (n, d): `UniformityLoss` with slices or without, `GaussianPotentialLoss`,
        `SWUniformityLoss`, or any function. By default `UniformityLoss(method="exact")`: SSW_2^2 without slices.
    alpha : float
        Exponent of the distance of two views; 2 in the paper.
    normalize : bool
        Scale the embeddings to unit length first. Without it, vectors of other lengths are an error.
    gather : bool
        Under `torch.distributed`, take the mean alignment over all ranks. The uniformity term gathers the batch of all
        ranks if it was made with `gather=True`, as the default one is then; value and gradient are those of one
        process with the whole batch. As for `SSWLoss`, multiply the loss by the number of ranks under
        `DistributedDataParallel`.
    nan_on_invalid : bool
        Return NaN for values that are not valid (NaN, infinity, other lengths than 1), instead of raising an error, so
        that a training can skip the step.

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

    def __init__(
        self,
        weight: float,
        uniformity: Callable[[Tensor], Tensor] | None = None,
        *,
        alpha: float = 2.0,
        normalize: bool = False,
        gather: bool = False,
        nan_on_invalid: bool = False,
    ) -> None:
        super().__init__()
        if uniformity is not None and not callable(uniformity):
            raise TypeError(
                f"uniformity: got {type(uniformity).__name__}; give a loss module, or a function of points."
            )
        if gather and getattr(uniformity, "gather", True) is False:
            raise ValueError(
                "gather: the uniformity term would only see the batch of its own rank; make it with gather=True too."
            )
        self.weight = as_weight_factor("weight", weight, "the factor of the uniformity")
        self.alpha = as_positive("alpha", alpha, "the exponent of the alignment")
        self.normalize, self.gather, self.nan_on_invalid = normalize, gather, nan_on_invalid
        self.uniformity = uniformity or UniformityLoss(method="exact", gather=gather)

    def extra_repr(self) -> str:
        """The options."""
        return described(f"weight={self.weight:g}", **options_of(self))

    def forward(self, view_a: Tensor, view_b: Tensor) -> Tensor:
        """The loss of the embeddings (n, d) of two views; row i of both belongs to image i."""
        return self.forward_components(view_a, view_b).total

    def forward_components(self, view_a: Tensor, view_b: Tensor) -> LossParts:
        """The loss with its parts: the total, the alignment, and the uniformity without its weight."""
        a, b = as_views(view_a, view_b, normalize=self.normalize, nan_on_invalid=self.nan_on_invalid)
        squares = (a - b).square().sum(1)
        distances = squares if self.alpha == 2 else squares.clamp(min=1e-12) ** (self.alpha / 2)
        alignment = shared_mean(self.gather, distances.mean())
        try:
            uniformity = (self.uniformity(a) + self.uniformity(b)) / 2
        except InvalidValuesError:
            if not self.nan_on_invalid:
                raise
            uniformity = nan_of(a, b)
        return LossParts(alignment + self.weight * uniformity, alignment, uniformity)
