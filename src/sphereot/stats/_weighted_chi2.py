"""Weighted sums of chi-square variables, W = sum_l lambda_l chi2(m_l): their tail probabilities.

P(W > x) is an integral of exp(K(s) - s x) / s over a path in the complex plane, K being the logarithm of the moment
generating function. The path goes through the saddle point with the curvature of steepest descent (Rice, 1980): the
integrand hardly oscillates on it, so that the trapezoidal rule converges exponentially, and tiny probabilities keep
their relative precision. Rice's parabola ends up beside the real axis, where many chi-squares of a small weight are
singular; a hyperbola keeps away from it. An infinite sum of small weights is replaced by a gamma variable of the same
mean and variance.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sphereot._support.bisection import bisect

__all__ = ["WeightedChiSquares"]

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

_HALVINGS = 10
_RELATIVE_CHANGE = 1e-9  # between two step sizes, where the error of the smaller one is about the square of it
_LEAST_PEAK = -800.0  # exp of it is 0; beyond, the rounding of the exponent would not let the sum converge
_LEAST_LOG = -45.0  # of the integrand relative to its peak, where the path ends
_SLOPE = 0.5  # real over imaginary part far out on the path; below 1, no factor of the integrand grows on its own


@dataclass(frozen=True)
class WeightedChiSquares:
    """The distribution of shift + sum_l lambda_l chi2(m_l).

    Attributes
    ----------
    weights : array, shape (k,)
        lambda_l > 0.
    degrees_of_freedom : array, shape (k,)
        m_l > 0, not necessarily integers.
    shift : float
        A constant that is added.
    """

    weights: Floats
    degrees_of_freedom: Floats
    shift: float = 0.0

    @classmethod
    def with_remainder(
        cls, weights: Floats, degrees_of_freedom: Floats, mean: float, variance: float
    ) -> "WeightedChiSquares":
        """Further chi-squares of small weights, known by the `mean` and `variance` of their sum."""
        if variance <= 0.0:
            return cls(weights, degrees_of_freedom, shift=mean)
        # Variance 2 lambda^2 m, mean lambda m.
        return cls(
            np.append(weights, variance / (2.0 * mean)), np.append(degrees_of_freedom, 2.0 * mean * mean / variance)
        )

    @property
    def mean(self) -> float:
        """The expectation."""
        return self.shift + float(self.weights @ self.degrees_of_freedom)

    @property
    def variance(self) -> float:
        """The variance."""
        return float(2.0 * self.weights**2 @ self.degrees_of_freedom)

    def scaled_about_mean(self, scale: float) -> "WeightedChiSquares":
        """The distribution of mean + scale (W - mean)."""
        return WeightedChiSquares(
            scale * self.weights, self.degrees_of_freedom, shift=self.mean - scale * (self.mean - self.shift)
        )

    def survival(self, x: float) -> float:
        """P(W > x), with an absolute error below 1e-9; the relative one is as small in the upper tail."""
        if x <= self.shift:
            return 1.0
        if x > self.mean:
            return min(1.0, max(0.0, self._integral(x, upper=True)))
        return min(1.0, max(0.0, 1.0 - self._integral(x, upper=False)))

    def quantile(self, probability: float) -> float:
        """The x with P(W > x) = `probability`."""
        low, high = self.shift, self.mean + math.sqrt(self.variance)
        while self.survival(high) > probability:
            low, high = high, self.mean + 2.0 * (high - self.mean)
        return bisect(lambda x: probability - self.survival(x), low, high, steps=50)

    def _integral(self, x: float, *, upper: bool) -> float:
        """P(W > x) if `upper`, else P(W < x): the pole at 0 is on the left of the path, or on its right."""
        saddle = self._saddle_point(x, upper=upper)
        scaled = 2.0 * self.weights / (1.0 - 2.0 * self.weights * saddle)
        second = 0.5 * float(scaled**2 @ self.degrees_of_freedom)
        third = float(scaled**3 @ self.degrees_of_freedom)
        # To the right, where exp(-s x) decays. The pole is left out: it would pull the path of the lower tail too far.
        bend = third / (6.0 * second)
        peak = self._exponent(np.array([complex(saddle)]), x)[0].real
        if peak < _LEAST_PEAK:
            return 0.0
        step = 0.5 / math.sqrt(second + saddle**-2)
        previous = math.nan
        for _ in range(_HALVINGS):
            total = self._trapezoid(x, saddle, bend, step, peak)
            if abs(total - previous) <= _RELATIVE_CHANGE * abs(total):
                break
            previous, step = total, step / 2.0
        else:
            raise ArithmeticError(f"The tail probability at {x} did not converge; please report it with the weights.")
        value = math.exp(peak) * total / math.pi
        return value if upper else -value

    def _trapezoid(self, x: float, saddle: float, bend: float, step: float, peak: float) -> float:
        """Integral over the upper half of the path of Im(exp(K - s x - peak) / s ds); the lower half is its mirror."""
        total, start, block = 0.0, 0, 64
        while True:
            y = step * np.arange(start, start + block)
            root = np.sqrt(1.0 + (2.0 * bend / _SLOPE * y) ** 2)
            s = saddle + 2.0 * bend * y * y / (1.0 + root) + 1j * y
            exponent = self._exponent(s, x) - peak
            values = np.exp(exponent) / s * (2.0 * bend * y / root + 1j)
            total += float(np.sum(values.imag))
            if start == 0:
                total -= 0.5 * float(values[0].imag)
            if exponent[-1].real < _LEAST_LOG:
                return step * total
            start += block
            block = min(2 * block, 4096)

    def _exponent(self, s: Complexes, x: float) -> Complexes:
        """K(s) - s x."""
        shrink = -2.0 * self.weights[:, None]
        re, im = shrink * s.real, shrink * s.imag
        # NumPy's logarithm of 1 + z is not precise for small z, and there may be 1e10 of such terms.
        moduli = 0.5 * np.log1p(re * (2.0 + re) + im * im)
        angles = np.arctan2(im, 1.0 + re)
        logs = self.degrees_of_freedom @ moduli + 1j * (self.degrees_of_freedom @ angles)
        exponent: Complexes = -0.5 * logs + (self.shift - x) * s
        return exponent

    def _saddle_point(self, x: float, *, upper: bool) -> float:
        """The minimum of exp(K(s) - s x) / |s|, between 0 and the first singularity or below 0."""

        def slope(s: float) -> float:
            cumulant = self.shift + float(
                np.sum(self.weights * self.degrees_of_freedom / (1.0 - 2.0 * self.weights * s))
            )
            return cumulant - x - 1.0 / s

        if upper:
            return bisect(slope, 0.0, 0.5 / float(np.max(self.weights)))
        low = -1.0 / math.sqrt(self.variance)
        while slope(low) > 0.0:
            low *= 2.0
        return bisect(slope, low, 0.0)
