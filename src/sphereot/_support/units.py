"""Distances in a unit of length on the sphere: a great circle is one turn."""

import math
from dataclasses import dataclass
from typing import Any

from sphereot._support.text import cost_name, cost_unit


@dataclass(frozen=True)
class Unit:
    """A unit of length: its name, and how much of it one turn is."""

    name: str
    per_turn: float

    @property
    def turn(self) -> str:
        """The length of a great circle in words.

        >>> Unit("km", 40030.23).turn, TURNS.turn
        ('one turn (40,030 km)', 'one turn')
        """
        return "one turn" if self == TURNS else f"one turn ({self.per_turn:,.5g} {self.name})"


_EARTH_RADIUS_KM = 6371.0088  # mean radius (IUGG)
TURNS = Unit("turns", 1.0)
UNITS = {
    unit.name: unit
    for unit in (
        TURNS,
        Unit("degrees", 360.0),
        Unit("radians", 2 * math.pi),
        Unit("km", 2 * math.pi * _EARTH_RADIUS_KM),
    )
}
"""The units of the command line; kilometers are those on the earth."""


def as_unit(unit: tuple[str, float] | None) -> Unit:
    """A pair of name and number per turn as a unit; None for turns."""
    if unit is None:
        return TURNS
    try:
        name, per_turn = unit
        given = Unit(name, float(per_turn))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"unit: got {unit!r}; give its name and how much of it one turn is: ('km', 40030.2)."
        ) from error
    if not isinstance(name, str) or not name.isalpha() or not 0 < given.per_turn < math.inf:
        raise ValueError(f"unit: got {unit!r}; give a word and a positive number, such as ('degrees', 360).")
    return given


def format_number(value: float, digits: int, thousands: str = ",") -> str:
    """A length without an exponent for thousands of kilometers.

    >>> format_number(1234.5, 3), format_number(0.012345, 3)
    ('1,234', '0.0123')
    """
    return f"{value:{thousands}.0f}" if value >= 1000 else f"{value:.{digits}g}"


def format_with_error(value: float, error: float) -> str:
    """A value and its standard error, if that is known.

    >>> format_with_error(0.25, 0.0123), format_with_error(0.25, math.nan)
    ('0.25 ± 0.012', '0.25')
    """
    return f"{value:.6g}" if math.isnan(error) else f"{value:.6g} ± {error:.2g}"


def finite_or_none(value: float) -> float | None:
    """The value, or None (null in JSON) for NaN and infinity."""
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class Lengths:
    """Values of SSW_p^p for points on one sphere, in a unit.

    Powers other than the first are in turns to the power p, whatever the unit. Distances, their roots, are in the unit:
    by default in turns, and on S^2 also in degrees.

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
        """What the distance is, and what it is not, in one sentence."""
        if self.p == 1:
            return (
                "SSW_1 is the mean displacement along great circles. To take one distribution to the other on the "
                "sphere needs at least this mean displacement."
            )
        return f"SSW_{self.p:g} compares distributions: it is no displacement; SSW_1 (--p 1) is a mean one."

    @property
    def name(self) -> str:
        """Name of SSW_p^p: SSW_1, SSW_2^2."""
        return cost_name(self.p)

    @property
    def units(self) -> list[Unit]:
        """Units of the distances."""
        if self.unit is not None:
            return [self.unit]
        return [TURNS, UNITS["degrees"]] if self.dim == 3 else [TURNS]

    @property
    def power_unit(self) -> str:
        """Unit of SSW_p^p."""
        return self.units[0].name if self.p == 1 else cost_unit(self.p)

    def power(self, value: float) -> float:
        """A value of SSW_p^p in `power_unit`."""
        return self.units[0].per_turn * value if self.p == 1 else value

    def turns(self, value: float) -> float:
        """The distance SSW_p in turns for a value of SSW_p^p."""
        return float(max(value, 0.0) ** (1 / self.p))

    def distance(self, value: float) -> float:
        """The distance SSW_p for a value of SSW_p^p, in the first unit."""
        return self.units[0].per_turn * self.turns(value)

    def text(self, value: float, digits: int = 4) -> str:
        """A value of SSW_p^p with its unit."""
        return f"{self.power(value):.{digits}g} {self.power_unit}"

    def with_deviation(self, value: float, deviation: float, digits: int) -> str:
        """A value of SSW_p^p and its standard deviation, with their unit."""
        spread = self.power(deviation)
        # Two digits, but no exponent for hundreds of kilometers.
        spread_text = f"{spread:.0f}" if spread >= 100 else f"{spread:.2g}"
        return f"{self.power(value):.{digits}g} ± {spread_text} {self.power_unit}"

    def roots(self, turns: float) -> str:
        """A distance in turns, in all units."""
        return " = ".join(f"{unit.per_turn * turns:.4g} {unit.name}" for unit in self.units)

    def roots_with_error(self, turns: float, error: float) -> str:
        """A distance in turns and its standard error, in all units."""
        return " = ".join(
            f"{format_with_error(unit.per_turn * turns, unit.per_turn * error)} {unit.name}" for unit in self.units
        )

    def record(self, turns: float, error: float | None = None) -> dict[str, Any]:
        """A distance in turns, and its standard error if there is one, as fields of JSON."""
        fields: dict[str, Any] = {}

        def add(name: str, unit: Unit) -> None:
            fields[name] = unit.per_turn * turns
            if error is not None:
                fields[f"{name}_standard_error"] = finite_or_none(unit.per_turn * error)

        add("distance_turns", TURNS)
        if self.dim == 3:
            add("distance_degrees", UNITS["degrees"])
        if self.unit is not None:
            fields["unit"] = self.unit.name
            add("distance", self.unit)
        return fields
