"""
Where two samples differ
========================

A distance measures how much two samples differ, and a test whether the difference is significant. `difference_map`
shows where: it compares both densities on the whole sphere, and marks the regions where the difference is significant.
"""

import matplotlib.pyplot as plt
import numpy as np

from sphereot import plotting, sphere
from sphereot.stats import difference_map, two_sample_test

# %%
# Two samples of locations, say of lightning in two seasons. Half of each is spread over the tropics; the rest is around
# centers, one of which is further north in the second season.

rng = np.random.default_rng(0)


def season(longitude, latitude):
    """Draw 600 locations, of which 150 are around the given one."""
    band = np.stack([rng.uniform(-180, 180, 300), 12 * rng.normal(size=300)], axis=1)
    fixed = np.array([-65.0, -15.0]) + 8 * rng.normal(size=(150, 2))
    moving = np.array([longitude, latitude]) + 8 * rng.normal(size=(150, 2))
    return sphere.from_lonlat(np.concatenate([band, fixed, moving]))


winter, summer = season(100.0, -5.0), season(95.0, 25.0)

# %%
# The test, and the map. The probability that any region is marked is at most 5 % if both samples come from one
# distribution.

print(f"p-value of the test: {two_sample_test(winter, summer, permutations=199, seed=0).p_value}")
difference = difference_map(winter, summer, permutations=199, seed=0)
print(difference)

# %%
# Winter is denser where the map is blue, summer where it is orange. Lines surround the significant regions, solid for
# winter and dashed for summer. The cluster in South America is in both samples, and is not marked.

with plotting.style():
    fig = plt.figure(figsize=(7, 4))
    ax = fig.add_subplot(projection="mollweide")
    plotting.difference_map(difference, x=winter, y=summer, labels=("winter", "summer"), ax=ax, coastlines=True)
plt.show()
