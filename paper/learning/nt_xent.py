"""Normalized temperature-scaled cross-entropy of two views, the loss of SimCLR (Chen et al. 2020)."""

import torch
from torch import Tensor, nn

from sphereot._arrays.libraries import product
from sphereot._arrays.validation import as_positive
from sphereot.torch.views import LossParts, as_views, described, gathered, options_of, shared_mean

__all__ = ["NTXentLoss"]


class NTXentLoss(nn.Module):
    """NT-Xent: each embedding must find the other view of its image among all others of the batch.

    Over the 2 n embeddings of both views, the mean of -<z_i, z_i'> / tau + log sum_{j != i} exp(<z_i, z_j> / tau),
    where i' is the other view of i. The first term is the alignment, the second the uniformity.

    Parameters
    ----------
    temperature : float
        tau; 0.5 suits CIFAR10 in the publication, 0.2 is what the code of the paper takes.
    normalize : bool
        Scale the embeddings to unit length first. Without it, vectors of other lengths are an error.
    gather : bool
        Under `torch.distributed`, take the batch of all ranks; value and gradient are those of one process with it.
    nan_on_invalid : bool
        Return NaN for values that are not valid (NaN, infinity, other lengths than 1), instead of raising an error, so
        that a training can skip the step.

    Examples
    --------
    >>> import torch
    >>> from sphereot.torch import NTXentLoss
    >>> z = torch.eye(4)
    >>> round(float(NTXentLoss(temperature=0.5)(z, z)), 4)  # log(1 + 6 exp(-2))
    0.5944
    """

    def __init__(
        self,
        temperature: float = 0.5,
        *,
        normalize: bool = False,
        gather: bool = False,
        nan_on_invalid: bool = False,
    ) -> None:
        super().__init__()
        self.temperature = as_positive("temperature", temperature, "the temperature")
        self.normalize, self.gather, self.nan_on_invalid = normalize, gather, nan_on_invalid

    def extra_repr(self) -> str:
        """The options."""
        return described(f"temperature={self.temperature:g}", **options_of(self))

    def forward(self, view_a: Tensor, view_b: Tensor) -> Tensor:
        """The loss of the embeddings (n, d) of two views; for n = 1 it is 0."""
        return self.forward_components(view_a, view_b).total

    def forward_components(self, view_a: Tensor, view_b: Tensor) -> LossParts:
        """The loss with its parts, alignment and uniformity."""
        a, b = as_views(view_a, view_b, normalize=self.normalize, nan_on_invalid=self.nan_on_invalid)
        a, b = gathered(self.gather, view_a=a, view_b=b)
        both = torch.cat([a, b])
        similarities = product(both, both.T) / self.temperature
        itself = torch.eye(len(both), dtype=torch.bool, device=both.device)
        uniformity = torch.logsumexp(similarities.masked_fill(itself, -torch.inf), dim=1).mean()
        alignment = -(a * b).sum(1).mean() / self.temperature
        alignment, uniformity = (shared_mean(self.gather, part) for part in (alignment, uniformity))
        return LossParts(alignment + uniformity, alignment, uniformity)
