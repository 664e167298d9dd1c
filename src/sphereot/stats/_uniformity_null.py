"""Distributions of statistics of uniformity for n independent uniform points, without simulation.

As n grows, the statistics tend to sum_l lambda_l chi2(m_l), with the eigenvalues of a kernel and their multiplicities
(:doc:`/background/uniformity`). For n SSW_2^2 and Giné's statistic, the limit is scaled about its mean to the variance
for n points. For Rayleigh's and Bingham's statistics, it is a chi-square with corrections of order 1/n (Jupp, 2001).

P(W > x) for such a weighted sum W is an integral of exp(K(s) - s x) / s over a path in the complex plane, with K the
logarithm of the moment generating function. The path goes through the saddle point with the curvature of steepest
descent (Rice, 1980). The integrand hardly oscillates on it, so the trapezoidal rule converges exponentially, and tiny
probabilities keep their relative precision. Rice's parabola ends near the real axis, where many chi-squares of a small
weight are singular; a hyperbola keeps away from it. A gamma variable with the same mean and variance replaces an
infinite sum of small weights.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sphereot._backends.uniform_kernel import kernel_value
from sphereot._support.bisection import bisect
from sphereot.stats._kernel_spectrum import gegenbauer_eigenvalues

DEGREES = 4096  # weights of higher degree change the variance by 1e-9 of itself at most
_SKEWNESS_OF_REMAINDER = 1e-9
SMALLEST = math.ulp(0.0)  # probabilities are at least this, because none is 0

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

_HALVINGS = 10
_RELATIVE_CHANGE = 1e-9  # between two step sizes; the error of the smaller one is about the square of it
_LEAST_PEAK = -800.0  # its exp is 0; below it, the rounding of the exponent would not let the sum converge
_LEAST_LOG = -45.0  # of the integrand relative to its peak, at the end of the path
_SLOPE = 0.5  # real over imaginary part far out on the path; below 1, no factor of the integrand grows on its own


@dataclass(frozen=True)
class WeightedChiSquares:
    """The distribution of shift + sum_l lambda_l chi2(m_l)."""

    weights: Floats
    """lambda_l > 0, shape (k,)."""
    degrees_of_freedom: Floats
    """m_l > 0, not necessarily integers, shape (k,)."""
    shift: float = 0.0

    @classmethod
    def with_remainder(
        cls, weights: Floats, degrees_of_freedom: Floats, mean: float, variance: float
    ) -> "WeightedChiSquares":
        """Add chi-squares of small weights, known by the `mean` and `variance` of their sum."""
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
        """Return the distribution of mean + scale (W - mean)."""
        return WeightedChiSquares(
            scale * self.weights, self.degrees_of_freedom, shift=self.mean - scale * (self.mean - self.shift)
        )

    def survival(self, x: float) -> float:
        """Compute P(W > x), with an absolute error below 1e-9; in the upper tail, so is the relative error."""
        if x <= self.shift:
            return 1.0
        if x > self.mean:
            return min(1.0, max(0.0, self._integral(x, upper=True)))
        return min(1.0, max(0.0, 1.0 - self._integral(x, upper=False)))

    def quantile(self, probability: float) -> float:
        """Find the x with P(W > x) = `probability`."""
        low, high = self.shift, self.mean + math.sqrt(self.variance)
        while self.survival(high) > probability:
            low, high = high, self.mean + 2.0 * (high - self.mean)
        return bisect(lambda x: probability - self.survival(x), low, high, steps=50)

    def _integral(self, x: float, *, upper: bool) -> float:
        """Compute P(W > x) if `upper`, else P(W < x): the pole at 0 is on the left of the path, or on its right."""
        saddle = self._saddle_point(x, upper=upper)
        scaled = 2.0 * self.weights / (1.0 - 2.0 * self.weights * saddle)
        second = 0.5 * float(scaled**2 @ self.degrees_of_freedom)
        third = float(scaled**3 @ self.degrees_of_freedom)
        # To the right, because exp(-s x) decays there. The pole would pull the path of the lower tail too far.
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
        """Integrate Im(exp(K - s x - peak) / s ds) over the upper half of the path; the lower half is its mirror."""
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
        return np.asarray(-0.5 * logs + (self.shift - x) * s)

    def _saddle_point(self, x: float, *, upper: bool) -> float:
        """Find the minimum of exp(K(s) - s x) / |s|, between 0 and the first singularity or below 0."""

        def slope(s: float) -> float:
            terms = self.weights * self.degrees_of_freedom / (1.0 - 2.0 * self.weights * s)
            return self.shift + float(np.sum(terms)) - x - 1.0 / s

        if upper:
            return bisect(slope, 0.0, 0.5 / float(np.max(self.weights)))
        low = -1.0 / math.sqrt(self.variance)
        while slope(low) > 0.0:
            low *= 2.0
        return bisect(slope, low, 0.0)


@lru_cache(maxsize=64)
def limit_distribution(dim: int, *, even: bool = False) -> WeightedChiSquares:
    """Return the limit of n SSW_2^2 for uniform points on S^{d-1}, as n grows, or of its even part."""
    spectrum = gegenbauer_eigenvalues(dim, DEGREES)
    degrees = slice(1, None, 2) if even else slice(None)
    eigenvalues, multiplicities, shares = (part[degrees] for part in spectrum[1:])
    return sobolev_limit(eigenvalues, multiplicities, shares, mean=1 / 48 if even else 1 / 12)


def sobolev_limit(
    eigenvalues: NDArray[np.float64],
    multiplicities: NDArray[np.float64],
    shares: NDArray[np.float64],
    mean: float,
) -> WeightedChiSquares:
    """Return sum_l lambda_l chi2(m_l) with this mean: the first degrees, and a gamma variable for all others."""
    squares = eigenvalues * shares
    # The remainder has the right mean and variance; its third cumulant is too small to change a probability.
    cubes_beyond = np.cumsum((squares * eigenvalues)[::-1])[::-1]
    count = int(np.argmax(8 * cubes_beyond < _SKEWNESS_OF_REMAINDER * (2 * np.sum(squares)) ** 1.5))
    return WeightedChiSquares.with_remainder(
        eigenvalues[:count],
        multiplicities[:count],
        mean=mean - float(np.sum(shares[:count])),
        variance=2.0 * float(np.sum(squares[count:])),
    )


def null_distribution(n: int, dim: int, standard_error: float = 0.0) -> WeightedChiSquares:
    """Return the distribution of n SSW_2^2 for n >= 2 uniform points: the limit, with the variance of n points.

    The variance of an estimate with this standard error is added.
    """
    limit = limit_distribution(dim)
    return limit.scaled_about_mean(math.sqrt(1 - 1 / n + standard_error**2 / limit.variance))


def even_null_distribution(n: int, dim: int) -> WeightedChiSquares:
    """Return the distribution of n times the even part of SSW_2^2 for n >= 2 uniform points, as `null_distribution`."""
    return limit_distribution(dim, even=True).scaled_about_mean(math.sqrt(1 - 1 / n))


def null_tail_probability(statistic: float, n: int, dim: int, standard_error: float = 0.0) -> float:
    """Compute the probability that n SSW_2^2 is at least `statistic`, for n uniform points on S^{d-1}.

    It is exact for n = 1 and 2, and an approximation for n >= 3; see :doc:`/benchmarks/power` for its significance
    levels. `standard_error` is the standard error of `statistic`, if that is an estimate.

    For many points on the circle, Watson's U^2 has this critical value at 5 %:

    >>> round(null_tail_probability(0.187, 10**6, 2), 3)
    0.05
    """
    if n == 1:
        return 1.0
    if n == 2:
        # K_d decreases: find the angle at which it has this value, or 0 or pi beyond its range.
        def excess(angle: float) -> float:
            return statistic - 1 / 12 - float(kernel_value(np.array(math.sin(angle / 2) ** 2), dim))

        angle = bisect(excess, 0.0, math.pi, steps=60)
        return max(SMALLEST, _probability_of_angle(angle, dim))
    return max(SMALLEST, null_distribution(n, dim, standard_error).survival(statistic))


def _probability_of_angle(angle: float, dim: int) -> float:
    """Compute the probability that two uniform points have at most this angle."""
    if angle > math.pi / 2:
        return 1.0 - _probability_of_angle(math.pi - angle, dim)
    # The tanh-sinh rule on [0, 1]: sin^(d-2) may be concentrated at the end.
    step = min(0.05, 0.3 / math.sqrt(dim))
    u = np.arange(-3.2, 3.2 + step / 2, step)
    nodes = 1 / (1 + np.exp(-math.pi * np.sinh(u)))
    weights = step * math.pi * np.cosh(u) * nodes * (1 - nodes)
    total = _sine_powers(nodes * (math.pi / 2), dim) @ weights * (math.pi / 2)
    return float(0.5 * (_sine_powers(nodes * angle, dim) @ weights) * angle / total)


def _sine_powers(angles: NDArray[np.float64], dim: int) -> NDArray[np.float64]:
    return np.asarray(np.sin(angles) ** (dim - 2))
