"""
Barycenter of several samples
=============================

A barycenter is the distribution with the least weighted mean of SSW_2^2 to several samples. It averages locations, not
densities: mass moves to locations between the samples. `gradient_flow` computes it if the target is a list of samples.
"""

import matplotlib.pyplot as plt
import numpy as np

import sphereot
from sphereot import plotting, sphere

# %%
# Three samples of 300 points each, with different centers and shapes. The first argument of the function is a center
# as longitude and latitude, the second the standard deviations along both, all in degrees.

rng = np.random.default_rng(0)


def sample(center, spread):
    """Draw points around a location on the earth."""
    return sphere.from_lonlat(np.array(center) + np.array(spread) * rng.normal(size=(300, 2)))


samples = [sample((-25, -5), (5, 5)), sample((75, -5), (5, 10)), sample((30, 55), (12, 4))]

# %%
# The weights say how near to each sample the barycenter is.

choices = [[1 / 3, 1 / 3, 1 / 3], [0.6, 0.2, 0.2], [0.0, 0.5, 0.5]]
barycenters = [
    sphereot.gradient_flow(
        samples,
        weights=weights,
        steps=150,
        step_size=lambda k: 20 / (1 + k / 30),
        n_projections=100,
        method="quasi",
        seed=0,
    ).particles
    for weights in choices
]

# %%
# Each barycenter (orange) is one cluster between the samples (blue, green and light blue, in the order of the weights).
# With equal weights it is in the middle, otherwise nearer to the samples with the larger weights.

colors = [plotting.PALETTE[k] for k in (0, 2, 3)]
with plotting.style():
    fig = plt.figure(figsize=(7.2, 2.8))
    for k, (points, weights) in enumerate(zip(barycenters, choices, strict=True)):
        ax = plotting.sphere_axes(fig.add_subplot(1, 3, k + 1, projection="3d"), elev=15, azim=25)
        for cloud, color in zip(samples, colors, strict=True):
            plotting.scatter_sphere(cloud, ax=ax, color=color, size=2)
        plotting.scatter_sphere(points, ax=ax, color=plotting.PALETTE[1], size=3)
        ax.set_title("weights " + ", ".join(f"{weight:.2f}" for weight in weights))
plt.show()
