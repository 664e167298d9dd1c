"""
Gradient flow of particles to a target
======================================

SSW has a gradient in every point, so particles can move along it until their distribution is that of a target sample.
`gradient_flow` does this on the sphere, with new great circles in every step. It needs PyTorch.
"""

import matplotlib.pyplot as plt
import numpy as np

import sphereot
from sphereot import plotting, sphere

# %%
# The target is a spiral from the south pole to the north pole, of 1,000 points. The particles start from the uniform
# distribution; their number need not be that of the target.

share = (np.arange(1000) + 0.5) / 1000
longitude, latitude = 3 * 360 * share, np.rad2deg(np.arcsin(2 * share - 1))
target = sphere.from_lonlat(np.stack([longitude, latitude], axis=1))

# %%
# The step size falls, because the noise of new great circles would otherwise keep the particles moving.

steps = (0, 5, 30, 300)
result = sphereot.gradient_flow(
    target,
    n_particles=600,
    steps=steps[-1],
    step_size=lambda k: 20 / (1 + k / 50),
    n_projections=200,
    method="quasi",
    snapshots=steps,
    seed=0,
)
print(f"SSW_2^2 before the first step {result.losses[0]:.1e}, before the last {result.losses[-1]:.1e} turns^2")

# %%
# After 30 steps most particles (orange) are on the spiral (gray), after 300 steps all of them; points behind the sphere
# are faint. The loss ends above 0, because 600 particles cannot match 1,000 points exactly.

with plotting.style():
    fig = plt.figure(figsize=(7.2, 3.9))
    grid = fig.add_gridspec(2, 4, height_ratios=(1.5, 1))
    for k, step in enumerate(steps):
        ax = plotting.sphere_axes(fig.add_subplot(grid[0, k], projection="3d"), elev=20, azim=30)
        plotting.scatter_sphere(target, ax=ax, color="0.7", size=1.5)
        plotting.scatter_sphere(result.snapshots[step], ax=ax, color=plotting.PALETTE[1], size=3)
        ax.set_title(f"after {step} steps")
    ax = fig.add_subplot(grid[1, :])
    ax.semilogy(result.losses)
    ax.set(xlabel="step", ylabel="SSW$_2^2$ (turns$^2$)", xlim=(0, steps[-1]))
plt.show()
