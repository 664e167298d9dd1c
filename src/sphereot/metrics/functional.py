"""Measures of embeddings as functions: alignment, unbiased uniformity, effective rank, nearest neighbors."""

import torch
from torch import Tensor

from sphereot._arrays.validation import as_int, as_points
from sphereot.distance import ssw_uniform

__all__ = ["alignment", "effective_rank", "knn_accuracy", "knn_votes", "rank_of_moments", "uniformity"]

_BLOCK = 1 << 24  # cosines in memory at a time


def alignment(view_a: Tensor, view_b: Tensor) -> Tensor:
    """Mean squared distance between the embeddings of two views of the same images.

    Parameters
    ----------
    view_a, view_b : tensor, shape (n, d)
        Unit vectors; row i of both belongs to image i.

    Returns
    -------
    tensor, shape ()
        From 0 (equal) to 4 (antipodes).

    Examples
    --------
    >>> import torch
    >>> from sphereot.metrics import functional
    >>> functional.alignment(torch.eye(3), torch.eye(3).roll(1, 0))
    tensor(2.)
    """
    a, b = as_points("view_a", view_a), as_points("view_b", view_b)
    if a.shape != b.shape:
        raise ValueError(f"view_b: shape is {tuple(b.shape)}, but view_a has {tuple(a.shape)}; give two views of each.")
    return (a - b).square().sum(1).mean()


def uniformity(x: Tensor) -> Tensor:
    """SSW_2^2 of embeddings to the uniform distribution, exact and unbiased.

    Its mean for uniform points is 0 for every n, so that values of batches of different sizes compare; it can be
    slightly negative. Points that are all equal have 1/12.

    Parameters
    ----------
    x : tensor, shape (n, d)
        Unit vectors, at least 2.

    Examples
    --------
    >>> import torch
    >>> from sphereot.metrics import functional
    >>> round(float(functional.uniformity(torch.eye(3)[[0, 0]])), 4)
    0.0833
    """
    value: Tensor = ssw_uniform(as_points("x", x), method="exact", unbiased=True)
    return value


def effective_rank(x: Tensor) -> Tensor:
    """Effective number of dimensions that embeddings use (Roy and Vetterli 2007; RankMe).

    The exponential of the entropy of the singular values of the matrix of embeddings, scaled to a total of 1.

    Parameters
    ----------
    x : tensor, shape (n, d)
        Embeddings, of any length.

    Returns
    -------
    tensor, shape ()
        From 1 (all on a line through the origin) to min(n, d).

    Examples
    --------
    >>> import torch
    >>> from sphereot.metrics import functional
    >>> functional.effective_rank(torch.eye(4))
    tensor(4.)
    """
    if x.ndim != 2 or x.shape[0] == 0 or not x.is_floating_point():
        raise ValueError(f"x: shape is {tuple(x.shape)} and dtype {x.dtype}, but embeddings are floats (n, d).")
    if not bool(torch.isfinite(x).all()):
        raise ValueError("x: holds NaN or infinity; remove or fix such rows.")
    return _entropy_rank(torch.linalg.svdvals(x.float() if x.dtype in (torch.float16, torch.bfloat16) else x))


def rank_of_moments(moments: Tensor) -> Tensor:
    """Effective rank of embeddings whose sum of outer products (d, d) is known."""
    return _entropy_rank(torch.linalg.eigvalsh(moments).clamp(min=0.0).sqrt())


def _entropy_rank(singular_values: Tensor) -> Tensor:
    total = singular_values.sum()
    shares = singular_values / torch.where(total > 0, total, 1.0)
    return torch.exp(torch.special.entr(shares).sum())


def knn_accuracy(
    x: Tensor, labels: Tensor, reference: Tensor, reference_labels: Tensor, *, k: int = 20, temperature: float = 0.07
) -> Tensor:
    """Share of embeddings whose nearest neighbors in a labeled reference set vote for the right class.

    Parameters
    ----------
    x, reference : tensor, shape (n, d) and (m, d)
        Unit vectors.
    labels, reference_labels : tensor, shape (n,) and (m,)
        Classes, integers from 0 on.
    k : int
        The number of neighbors, at most m.
    temperature : float
        Votes are weighted by exp(cosine / temperature) (Wu et al. 2018); infinity counts them equally.

    Examples
    --------
    >>> import torch
    >>> from sphereot.metrics import functional
    >>> classes = torch.tensor([0, 1, 2])
    >>> functional.knn_accuracy(torch.eye(3), classes, torch.eye(3), classes, k=1)
    tensor(1.)
    """
    correct = knn_votes(x, reference, reference_labels, k=k, temperature=temperature) == _as_labels("labels", labels, x)
    return correct.float().mean()


def knn_votes(x: Tensor, reference: Tensor, reference_labels: Tensor, *, k: int, temperature: float) -> Tensor:
    """The classes (n,) that the nearest neighbors of embeddings vote for."""
    points, others = as_points("x", x), as_points("reference", reference)
    if points.shape[1] != others.shape[1]:
        raise ValueError(f"x: dimension is {points.shape[1]}, but the reference has {others.shape[1]}.")
    classes = _as_labels("reference_labels", reference_labels, others)
    k = as_int("k", k, 1, "the number of neighbors")
    if k > others.shape[0]:
        raise ValueError(f"k: got {k}, but the reference has {others.shape[0]} points; give fewer neighbors.")
    if not temperature > 0:
        raise ValueError(f"temperature: got {temperature!r}, but it must be positive.")
    n_classes = int(classes.max()) + 1
    votes = []
    for block in points.split(max(1, _BLOCK // others.shape[0])):
        cosines, nearest = (block @ others.T).topk(k, dim=1)
        weights = torch.exp((cosines - cosines[:, :1]) / temperature)  # the nearest has weight 1: nothing overflows
        counts = torch.zeros(len(block), n_classes, dtype=weights.dtype, device=weights.device)
        votes.append(counts.scatter_add_(1, classes[nearest], weights).argmax(1))
    return torch.cat(votes)


def _as_labels(name: str, labels: Tensor, points: Tensor) -> Tensor:
    """Validate one class per point: integers from 0 on."""
    if not isinstance(labels, Tensor) or labels.shape != points.shape[:1] or labels.dtype.is_floating_point:
        kind = f"{tuple(labels.shape)} {labels.dtype}" if isinstance(labels, Tensor) else type(labels).__name__
        raise ValueError(f"{name}: got {kind}, but one integer per point is needed, shape ({points.shape[0]},).")
    if int(labels.min()) < 0:
        raise ValueError(f"{name}: the least is {int(labels.min())}, but classes are numbered from 0 on.")
    return labels.long()
