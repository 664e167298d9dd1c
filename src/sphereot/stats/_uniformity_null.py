"""Distributions of statistics of uniformity for n independent uniform points, without simulation.

n SSW_2^2 and the statistics of Rayleigh, Bingham and Giné are Sobolev statistics: mean values of a kernel over all
pairs of points. As n grows they tend to sum_l lambda_l chi2(m_l), with the eigenvalues of the kernel and their
multiplicities. For every n the mean is that of the limit, and the variance 1 - 1/n times that of the limit. So the
distribution of n SSW_2^2 and of Giné's statistic is taken to be the limit, scaled about its mean. For Rayleigh's and
Bingham's, whose limits are chi-square, there are corrections of the order 1/n (Jupp, 2001), which are closer.

P(W > x) for such a weighted sum W is an integral of exp(K(s) - s x) / s over a path in the complex plane, K being the
logarithm of the moment generating function. The path goes through the saddle point with the curvature of steepest
descent (Rice, 1980): the integrand hardly oscillates on it, so that the trapezoidal rule converges exponentially, and
tiny probabilities keep their relative precision. Rice's parabola ends near the real axis, where many chi-squares of a
small weight are singular; a hyperbola keeps away from it. An infinite sum of small weights is replaced by a gamma
variable of the same mean and variance.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sphereot._backends.uniform_kernel import gegenbauer_eigenvalues, kernel_value
from sphereot._support.bisection import bisect

DEGREES = 4096  # weights of higher degree change the variance by 1e-9 of itself at most
_SKEWNESS_OF_REMAINDER = 1e-9
SMALLEST = math.ulp(0.0)  # a probability that is not 0 is given as at least this


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


@lru_cache(maxsize=64)
def limit_distribution(dim: int) -> WeightedChiSquares:
    """The limit of n SSW_2^2 for uniform points on S^{d-1}, as n grows."""
    spectrum = gegenbauer_eigenvalues(dim, DEGREES)
    return sobolev_limit(spectrum.eigenvalues, spectrum.multiplicities, spectrum.shares, mean=1 / 12)


def sobolev_limit(
    eigenvalues: NDArray[np.float64],
    multiplicities: NDArray[np.float64],
    shares: NDArray[np.float64],
    mean: float,
) -> WeightedChiSquares:
    """sum_l lambda_l chi2(m_l) with this mean: the first degrees one by one, and a gamma variable for the others."""
    squares = eigenvalues * shares
    # The remainder has the right mean and variance; its third cumulant is less than what would change a probability.
    cubes_beyond = np.cumsum((squares * eigenvalues)[::-1])[::-1]
    count = int(np.argmax(8 * cubes_beyond < _SKEWNESS_OF_REMAINDER * (2 * np.sum(squares)) ** 1.5))
    return WeightedChiSquares.with_remainder(
        eigenvalues[:count],
        multiplicities[:count],
        mean=mean - float(np.sum(shares[:count])),
        variance=2.0 * float(np.sum(squares[count:])),
    )


def null_distribution(n: int, dim: int, standard_error: float = 0.0) -> WeightedChiSquares:
    """The distribution of n SSW_2^2 for n uniform points: the limit with the variance that n points have.

    Parameters
    ----------
    n : int
        Number of points, at least 2.
    dim : int
        Dimension d of the space around the sphere, at least 2.
    standard_error : float
        Of an estimate of the statistic, whose variance is added.

    Returns
    -------
    WeightedChiSquares
    """
    limit = limit_distribution(dim)
    return limit.scaled_about_mean(math.sqrt(1 - 1 / n + standard_error**2 / limit.variance))


def null_tail_probability(statistic: float, n: int, dim: int, standard_error: float = 0.0) -> float:
    """The probability that n SSW_2^2 is at least `statistic`, for n uniform points on S^{d-1}.

    Exact for n = 1 and 2, an approximation from n = 3 on: `docs/uniformity.md` has the levels that were measured. A
    probability that is less than any float is given as the smallest one, 5e-324.

    Parameters
    ----------
    statistic : float
        n SSW_2^2, the sum of K_d over all pairs (i, j), i = j included, over n.
    n : int
        Number of points.
    dim : int
        Dimension d of the space around the sphere, at least 2.
    standard_error : float
        Of `statistic`, if it is an estimate.

    Returns
    -------
    float

    Examples
    --------
    The critical value of Watson's U^2 at 5 %, for many points:

    >>> round(null_tail_probability(0.187, 10**6, 2), 3)
    0.05
    """
    if n == 1:
        return 1.0
    if n == 2:
        # K_d falls: the angle at which it has the value, 0 or pi beyond its range.
        value = statistic - 1 / 12
        angle = bisect(
            lambda a: value - float(kernel_value(np.array(math.sin(a / 2) ** 2), dim)), 0.0, math.pi, steps=60
        )
        return max(SMALLEST, _probability_of_angle(angle, dim))
    return max(SMALLEST, null_distribution(n, dim, standard_error).survival(statistic))


def _probability_of_angle(angle: float, dim: int) -> float:
    """The probability that two uniform points have at most this angle."""
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
    powers: NDArray[np.float64] = np.sin(angles) ** (dim - 2)
    return powers
