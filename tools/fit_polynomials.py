"""Fit the polynomials of the kernel's numerical functions: Remez exchange in 60 digits.

    python tools/fit_polynomials.py          print the coefficients and their maximum errors
    python tools/fit_polynomials.py --check  compare them with those in cpp/, and exit with status 1 if they differ

Among the polynomials of its form, each has the least maximum error:

- `octant_turn` in cpp/circle/grid.hpp: atan(a) / (2 pi) as a times a polynomial in a^2, on [0, 1] for float and on
  [0, tan(pi/8)] for double; absolute error, in turns.
- `powers_of_two` in cpp/support/exp.hpp: 2^r on [-1/2, 1/2]; relative error.

The series in cpp/slicing/normal.hpp and cpp/expmap/block.hpp are Taylor series, whose coefficients are quotients and
need no fit.
"""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from mpmath import mp, mpf

CPP = Path(__file__).resolve().parents[1] / "cpp"
DIGITS = 60


@dataclass(frozen=True)
class Fit:
    """A polynomial to fit, with `terms` coefficients; term k has the exponent `exponent(k)`."""

    name: str
    header: Path
    written: Callable[[str, str], list[str]]  # coefficients, ascending, by the text of the header and the type
    type_name: str
    terms: int
    written_digits: int  # significant digits of the coefficients in the header
    claimed_error: float
    target: Callable[[mpf], mpf]
    exponent: Callable[[int], int]
    weight: Callable[[mpf], mpf]  # factor of the error: 1 for absolute, 1 / target for relative errors
    point: Callable[[mpf], mpf]  # a point of the interval by a fraction from 0 to 1, dense where extrema are
    first_nodes: list[mpf]  # near the extrema of the error, ascending: one more than terms

    def error(self, coefficients: Sequence[mpf], a: mpf) -> mpf:
        """The weighted error of a polynomial."""
        value = sum((c * a ** self.exponent(k) for k, c in enumerate(coefficients)), mpf(0))
        return (self.target(a) - value) * self.weight(a)

    def grid(self, points_per_extremum: int) -> list[mpf]:
        """Points of the interval, ascending."""
        n = points_per_extremum * (self.terms + 1)
        return [self.point(mpf(i) / n) for i in range(n + 1)]


def octant_turn(type_name: str, terms: int, written_digits: int, claimed_error: float, high: mpf) -> Fit:
    """atan(a) / (2 pi) = a P(a^2) on [0, high]."""
    return Fit(
        "octant_turn", CPP / "circle" / "grid.hpp", written_in_steps, type_name, terms, written_digits, claimed_error,
        target=lambda a: mp.atan(a) / (2 * mp.pi),
        exponent=lambda k: 2 * k + 1,
        weight=lambda a: mpf(1),
        point=lambda fraction: high * mp.sin(mp.pi * fraction / 2),
        # Positive extrema of the Chebyshev polynomial of degree 2 terms + 1: the error is odd.
        first_nodes=[high * mp.cos(mp.pi * k / (2 * terms + 1)) for k in range(terms, -1, -1)],
    )  # fmt: skip


def powers_of_two(type_name: str, terms: int, written_digits: int, claimed_error: float) -> Fit:
    """2^r = P(r) on [-1/2, 1/2]."""
    return Fit(
        "powers_of_two", CPP / "support" / "exp.hpp", written_as_array, type_name, terms, written_digits, claimed_error,
        target=lambda r: mpf(2) ** r,
        exponent=lambda k: k,
        weight=lambda r: mpf(2) ** -r,
        point=lambda fraction: -mp.cos(mp.pi * fraction) / 2,
        first_nodes=[-mp.cos(mp.pi * k / terms) / 2 for k in range(terms + 1)],
    )  # fmt: skip


def written_in_steps(source: str, type_name: str) -> list[str]:
    """The coefficients of `octant_turn`, which has one line per step of Horner's rule."""
    pattern = rf"inline {type_name} octant_turn\({type_name} a\) {{(.*?)\n}}"
    body = re.search(pattern, source, re.DOTALL).group(1)
    first = re.search(rf"{type_name} s = (-?[\d.e-]+)f?;", body).group(1)
    others = re.findall(r"s = s \* z ([+-]) ([\d.e-]+)f?;", body)
    descending = [first, *(f"{'-' if sign == '-' else ''}{digits}" for sign, digits in others)]
    return descending[::-1]


