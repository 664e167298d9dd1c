"""Unit in which a report shows distances: a great circle is one turn."""

import math
from dataclasses import dataclass
from typing import Any

from sphereot.report.markup import distance_markup

__all__ = ["TURNS", "DistanceUnit", "as_distance_unit", "displacement_note"]


@dataclass(frozen=True)
class DistanceUnit:
    """A unit of length on the sphere.

    >>> DistanceUnit("degrees", 360).distance(0.04, p=2)
    72.0
    """

    name: str
    per_turn: float

    def distance(self, value: float, p: float) -> float:
        """SSW_p in this unit, from SSW_p^p in turns to the power p."""
        return float(self.per_turn * max(value, 0.0) ** (1 / p))

    def cost(self, value: float, p: float) -> float:
        """SSW_p^p as it is shown: in this unit for p = 1, and otherwise in turns to the power p."""
        return self.per_turn * value if p == 1 else value

    def text(self, value: float, digits: int) -> str:
        """A number of this unit, without an exponent for thousands of kilometers.

        >>> DistanceUnit("km", 40030.2).text(1234.5, digits=3), DistanceUnit("turns", 1.0).text(0.012345, digits=3)
        ('1,234', '0.0123')
        """
        return f"{value:,.0f}" if value >= 1000 else f"{value:.{digits}g}"

    def cost_markup(self, p: float) -> str:
        """HTML of the unit of `cost`; the name must be escaped already.

        >>> DistanceUnit("km", 40030.2).cost_markup(1), DistanceUnit("km", 40030.2).cost_markup(2)
        ('km', 'turns<sup>2</sup>')
        """
        return self.name if p == 1 else f"turns<sup>{p:g}</sup>"


TURNS = DistanceUnit("turns", 1.0)


def as_distance_unit(unit: Any) -> DistanceUnit:
    """A pair of name and number per turn as a unit; None for turns."""
    if unit is None:
        return TURNS
    try:
        name, per_turn = unit
        given = DistanceUnit(name, float(per_turn))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"unit: got {unit!r}; give its name and how much of it one turn is: ('km', 40030.2)."
        ) from error
    if not isinstance(name, str) or not name.isalpha() or not 0 < given.per_turn < math.inf:
        raise ValueError(f"unit: got {unit!r}; give a word and a positive number, such as ('degrees', 360).")
    return given


def displacement_note(p: float, unit: DistanceUnit) -> str:
    """HTML of a sentence for distances in degrees or kilometers that are none between points; empty for p = 1."""
    if p == 1 or unit == TURNS:
        return ""
    return (
        f" {distance_markup(p)} compares distributions: it is no displacement, though it is in {unit.name}; "
        f"{distance_markup(1)} is a mean one."
    )
