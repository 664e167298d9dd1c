"""What several experiments need: rows of measurements, curves of training runs, images, times and texts of numbers."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paper.learning.image_files import ImageSet
from paper.learning.images import ImageData, load_images
from paper.run_context import Row


def select(rows: Sequence[Row], **values: Any) -> list[Row]:
    """Select the rows that have given values.

    >>> select([{"dim": 3, "ssw": 0.1}, {"dim": 4, "ssw": 0.2}], dim=4)
    [{'dim': 4, 'ssw': 0.2}]
    """
    return [row for row in rows if all(row.get(name) == value for name, value in values.items())]


def by_run(rows: Sequence[Row], x: str, y: str) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Arrange `y` by run and by `x`: the sorted distinct values of `x`, and an array of shape (runs, len(x)).

    >>> by_run([{"n": 10, "run": r, "w": n + r} for n in (10, 20) for r in (0, 1)][:2], "n", "w")[0]
    array([10])
    """
    xs = sorted({row[x] for row in rows})
    runs = sorted({row["run"] for row in rows})
    values = {(row[x], row["run"]): row[y] for row in rows}
    return np.asarray(xs), np.array([[values[at, run] for at in xs] for run in runs])


def means(rows: Sequence[Row], x: str, y: str) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Average `y` over runs: the sorted distinct values of `x`, and the mean at each."""
    xs, runs = by_run(rows, x, y)
    return xs, runs.mean(axis=0)


def summary(rows: Sequence[Row], measured: Sequence[str]) -> list[Row]:
    """Mean and standard deviation over runs of the columns `measured`, one row per setting.

    >>> summary([{"n": 1, "run": 0, "w": 1.0}, {"n": 1, "run": 1, "w": 3.0}], ["w"])
    [{'n': 1, 'runs': 2, 'w_mean': 2.0, 'w_std': 1.4142135623730951}]
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        setting = tuple((name, value) for name, value in row.items() if name not in {"run", *measured})
        groups.setdefault(setting, []).append(row)
    result = []
    for setting, group in groups.items():
        row_of_setting: Row = dict(setting) | {"runs": len(group)}
        for name in measured:
            values = [row[name] for row in group if name in row]
            if values:
                row_of_setting[f"{name}_mean"] = float(np.mean(values))
                if len(values) > 1:
                    row_of_setting[f"{name}_std"] = float(np.std(values, ddof=1))
        result.append(row_of_setting)
    return result


class Curve:
    """Store of checkpoints that adds measurements to the state of a training run, so that a resumed run keeps them.

    Parameters
    ----------
    store : CheckpointStore
        Where the state of the training and the measurements are saved.
    names : str
        What is measured; `values` has the list of each name.
    """

    def __init__(self, store: Any, *names: str):
        self._store = store
        self.values: dict[str, list[float]] = {name: [] for name in names}

    def add(self, **values: float) -> None:
        """Add a measurement of each name."""
        for name, value in values.items():
            self.values[name].append(value)

    def load(self) -> Any | None:
        """The state of the training that was saved last, or None."""
        saved = self._store.load()
        if saved is None:
            return None
        self.values = saved["curve"]
        return saved["training"]

    def save(self, state: Callable[[], Any]) -> None:
        """Save the state of the training with the measurements."""
        self._store.save(lambda: {"training": state(), "curve": self.values})


def choose_epochs(epochs: int, points: int) -> set[int]:
    """Choose epochs at equal distances, the last one included.

    >>> sorted(choose_epochs(10, 4))
    [2, 5, 8, 10]
    """
    return {max(1, round(epochs * (k + 1) / points)) for k in range(points)}


@lru_cache(maxsize=1)
def load_subset(name: str, limit: int | None) -> ImageData:
    """Load a data set of images; at most `limit` for training and as many for the test."""
    data = load_images(name)
    train, test = (ImageSet(part.images[:limit], part.labels[:limit]) for part in (data.train, data.test))
    return replace(data, train=train, test=test)


def measure_seconds(action: Callable[[], None]) -> float:
    """Measure how long an action takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def format_mean(values: Sequence[float], digits: int = 2) -> str:
    """Format a mean, with the standard deviation if there are several values.

    >>> format_mean([1.0, 2.0], 1)
    '1.5 ± 0.7'
    """
    spread = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{spread}"
