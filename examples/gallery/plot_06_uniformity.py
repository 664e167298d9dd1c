"""
Uniformity of embeddings, and what collapse looks like
======================================================

Embeddings that use the whole sphere tell many inputs apart. Encoders can fail in two ways: all embeddings point in
nearly one direction (a cone), or they lie in few dimensions. `ssw_uniform` measures both without great circles to draw,
and `uniformity_test` compares the value with that of uniform points.
"""

import matplotlib.pyplot as plt
import numpy as np

import sphereot
from sphereot import plotting, sphere
from sphereot.stats import uniformity_test

# %%
# Three sets of 500 embeddings on S^2: uniform, in a cone, and near a great circle. With `unbiased=True` the mean of the
# value is 0 for uniform points, for any number of points. The null distribution of the test is known, so nothing is
# simulated.

rng = np.random.default_rng(2)
normal = rng.normal(size=(500, 3))
embeddings = {
    "uniform": sphere.normalize(normal),
    "cone": sphere.normalize(normal + [2.5, 1.0, 1.0]),
    "few dimensions": sphere.normalize(normal * [1.0, 1.0, 0.15]),
}
for name, points in embeddings.items():
    value = sphereot.ssw_uniform(points, method="exact", unbiased=True)
    print(f"{name:15} SSW_2^2 {value:8.5f}   p-value {uniformity_test(points).p_value:.2g}")

# %%
# Both failures leave most of the sphere empty. The cone is farther from uniform, because its points would have to move
# farther. The largest possible value is 1/12 = 0.083, for a single point.

with plotting.style():
    fig = plt.figure(figsize=(7.2, 2.8))
    for k, (name, points) in enumerate(embeddings.items()):
        ax = plotting.sphere_axes(fig.add_subplot(1, 3, k + 1, projection="3d"), elev=20, azim=20)
        plotting.scatter_sphere(points, ax=ax, size=3)
        ax.set_title(f"{name}: SSW$_2^2$ = {sphereot.ssw_uniform(points, method='exact'):.4f}")
plt.show()

# %%
# The same in 64 dimensions, which cannot be drawn: 1,000 embeddings plus a common vector of growing length, and
# embeddings that lie in a subspace. The figure shows the value divided by its mean for uniform points. The shaded
# region is this mean with three standard deviations. The test detects a short common vector, and the loss of a quarter
# of the dimensions.

normal = rng.normal(size=(1000, 64))
shifts, ranks = np.linspace(0, 4, 17), np.array([1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 60, 62, 63, 64])
cones = [uniformity_test(sphere.normalize(normal + shift * np.eye(64)[0])) for shift in shifts]
flat = [uniformity_test(sphere.normalize(normal * (np.arange(64) < rank))) for rank in ranks]
upper = 1 + 3 * cones[0].null_deviation / cones[0].null_mean

with plotting.style():
    fig, axes = plt.subplots(1, 2, figsize=(7, 2.8), sharey=True)
    for ax, where, results in ((axes[0], shifts, cones), (axes[1], ranks, flat)):
        ax.axhspan(2 - upper, upper, color="0.9")
        ax.semilogy(where, [result.ratio for result in results], "o-")
    axes[0].text(4, 1, "uniform points", ha="right", va="center")
    axes[0].set(xlabel="length of the common vector", ylabel="SSW$_2^2$ / mean for uniform points")
    axes[1].set(xlabel="number of dimensions used (of 64)")
plt.show()
