"""Alignment and uniformity of two augmented views: the paper's loss for self-supervised learning (Appendix C.7)."""

from collections.abc import Callable

from torch import Tensor, nn

from sphereot._arrays.validation import as_positive, as_weight_factor
from sphereot.torch.losses import UniformityLoss
from sphereot.torch.views import LossParts, as_views, described, shared_mean

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

    Examples
    --------
    >>> import torch
    >>> from sphereot.torch import AlignmentUniformityLoss
    >>> generator = torch.Generator().manual_seed(0)
    >>> images = torch.randn(64, 3, generator=generator)
    >>> view_a, view_b = (images + 0.1 * torch.randn(64, 3, generator=generator) for _ in range(2))
    >>> loss = AlignmentUniformityLoss(weight=20.0, normalize=True)
    >>> total, alignment, uniformity = loss(view_a, view_b)
    >>> torch.allclose(total, alignment + 20 * uniformity)
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
        self.normalize, self.gather = normalize, gather
        self.uniformity = uniformity or UniformityLoss(method="exact", gather=gather)

    def extra_repr(self) -> str:
        """The options."""
        return described(f"weight={self.weight:g}", normalize=self.normalize, gather=self.gather)

    def forward(self, view_a: Tensor, view_b: Tensor) -> LossParts:
        """The loss of the embeddings (n, d) of two views, and its parts; row i of both belongs to image i."""
        a, b = as_views(view_a, view_b, normalize=self.normalize)
        squares = (a - b).square().sum(1)
        distances = squares if self.alpha == 2 else squares.clamp(min=1e-12) ** (self.alpha / 2)
        alignment = shared_mean(self.gather, distances.mean())
        uniformity = (self.uniformity(a) + self.uniformity(b)) / 2
        return LossParts(alignment + self.weight * uniformity, alignment, uniformity)
