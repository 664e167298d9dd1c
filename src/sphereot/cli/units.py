"""Units in which commands print distances: a great circle is one turn."""

import math
from typing import Annotated

import typer

__all__ = ["PER_TURN", "Unit", "as_unit"]

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
        raise ValueError(f"--unit: kilometers are for places on the earth, but the points have {dim} coordinates.")
    return unit
