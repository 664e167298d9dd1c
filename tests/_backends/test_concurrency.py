"""Results do not depend on the number of threads; calls from Python threads and forked processes work."""

import multiprocessing
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers.generators import sphere_sample

import sphereot


@pytest.fixture
def restore_threads():
    before = sphereot.get_num_threads()
    yield
    sphereot.set_num_threads(before)


@pytest.fixture
def sample():
    rng = np.random.default_rng(0)
    x = sphere_sample(rng, 2000, 3, dtype=np.float32)
    y = sphere_sample(rng, 1500, 3, shift=1, dtype=np.float32)
    return x, y, rng.random(2000)


def values(x, y, a):
    equal = sphereot.ssw(x[:1500], y, seed=1, n_projections=50)
    general = sphereot.ssw(x, y, seed=1, n_projections=50, p=1.5, x_weights=a)
    uniform = sphereot.ssw_uniform(x, seed=1, n_projections=50, p=3)
    square = sphereot.pairwise_ssw([x, y, x[:1500]], seed=1, n_projections=50)
    turns = sphereot.project(x, sphereot.great_circles(50, 3, seed=1, like=x))
    wide = sphereot.ssw_estimate(
        sphere_sample(np.random.default_rng(2), 1000, 64), seed=1, n_projections=50
    ).slice_costs
    return [equal, general, uniform, square, turns, wide]


@pytest.mark.usefixtures("restore_threads")
def test_same_bits_for_any_number_of_threads(sample):
    results = []
    for threads in (1, 2, 5):
        sphereot.set_num_threads(threads)
        results.append(values(*sample))
    for other in results[1:]:
        for expected, got in zip(results[0], other, strict=True):
            assert np.array_equal(expected, got)


@pytest.mark.usefixtures("restore_threads")
def test_calls_from_several_python_threads(sample):
    sphereot.set_num_threads(2)
    expected = values(*sample)
    with ThreadPoolExecutor(6) as pool:
        for got in pool.map(lambda _: values(*sample), range(18)):
            assert all(np.array_equal(e, g) for e, g in zip(expected, got, strict=True))


def _in_child(queue, sample):
    queue.put(values(*sample))


@pytest.mark.usefixtures("restore_threads")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Python's own on forking beside threads
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # JAX's, where another test has imported it
def test_forked_workers(sample):
    """A process forked after the kernel has started threads can start its own."""
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("no fork on this platform")
    sphereot.set_num_threads(2)
    expected = values(*sample)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=_in_child, args=(queue, sample)) for _ in range(3)]
    for child in children:
        child.start()
    results = [queue.get(timeout=60) for _ in children]
    for child in children:
        child.join(timeout=60)
        assert child.exitcode == 0
    for got in results:
        assert all(np.array_equal(e, g) for e, g in zip(expected, got, strict=True))
