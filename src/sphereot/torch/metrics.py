"""Measures of embeddings: functions, and torchmetrics metrics for several batches and processes."""

from typing import Any

import torch
from torch import Tensor

from sphereot._arrays.validation import as_int, as_order, as_points
from sphereot._support.extras import require
from sphereot.distance import ssw, ssw_uniform
from sphereot.slicing import great_circles
from sphereot.torch.losses import widen

require("torchmetrics", "sphereot.torch.metrics", extra="metrics")

from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

__all__ = [
    "Alignment",
    "EffectiveRank",
    "KNNAccuracy",
    "SSWDistance",
    "Uniformity",
    "alignment",
    "effective_rank",
    "knn_accuracy",
    "uniformity",
]

_BLOCK = 1 << 24  # cosines in memory at a time


def alignment(view_a: Tensor, view_b: Tensor) -> Tensor:
    """Compute the mean squared distance between the embeddings of two views of the same images.

    Parameters
    ----------
    view_a, view_b : tensor, shape (n, d)
        Unit vectors. Row i of both belongs to image i.

    Returns
    -------
    tensor, shape ()
        Number from 0 (equal) to 4 (antipodes).

    Examples
    --------
    >>> import torch
    >>> from sphereot.torch.metrics import alignment
    >>> alignment(torch.eye(3), torch.eye(3).roll(1, 0))
    tensor(2.)
    """
    a, b = as_points("view_a", view_a), as_points("view_b", view_b)
    if a.shape != b.shape:
        raise ValueError(f"view_b must have the shape of view_a {tuple(a.shape)}, got {tuple(b.shape)}.")
    return (a - b).square().sum(1).mean()


def uniformity(x: Tensor) -> Tensor:
    """Compute SSW_2^2 of embeddings to the uniform distribution, exactly and without bias.

    Parameters
    ----------
    x : tensor, shape (n, d)
        Two or more unit vectors.

    Returns
    -------
    tensor, shape ()
        The value in turns^2. Its mean for uniform points is 0 for every n, so that batches of different sizes are
        comparable, and it can be slightly negative. For equal points, it is 1/12.

    Examples
    --------
    >>> import torch
    >>> from sphereot.torch.metrics import uniformity
    >>> round(float(uniformity(torch.eye(3)[[0, 0]])), 4)
    0.0833
    """
    value: Tensor = ssw_uniform(as_points("x", x), method="exact", unbiased=True)
    return value


def effective_rank(x: Tensor) -> Tensor:
    """Compute the effective number of dimensions of embeddings (Roy and Vetterli 2007; RankMe).

    It is the exponential of the entropy of the singular values of the matrix of embeddings, scaled to a sum of 1.

    Parameters
    ----------
    x : tensor, shape (n, d)
        Embeddings of any length.

    Returns
    -------
    tensor, shape ()
        Number from 1 (all embeddings on a line through the origin) to min(n, d).

    Examples
    --------
    >>> import torch
    >>> from sphereot.torch.metrics import effective_rank
    >>> effective_rank(torch.eye(4))
    tensor(4.)
    """
    if x.ndim != 2 or x.shape[0] == 0 or not x.is_floating_point():
        raise ValueError(f"x must contain floats of shape (n, d), got shape {tuple(x.shape)} and dtype {x.dtype}.")
    _require_finite(x)
    return _entropy_rank(torch.linalg.svdvals(widen(x)))


def _require_finite(x: Tensor) -> None:
    if not bool(torch.isfinite(x).all()):
        raise ValueError("x must be finite, got NaN or infinity. Remove or fix such rows.")


def _entropy_rank(singular_values: Tensor) -> Tensor:
    total = singular_values.sum()
    shares = singular_values / torch.where(total > 0, total, 1.0)
    return torch.exp(torch.special.entr(shares).sum())


def knn_accuracy(
    x: Tensor, labels: Tensor, reference: Tensor, reference_labels: Tensor, *, k: int = 20, temperature: float = 0.07
) -> Tensor:
    """Compute the fraction of embeddings whose nearest neighbors in a labeled reference set vote for the right class.

    Parameters
    ----------
    x, reference : tensor, shape (n, d) and (m, d)
        Unit vectors.
    labels, reference_labels : tensor, shape (n,) and (m,)
        Classes, nonnegative integers.
    k : int, default 20
        Number of neighbors, at most m.
    temperature : float, default 0.07
        Votes have weights exp(cosine / temperature) (Wu et al. 2018). With infinity, all votes have the same weight.

    Returns
    -------
    tensor, shape ()
        Number from 0 to 1.

    Examples
    --------
    >>> import torch
    >>> from sphereot.torch.metrics import knn_accuracy
    >>> classes = torch.tensor([0, 1, 2])
    >>> knn_accuracy(torch.eye(3), classes, torch.eye(3), classes, k=1)
    tensor(1.)
    """
    correct = _vote(x, reference, reference_labels, k=k, temperature=temperature) == _as_labels("labels", labels, x)
    return correct.float().mean()


