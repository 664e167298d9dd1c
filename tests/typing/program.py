"""A program of a user, for type checkers: what is right has no message; what is wrong is marked with the reason."""

from datetime import date
from pathlib import Path
from typing import Any, assert_type

import jax
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

import sphereot
from sphereot import circle, datasets, plotting, radon, sphere
from sphereot.compat import pot
from sphereot.density import SphericalKDE
from sphereot.distributions import projected_von_mises_fisher_density
from sphereot.optim import FlowResult, RiemannianAdam
from sphereot.report import drift_page
from sphereot.sketch.dask import sketch as dask_sketch
from sphereot.stats import drift_test, two_sample_test, uniformity_test
from sphereot.torch import SSWLoss, UniformityLoss

x: NDArray[np.float64] = sphereot.sphere.random_uniform(10, 3, seed=0)
y: NDArray[np.float64] = sphereot.sphere.random_uniform(10, 3, seed=1)
generator = np.random.default_rng(0)

# Right: arrays, nested lists, methods by name, ints and generators as seeds.
value: np.floating[Any] = sphereot.ssw(x, y, method="quasi", seed=generator)
exact: np.floating[Any] = sphereot.ssw_uniform(x, method="exact")
nested = sphereot.ssw([[1.0, 0.0]], [[0.0, 1.0]], x_weights=[1.0], p=1)
matrix = sphereot.pairwise_ssw([x, y], weights=[None, [1.0] * 10])
estimate: sphereot.SSWEstimate = sphereot.ssw_estimate(x, y, rtol=0.1)
p_value: float = two_sample_test(x, y, permutations=99, seed=0).p_value
same: bool = drift_test(x, [y], permutations=99).drifted
chosen: float = two_sample_test(x, y, projections=[[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]]).p_value
uniform: float = uniformity_test(x).p_value
total: sphereot.Sketch = sphereot.Sketch(3).update(x) + sphereot.Sketch(3).update(y)
named = sphereot.ssw(datasets.load("flood"), [[1.0, 0.0, 0.0]])
same_names = two_sample_test(sphere.from_table(datasets.load("flood"), columns=["lon", "lat"]), y)
located = sphere.to_lonlat(sphere.normalize(datasets.load("flood")))
tensor: torch.Tensor = sphereot.ssw(torch.eye(3), torch.eye(3), seed=0)

# The sphere: results are arrays of the library of the points.
unit: NDArray[np.float64] = sphere.normalize(x + 1.0)
angles: NDArray[np.float64] = sphere.geodesic_distance(x, y)
tangent: NDArray[np.float64] = sphere.to_tangent(x, sphere.log(x, y))
moved: NDArray[np.float64] = sphere.parallel_transport(x, y, tangent)
mean: NDArray[np.float64] = sphere.frechet_mean(sphere.exp(x, tangent), weights=[1.0] * 10, max_steps=10)
degrees: NDArray[np.float64] = sphere.to_lonlat(sphere.from_lonlat(np.array([[10.0, 50.0]])))
places: NDArray[np.float64] = sphere.from_lonlat(np.arange(8.0).reshape(4, 2))
ring: NDArray[np.float64] = sphere.from_spherical(1.0, np.linspace(0.0, 6.0, 10))
theta, phi = sphere.to_spherical(x)
colatitudes: NDArray[np.float64] = theta
plane: NDArray[np.float64] = sphere.stereographic(sphere.inverse_stereographic(x))
lists = sphere.normalize([[1.0, 2.0], [3.0, 4.0]])
place = sphere.from_lonlat(10.0, [50.0, 60.0])
table: NDArray[np.floating[Any]] = sphere.from_table([[3.0, 4.0]], normalize=True)
t: torch.Tensor = sphere.normalize(torch.ones(2, 3))
drawn: torch.Tensor = sphere.random_uniform(5, 3, like=t, seed=torch.Generator())

# Great circles, the circle, the Radon transform.
frames: NDArray[np.float64] = sphereot.great_circles(5, 3, method="quasi", seed=0)
frames_t: torch.Tensor = sphereot.great_circles(5, 3, like=t)
turns: NDArray[np.float64] = sphereot.project(x, frames)
turns_t: torch.Tensor = sphereot.project(t, frames_t)
costs: NDArray[np.float64] = circle.wasserstein(turns, turns, p=1, u_weights=[0.1] * 10)
costs_t: torch.Tensor = circle.wasserstein_uniform(turns_t)
plan: circle.CirclePlan = circle.transport_plan([0.1, 0.2], [0.3])
kernel: NDArray[np.float64] = sphereot.uniform_kernel(x @ x.T, 3)


