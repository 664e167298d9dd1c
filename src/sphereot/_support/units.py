"""Distances in a unit of length on the sphere: 1 turn is a full great circle."""

import math
from dataclasses import dataclass
from typing import Any

from sphereot._support.text import cost_name, cost_unit


@dataclass(frozen=True)
class Unit:
    """Unit of length: its name, and how many of it are one turn."""

    name: str
    per_turn: float

    @property
    def turn(self) -> str:
        """Length of a great circle in words.

        >>> Unit("km", 40030.23).turn, TURNS.turn
        ('one turn (40,030 km)', 'one turn')
        """
        return "one turn" if self == TURNS else f"one turn ({self.per_turn:,.5g} {self.name})"


_EARTH_RADIUS_KM = 6371.0088  # mean radius (IUGG)
TURNS = Unit("turns", 1.0)
_OTHERS = Unit("degrees", 360.0), Unit("radians", 2 * math.pi), Unit("km", 2 * math.pi * _EARTH_RADIUS_KM)
UNITS = {unit.name: unit for unit in (TURNS, *_OTHERS)}
"""Units of the command line by name. Kilometers are those on the Earth."""


def as_unit(unit: tuple[str, float] | None) -> Unit:
    """Return the unit for a pair of its name and its number per turn, and turns for None."""
    if unit is None:
        return TURNS
    try:
        name, per_turn = unit
        given = Unit(name, float(per_turn))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"unit must be a name and the number of units in one turn, such as ('km', 40030.2), got {unit!r}."
        ) from error
    if not isinstance(name, str) or not name.isalpha() or not 0 < given.per_turn < math.inf:
        raise ValueError(f"unit must be a word and a positive number, such as ('degrees', 360), got {unit!r}.")
    return given


def format_number(value: float, digits: int, thousands: str = ",") -> str:
    """Format a length, without an exponent for thousands of kilometers.

    >>> format_number(1234.5, 3), format_number(0.012345, 3)
    ('1,234', '0.0123')
    """
    return f"{value:{thousands}.0f}" if value >= 1000 else f"{value:.{digits}g}"


def format_with_error(value: float, error: float) -> str:
    """Format a value and its standard error, unless the error is NaN.

    >>> format_with_error(0.25, 0.0123), format_with_error(0.25, math.nan)
    ('0.25 ± 0.012', '0.25')
    """
    return f"{value:.6g}" if math.isnan(error) else f"{value:.6g} ± {error:.2g}"


def finite_or_none(value: float) -> float | None:
    """Return the value, or None (null in JSON) for NaN and infinity."""
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class Lengths:
    """Formats of SSW_p^p and SSW_p for points on one sphere.

    SSW_1, and the root SSW_p of any order, are in the unit: by default in turns, and on S^2 also in degrees. SSW_p^p of
    other orders is always in turns to the power p.

    >>> km = Lengths(1, 3, UNITS["km"])
    >>> km.text(0.1), Lengths(2, 3).text(0.04)
    ('4003 km', '0.04 turns^2')
    >>> Lengths(2, 3).roots(0.2)
    '0.2 turns = 72 degrees'
    """

    p: float
    dim: int
    unit: Unit | None = None

    @property
    def meaning(self) -> str:
        """What the distance means, in plain words."""
        if self.p == 1:
            return "SSW_1 is the mean displacement along great circles, at most the mean displacement on the sphere."
        return f"SSW_{self.p:g} is not a displacement. Use SSW_1 (--p 1) for the mean displacement along great circles."

    @property
    def name(self) -> str:
        """Name of SSW_p^p: SSW_1, SSW_2^2."""
        return cost_name(self.p)

    @property
    def units(self) -> list[Unit]:
        """Units in which distances are shown."""
        if self.unit is not None:
            return [self.unit]
        return [TURNS, UNITS["degrees"]] if self.dim == 3 else [TURNS]

    @property
    def power_unit(self) -> str:
        """Unit of SSW_p^p."""
        return self.units[0].name if self.p == 1 else cost_unit(self.p)

    def power(self, value: float) -> float:
        """Convert a value of SSW_p^p to `power_unit`."""
        return self.units[0].per_turn * value if self.p == 1 else value

    def turns(self, value: float) -> float:
        """Return the distance SSW_p in turns for a value of SSW_p^p."""
        return float(max(value, 0.0) ** (1 / self.p))

    def distance(self, value: float) -> float:
        """Return the distance SSW_p in the first unit for a value of SSW_p^p."""
        return self.units[0].per_turn * self.turns(value)

    def text(self, value: float, digits: int = 4) -> str:
        """Format a value of SSW_p^p with its unit."""
        return f"{self.power(value):.{digits}g} {self.power_unit}"

    def with_deviation(self, value: float, deviation: float, digits: int) -> str:
        """Format a value of SSW_p^p and its standard deviation with their unit."""
        spread = self.power(deviation)
        spread_text = f"{spread:.0f}" if spread >= 100 else f"{spread:.2g}"  # without an exponent
        return f"{self.power(value):.{digits}g} ± {spread_text} {self.power_unit}"

    def roots(self, turns: float) -> str:
        """Format a distance, given in turns, in all units."""
        return " = ".join(f"{unit.per_turn * turns:.4g} {unit.name}" for unit in self.units)

    def roots_with_error(self, turns: float, error: float) -> str:
        """Format a distance and its standard error, given in turns, in all units."""
        return " = ".join(
            f"{format_with_error(unit.per_turn * turns, unit.per_turn * error)} {unit.name}" for unit in self.units
        )

    def record(self, turns: float, error: float | None = None) -> dict[str, Any]:
        """Return a distance and its standard error, given in turns, as fields of JSON."""
        shown = {"distance_turns": TURNS}
        if self.dim == 3:
            shown["distance_degrees"] = UNITS["degrees"]
        if self.unit is not None:
            shown["distance"] = self.unit
        fields: dict[str, Any] = {} if self.unit is None else {"unit": self.unit.name}
        for name, unit in shown.items():
            fields[name] = unit.per_turn * turns
            if error is not None:
                fields[f"{name}_standard_error"] = finite_or_none(unit.per_turn * error)
        return fields
