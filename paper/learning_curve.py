"""Learning curve of a training that resumes: losses and test likelihoods at some of its epochs."""

from collections.abc import Callable
from typing import Any

__all__ = ["LearningCurve"]


class LearningCurve:
    """Checkpoint store that adds the curve to the state of a training: a run that resumes keeps what it had measured.

    Parameters
    ----------
    store : CheckpointStore
        Where the state of the training and the curve are saved.
    epochs : int
        Length of the training.
    points : int
        Number of epochs at which the curve is measured, at equal distances, the last one included.
    """

    def __init__(self, store: Any, epochs: int, points: int):
        self._store = store
        self._stops = {max(1, round(epochs * (k + 1) / points)) for k in range(points)}
        self.epochs: list[int] = []
        self.losses: list[float] = []
        self.nll: list[float] = []

    def follow(self, epoch: int, loss: float, nll: Callable[[], float]) -> None:
        """Add a point to the curve if this epoch is one of its own; `nll` computes the test likelihood."""
        if epoch in self._stops:
            self.epochs.append(epoch)
            self.losses.append(loss)
            self.nll.append(nll())

    def load(self) -> Any | None:
        """The state of the training that was saved last, or None."""
        saved = self._store.load()
        if saved is None:
            return None
        self.epochs, self.losses, self.nll = saved["curve"]
        return saved["training"]

    def save(self, state: Any) -> None:
        """Save the state of the training with the curve, or skip this step."""
        self._store.save(lambda: {"training": state(), "curve": [self.epochs, self.losses, self.nll]})
