"""How often the unit length of each array is checked."""

from collections import Counter

import pytest

__all__ = ["count_unit_length_checks"]


def count_unit_length_checks(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[int, ...]]:
    """Count the checks from now on, by the shape of the array: arrays to be told apart need different shapes."""
    from sphereot._arrays import validation

    checks: Counter[tuple[int, ...]] = Counter()
    check = validation._require_unit_rows

    def counted(name, points, *others):
        checks[tuple(points.shape)] += 1
        return check(name, points, *others)

    monkeypatch.setattr(validation, "_require_unit_rows", counted)
    return checks