def _vote(x: Tensor, reference: Tensor, reference_labels: Tensor, *, k: int, temperature: float) -> Tensor:
    """Compute the classes (n,) for which the nearest neighbors of embeddings vote."""
    points, others = as_points("x", x), as_points("reference", reference)
    if points.shape[1] != others.shape[1]:
        raise ValueError(f"x must have the dimension of the reference ({others.shape[1]}), got {points.shape[1]}.")
    classes = _as_labels("reference_labels", reference_labels, others)
    k = as_int("k", k, 1, "the number of neighbors")
    if k > others.shape[0]:
        raise ValueError(f"k must be at most the number of reference points ({others.shape[0]}), got {k}.")
    if not temperature > 0:
        raise ValueError(f"temperature must be positive, got {temperature!r}.")
    n_classes = int(classes.max()) + 1
    votes = []
    for block in points.split(max(1, _BLOCK // others.shape[0])):
        cosines, nearest = (block @ others.T).topk(k, dim=1)
        weights = torch.exp((cosines - cosines[:, :1]) / temperature)  # the nearest has weight 1: nothing overflows
        counts = torch.zeros(len(block), n_classes, dtype=weights.dtype, device=weights.device)
        votes.append(counts.scatter_add_(1, classes[nearest], weights).argmax(1))
    return torch.cat(votes)


def _as_labels(name: str, labels: Tensor, points: Tensor) -> Tensor:
    """Validate one class per point, a nonnegative integer."""
    if not isinstance(labels, Tensor) or labels.shape != points.shape[:1] or labels.dtype.is_floating_point:
        kind = f"{tuple(labels.shape)} {labels.dtype}" if isinstance(labels, Tensor) else type(labels).__name__
        raise ValueError(f"{name} must have one integer per point, shape ({points.shape[0]},), got {kind}.")
    if int(labels.min()) < 0:
        raise ValueError(f"{name} must be nonnegative, got {int(labels.min())}.")
    return labels.long()


class _EmbeddingMetric(Metric):
    is_differentiable = False
    higher_is_better = False
    full_state_update = False


class Alignment(_EmbeddingMetric):
    """Mean squared distance between the embeddings of two views, over all batches; see `alignment`.

    Examples
    --------
    >>> import torch
    >>> from sphereot.torch.metrics import Alignment
    >>> metric = Alignment()
    >>> metric.update(torch.eye(3), torch.eye(3))
    >>> metric.update(torch.eye(3), -torch.eye(3))
    >>> metric.compute()
    tensor(2.)
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_state("total", torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, view_a: Tensor, view_b: Tensor) -> None:
        """Add the embeddings (n, d) of two views."""
        self.total += alignment(view_a, view_b).detach().double() * len(view_a)
        self.count += len(view_a)

    def compute(self) -> Tensor:
        """Return the mean."""
        return (self.total / self.count).float()


class Uniformity(_EmbeddingMetric):
    """SSW_2^2 of all embeddings to the uniform distribution, exact and unbiased; see `uniformity`.

    The embeddings are stored. The time of `compute` is quadratic in their number: one second for 10,000 embeddings.

    Examples
    --------
    >>> import torch
    >>> from sphereot.torch.metrics import Uniformity
    >>> metric = Uniformity()
    >>> metric.update(torch.eye(3)[:1])
    >>> metric.update(torch.eye(3)[:1])
    >>> round(float(metric.compute()), 4)
    0.0833
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_state("embeddings", [], dist_reduce_fx="cat")

    def update(self, x: Tensor) -> None:
        """Add embeddings (n, d)."""
        self.embeddings.append(as_points("x", x.detach()))

    def compute(self) -> Tensor:
        """Compute the value of all embeddings so far."""
        return uniformity(dim_zero_cat(self.embeddings))


class SSWDistance(_EmbeddingMetric):
    """SSW_p between two streams of embeddings, for example generated and real images, on fixed great circles.

    The embeddings are stored. The value is the distance of all embeddings; a mean over batches would be larger.

    Parameters
    ----------
    p : float, default 2
        Order of the distance, between 1 and 16.
    n_projections : int, default 200
        Number of great circles.
    seed : int, default 0
        Seed of the great circles, the same in all processes.

    Examples
    --------
    >>> import torch
    >>> from sphereot.torch.metrics import SSWDistance
    >>> metric = SSWDistance(n_projections=50)
    >>> metric.update(torch.eye(3)[:2], real=True)
    >>> metric.update(torch.eye(3)[1:2], real=False)
    >>> metric.update(torch.eye(3)[:1], real=False)
    >>> metric.compute()
    tensor(0.)
    """

    def __init__(self, p: float = 2, *, n_projections: int = 200, seed: int = 0, **options: Any) -> None:
        super().__init__(**options)
        self.p, self.seed = as_order(p), as_int("seed", seed, 0, "a seed")
        self.n_projections = as_int("n_projections", n_projections, 1, "the number of great circles")
        self.add_state("real", [], dist_reduce_fx="cat")
        self.add_state("others", [], dist_reduce_fx="cat")

    def update(self, x: Tensor, *, real: bool) -> None:
        """Add embeddings (n, d) to the first stream (`real`) or to the second."""
        (self.real if real else self.others).append(as_points("x", x.detach()))

    def compute(self) -> Tensor:
        """Compute the distance SSW_p of all embeddings so far, in turns."""
        for name, stored in (("real=True", self.real), ("real=False", self.others)):
            if isinstance(stored, list) and not stored:
                raise ValueError(
                    f"SSWDistance needs embeddings of both streams, got none with {name}. Update it first."
                )
        real, others = dim_zero_cat(self.real), dim_zero_cat(self.others)
        frames = great_circles(self.n_projections, real.shape[1], method="quasi", seed=self.seed, like=real)
        value: Tensor = ssw(real, others, p=self.p, projections=frames, root=True)
        return value


class EffectiveRank(_EmbeddingMetric):
    """Effective number of dimensions of all embeddings; see `effective_rank`.

    Only a matrix (d, d) is stored.

    Parameters
    ----------
    dim : int
        Dimension d of the embeddings.

    Examples
    --------
    >>> import torch
    >>> from sphereot.torch.metrics import EffectiveRank
    >>> metric = EffectiveRank(dim=4)
    >>> for row in torch.eye(4):
    ...     metric.update(row[None])
    >>> round(float(metric.compute()), 4)
    4.0
    """

    higher_is_better = True

    def __init__(self, dim: int, **options: Any) -> None:
        super().__init__(**options)
        self.dim = as_int("dim", dim, 1, "the dimension")
        self.add_state("moments", torch.zeros(dim, dim, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, x: Tensor) -> None:
        """Add embeddings (n, d)."""
        if x.ndim != 2 or x.shape[1] != self.dim:
            raise ValueError(f"x must have shape (n, {self.dim}), got {tuple(x.shape)}.")
        _require_finite(x)
        rows = x.detach().double()
        self.moments += rows.T @ rows

    def compute(self) -> Tensor:
        """Compute the effective rank of all embeddings so far."""
        return _entropy_rank(torch.linalg.eigvalsh(self.moments).clamp(min=0.0).sqrt()).float()


class KNNAccuracy(_EmbeddingMetric):
    """Accuracy of nearest neighbors in a labeled reference set; see `knn_accuracy`.

    Parameters
    ----------
    reference, reference_labels : tensor, shape (m, d) and (m,)
        The embeddings that vote, unit vectors, and their classes.
    k, temperature : int, float
        As in `knn_accuracy`.

    Examples
    --------
    >>> import torch
    >>> from sphereot.torch.metrics import KNNAccuracy
    >>> metric = KNNAccuracy(torch.eye(3), torch.tensor([0, 1, 2]), k=1)
    >>> metric.update(torch.eye(3), torch.tensor([0, 1, 1]))
    >>> round(float(metric.compute()), 3)
    0.667
    """

    higher_is_better = True

    def __init__(
        self, reference: Tensor, reference_labels: Tensor, *, k: int = 20, temperature: float = 0.07, **options: Any
    ) -> None:
        super().__init__(**options)
        self.k, self.temperature = k, temperature
        points = as_points("reference", reference.detach())
        # One vote, so that invalid options raise an error before any update.
        _vote(points[:1], points, reference_labels, k=k, temperature=temperature)
        self.register_buffer("reference", points)
        self.register_buffer("reference_labels", reference_labels)
        self.add_state("correct", torch.tensor(0), dist_reduce_fx="sum")
        self.add_state("count", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, x: Tensor, labels: Tensor) -> None:
        """Add embeddings (n, d) and their classes (n,)."""
        share = knn_accuracy(
            x.detach(), labels, self.reference, self.reference_labels, k=self.k, temperature=self.temperature
        )
        self.correct += (share * len(x)).round().long()
        self.count += len(x)

    def compute(self) -> Tensor:
        """Return the accuracy."""
        return self.correct / self.count
