"""Units in which commands print distances: a great circle is one turn."""

import math
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from sphereot._support.text import cost_name, cost_unit

__all__ = ["PER_TURN", "Lengths", "Unit", "as_unit"]

_EARTH_RADIUS_KM = 6371.0088  # mean radius (IUGG)
PER_TURN = {"turns": 1.0, "degrees": 360.0, "radians": 2 * math.pi, "km": 2 * math.pi * _EARTH_RADIUS_KM}
"""How much of a unit one turn is; kilometers are those on the earth."""

Unit = Annotated[
    str | None,
    typer.Option(
        "--unit",
        help="Unit of distances: turns, degrees, radians or km (on the earth).",
        show_default="turns, and degrees on S^2",
    ),
]


def as_unit(unit: str | None, dim: int) -> str | None:
    """A unit that a distance on this sphere can have; None for the default.

    >>> as_unit("km", 3)
    'km'
    """
    if unit is None:
        return None
    if unit not in PER_TURN:
        raise ValueError(f"--unit: got {unit!r}; choose one of {', '.join(PER_TURN)}.")
    if unit == "km" and dim != 3:
        raise ValueError(f"--unit: kilometers are for locations on the earth, but the points have {dim} coordinates.")
    return unit


@dataclass(frozen=True)
class Lengths:
    """How a command prints values of SSW_p^p, for points on one sphere.

    Powers other than the first are in turns to the power p, whatever the unit. Distances, their roots, are in the unit:
    by default in turns, and on S^2 also in degrees.

    >>> km = Lengths(1, 3, "km")
    >>> km.text(0.1), Lengths(2, 3).text(0.04)
    ('4003 km', '0.04 turns^2')
    >>> Lengths(2, 3).distance(0.04)
    '0.2 turns = 72 degrees'
    """

    p: float
    dim: int
    unit: str | None = None

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
        """Name of what is printed: SSW_1, SSW_2^2."""
        return cost_name(self.p)

    @property
    def power_unit(self) -> str:
        """Unit of the values."""
        return (self.unit or "turns") if self.p == 1 else cost_unit(self.p)

    @property
    def units(self) -> list[str]:
        """Units of the distances."""
        return ["turns", *(["degrees"] if self.dim == 3 else [])] if self.unit is None else [self.unit]

    def power(self, value: float) -> float:
        """A value of SSW_p^p in `power_unit`."""
        return PER_TURN[self.power_unit] * value if self.p == 1 else value

    def root(self, value: float, unit: str) -> float:
        """The distance SSW_p for a value of SSW_p^p, in a unit."""
        return float(PER_TURN[unit] * max(value, 0.0) ** (1 / self.p))

    def text(self, value: float, digits: int = 4) -> str:
        """A value of SSW_p^p with its unit."""
        return f"{self.power(value):.{digits}g} {self.power_unit}"

    def with_deviation(self, value: float, deviation: float, digits: int) -> str:
        """A value of SSW_p^p and its standard deviation, with their unit."""
        spread = self.power(deviation)
        # Two digits, but no exponent for hundreds of kilometers.
        spread_text = f"{spread:.0f}" if spread >= 100 else f"{spread:.2g}"
        return f"{self.power(value):.{digits}g} ± {spread_text} {self.power_unit}"

    def distance(self, value: float) -> str:
        """The distance for a value of SSW_p^p, in all units."""
        return " = ".join(f"{self.root(value, unit):.4g} {unit}" for unit in self.units)

    def record(self, value: float) -> dict[str, Any]:
        """The distance for a value of SSW_p^p as fields of JSON: those of `sphereot distance`."""
        fields: dict[str, Any] = {"distance_turns": self.root(value, "turns")}
        if self.dim == 3:
            fields["distance_degrees"] = self.root(value, "degrees")
        if self.unit is not None:
            fields |= {"unit": self.unit, "distance": self.root(value, self.unit)}
        return fields