def density(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """A function of points."""
    return np.exp(points[..., 0])


transform: NDArray[np.float64] = radon.radon_transform(density, frames, turns)
halves: NDArray[np.float64] = radon.hemispherical_transform(density, x, n_nodes=8)
back: torch.Tensor = radon.dual_radon_transform(lambda z, u: torch.cos(z), t, seed=0)
projected: NDArray[np.float64] = projected_von_mises_fisher_density(turns, [0.0, 0.0, 1.0], 5.0, frames)

# Flows, sketches, time windows, other packages.
particles = sphereot.gradient_flow([x, y], start=x, method="orthogonal").particles
particles = sphereot.gradient_flow("uniform", dim=3).particles
sphereot.Sketch(3, groups=4).update(x, np.ones(10), ["a", "b"] * 5).update([[1.0, 0.0, 0.0]], groups=[3])
weeks = datasets.time_windows([date(2026, 3, 1), date(2026, 3, 9)], every="week")
days = datasets.time_windows(np.array(["2026-03-01"], dtype="datetime64[D]"), every="day")
pot_value = pot.sliced_wasserstein_sphere(x, y, seed=np.random.RandomState(0), log=True)
pot_nested = pot.sliced_wasserstein_sphere([[1.0, 0.0]], [[1.0, 0.0]])
pot_listed = pot.wasserstein_circle([0.1, 0.2], [0.3])
pot_costs: NDArray[np.float64] = pot.wasserstein_circle(turns[0], turns[1], p=2)
divergence: torch.Tensor = UniformityLoss(n_projections=50)(t, seed=torch.Generator())
optimizer = RiemannianAdam([t], lr=0.1, retraction="normalize")
loss: torch.Tensor = SSWLoss(reduction="sum")(t, t)

# Plots.
axes: Axes = plotting.density_map(density, points=x, ax=Figure().add_subplot(projection="mollweide"), cmap="magma")
axes = plotting.scatter_map(x, color="red")
axes = plotting.scatter_sphere(x, color=(0.1, 0.2, 0.3), size=np.ones(10))
axes = plotting.circle_projections([x, y], frames[0], colors=["red", "#0072B2"], ax=Figure().add_subplot())
axes = plotting.circle_projections([x], [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
axes = plotting.evolution([1, 2, 3], [[1.0, 2.0, 3.0]], color="C0")
files: list[Path] = plotting.save(axes, "figure")
page: Path = plotting.globe_page("globe.html", density=np.ones((4, 8)), points=[x, y])
page = drift_page("drift.html", drift_test(x, [y]))
x32: NDArray[np.float32] = x.astype(np.float32)
mixed: float = float(sphereot.sphere.geodesic_distance(x, x32).max())
places_mean: float = float(sphereot.sphere.from_lonlat(x32[:, 0], y[:, 1]).mean())
integers: NDArray[np.float64] = sphereot.sphere.inverse_stereographic(np.array([[1, 2]]))
density32: NDArray[np.float32] = SphericalKDE(0.3).fit(x32).density(x32)


class Table:
    """A DataFrame: pandas has no types of its own, so that mypy would take one for Any."""

    def __array__(self) -> NDArray[Any]:
        """The values."""
        return np.eye(3)

    def to_numpy(self) -> NDArray[Any]:
        """The values."""
        return np.eye(3)


class DaskArray:
    """An array of Dask, which has no types of its own."""

    def to_delayed(self, optimize_graph: bool = True) -> Any:
        """The partitions."""


dask_points = DaskArray()
lazy = dask_sketch(dask_points, by=dask_points, n_projections=20)

# The exact types of results. NumPy gives NumPy, NumPy beside JAX gives JAX.
Floats = NDArray[Any]
df = Table()
j: jax.Array = jax.numpy.asarray(x)
batches: list[NDArray[np.float64]] = [x, y]
assert_type(sphereot.ssw(x, y), Any)
assert_type(sphereot.ssw(df, x), Any)
assert_type(sphereot.ssw(x, [[1.0, 0.0, 0.0]]), Any)
assert_type(sphereot.ssw(datasets.load("flood"), df), Any)
assert_type(sphereot.ssw(x, j), Any)
assert_type(sphereot.ssw(j, x), jax.Array)
assert_type(sphereot.ssw(df, j), Any)
assert_type(sphereot.ssw(j, j), jax.Array)
assert_type(sphereot.ssw(t, t), torch.Tensor)
assert_type(sphereot.ssw_uniform(df), np.floating[Any])
assert_type(sphereot.ssw_uniform(t), torch.Tensor)
square: NDArray[np.float64] = sphereot.pairwise_ssw([x, x])
square = sphereot.pairwise_ssw(batches)
assert_type(sphereot.pairwise_ssw([x, df, [[1.0, 0.0, 0.0]]]), Any)
square = sphereot.pairwise_ssw(np.stack([x, y]))
assert_type(sphereot.pairwise_ssw([t, t]), torch.Tensor)
assert_type(sphereot.pairwise_ssw(torch.stack([t, t])), torch.Tensor)
assert_type(sphereot.pairwise_ssw_estimate([t, t]).values, NDArray[np.float64])
of_table: sphereot.SSWEstimate[NDArray[np.float64]] = sphereot.ssw_estimate(x, df)
slice_costs: NDArray[np.float64] = sphereot.ssw_estimate(x).slice_costs
assert_type(sphereot.ssw_estimate(t, t).slice_costs, torch.Tensor)
assert_type(sphereot.ssw_estimate(j, x).slice_costs, jax.Array)
assert_type(sphereot.uniform_kernel(0.5, 3), Floats)
assert_type(sphereot.uniform_kernel(t, 3), torch.Tensor)

assert_type(sphere.from_lonlat(df), Any)
assert_type(sphere.from_lonlat([10.0, 20.0], 50.0), Any)
assert_type(sphere.from_lonlat(j, 10.0), jax.Array)
assert_type(sphere.from_lonlat(t, t), torch.Tensor)
assert_type(sphere.from_spherical(j[:, 0], x[:, 1]), jax.Array)
assert_type(sphere.normalize(df), Any)
assert_type(sphere.normalize(t), torch.Tensor)
assert_type(sphere.frechet_mean(df), Any)
assert_type(sphere.frechet_mean(t), torch.Tensor)
assert_type(sphere.geodesic_distance(df, [1.0, 0.0, 0.0]), Any)
assert_type(sphere.geodesic_distance(j, x), jax.Array)
assert_type(sphere.exp(j, sphere.log(j, x)), jax.Array)
assert_type(sphere.parallel_transport(j, x, x), jax.Array)
assert_type(sphere.to_spherical(df), tuple[Any, Any])
assert_type(sphere.stereographic(df), Any)

assert_type(circle.transport_plan([0.1, 0.2], np.ones(3)), circle.CirclePlan)
assert_type(circle.transport_plan(turns_t[0], turns_t[1]).cut, torch.Tensor)
assert_type(circle.wasserstein(turns_t, turns_t), torch.Tensor)
assert_type(radon.integration_set(frames[0, :, :], 0.5).points, NDArray[np.float64])
assert_type(radon.integration_set(frames_t[0], 0.5).weights, torch.Tensor)
assert_type(radon.radon_transform(density, frames, [0.0, 0.5]), Any)
assert_type(radon.hemispherical_transform(density, df), Any)
assert_type(sphereot.gradient_flow(df, start=[[1.0, 0.0, 0.0]]).particles, Any)
assert_type(sphereot.gradient_flow([t, t]), FlowResult)
by_user = two_sample_test(x, y, groups=([1, 1, 2], np.arange(10)))
by_document = drift_test(x, [y], groups=[["a", "b"], ["c"]])

# Wrong: each line with this mark must have a message of the type checker.
sphereot.ssw(x, "abc")  # WRONG
sphereot.ssw(x, y, method="sobol")  # WRONG
sphereot.ssw_uniform(x, method="importance")  # WRONG
two_sample_test(x, 3)  # WRONG
two_sample_test(x, y, projections=[1.0, 2.0])  # WRONG
drift_test(x, [y], permutations="many")  # WRONG
two_sample_test(x, y, groups=(1, 2))  # WRONG
dask_sketch(x)  # WRONG
dask_sketch(dask_points, by=3)  # WRONG
uniformity_test(x, null="exact")  # WRONG
sphere.normalize("abc")  # WRONG
sphere.geodesic_distance(x, "north")  # WRONG
sphere.random_uniform(5, 3, like="numpy")  # WRONG
sphere.frechet_mean(1.0)  # WRONG
sphere.from_lonlat("10 50")  # WRONG
sphereot.great_circles(5, 3, method="sobol")  # WRONG
sphereot.project(x, 100)  # WRONG
sphereot.ssw(x, y, projections=100)  # WRONG
sphereot.gradient_flow("vmf")  # WRONG
circle.wasserstein(turns, None)  # WRONG
radon.radon_transform(1.0, frames, turns)  # WRONG
sphereot.Sketch(3).update(x, groups=3)  # WRONG
datasets.time_windows(20260301)  # WRONG
pot.sliced_wasserstein_sphere("points", x)  # WRONG
sphereot.ssw(x, y, columns=1.5)  # WRONG
sphereot.project(x, frames, columns=[["lon"], ["lat"]])  # WRONG
plotting.density_map("density")  # WRONG
plotting.evolution([1, 2, 3], "runs")  # WRONG
plotting.scatter_map(x, ax="map")  # WRONG
drift_page("drift.html", 5)  # WRONG
sphereot.project(x, [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])  # WRONG
SphericalKDE("wide")  # WRONG
SSWLoss(reduction="average")  # WRONG
sphereot.gradient_flow("uniform", dim=3, optimizer="lbfgs")  # WRONG
sphereot.gradient_flow("uniform", dim=3, retraction="cayley")  # WRONG
RiemannianAdam([t], retraction="none")  # WRONG
sphereot.Sketch(3, method="sobol")  # WRONG
datasets.load("flood").split(0, by="place")  # WRONG