def written_as_array(source: str, type_name: str) -> list[str]:
    """The coefficients of `powers_of_two`."""
    body = re.search(rf"static constexpr {type_name} polynomial\[\] = {{(.*?)}}", source, re.DOTALL).group(1)
    return re.findall(r"-?\d[\d.]*(?:e-?\d+)?", body)[::-1]


def fits() -> list[Fit]:
    """The fits of the kernel."""
    with mp.workdps(DIGITS):
        return [
            octant_turn("float", 8, 12, 6e-9, mpf(1)),
            octant_turn("double", 11, 19, 1.1e-18, mp.tan(mp.pi / 8)),
            powers_of_two("float", 7, 12, 2.1e-9),
            powers_of_two("double", 12, 19, 3.2e-18),
        ]


def solve(fit: Fit, nodes: Sequence[mpf]) -> list[mpf]:
    """The coefficients for which the error has one size, and alternating signs, at the nodes."""
    terms = fit.terms
    matrix, values = mp.matrix(terms + 1), mp.matrix(terms + 1, 1)
    for i, a in enumerate(nodes):
        for k in range(terms):
            matrix[i, k] = a ** fit.exponent(k)
        matrix[i, terms] = (-1) ** i / fit.weight(a)
        values[i] = fit.target(a)
    solution = mp.lu_solve(matrix, values)
    return [solution[k] for k in range(terms)]


def extrema(fit: Fit, coefficients: Sequence[mpf], points: Sequence[mpf]) -> list[mpf]:
    """The points of largest error in each run of points where the error has one sign."""
    errors = {a: fit.error(coefficients, a) for a in points}
    runs = groupby((a for a in points if errors[a] != 0), key=lambda a: errors[a] > 0)
    return [max(run, key=lambda a: abs(errors[a])) for _, run in runs]


def remez(fit: Fit) -> tuple[list[mpf], mpf]:
    """The polynomial of least maximum error on a grid, in ascending order, and its error on a finer grid."""
    points, nodes = fit.grid(40), fit.first_nodes
    for _ in range(50):
        coefficients = solve(fit, nodes)
        exchanged = extrema(fit, coefficients, points)
        if exchanged == nodes:
            return coefficients, max(abs(fit.error(coefficients, a)) for a in fit.grid(400))
        nodes = exchanged
    raise ArithmeticError("the exchange did not converge")


def main() -> int:
    """Print the fits, and with --check compare them with the headers; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the coefficients in cpp/")
    check = parser.parse_args().check
    status = 0
    with mp.workdps(DIGITS):
        for fit in fits():
            coefficients, error = remez(fit)
            texts = [mp.nstr(c, fit.written_digits, strip_zeros=False) for c in coefficients]
            low, high = (mp.nstr(fit.point(mpf(end)), 6) for end in (0, 1))
            print(f"{fit.name}({fit.type_name}): maximum error {mp.nstr(error, 3)} on [{low}, {high}]")
            for text in reversed(texts):
                print(f"  {text}")
            if check:
                status |= differs(fit, coefficients, error)
    return status


def differs(fit: Fit, coefficients: Sequence[mpf], error: mpf) -> bool:
    """Whether the header differs from a fit by more than the rounding of its digits; prints where."""
    written = fit.written(fit.header.read_text(), fit.type_name)
    faults = []
    if len(written) != len(coefficients):
        faults.append(f"{len(written)} coefficients instead of {len(coefficients)}")
    for text, c in zip(written, coefficients, strict=False):
        if abs(mpf(text) - c) > abs(c) * mpf(10) ** (1 - fit.written_digits):
            faults.append(f"{text} instead of {mp.nstr(c, fit.written_digits)}")
    if error > fit.claimed_error:
        faults.append(f"the error exceeds the claimed {fit.claimed_error}")
    for fault in faults:
        print(f"{fit.header.name}, {fit.type_name}: {fault}")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
