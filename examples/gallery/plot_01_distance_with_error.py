"""
Distance of two samples, with its error
=======================================

A distance computed from data has two sources of error: it averages over finitely many great circles, and the points
are a sample of something larger. This example computes SSW_2^2 with `ssw_estimate`. It shows how large both errors
are, and which value to expect if both distributions are equal.
"""

import matplotlib.pyplot as plt
import numpy as np

import sphereot
from sphereot import plotting, sphere

# %%
# Two samples of different sizes on the sphere S^2, around centers that are 30 degrees apart. Points are rows of unit
# length.

rng = np.random.default_rng(0)
x = sphere.normalize(rng.normal(size=(400, 3)) / 3 + [1.0, 0.0, 0.2])
y = sphere.normalize(rng.normal(size=(300, 3)) / 3 + [0.87, 0.5, 0.2])

# %%
# The standard error is the error of averaging over a limited number of great circles. With `bootstrap`, the points are
# drawn again with replacement as well: `sampling_interval` is a 95 % interval for the distance between the two
# distributions, and `noise_floor` is the mean value for two samples of these sizes from the same distribution.

estimate = sphereot.ssw_estimate(x, y, bootstrap=200, seed=0)
low, high = estimate.sampling_interval()
print(estimate)
print(f"the distance itself, SSW_2: {estimate.distance:.4f} turns")

# %%
# The figure shows the value against the number of great circles. With 50 or more great circles, their error (bars) is
# far below the error of the sample (band): more points would help, more great circles would not. The value is far
# above the noise floor, so the two distributions differ.

numbers = [10, 20, 50, 100, 200, 500, 1000]
estimates = [sphereot.ssw_estimate(x, y, n_projections=number, seed=number) for number in numbers]
values = np.array([e.value for e in estimates])
errors = np.array([e.confidence_interval() for e in estimates]).T - values

with plotting.style():
    fig = plt.figure(figsize=(7, 3))
    ax = plotting.sphere_axes(fig.add_subplot(1, 2, 1, projection="3d"), elev=15, azim=15)
    plotting.scatter_sphere(x, ax=ax, label=f"x, {len(x)} points")
    plotting.scatter_sphere(y, ax=ax, label=f"y, {len(y)} points")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, -0.08), ncols=2)
    ax = fig.add_subplot(1, 2, 2)
    ax.axhspan(low, high, color="0.9", label="95 % interval: sampling of the points")
    ax.errorbar(
        numbers, values, yerr=np.abs(errors), fmt="o", capsize=2, label="95 % interval: choice of great circles"
    )
    ax.axhline(estimate.noise_floor, color="0.4", ls="--", label="noise floor (equal distributions)")
    ax.set(xscale="log", ylim=(0, 1.9 * high), xlabel="number of great circles", ylabel="SSW$_2^2$ (turns$^2$)")
    ax.legend(loc="upper center")
plt.show()
