"""
Distances among many samples
============================

`pairwise_ssw` computes all distances among a list of samples at once; each sample is projected and sorted once per
great circle. This example compares the months of a year, and recovers their order in time from the distances alone.
"""

import matplotlib.pyplot as plt
import numpy as np

import sphereot
from sphereot import plotting, sphere

# %%
# Directions of wind in twelve months, say: a cluster whose center follows a closed curve on the sphere in a year.

rng = np.random.default_rng(0)
names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
angles = 2 * np.pi * np.arange(12) / 12
centers = np.stack([np.full(12, 1.0), 0.7 * np.cos(angles), 0.5 * np.sin(angles)], axis=1)
months = [sphere.normalize(center + 0.4 * rng.normal(size=(300, 3))) for center in centers]

# %%
# The distances themselves, in turns.

distances = sphereot.pairwise_ssw(months, method="quasi", seed=0, root=True)
print(f"January to February {distances[0, 1]:.3f}, January to July {distances[0, 6]:.3f} turns")

# %%
# Classical multidimensional scaling finds points of the plane whose distances are as close as possible to these.

centering = np.eye(12) - 1 / 12
eigenvalues, eigenvectors = np.linalg.eigh(-0.5 * centering @ distances**2 @ centering)
plane = eigenvectors[:, -2:] * np.sqrt(eigenvalues[-2:])

# %%
# Left: neighbors in time are near each other, and the largest distances are half a year apart. Right: in the plane of
# the two largest eigenvalues the months form a closed curve, in the right order.

with plotting.style():
    fig, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.2), width_ratios=(1, 1.1))
    image = left.imshow(distances)
    left.set(xticks=range(12), xticklabels=names, yticks=range(12), yticklabels=names)
    left.tick_params(axis="x", rotation=90)
    left.spines[:].set_visible(False)
    fig.colorbar(image, ax=left, shrink=0.7, label="SSW$_2$ (turns)")
    right.plot(*plane[[*range(12), 0], ::-1].T, "o-", color=plotting.PALETTE[0])
    for name, location in zip(names, plane[:, ::-1], strict=True):
        right.text(*(location + 0.014 * sphere.normalize(location)), name, ha="center", va="center")
    right.set(xlabel="first coordinate (turns)", ylabel="second coordinate (turns)", aspect="equal")
    right.margins(0.15)
plt.show()
