"""Make the reference values: `python -m paper.reference.make_values`.

Nothing here uses sphereot. Costs on circles are linear programs, costs to the uniform distribution are minimized over
the cut in 30 digits, and the kernel and the densities are integrals of their definitions by mpmath. The format is
described in docs/background/accuracy.md.
"""

import json
import math
from pathlib import Path
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import ot
from numpy.typing import NDArray
from scipy import optimize  # type: ignore[import-untyped]

Array = NDArray[np.float64]
PATH = Path(__file__).with_name("values.json")
ORDERS = (1, 1.5, 2, 3)
mpmath.mp.dps = 30


def geodesic_costs(u: Array, v: Array, p: float) -> Array:
    """Distances on the circle of length 1, to the power p."""
    gaps = np.abs(u[:, None] - v[None])
    return np.asarray(np.minimum(gaps, 1 - gaps) ** p)


def solve_transport(u: Array, v: Array, a: Array, b: Array, p: float) -> float:
    """W_p^p on the circle by the network simplex of POT, confirmed by the linear program of SciPy."""
    costs = geodesic_costs(u, v, p)
    value = math.fsum((ot.emd(a, b, costs) * costs).ravel())
    n, m = costs.shape
    marginals = np.concatenate([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    program = optimize.linprog(costs.ravel(), A_eq=marginals, b_eq=np.concatenate([a, b]))
    if abs(program.fun - value) > 1e-9:
        raise ArithmeticError(f"the linear programs differ: {value} and {program.fun}.")
    return value


def minimize_over_cuts(u: Array, a: Array, p: float) -> float:
    """W_p^p to the uniform distribution: the minimum over c of the integral of |F^-1(t) - t - c|^p, which is convex."""
    order = np.argsort(u, kind="stable")
    atoms, levels = (
        [mpmath.mpf(x) for x in u[order]],
        [mpmath.mpf(x) for x in np.concatenate([[0], np.cumsum(a[order])])],
    )

    def antiderivative(x: Any) -> Any:
        return mpmath.sign(x) * abs(x) ** (p + 1) / (p + 1)

    def cost(c: Any) -> Any:
        parts = zip(atoms, levels[:-1], levels[1:], strict=True)
        return sum(antiderivative(high + c - x) - antiderivative(low + c - x) for x, low, high in parts)

    low, high = mpmath.mpf(-1), mpmath.mpf(1)
    while high - low > 1e-16:  # the error of the minimum is the square of that of the cut
        third = (high - low) / 3
        low, high = (low, high - third) if cost(low + third) < cost(high - third) else (low + third, high)
    return float(cost((low + high) / 2))


def integrate_kernel(cosine: float, dim: int) -> float:
    """K_d, half the mean of B_2 of the angle between two projections.

    Let q = (1 - s) / (1 + s), where s is the ratio of the singular values of U^T restricted to the plane of the two
    points. Given s, the projected angle is gamma + sum_n (-q)^n / n (sin 2n(b + gamma) - sin 2nb) with b uniform. Its
    variance is Li_2(q^2) - Re Li_2(q^2 exp(2 i gamma)). The law of s comes from the density det(I - M^T M)^((d-5)/2) of
    two rows of two columns of a random orthogonal matrix; for d = 3, s is uniform; for d = 2, s is 1.
    """
    gamma = mpmath.acos(mpmath.mpf(cosine))

    def variance(s: Any) -> Any:
        square = ((1 - s) / (1 + s)) ** 2
        return mpmath.polylog(2, square) - mpmath.re(mpmath.polylog(2, square * mpmath.expjpi(2 * gamma / mpmath.pi)))

    def density(s: Any) -> Any:
        half = mpmath.mpf(dim - 5) / 2
        return (1 - s**2) * mpmath.hyp2f1(-half, 2, half + 3, s**2) if dim > 3 else 1

    mean = mpmath.mpf(0)
    if dim > 2 and abs(cosine) < 1:
        total = mpmath.quad(density, [0, 0.5, 1])
        mean = mpmath.quad(lambda s: density(s) * variance(s), [0, 0.5, 1]) / total
    return float(mpmath.mpf(1) / 12 - gamma / (4 * mpmath.pi) + (gamma**2 + mean) / (8 * mpmath.pi**2))


def integrate_density(turn: float, dim: int, kappa: float, delta: float) -> float:
    """Density per turn of a projected von Mises-Fisher distribution with its mean at the angle delta to the plane.

    The integral over the length r of the planar point, whose square has the law Beta(1, (d - 2) / 2) for a uniform
    point. Given r, the other coordinates are uniform on a sphere of radius sqrt(1 - r^2) in R^(d-2).
    """
    along = mpmath.mpf(kappa) * mpmath.cos(delta) * mpmath.cospi(2 * mpmath.mpf(turn))
    across = (mpmath.mpf(kappa) * mpmath.sin(delta)) ** 2

    def mean_exponential(square: Any, size: int) -> Any:  # of sqrt(square) times a coordinate, on the sphere of R^size
        return mpmath.hyp0f1(mpmath.mpf(size) / 2, square / 4)

    def integrand(angle: Any) -> Any:  # r = cos(angle)
        r, rest = mpmath.cos(angle), mpmath.sin(angle)
        return r * rest ** (dim - 3) * mpmath.exp(along * r) * mean_exponential(across * rest**2, dim - 2)

    peaks = mpmath.linspace(0, mpmath.pi / 2, 17)
    return float((dim - 2) * mpmath.quad(integrand, peaks) / mean_exponential(mpmath.mpf(kappa) ** 2, dim))


def draw_weights(rng: np.random.Generator, n: int, equal: bool) -> Array:
    """Equal weights, or multiples of 1/64, which doubles hold exactly."""
    if equal:
        return np.full(n, 1 / n)
    cuts = np.sort(rng.choice(np.arange(1, 64), size=n - 1, replace=False))
    return np.asarray(np.diff(np.concatenate([[0], cuts, [64]])) / 64)


def draw_points(rng: np.random.Generator, n: int, dim: int) -> Array:
    """Unit vectors that lean toward the first axis."""
    x = rng.normal(size=(n, dim))
    x[:, 0] += 1
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


def make_circle_cases() -> list[dict[str, Any]]:
    """Two measures on the circle, with hard cases first."""
    rng = np.random.default_rng(1)
    pairs = [
        (np.array([0.2]), np.array([0.9])),
        (np.array([0.0]), np.array([0.5])),
        (np.array([0.0, 0.25, 0.5, 0.75]), np.array([0.125, 0.375, 0.625, 0.875])),
        (np.array([0.1, 0.1, 0.6]), np.array([0.1, 0.6, 0.6])),
        (np.array([0.0, 1 - 2**-40]), np.array([2**-40, 0.5])),
    ]
    pairs += [(rng.random(n), rng.random(m)) for n, m in ((3, 5), (8, 8), (12, 7), (20, 20))]
    cases = []
    for k, (u, v) in enumerate(pairs):
        for equal in (True, False):
            a, b = (draw_weights(rng, len(each), equal or len(each) == 1) for each in (u, v))
            costs = {str(p): solve_transport(u, v, a, b, p) for p in ORDERS}
            to_uniform = {str(p): minimize_over_cuts(u, a, p) for p in ORDERS}
            lists = {"u": u.tolist(), "v": v.tolist(), "a": a.tolist(), "b": b.tolist()}
            cases.append({"name": f"pair {k}"} | lists | {"costs": costs, "costs_of_u_to_uniform": to_uniform})
    return cases


def make_sphere_cases() -> list[dict[str, Any]]:
    """Two samples on a sphere and orthonormal frames: the costs on the great circles, and their means."""
    rng = np.random.default_rng(2)
    cases = []
    for dim, n, m, equal in ((2, 5, 4, True), (3, 6, 6, True), (3, 7, 4, False), (5, 6, 8, False), (20, 5, 5, True)):
        x, y = draw_points(rng, n, dim), draw_points(rng, m, dim)
        a, b = draw_weights(rng, n, equal), draw_weights(rng, m, equal)
        frames = np.linalg.qr(rng.normal(size=(4, dim, 2)))[0]
        costs: dict[str, list[float]] = {str(p): [] for p in ORDERS}
        for frame in frames:
            u, v = (np.arctan2(*(points @ frame).T[::-1]) / (2 * np.pi) % 1 for points in (x, y))
            for p in ORDERS:
                costs[str(p)].append(solve_transport(u, v, a, b, p))
        means = {p: math.fsum(values) / len(values) for p, values in costs.items()}
        lists = {"x": x.tolist(), "y": y.tolist(), "a": a.tolist(), "b": b.tolist(), "frames": frames.tolist()}
        cases.append({"dim": dim} | lists | {"costs": costs, "ssw": means})
    return cases


def make_kernel_cases() -> list[dict[str, Any]]:
    """K_d at cosines from -1 to 1."""
    cosines = [-1.0, -0.999, -0.75, -0.25, 0.0, 0.125, 0.5, 0.9, 0.9999, 1.0]
    dims = (2, 3, 4, 5, 8, 10, 64, 512)
    return [{"dim": d, "cosines": cosines, "values": [integrate_kernel(c, d) for c in cosines]} for d in dims]


def make_density_cases() -> list[dict[str, Any]]:
    """Projected von Mises-Fisher densities; turns are counted from the projection of the mean direction."""
    turns = [0.0, 0.0625, 0.125, 0.25, 0.375, 0.5]
    settings = [(3, 1.0, 0.5), (3, 10.0, 0.0), (3, 10.0, 1.25), (4, 5.0, 0.75), (10, 20.0, 0.5), (50, 100.0, 1.0)]
    return [
        {"dim": d, "kappa": k, "delta": a, "turns": turns, "densities": [integrate_density(t, d, k, a) for t in turns]}
        for d, k, a in settings
    ]


def write(path: Path) -> None:
    """Write all cases, one per line."""
    groups = {
        "circle": make_circle_cases(),
        "sphere": make_sphere_cases(),
        "kernel": make_kernel_cases(),
        "projected_von_mises_fisher": make_density_cases(),
    }
    parts = [
        f'"{name}": [\n' + ",\n".join(json.dumps(case) for case in cases) + "\n]" for name, cases in groups.items()
    ]
    path.write_text('{\n"format": 1,\n' + ",\n".join(parts) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    write(PATH)
