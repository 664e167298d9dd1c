"""The measures as torchmetrics metrics: they are updated batch by batch, and reduced over processes."""

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from sphereot._arrays.validation import as_int, as_order, as_points
from sphereot.distance import ssw
from sphereot.metrics import functional
from sphereot.slicing.circles import great_circles

__all__ = ["Alignment", "EffectiveRank", "KNNAccuracy", "SSWDistance", "Uniformity"]


class Alignment(Metric):
    """Mean squared distance between the embeddings of two views, over all batches; see `functional.alignment`.

    Examples
    --------
    >>> import torch
    >>> from sphereot.metrics import Alignment
    >>> metric = Alignment()
    >>> metric.update(torch.eye(3), torch.eye(3))
    >>> metric.update(torch.eye(3), -torch.eye(3))
    >>> metric.compute()
    tensor(2.)
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_state("total", torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, view_a: Tensor, view_b: Tensor) -> None:
        """Add the embeddings (n, d) of two views."""
        self.total += functional.alignment(view_a, view_b).detach().double() * len(view_a)
        self.count += len(view_a)

    def compute(self) -> Tensor:
        """The mean."""
        return (self.total / self.count).float()


class Uniformity(Metric):
    """SSW_2^2 of all embeddings to the uniform distribution, exact and unbiased; see `functional.uniformity`.

    The embeddings are kept, and the time of `compute` grows with the square of their number: 10,000 take a second.

    Examples
    --------
    >>> import torch
    >>> from sphereot.metrics import Uniformity
    >>> metric = Uniformity()
    >>> metric.update(torch.eye(3)[:1])
    >>> metric.update(torch.eye(3)[:1])
    >>> round(float(metric.compute()), 4)
    0.0833
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_state("embeddings", [], dist_reduce_fx="cat")

    def update(self, x: Tensor) -> None:
        """Add embeddings (n, d)."""
        self.embeddings.append(as_points("x", x.detach()))

    def compute(self) -> Tensor:
        """The value of all embeddings so far."""
        kept = self.embeddings
        return functional.uniformity(torch.cat(kept) if isinstance(kept, list) else kept)


class SSWDistance(Metric):
    """SSW_p between two streams of embeddings, such as generated and real ones, on fixed great circles.

    The embeddings are kept: the value is that of all of them, not a mean over batches, which would be larger.

    Parameters
    ----------
    p : float
        Order, from 1 to 1000.
    n_projections : int
        Number of great circles.
    seed : int
        Seed of the great circles, the same in all processes.

    Examples
    --------
    >>> import torch
    >>> from sphereot.metrics import SSWDistance
    >>> metric = SSWDistance(n_projections=50)
    >>> metric.update(torch.eye(3)[:2], real=True)
    >>> metric.update(torch.eye(3)[1:2], real=False)
    >>> metric.update(torch.eye(3)[:1], real=False)
    >>> metric.compute()
    tensor(0.)
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False

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
        """The distance SSW_p of all embeddings so far, in turns."""
        streams = []
        for name, kept in (("real=True", self.real), ("real=False", self.others)):
            if isinstance(kept, list) and not kept:
                raise ValueError(f"SSWDistance: there are no embeddings with {name}; update it with both first.")
            streams.append(torch.cat(kept) if isinstance(kept, list) else kept)
        frames = great_circles(self.n_projections, streams[0].shape[1], method="quasi", seed=self.seed, like=streams[0])
        value: Tensor = ssw(*streams, p=self.p, projections=frames, root=True)
        return value


class EffectiveRank(Metric):
    """Effective number of dimensions that all embeddings use; see `functional.effective_rank`.

    Only a matrix (d, d) is kept.

    Parameters
    ----------
    dim : int
        Dimension d of the embeddings.

    Examples
    --------
    >>> import torch
    >>> from sphereot.metrics import EffectiveRank
    >>> metric = EffectiveRank(dim=4)
    >>> for row in torch.eye(4):
    ...     metric.update(row[None])
    >>> round(float(metric.compute()), 4)
    4.0
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False

    def __init__(self, dim: int, **options: Any) -> None:
        super().__init__(**options)
        self.dim = as_int("dim", dim, 1, "the dimension")
        self.add_state("moments", torch.zeros(dim, dim, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, x: Tensor) -> None:
        """Add embeddings (n, d)."""
        if x.ndim != 2 or x.shape[1] != self.dim:
            raise ValueError(f"x: shape is {tuple(x.shape)}, but this metric takes (n, {self.dim}).")
        if not bool(torch.isfinite(x).all()):
            raise ValueError("x: holds NaN or infinity; remove or fix such rows.")
        rows = x.detach().double()
        self.moments += rows.T @ rows

    def compute(self) -> Tensor:
        """The effective rank of all embeddings so far."""
        return functional.rank_of_moments(self.moments).float()


class KNNAccuracy(Metric):
    """Accuracy of nearest neighbors in a labeled reference set; see `functional.knn_accuracy`.

    Parameters
    ----------
    reference, reference_labels : tensor, shape (m, d) and (m,)
        The embeddings that vote, unit vectors, and their classes.
    k, temperature
        As in `functional.knn_accuracy`.

    Examples
    --------
    >>> import torch
    >>> from sphereot.metrics import KNNAccuracy
    >>> metric = KNNAccuracy(torch.eye(3), torch.tensor([0, 1, 2]), k=1)
    >>> metric.update(torch.eye(3), torch.tensor([0, 1, 1]))
    >>> round(float(metric.compute()), 3)
    0.667
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False

    def __init__(
        self, reference: Tensor, reference_labels: Tensor, *, k: int = 20, temperature: float = 0.07, **options: Any
    ) -> None:
        super().__init__(**options)
        self.k, self.temperature = k, temperature
        points = as_points("reference", reference.detach())
        # One vote now: bad options are told before any update.
        functional.knn_votes(points[:1], points, reference_labels, k=k, temperature=temperature)
        self.register_buffer("reference", points)
        self.register_buffer("reference_labels", reference_labels)
        self.add_state("correct", torch.tensor(0), dist_reduce_fx="sum")
        self.add_state("count", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, x: Tensor, labels: Tensor) -> None:
        """Add embeddings (n, d) and their classes (n,)."""
        share = functional.knn_accuracy(
            x.detach(), labels, self.reference, self.reference_labels, k=self.k, temperature=self.temperature
        )
        self.correct += (share * len(x)).round().long()
        self.count += len(x)

    def compute(self) -> Tensor:
        """The accuracy."""
        return self.correct / self.count
