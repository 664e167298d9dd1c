"""Points near the pole of a great circle: their turns jump, and their gradients stay bounded (`gradient.hpp`)."""

import numpy as np
import pytest
from helpers.generators import sphere_sample
from numpy.testing import assert_allclose

import sphereot

torch = pytest.importorskip("torch")

RADIUS = 2.0**-20
FRAMES = np.eye(3)[None, :, :2]  # the equator


def near_pole(radius):
    """A point at this distance from the pole of the equator, and one on it."""
    return np.array([[radius * np.cos(0.7), radius * np.sin(0.7), np.sqrt(1 - radius**2)], [1.0, 0.0, 0.0]])


def gradient(x, backend, dtype=np.float64, dim=3):
    y = sphere_sample(np.random.default_rng(0), 2, 3)
    frames = FRAMES
    if dim > 3:  # the same, by products of matrices and by tiles
        x, y = (np.pad(t, ((0, 0), (0, dim - 3))) for t in (x, y))
        frames = np.eye(dim)[None, :, :2]
    x, y, frames = (t.astype(dtype) for t in (x, y, frames))
    if backend == "jax.numpy":
        return traced_gradient(x, y, frames)
    from sphereot._backends.torch.backend import array_api_backend

    with array_api_backend(force=backend == "portable"):
        points = torch.tensor(x, requires_grad=True)
        sphereot.ssw(points, torch.tensor(y), projections=torch.tensor(frames)).backward()
    return points.grad.numpy()


def traced_gradient(x, y, frames):
    """The gradient by the code for accelerators; on the CPU JAX would call the kernel."""
    jax = pytest.importorskip("jax")
    from sphereot._backends.jax import traced as _traced
    from sphereot._backends.protocol import Measure, Wanted

    y, frames = jax.numpy.asarray(y), jax.numpy.asarray(frames)
    measures = (Measure(jax.numpy.asarray(x)), Measure(y))
    wanted = (Wanted(True, False), Wanted(False, False))
    return np.asarray(_traced.costs_and_gradients(measures, frames, 2.0, None, wanted)[1][0][0])


BACKENDS = ["kernel", "portable", "jax.numpy"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_are_bounded(backend):
    """The derivative of the cost in a turn is at most 1 (half a point moves by half a turn): the rest is the bound."""
    for radius in (0.0, 1e-15, 1e-12, 1e-9, 0.5 * RADIUS, RADIUS, 2 * RADIUS):
        assert np.linalg.norm(gradient(near_pole(radius), backend)[0]) <= 1 / (2 * np.pi * RADIUS)
    assert np.all(gradient(near_pole(0.0), backend)[0] == 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_fall_to_zero_within_the_radius(backend):
    """They are proportional to the distance from the pole; outside the radius they equal those of the angle."""
    at_radius = gradient(near_pole(RADIUS), backend)[0]
    for share in (1e-6, 0.25, 0.5):
        assert_allclose(gradient(near_pole(share * RADIUS), backend)[0], share * at_radius, rtol=1e-7, atol=1e-7)
    for factor in (2, 1e3, 1e5):
        assert_allclose(gradient(near_pole(factor * RADIUS), backend)[0] * factor, at_radius, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("dim", [3, 20])
def test_backends_agree_near_the_pole(dim):
    for radius in (1e-12, 1e-7, 1e-5):
        expected = gradient(near_pole(radius), "kernel", dim=dim)
        assert_allclose(gradient(near_pole(radius), "portable", dim=dim), expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_single_precision_has_no_gradient_within_the_radius(backend):
    """There the planar point consists of rounding errors alone."""
    assert np.all(gradient(near_pole(0.9 * RADIUS), backend, np.float32)[0] == 0)
    assert np.linalg.norm(gradient(near_pole(1.1 * RADIUS), backend, np.float32)[0]) > 1e4
