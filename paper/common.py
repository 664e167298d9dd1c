"""Rows of measurements: select them, arrange them by run, summarize them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot.experiments.run_context import Row

__all__ = ["by_run", "means", "select", "summary"]


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
