"""Fit the polynomials of the kernel's numerical functions: Remez exchange in 60 digits.

    python tools/fit_polynomials.py          print the coefficients and their maximum errors
    python tools/fit_polynomials.py --check  compare them with those in cpp/, and exit with status 1 if they differ

`octant_turn` in cpp/circle/grid.hpp is atan(a) / (2 pi) as a times a polynomial in a^2, on [0, 1] for float and on
[0, tan(pi/8)] for double. Among the polynomials of its degree it has the least maximum absolute error. The series in
cpp/support/exp.hpp, cpp/slicing/normal.hpp and cpp/expmap/block.hpp are Taylor series, whose coefficients are quotients
and need no fit.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from mpmath import mp, mpf

HEADER = Path(__file__).resolve().parents[1] / "cpp" / "circle" / "grid.hpp"
DIGITS = 60


@dataclass(frozen=True)
class Fit:
    """A polynomial to fit: atan(a) / (2 pi) = a P(a^2) on [0, high], with `terms` coefficients."""

    type_name: str
    high: mpf
    terms: int
    written_digits: int  # significant digits of the coefficients in the header
    claimed_error: float  # in turns


def fits() -> list[Fit]:
    """The fits of the kernel."""
    with mp.workdps(DIGITS):
        return [
            Fit("float", mpf(1), 8, 12, 6e-9),
            Fit("double", mp.tan(mp.pi / 8), 11, 19, 1.1e-18),
        ]


def target(a: mpf) -> mpf:
    """The function that is fitted, atan(a) / (2 pi)."""
    return mp.atan(a) / (2 * mp.pi)


def evaluate(coefficients: Sequence[mpf], a: mpf) -> mpf:
    """The value of a P(a^2), with coefficients in ascending order."""
    return a * mp.polyval(list(reversed(coefficients)), a * a)


def solve(nodes: Sequence[mpf]) -> tuple[list[mpf], mpf]:
    """The coefficients, and the signed error, for which the error alternates between the nodes."""
    terms = len(nodes) - 1
    matrix, values = mp.matrix(terms + 1), mp.matrix(terms + 1, 1)
    for i, a in enumerate(nodes):
        for k in range(terms):
            matrix[i, k] = a ** (2 * k + 1)
        matrix[i, terms] = (-1) ** i
        values[i] = target(a)
    solution = mp.lu_solve(matrix, values)
    return [solution[k] for k in range(terms)], solution[terms]


def grid(high: mpf, terms: int) -> list[mpf]:
    """Points of [0, high], dense near its end as the extrema are: 40 for each extremum."""
    n = 40 * (terms + 1)
    return [high * mp.cos(mp.pi * (n - i) / (2 * n)) for i in range(1, n + 1)]


def extrema(coefficients: Sequence[mpf], points: Sequence[mpf]) -> list[mpf]:
    """The points of largest error in each run of points where the error has one sign."""
    errors = [target(a) - evaluate(coefficients, a) for a in points]
    runs = [list(run) for _, run in groupby(range(len(points)), key=lambda i: errors[i] > 0)]
    return [points[max(run, key=lambda i: abs(errors[i]))] for run in runs]


def remez(high: mpf, terms: int) -> tuple[list[mpf], mpf]:
    """The polynomial of least maximum error on the grid, in ascending order, and its error on a finer grid."""
    points = grid(high, terms)
    # Positive extrema of the Chebyshev polynomial of degree 2 terms + 1: the error is odd.
    nodes = [high * mp.cos(mp.pi * k / (2 * terms + 1)) for k in range(terms, -1, -1)]
    for _ in range(50):
        coefficients, _ = solve(nodes)
        exchanged = extrema(coefficients, points)
        if exchanged == nodes:
            fine = grid(high, 10 * (terms + 1) - 1)
            return coefficients, max(abs(target(a) - evaluate(coefficients, a)) for a in fine)
        nodes = exchanged
    raise ArithmeticError("the exchange did not converge")


def written_coefficients(type_name: str) -> list[str]:
    """The coefficients in the header, in ascending order."""
    source = HEADER.read_text()
    body = re.search(rf"inline {type_name} octant_turn\({type_name} a\) {{(.*?)\n}}", source, re.DOTALL).group(1)
    first = re.search(rf"{type_name} s = (-?[\d.e-]+)f?;", body).group(1)
    others = re.findall(r"s = s \* z ([+-]) ([\d.e-]+)f?;", body)
    descending = [first, *(f"{'-' if sign == '-' else ''}{digits}" for sign, digits in others)]
    return descending[::-1]


def main() -> int:
    """Print the fits, and with --check compare them with the header; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the coefficients in cpp/")
    check = parser.parse_args().check
    status = 0
    with mp.workdps(DIGITS):
        for fit in fits():
            coefficients, error = remez(fit.high, fit.terms)
            texts = [mp.nstr(c, fit.written_digits, strip_zeros=False) for c in coefficients]
            print(
                f"octant_turn({fit.type_name}): maximum error {mp.nstr(error, 3)} turns on [0, {mp.nstr(fit.high, 6)}]"
            )
            for text in reversed(texts):
                print(f"  {text}")
            if check:
                status |= differs(fit, coefficients, error)
    return status


def differs(fit: Fit, coefficients: Sequence[mpf], error: mpf) -> bool:
    """Whether the header differs from a fit by more than the rounding of its digits; prints where."""
    written = written_coefficients(fit.type_name)
    faults = []
    if len(written) != len(coefficients):
        faults.append(f"{len(written)} coefficients instead of {len(coefficients)}")
    for text, c in zip(written, coefficients, strict=False):
        if abs(mpf(text) - c) > abs(c) * mpf(10) ** (1 - fit.written_digits):
            faults.append(f"{text} instead of {mp.nstr(c, fit.written_digits)}")
    if error > fit.claimed_error:
        faults.append(f"the error exceeds the claimed {fit.claimed_error}")
    for fault in faults:
        print(f"{HEADER.name}, {fit.type_name}: {fault}")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
