"""The reference values for other implementations: sphereot agrees with all of them."""

import json

import numpy as np
import pytest
from helpers.kernel import needs_kernel
from numpy.testing import assert_allclose

import sphereot
from sphereot import circle

pytest.importorskip("ot")
pytest.importorskip("mpmath")

from paper.reference import make_values

VALUES = json.loads(make_values.PATH.read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", VALUES["circle"], ids=lambda case: case["name"])
def test_costs_on_a_circle(case):
    # Positions are rounded to multiples of 2^-53, and sums of up to 40 terms to 1e-15.
    for p, cost in case["costs"].items():
        found = circle.wasserstein(case["u"], case["v"], p=float(p), u_weights=case["a"], v_weights=case["b"])
        assert_allclose(found, cost, rtol=0, atol=2e-15, err_msg=f"p = {p}")
    for p, cost in case["costs_of_u_to_uniform"].items():
        found = circle.wasserstein_uniform(case["u"], p=float(p), weights=case["a"])
        assert_allclose(found, cost, rtol=0, atol=2e-15, err_msg=f"p = {p}, uniform")


@pytest.mark.parametrize("case", VALUES["sphere"], ids=lambda case: f"d = {case['dim']}")
def test_costs_on_great_circles(case):
    x, y, frames = (np.array(case[name]) for name in ("x", "y", "frames"))
    options = {"projections": frames, "x_weights": case["a"], "y_weights": case["b"]}
    for p, value in case["ssw"].items():
        assert_allclose(np.mean(case["costs"][p]), value, rtol=1e-15)
        assert_allclose(sphereot.ssw(x, y, p=float(p), **options), value, rtol=0, atol=2e-15, err_msg=f"p = {p}")


@pytest.mark.parametrize("case", VALUES["kernel"], ids=lambda case: f"d = {case['dim']}")
def test_kernel(case):
    """The documented error is 1e-14 given the cosine."""
    assert_allclose(sphereot.uniform_kernel(np.array(case["cosines"]), case["dim"]), case["values"], rtol=0, atol=1e-14)


@pytest.mark.parametrize("case", VALUES["projected_von_mises_fisher"], ids=lambda case: f"d = {case['dim']}")
def test_projected_densities(case):
    density = pytest.importorskip("sphereot.distributions").projected_von_mises_fisher_density
    mean = np.zeros(case["dim"])
    mean[0], mean[2] = np.cos(case["delta"]), np.sin(case["delta"])
    found = density(np.array(case["turns"]), mean, case["kappa"], np.eye(case["dim"])[:, :2])
    assert_allclose(found, case["densities"], rtol=2e-12)


def test_values_are_those_of_the_program():
    """A part of the file, made again; other machines may round the last digit differently."""
    kernel = VALUES["kernel"][1]
    assert_allclose(make_values.integrate_kernel(kernel["cosines"][3], 3), kernel["values"][3], rtol=1e-15)
    density = VALUES["projected_von_mises_fisher"][0]
    found = make_values.integrate_density(density["turns"][1], 3, density["kappa"], density["delta"])
    assert_allclose(found, density["densities"][1], rtol=1e-15)
    case = VALUES["circle"][9]
    u, v, a, b = (np.array(case[name]) for name in ("u", "v", "a", "b"))
    assert_allclose(make_values.solve_transport(u, v, a, b, 2), case["costs"]["2"], rtol=1e-14)
    assert_allclose(make_values.minimize_over_cuts(u, a, 2), case["costs_of_u_to_uniform"]["2"], rtol=1e-14)


@needs_kernel
def test_kernel_values_are_means_over_great_circles():
    """The definition of K_d: half the mean of B_2 of the projected angle, over 20,000 circles to 5 standard errors."""
    for case in VALUES["kernel"]:
        dim, cosine, value = case["dim"], case["cosines"][5], case["values"][5]
        x = np.zeros((2, dim))
        x[:, 0], x[1, 1] = (1, cosine), np.sqrt(1 - cosine**2)
        turns = sphereot.project(x, sphereot.great_circles(20_000, dim, seed=dim))
        gap = (turns[:, 0] - turns[:, 1]) % 1
        half = (gap**2 - gap + 1 / 6) / 2
        assert abs(half.mean() - value) <= 5 * half.std() / np.sqrt(len(half)) + 1e-14
