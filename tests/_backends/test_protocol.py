"""The backend protocol: every backend has its functions, and all of them agree with the array-API backend."""

import inspect

import numpy as np
import pytest
from helpers.generators import sphere_sample
from helpers.kernel import needs_kernel
from numpy.testing import assert_allclose

import sphereot
from sphereot._arrays.libraries import to_numpy
from sphereot._backends import backend_for, native
from sphereot._backends.array_api import backend as array_api
from sphereot._backends.protocol import Backend, Labelings, Measure

FUNCTIONS = sorted(name for name, value in vars(Backend).items() if inspect.isfunction(value) and name[0] != "_")
BACKENDS = [pytest.param("native", marks=needs_kernel), "array_api", "torch", "jax"]


@pytest.fixture(params=BACKENDS)
def backend(request):
    """A backend, and the function that converts NumPy arrays to its arrays."""
    if request.param == "native":
        from sphereot._backends.native import backend as native_backend

        return native_backend, np.asarray
    if request.param == "array_api":
        strict = pytest.importorskip("array_api_strict")
        return array_api, strict.asarray
    library = pytest.importorskip(request.param)
    convert = library.asarray if request.param == "torch" else library.numpy.asarray
    return backend_for(convert(np.zeros(1))), convert


@pytest.fixture
def problem(rng):
    """Three measures of unequal sizes, one without weights, and great circles."""
    sizes = (9, 7, 9)
    points = [sphere_sample(rng, n, 4, shift=k) for k, n in enumerate(sizes)]
    weights = [rng.random(9) + 0.1, None, rng.random(9) + 0.1]
    return points, weights, sphereot.great_circles(6, 4, seed=0)


def measures_of(points, weights, convert):
    return [Measure(convert(x), None if a is None else convert(a)) for x, a in zip(points, weights, strict=True)]


def test_every_backend_implements_the_protocol(backend):
    """Each function has the parameters of the protocol, in order; further parameters need a default."""
    module, _ = backend
    for name in FUNCTIONS:
        expected = list(inspect.signature(getattr(Backend, name)).parameters)[1:]
        parameters = inspect.signature(getattr(module, name)).parameters
        assert list(parameters)[: len(expected)] == expected, name
        extra = [parameters[p] for p in list(parameters)[len(expected) :]]
        assert all(parameter.default is not inspect.Parameter.empty for parameter in extra), name


@pytest.mark.parametrize("p", [1.0, 2.0, 2.5, 10.0])
def test_slices(backend, problem, p):
    module, convert = backend
    points, weights, frames = problem
    ours, reference = (measures_of(points, weights, make) for make in (convert, np.asarray))
    assert_allclose(
        to_numpy(module.project(ours[0].points, convert(frames))), array_api.project(points[0], frames), atol=1e-12
    )
    for count in (1, 2):
        expected = array_api.slice_costs(reference[:count], frames, p)
        costs = to_numpy(module.slice_costs(ours[:count], convert(frames), p))
        assert costs.shape == (6,)
        assert_allclose(costs, expected, rtol=1e-8)
        for root in (False, True):
            mean = to_numpy(module.mean_cost(ours[:count], convert(frames), p, root=root))
            assert mean.shape == ()
            assert_allclose(mean, np.mean(expected) ** (1 / p if root else 1), rtol=1e-8)


@pytest.mark.parametrize("unbiased", [False, True])
def test_pairs_of_points(backend, problem, unbiased):
    module, convert = backend
    points, weights, _ = problem
    for ours, reference in zip(*(measures_of(points, weights, make) for make in (convert, np.asarray)), strict=True):
        cost = to_numpy(module.pair_cost(ours, unbiased=unbiased))
        assert cost.shape == ()
        assert_allclose(cost, array_api.pair_cost(reference, unbiased=unbiased), rtol=1e-10)


@pytest.mark.parametrize("p", [1.0, 2.0, 10.0])
@pytest.mark.parametrize("root", [False, True])
def test_pairs(backend, problem, p, root):
    """In the order (0, 1), (0, 2), (1, 2)."""
    module, convert = backend
    points, weights, frames = problem
    measures = measures_of(points, weights, convert)
    costs = to_numpy(module.pairwise_costs(measures, convert(frames), p, root=root))
    reference = measures_of(points, weights, np.asarray)
    expected = [
        array_api.mean_cost([reference[i], reference[j]], frames, p, root=root) for i, j in ((0, 1), (0, 2), (1, 2))
    ]
    assert_allclose(costs, expected, rtol=1e-8)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_circles(backend, p, rng):
    """Rows of turns, weights for each row or for all; a plan moves the mass at the cost of `circle_costs`."""
    module, convert = backend
    u, v = rng.random((3, 5)), rng.random((3, 4))
    a, b = rng.random((3, 5)) + 0.1, rng.random((1, 4)) + 0.1
    ours, reference = (measures_of((u, v), (a, b), make) for make in (convert, np.asarray))
    for count in (1, 2):
        costs = to_numpy(module.circle_costs(ours[:count], p))
        assert_allclose(costs, array_api.circle_costs(reference[:count], p), rtol=1e-8)
    first, second = measures_of((u[:1], v[:1]), (a[:1], b), convert)
    plan = module.circle_plan(first, second, p)
    source, target, mass = (to_numpy(part) for part in plan[:3])
    gap = np.abs(u[0, source] - v[0, target])
    assert_allclose(np.bincount(source, mass, 5), a[0] / a[0].sum(), atol=1e-8)
    assert_allclose(np.bincount(target, mass, 4), b[0] / b[0].sum(), atol=1e-8)
    assert_allclose(np.sum(mass * np.minimum(gap, 1 - gap) ** p), to_numpy(plan.cost), rtol=1e-7)


@pytest.mark.parametrize("p", [2.0, 10.0])
def test_labelings(backend, problem, p, rng):
    """Each column is the cost between the two samples of its labeling."""
    module, convert = backend
    points, _, frames = problem
    pool = np.concatenate(points[:2])
    rows = np.stack([rng.permutation(16) < 9 for _ in range(11)])
    bits = np.packbits(np.pad(rows, ((0, 5), (0, 0))).reshape(2, 8, 16), axis=1, bitorder="little")[:, 0, :]
    blocks = list(module.relabeled_costs(convert(pool), Labelings(bits, 11, 9), convert(frames), p))
    costs = np.concatenate([to_numpy(part) for _, part in blocks])
    assert [index for block, _ in blocks for index in range(6)[block]] == list(range(6))
    expected = [array_api.slice_costs([Measure(pool[row]), Measure(pool[~row])], frames, p) for row in rows]
    assert_allclose(costs, np.stack(expected, axis=1), rtol=1e-8)


@pytest.mark.parametrize("library", ["numpy", "torch", "jax", "array_api_strict"])
def test_backend_of_an_array(library):
    module = pytest.importorskip({"jax": "jax.numpy"}.get(library, library))
    name = {"numpy": "native" if native.available else "array_api", "array_api_strict": "array_api"}
    assert backend_for(module.zeros(3)).__name__ == f"sphereot._backends.{name.get(library, library)}.backend"
