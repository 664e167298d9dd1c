"""Reference values of SSW_p for any order p: minimum over all cuts, in the precision of mpmath."""

import numpy as np
from mpmath import mp, mpf
from numpy.testing import assert_allclose

import sphereot
from helpers.generators import sphere_sample

__all__ = ["Problem"]


def least_cost(u, v, a, b, p):
    """W_p^p on the circle, of integer weights with equal sums: each atom as often as it weighs, over all shifts."""
    x, y = (np.sort(np.repeat(t % 1, w)) for t, w in ((u, a), (v, b)))
    n = len(x)
    x, lifted = [mpf(float(t)) for t in x], [mpf(float(y[j % n])) + j // n for j in range(-n, 2 * n)]
    return min(mp.fsum(abs(x[i] - lifted[n + i + k]) ** p for i in range(n)) for k in range(-n, n)) / n


def least_cost_uniform(u, a, p):
    """W_p^p to the uniform measure: the derivative in the cut increases, and is halved down to the last digit."""
    order = np.argsort(u % 1)
    x = [mpf(float(t)) for t in (u % 1)[order]]
    levels = [mpf(int(k)) / int(sum(a)) for k in np.concatenate([[0], np.cumsum(a[order])])]
    ends = [(x[i] - levels[i], x[i] - levels[i + 1]) for i in range(len(x))]
    low, high = mpf(-1), mpf(1)
    for _ in range(100):
        middle = (low + high) / 2
        falls = mp.fsum(abs(last - middle) ** p - abs(first - middle) ** p for first, last in ends) < 0
        low, high = (middle, high) if falls else (low, middle)
    q = p + 1
    return mp.fsum((s * abs(s) ** p - r * abs(r) ** p) / q for s, r in ((f - low, g - low) for f, g in ends))


def rooted_mean(costs, p):
    return float((mp.fsum(costs) / len(costs)) ** (mpf(1) / mpf(p)))


class Problem:
    """Points near each other on S^2, with integer weights, and their turns on a few circles."""

    def __init__(self, shift, dtype=np.float64):
        rng = np.random.default_rng(5)
        self.x = sphere_sample(rng, 7, 3)
        angle = 2 * np.pi * shift * rng.uniform(0.2, 1, 7)[:, None]
        tangent = np.cross(self.x, sphere_sample(rng, 7, 3))
        tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
        self.y = np.cos(angle) * self.x + np.sin(angle) * tangent
        self.x, self.y = self.x.astype(dtype), self.y.astype(dtype)
        self.a, self.b = np.array([1, 2, 0, 3, 1, 1, 2]), np.array([2, 1, 1, 2, 1, 1, 2])
        self.frames = sphereot.great_circles(4, 3, seed=2).astype(dtype)
        # In double precision: those of the kernel in single precision are rounded.
        wide = [t.astype(np.float64) for t in (self.x, self.y, self.frames)]
        self.turns = [sphereot.project(points, wide[2]) for points in wide[:2]]

    def expected(self, p):
        """SSW_p with equal weights, with weights, and to the uniform measure with weights."""
        ones = np.ones(7, int)
        u, v = self.turns
        return [
            rooted_mean([least_cost(s, t, ones, ones, p) for s, t in zip(u, v, strict=True)], p),
            rooted_mean([least_cost(s, t, self.a, self.b, p) for s, t in zip(u, v, strict=True)], p),
            rooted_mean([least_cost_uniform(s, self.a, p) for s in u], p),
        ]

    def found(self, p, kind=np.asarray, **options):
        x, y, a, b, frames = (kind(t) for t in (self.x, self.y, self.a.astype(self.x.dtype), self.b * 1.0, self.frames))
        options |= {"p": p, "projections": frames, "root": True}
        pairs = sphereot.pairwise_ssw([x, y], weights=[a, b], **options)
        values = [
            sphereot.ssw(x, y, **options),
            sphereot.ssw(x, y, x_weights=a, y_weights=b, **options),
            sphereot.ssw_uniform(x, weights=a, **options),
        ]
        assert_allclose(float(pairs[0, 1]), float(values[1]), rtol=1e-6)
        return [float(value) for value in values]
