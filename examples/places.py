"""For a geoscientist: how far apart two sets of locations are, whether and where they differ, and a density.

Earthquakes (6,120 locations, NOAA) are compared with floods (4,875, Dartmouth Flood Observatory). They are read from
the folder that SPHEREOT_DATA names, or downloaded once. If neither works, the program uses a table of 82 great
earthquakes: before 1990 against since 1990. Read the cells from top to bottom, run them one at a time in an editor that
supports `# %%`, or run all of them from the root of the repository: `python -m examples.places` (ten seconds). It
writes two maps into out/places.
"""

# %%
# Read the locations. `points` are unit vectors, one row per event. For your own tables, `sphereot.sphere.from_table`
# accepts a DataFrame with columns of longitude and latitude, and `sphereot.datasets.read_points` a file.

from pathlib import Path

import numpy as np

import sphereot
from sphereot import datasets, plotting
from sphereot.density import SphericalKDE
from sphereot.plotting.coastlines import has_coastlines
from sphereot.stats import difference_map, two_sample_test

max_rows = None  # 500: a random part of each table, for a look within seconds

try:
    names = ("earthquake", "flood")
    first, second = (datasets.load(name).points for name in names)
except OSError as error:
    print(f"{error}\nInstead, great earthquakes before and since 1990 are compared.")
    names = ("before 1990", "since 1990")
    table = np.genfromtxt(
        Path(__file__).with_name("great_earthquakes.csv"), delimiter=",", names=True, usecols=range(4)
    )
    quakes = sphereot.sphere.from_lonlat(table["longitude"], table["latitude"])
    first, second = quakes[table["year"] < 1990], quakes[table["year"] >= 1990]
first, second = (np.random.default_rng(0).permutation(points)[:max_rows] for points in (first, second))
print(f"{names[0]}: {len(first)} locations; {names[1]}: {len(second)} locations")

# %%
# How far apart? SSW_1 is the mean displacement along great circles, here in degrees. The mean displacement on the
# sphere is at least as large. The interval accounts for the sampling of the events. The noise floor is the expected
# distance between two samples of these sizes from the same distribution. Earthquakes and floods are much farther apart.

estimate = sphereot.ssw_estimate(first, second, p=1, bootstrap=100, seed=0)
low, high = (360 * value for value in estimate.sampling_interval())
print(f"SSW_1 {360 * estimate.value:.2f} degrees ({low:.2f} to {high:.2f})")
print(f"expected if both were equal: {360 * estimate.noise_floor:.2f} degrees")

# %%
# Do they differ? The permutation test compares 500 events of each. Its smallest possible p-value is 1 / 200 = 0.005,
# which is the result for earthquakes against floods. Aftershocks depend on each other, so the p-value is only a guide.

test = two_sample_test(first[:500], second[:500], p=1, permutations=199, seed=0)
print(f"p-value {test.p_value:.3g}")

# %%
# Where do they differ? Lines on the map of the difference surround the regions that differ significantly.
# The probability of marking any region is at most 5 % if the distributions are equal.

difference = difference_map(first, second, permutations=199, seed=0)
print(difference)
ax = plotting.difference_map(difference, labels=names, coastlines=has_coastlines())
files = plotting.save(ax, "out/places/difference", formats=("png",))

# %%
# The density of the first sample, per steradian, by a kernel estimate whose bandwidth is chosen by cross-validation.
# Earthquakes lie along the edges of the plates.

kde = SphericalKDE().fit(first)
print(f"bandwidth {np.rad2deg(kde.bandwidth_):.2f} degrees")
ax = plotting.density_map(kde.density, label=f"density ({names[0]}) [1/sr]", coastlines=has_coastlines())
files += plotting.save(ax, "out/places/density", formats=("png",))
print(f"Written: {', '.join(map(str, files))}")
