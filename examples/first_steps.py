"""For a newcomer: a table of locations on the Earth, and three questions about it.

It uses a table of 82 great earthquakes since 1900, of magnitude 7.8 and more. Read the cells from top to
bottom, run them one at a time in an editor that supports `# %%`, or run all of them from the root of the repository:
`python -m examples.first_steps` (a few seconds). It writes a map into out/first_steps; drawing needs
`pip install 'sphereot[plot]'`.
"""

# %%
# Read the table. Longitude and latitude are not good coordinates for distances: longitudes of 179 and -179 degrees are
# neighbors. `from_lonlat` makes unit vectors of them, one row per earthquake.

from pathlib import Path

import numpy as np

import sphereot
from sphereot import plotting
from sphereot.stats import two_sample_test, uniformity_test

file = Path(__file__).with_name("great_earthquakes.csv")
table = np.genfromtxt(file, delimiter=",", names=True, usecols=(0, 1, 2, 3))
points = sphereot.sphere.from_lonlat(table["longitude"], table["latitude"])
print(f"{len(points)} earthquakes; the first is the unit vector {points[0].round(3)}")

# %%
# Question 1: are earthquakes spread evenly over the earth? The p-value is the probability of a sample this uneven if
# they were. It is below one in a million: they are not.

uniform = uniformity_test(points)
print(uniform)

# %%
# Question 2: how far apart are two samples? SSW_1 is the mean displacement along great circles. To turn one
# sample into the other on the sphere needs at least this mean displacement. It is in turns: 1 is once around, so
# multiply by 360 for degrees. Even two samples of one distribution are not at distance 0; `noise_floor` is the distance
# they would have, and here the distance is about the same.

earlier, later = points[table["year"] < 1990], points[table["year"] >= 1990]
estimate = sphereot.ssw_estimate(earlier, later, p=1, bootstrap=200, seed=0)
print(f"before and since 1990: {360 * estimate.value:.1f} degrees")
print(f"expected without a change: {360 * estimate.noise_floor:.1f} degrees")

# %%
# Question 3: is the difference between the two significant? The test mixes the samples and divides them at
# random, 999 times. The p-value is above 0.05: these data do not show that great earthquakes have moved.

unchanged = two_sample_test(earlier, later, p=1, permutations=999, seed=0)
print(unchanged)

# %%
# A map. Most great earthquakes are around the Pacific.

with plotting.style():
    ax = plotting.scatter_map(earlier, label="before 1990")
    plotting.scatter_map(later, ax=ax, label="since 1990")
    ax.set_title("Great earthquakes since 1900")
    (picture,) = plotting.save(ax, "out/first_steps/map", formats=("png",))
print(f"Written: {picture}")

# %%
# Your own data: `sphereot.sphere.from_table(frame)` takes a DataFrame with columns of longitude and latitude,
# `sphereot.sphere.normalize(array)` scales vectors such as embeddings to unit length, and the command line needs no
# Python:
#
#     sphereot uniformity examples/great_earthquakes.csv --lonlat
#     sphereot test first.csv second.csv --lonlat --map difference.png
