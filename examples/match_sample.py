"""Move points on the sphere onto a sample by gradient descent on SSW, in PyTorch: from uniform points to earthquakes.

Read the cells from top to bottom, or run all of them: `python -m examples.match_sample` (a few seconds).
"""

# %%
# The target: locations of 82 great earthquakes since 1900, from a table next to this program. Twice as many points will
# move there, uniform on the sphere at first.

from pathlib import Path

import numpy as np
import torch

import sphereot
from sphereot.torch import SSWLoss

table = np.genfromtxt(Path(__file__).with_name("great_earthquakes.csv"), delimiter=",", names=True, usecols=(2, 3))
target = torch.from_numpy(sphereot.sphere.from_lonlat(table["longitude"], table["latitude"]))
start = torch.from_numpy(sphereot.sphere.random_uniform(2 * len(target), 3, seed=0))

# %%
# Every step takes the gradient of SSW_2^2 on 100 new great circles. A point has 1 / n of the mass, and so the gradient
# of one point is of order 1 / n: multiply it by n.

loss = SSWLoss(n_projections=100, seed=0)
points = start.clone().requires_grad_()
for step in range(200):
    value = loss(points, target)
    (gradient,) = torch.autograd.grad(value, points)
    with torch.no_grad():
        points.copy_(torch.nn.functional.normalize(points - 5.0 * len(points) * gradient))
    if step % 20 == 0:
        print(f"step {step:4d}  SSW_2^2 {float(value.detach()):.6f}")

# %%
# SSW_2^2 to the earthquakes has fallen to less than 1 % of what it was.

before, after = (float(sphereot.ssw(sample, target, seed=1)) for sample in (start, points.detach()))
print(f"SSW_2^2 to the target: {before:.6f} before, {after:.6f} after")

# %%
# A check that knows nothing of SSW: the angle from each point to the nearest earthquake.


def nearest(sample: torch.Tensor) -> torch.Tensor:
    """Degrees from each point to the nearest earthquake."""
    return torch.rad2deg(sphereot.sphere.geodesic_distance(sample[:, None], target[None]).amin(dim=1))


for name, sample in (("before", start), ("after", points.detach())):
    print(f"median distance to the nearest earthquake {name}: {float(nearest(sample).median()):.1f} degrees")
