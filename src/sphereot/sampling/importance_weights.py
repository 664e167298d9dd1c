"""Effective sample size of importance weights."""

import torch
from torch import Tensor

__all__ = ["effective_sample_size"]


def effective_sample_size(log_weights: Tensor, *, relative: bool = False) -> Tensor:
    """Effective sample size of importance weights, (sum of w)^2 / sum of w^2.

    Parameters
    ----------
    log_weights : tensor, shape (..., n)
        Logarithms of unnormalized weights: for points x drawn from a density q, and a target proportional to exp(-V),
        -V(x) - log q(x). A weight of zero is -inf.
    relative : bool
        As a share of the n points, in (0, 1], instead of a number of points.

    Returns
    -------
    tensor, shape (...)
        Between 1 (one point has all the weight) and n (equal weights: q is the target).

    Notes
    -----
    The paper reports it as a percentage (Appendix C.5). Its weights, printed as exp(-beta u / q), are exp(-beta u) / q.

    Examples
    --------
    >>> import torch
    >>> from sphereot.sampling import effective_sample_size
    >>> effective_sample_size(torch.tensor([0.0, 0.0, 0.0, -torch.inf]))
    tensor(3.)
    >>> effective_sample_size(torch.tensor([0.0, 0.0, 0.0, -torch.inf]), relative=True)
    tensor(0.7500)
    """
    if not isinstance(log_weights, Tensor):
        raise TypeError(f"log_weights: got {type(log_weights).__name__}; pass a torch tensor of shape (..., n).")
    if not log_weights.is_floating_point():
        raise TypeError(
            f"log_weights: got dtype {log_weights.dtype}, but a floating dtype is needed; convert with .float()."
        )
    if log_weights.ndim == 0 or log_weights.shape[-1] == 0:
        raise ValueError(
            f"log_weights: got shape {tuple(log_weights.shape)}; give at least one weight, shape (..., n)."
        )
    largest = log_weights.amax(dim=-1, keepdim=True)
    if not bool(torch.isfinite(largest).all()) or bool(torch.isnan(log_weights).any()):
        raise ValueError(
            "log_weights: got NaN, +inf, or nothing but zero weights; give logarithms of finite weights, some of them "
            "positive."
        )
    weights = torch.exp(log_weights - largest)
    size = weights.sum(-1).square() / weights.square().sum(-1)
    return size / log_weights.shape[-1] if relative else size
