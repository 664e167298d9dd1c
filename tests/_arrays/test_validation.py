"""Bad input raises an error that names the argument, what it got, and what to do."""

import inspect
import re

import numpy as np
import pytest
from helpers.bad_input import assert_libraries_do_not_mix
from helpers.generators import sphere_sample

import sphereot
from sphereot import circle

RNG = np.random.default_rng(0)
X, Y = sphere_sample(RNG, 20, 3), sphere_sample(RNG, 15, 3)


def with_row(row):
    x = X.copy()
    x[17] = row
    return x


POINT_FAULTS = {
    "nan": (with_row([np.nan, 0, 1]), ValueError, r"x: row 17 holds NaN or infinity. Remove"),
    "inf": (with_row([np.inf, 0, 1]), ValueError, r"x: row 17 holds NaN or infinity"),
    "zero": (with_row([0, 0, 0]), ValueError, r"x: row 17 is the zero vector"),
    "not unit": (with_row([0, 0, 3.2]), ValueError, r"x: row 17 has length 3.2, .*sphereot\.sphere\.normalize\(x\)"),
    "huge": (with_row([1e200, 0, 0]), ValueError, r"x: row 17 has length (1e\+200|inf)"),
    "one coordinate": (np.ones((5, 1)), ValueError, r"x: points have 1 coordinate"),
    "empty": (np.ones((0, 3)), ValueError, r"x: there are no points"),
    "one-dimensional": (np.ones(3), ValueError, r"x must have shape \(n, d\), with one point per row, got \(3,\)"),
    "integers": (np.eye(3, dtype=int), TypeError, r"x must have a real floating dtype, got int64"),
    "complex": (np.eye(3, dtype=complex), TypeError, r"x must have a real floating dtype, got complex128"),
    "bool": (np.eye(3, dtype=bool), TypeError, r"x must have a real floating dtype, got bool"),
    "text": ("points.csv", TypeError, r"x must be an array .*got str"),
    "none": (None, TypeError, r"x must be an array .*got NoneType"),
    "ragged": ([[1.0, 0.0], [1.0]], ValueError, r"x: all rows must have the same length, got a ragged sequence"),
}


