"""Measures for tests: random ones that include hard cases, and ones with a known distance."""

from dataclasses import dataclass

import numpy as np
import ot

from sphereot import sphere

__all__ = ["Known", "Pair", "cloud", "known_pairs", "linear_program", "location", "random_pair", "sphere_sample"]


@dataclass(frozen=True)
class Pair:
    """Two measures on the circle; weights are None if they are equal."""

    u: np.ndarray
    v: np.ndarray
    a: np.ndarray | None
    b: np.ndarray | None

    def weights(self) -> dict[str, np.ndarray | None]:
        return {"u_weights": self.a, "v_weights": self.b}


def random_pair(rng: np.random.Generator, *, most_atoms: int = 40) -> Pair:
    """Random pair: equal or unequal sizes and weights (some zero); spread, clustered, tied and extreme atoms."""
    n = int(rng.integers(1, most_atoms + 1))
    m = n if rng.random() < 0.4 else int(rng.integers(1, most_atoms + 1))
    a = random_weights(rng, n) if rng.random() < 0.5 else None
    b = random_weights(rng, m) if rng.random() < 0.5 else None
    return Pair(random_atoms(rng, n), random_atoms(rng, m), a, b)


def random_atoms(rng: np.random.Generator, n: int) -> np.ndarray:
    kinds = [
        lambda: rng.random(n),
        lambda: rng.integers(0, 8, n) / 8,  # many ties, and pairs half a turn apart
        lambda: (rng.random() + 0.01 * rng.normal(size=n)) % 1,  # one cluster, perhaps across 0
        lambda: (rng.choice([0.1, 0.35, 0.6], n) + 1e-9 * rng.normal(size=n)) % 1,
        lambda: rng.choice([0.0, np.nextafter(1, 0), 0.25, 0.5], n),
        lambda: np.full(n, rng.random()),
    ]
    return kinds[rng.integers(len(kinds))]()


def random_weights(rng: np.random.Generator, n: int) -> np.ndarray:
    weights = rng.exponential(size=n) * (rng.random(n) > 0.25)
    weights[rng.integers(n)] += 0.1  # not all zero
    return weights


def linear_program(u, v, a=None, b=None, *, p: float) -> float:
    """W_p^p by the network simplex on the circle's ground cost."""
    distance = np.abs(np.subtract.outer(np.mod(u, 1), np.mod(v, 1)))
    cost = np.minimum(distance, 1 - distance) ** p
    a = np.full(len(u), 1 / len(u)) if a is None else a / a.sum()
    b = np.full(len(v), 1 / len(v)) if b is None else b / b.sum()
    return float(ot.emd2(a, b, cost))


@dataclass(frozen=True)
class Known:
    """A pair with its cost W_p^p as a function of p."""

    name: str
    u: np.ndarray
    v: np.ndarray
    cost: object


def known_pairs() -> list[Known]:
    rng = np.random.default_rng(1)
    atoms = rng.random(30)
    even = np.arange(12) / 12
    return [
        Known("two diracs", np.array([0.1]), np.array([0.35]), lambda p: 0.25**p),
        Known("two diracs across 0", np.array([0.2]), np.array([0.9]), lambda p: 0.3**p),
        Known("antipodes", np.array([0.0]), np.array([0.5]), lambda p: 0.5**p),
        Known("a permuted copy", atoms, atoms[::-1], lambda p: 0.0),
        Known("a permuted copy, laps away", atoms, atoms[::-1] + 3, lambda p: 0.0),
        # Each of the even atoms moves by the same little: no other matching has a smaller sum (Jensen).
        Known("even atoms, turned", even, even + 0.03, lambda p: 0.03**p),
        Known("two clusters trade places", np.array([0.0, 0.0, 0.5]), np.array([0.0, 0.5, 0.5]), lambda p: 0.5**p / 3),
    ]


def sphere_sample(rng: np.random.Generator, n: int, d: int, *, shift: float = 0.0, dtype=np.float64) -> np.ndarray:
    x = rng.normal(size=(n, d))
    x[:, 0] += shift
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(dtype)


def location(lon, lat) -> np.ndarray:
    """Unit vectors of degrees of longitude and latitude, shape (..., 3)."""
    lon, lat = np.deg2rad(lon), np.deg2rad(lat)
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat) + 0 * lon], axis=-1)


def cloud(n: int, center, spread: float = 0.4, seed: int = 0) -> np.ndarray:
    """Points around a center: normal noise of standard deviation `spread`, then normalized."""
    noise = np.random.default_rng(seed).normal(size=(n, len(center)))
    return sphere.normalize(np.asarray(center) + spread * noise)
