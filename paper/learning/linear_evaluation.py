"""Linear evaluation: how well a linear classifier tells the classes from fixed features (Appendix C.7)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sphereot._arrays.validation import as_int

_DECAY = 0.2


@dataclass(frozen=True)
class LinearEvaluation:
    """Result of a linear evaluation.

    Attributes
    ----------
    accuracy : float
        Of the classifier after the last epoch, on the test features.
    best : float
        The largest test accuracy of all epochs, which the paper reports; it is chosen on the test set.
    """

    accuracy: float
    best: float


def linear_evaluation(
    features: Tensor,
    labels: Tensor,
    test_features: Tensor,
    test_labels: Tensor,
    *,
    epochs: int = 100,
    batch_size: int = 128,
    lr: float = 1e-3,
    decay_epochs: tuple[int, ...] = (60, 80),
    seed: int = 0,
) -> LinearEvaluation:
    """Train a linear classifier on features by Adam, and test it on others.

    Parameters
    ----------
    features, test_features : tensor, shape (n, k) and (m, k)
        Features of images, which stay fixed.
    labels, test_labels : tensor, shape (n,) and (m,)
        Classes, integers starting at 0.
    epochs, batch_size, lr, decay_epochs
        The learning rate is multiplied by 0.2 after `decay_epochs`; the defaults are those of the paper.
    seed : int
        Source of the initial weights and of the order.

    Returns
    -------
    LinearEvaluation

    Examples
    --------
    >>> import torch
    >>> from paper.learning.linear_evaluation import linear_evaluation
    >>> x, y = torch.eye(3).repeat(20, 1), torch.arange(3).repeat(20)
    >>> linear_evaluation(x, y, torch.eye(3), torch.arange(3), epochs=80, batch_size=10, lr=0.1).accuracy
    1.0
    """
    epochs, batch_size = as_int("epochs", epochs, 1, "epochs"), as_int("batch_size", batch_size, 1, "the batch size")
    for name, points, classes in (("labels", features, labels), ("test_labels", test_features, test_labels)):
        if points.ndim != 2 or classes.shape != (len(points),) or classes.is_floating_point():
            raise ValueError(
                f"{name}: shape is {tuple(classes.shape)}, but features {tuple(points.shape)} need one integer each."
            )
    n_classes = int(max(labels.max(), test_labels.max())) + 1
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        classifier = nn.Linear(features.shape[1], n_classes)
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(classifier.parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, list(decay_epochs), gamma=_DECAY)
    best = accuracy = 0.0
    for _ in range(epochs):
        for rows in torch.randperm(len(features), generator=generator).split(batch_size):
            optimizer.zero_grad()
            nn.functional.cross_entropy(classifier(features[rows]), labels[rows]).backward()
            optimizer.step()
        schedule.step()
        with torch.no_grad():
            accuracy = float((classifier(test_features).argmax(1) == test_labels).float().mean())
        best = max(best, accuracy)
    return LinearEvaluation(accuracy, best)