@pytest.mark.parametrize("fault", POINT_FAULTS)
@pytest.mark.parametrize("function", ["ssw", "ssw_uniform", "ssw_estimate", "pairwise_ssw", "project"])
def test_points(function, fault):
    value, error, message = POINT_FAULTS[fault]
    if function == "pairwise_ssw":
        message = re.sub(r"^x\b", r"measures\\[1\\]", message).replace(r"normalize\(x\)", "normalize")
    calls = {
        "ssw": lambda: sphereot.ssw(value, X),
        "ssw_uniform": lambda: sphereot.ssw_uniform(value),
        "ssw_estimate": lambda: sphereot.ssw_estimate(value),
        "pairwise_ssw": lambda: sphereot.pairwise_ssw([X, value]),
        "project": lambda: sphereot.project(value, sphereot.great_circles(3, 3)),
    }
    with pytest.raises(error, match=message):
        calls[function]()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: sphereot.ssw(X, sphere_sample(RNG, 9, 4)), ValueError,
         "x has points in dimension 3 and y in dimension 4"),
        (lambda: sphereot.pairwise_ssw([X, Y, sphere_sample(RNG, 9, 4)]), ValueError,
         r"measures\[0\] has points in dimension 3 and measures\[2\] in dimension 4"),
        (lambda: sphereot.ssw(X, Y, x_weights=np.linspace(-1, 1, 20)), ValueError,
         "x_weights: weights cannot be negative, got -1"),
        (lambda: sphereot.ssw(X, Y, y_weights=np.zeros(15)), ValueError,
         "y_weights: at least one weight must be positive, got zeros"),
        (lambda: sphereot.ssw(X, Y, y_weights=np.full(15, np.nan)), ValueError, "y_weights holds NaN"),
        (lambda: sphereot.ssw_uniform(X, weights=np.ones(19)), ValueError,
         r"weights must have one weight for each point of x, shape \(20,\), got \(19,\)"),
        (lambda: sphereot.ssw_uniform(X, weights=np.ones(20, complex)), TypeError,
         "weights: weights must be real numbers, got complex128"),
        (lambda: sphereot.ssw(X, Y, p=0.5), ValueError, "p: the order must be a number from 1 to 16, got 0.5"),
        (lambda: sphereot.ssw(X, Y, p=float("nan")), ValueError, "p: .*, got nan"),
        (lambda: sphereot.ssw(X, Y, p=float("inf")), ValueError, "p: .*, got inf"),
        (lambda: sphereot.ssw(X, Y, p="2"), TypeError, "p: .*, got str"),
        (lambda: sphereot.ssw(X, Y, n_projections=0), ValueError, "n_projections: .*, got 0"),
        (lambda: sphereot.ssw(X, Y, n_projections=-3), ValueError, "n_projections: .*, got -3"),
        (lambda: sphereot.ssw(X, Y, n_projections=2.5), TypeError, "n_projections: .*, got float"),
        (lambda: sphereot.ssw(X, Y, projections=sphereot.great_circles(5, 4)), ValueError,
         r"projections must have shape \(L, 3, 2\) for points in dimension 3, .* got \(5, 4, 2\)"),
        (lambda: sphereot.ssw(X, Y, projections=np.ones((5, 3, 2))), ValueError,
         "projections: the frames are not orthonormal"),
        (lambda: sphereot.ssw(X, Y, seed="7"), TypeError, "seed: the seed must be an int, .*got str"),
        (lambda: sphereot.ssw(X, Y, seed=-7), ValueError, "seed: .*, got -7"),
        (lambda: sphereot.ssw_estimate(X, rtol=0.1, projections=sphereot.great_circles(5, 3)), ValueError,
         "rtol is not supported for given projections"),
        (lambda: sphereot.ssw_estimate(X, rtol=0), ValueError, "rtol: .*, got 0"),
        (lambda: sphereot.ssw_estimate(X).confidence_interval(95), ValueError, "level: .*, got 95"),
        (lambda: sphereot.ssw_estimate(X, y_weights=np.ones(3)), ValueError, "y_weights: got weights without y"),
        (lambda: sphereot.pairwise_ssw([]), ValueError, "measures must have at least one sample, got none"),
        (lambda: sphereot.pairwise_ssw([X, Y], weights=[None]), ValueError,
         "weights must have one array, or None, for each of 2 measures, got 1"),
        (lambda: circle.wasserstein(np.array([0.1, np.nan]), np.array([0.1])), ValueError, "u holds NaN"),
        (lambda: circle.wasserstein(np.array([0.1]), np.array([])), ValueError, "v: there are no atoms"),
        (lambda: circle.wasserstein(np.array([0]), np.array([0.1])), TypeError,
         "u must have a real floating dtype, got int64"),
        (lambda: circle.wasserstein(0.3, np.array([0.1])), ValueError, "u must have shape .*, got a single number"),
        (lambda: circle.wasserstein(np.zeros((2, 4)), np.zeros((3, 4))), ValueError,
         r"leading shapes of the measures must broadcast, got \(2,\) and \(3,\)"),
        (lambda: circle.wasserstein_uniform(np.zeros(3), weights=np.ones(4)), ValueError,
         "weights must have one weight for each point of u, shape .3,., got .4,."),
        (lambda: circle.transport_plan(np.zeros((2, 3)), np.zeros(3)), ValueError,
         r"u must have shape \(n,\), because a plan is for one pair, got \(2, 3\)"),
        (lambda: sphereot.sphere.normalize(np.zeros((2, 3))), ValueError, "x holds a zero vector"),
        (lambda: sphereot.sphere.normalize(np.full((2, 3), np.nan)), ValueError, "x holds NaN"),
        (lambda: sphereot.set_num_threads(0), ValueError, "n: .*, got 0"),
    ],
)  # fmt: skip
def test_calls(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_two_libraries_do_not_mix():
    assert_libraries_do_not_mix(
        {
            "x and y must be from the same library, got a numpy ndarray and a torch Tensor": lambda torch: sphereot.ssw(
                X, torch.tensor(Y)
            ),
            "x_weights": lambda torch: sphereot.ssw(X, Y, x_weights=torch.ones(20)),
            r"seed: a torch\.Generator goes with torch tensors": (
                lambda torch: sphereot.ssw(X, Y, seed=torch.Generator())
            ),
        }
    )


def test_lists_are_read_as_numpy_arrays():
    assert sphereot.ssw([[0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0]], seed=0, x_weights=[1, 0]) == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dim", [2, 3, 17, 128, 2500])
def test_rows_of_any_layout_are_measured(dtype, dim):
    """Unit rows pass and others do not, in contiguous and strided arrays of any number of rows."""
    x = sphere_sample(RNG, 9, dim).astype(dtype)
    for layout in (x, np.asfortranarray(x), np.repeat(x, 2, axis=0)[::2]):
        assert np.isfinite(sphereot.ssw_uniform(layout, seed=0, n_projections=2))
        long = layout.copy(order="K")
        long[8] *= dtype(1.001)
        with pytest.raises(ValueError, match=r"x: row 8 has length 1\.001"):
            sphereot.ssw_uniform(long, seed=0)
        long[5, dim - 1] = np.nan
        with pytest.raises(ValueError, match="x: row 5 holds NaN or infinity"):
            sphereot.ssw_uniform(long, seed=0)


LONLAT = np.random.default_rng(1).uniform([-180, -90], [180, 90], (30, 2))


EASTWARD = LONLAT + np.array([180, 0])  # longitudes from 0 to 360


@pytest.mark.parametrize("points", [LONLAT, EASTWARD, LONLAT[:, ::-1], LONLAT.astype(np.float32), LONLAT[:1]])
def test_longitudes_and_latitudes(points):
    """The error says to convert degrees: normalized, they would pass as points of the circle S^1."""
    message = r"x: row 0 has length \d.*Convert longitudes and latitudes .*sphereot\.sphere\.from_lonlat\(x\)"
    with pytest.raises(ValueError, match=message):
        sphereot.ssw(points, points)
    with pytest.raises(ValueError, match=message):
        sphereot.sphere.geodesic_distance(points, points)
    located = np.concatenate([[[0.0, 0.0]], points])  # where degrees are zero there is no zero vector
    with pytest.raises(ValueError, match="from_lonlat") as error:
        sphereot.ssw_uniform(located)
    assert "normalize" not in str(error.value)


def test_plane_vectors_are_not_taken_for_degrees():
    """One bad row among points of the circle, or numbers that no degrees can be."""
    circle_points = sphere_sample(RNG, 20, 2)
    circle_points[17] = 0
    with pytest.raises(ValueError, match=r"x: row 17 is the zero vector"):
        sphereot.ssw_uniform(circle_points)
    circle_points[17] = [3.2, 0]
    for points in (circle_points, 1000 * LONLAT, 2 * sphere_sample(RNG, 20, 2)):
        with pytest.raises(ValueError, match=r"normalize\(x\)") as error:
            sphereot.ssw_uniform(points)
        assert "from_lonlat" not in str(error.value)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dim", [2, 3, 64])
def test_points_in_columns(dim, dtype):
    x, y = sphere_sample(RNG, 20, dim, dtype=dtype), sphere_sample(RNG, 15, dim, dtype=dtype)
    message = rf"x must have shape \(n, d\), .* got \({dim}, 20\) with unit vectors in columns. Pass x\.T"
    for call in (sphereot.ssw, sphereot.sphere.geodesic_distance):
        with pytest.raises(ValueError, match=message):
            call(x.T, y.T)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sphereot.ssw(X, Y, projections=100),
         r"projections must be .*\(L, 3, 2\), got the number 100. Pass n_projections=100, or .*circles\(100, 3\)"),
        (lambda: sphereot.ssw(X, Y, n_projections=sphereot.great_circles(5, 3)),
         "n_projections: .* must be an integer, got ndarray. Pass frames of great circles as projections"),
        (lambda: sphereot.ssw(X, Y, 2), r"ssw\(\) takes 2 positional arguments but 3 were given"),
        (lambda: sphereot.pairwise_ssw(X, Y), "takes 1 positional argument but 2 were given"),
        (lambda: sphereot.ssw(X, Y, n_projection=100), r"ssw\(\) got an unexpected keyword argument 'n_projection'"),
        (lambda: sphereot.sphere.random_uniform(9, 3, 0),
         r"random_uniform\(\) takes 2 positional arguments but 3 were given"),
        (lambda: sphereot.stats.two_sample_test(X, Y, 999),
         r"two_sample_test\(\) takes 2 positional arguments but 3 were given"),
    ],
)  # fmt: skip
def test_errors_of_wrong_calls_show_the_right_one(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_signatures_are_those_in_the_source():
    """What help() and editors show: options by name, with their defaults."""
    signature = inspect.signature(sphereot.ssw)
    assert list(signature.parameters)[:3] == ["x", "y", "p"]
    assert signature.parameters["p"].kind is inspect.Parameter.KEYWORD_ONLY
    assert signature.parameters["p"].default == 2
    assert sphereot.ssw.__doc__.startswith("Compute the Spherical Sliced-Wasserstein distance")
