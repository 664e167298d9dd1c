"""
Sketches: distances of data too large to keep
=============================================

A `Sketch` is a small summary of any number of points: a histogram of their projections on each great circle. Sketches
are updated batch by batch and merged across files or machines, and the distance between two sketches comes with an
error bound. The size of a sketch does not depend on the number of points.
"""

import matplotlib.pyplot as plt
import numpy as np

import sphereot
from sphereot import plotting, sphere

# %%
# Points of seven days come in batches. Only the sketches are kept. The sum of the sketches is the sketch of the whole
# week, to the last bit.

rng = np.random.default_rng(0)


def batch(day, n=5000):
    """Draw points around a direction that moves by 2 degrees per day."""
    angle = np.deg2rad(2.0 * day)
    return sphere.normalize(rng.normal(size=(n, 3)) / 2 + [np.cos(angle), np.sin(angle), 0.3])


days = [sphereot.Sketch(3).update(batch(day)).update(batch(day)) for day in range(7)]
week = days[0]
for sketch in days[1:]:
    week = week + sketch
print(f"{week.n:,} points in {week.nbytes / 1e6:.0f} MB of memory; {len(week.to_bytes()) / 1e6:.1f} MB in a file")

# %%
# The distance of two sketches differs from that of the points themselves, on the same great circles, by at most
# `error_bound`. Here the points are kept, to check this for several numbers of bins.

x, y = batch(0, 20_000), batch(6, 20_000)
bins = 2 ** np.arange(5, 13)
bounds, errors = [], []
for number in bins:
    a, b = (sphereot.Sketch(3, bins=int(number)).update(points) for points in (x, y))
    distance = a.distance(b)
    exact = sphereot.ssw(x, y, projections=a.projections, root=True)
    bounds.append(distance.error_bound)
    errors.append(abs(distance.value - exact))
print(f"exact {exact:.7f}, by sketches of {number} bins {distance.value:.7f} ± {distance.error_bound:.1e} turns")

# %%
# Left: the distance from the first day grows with the angle between the days. Right: error bound and measured error
# fall with the square of the number of bins. With 4,096 bins, the default, they are far below the sampling error.

with plotting.style():
    fig, (left, right) = plt.subplots(1, 2, figsize=(7, 2.8))
    to_first = [sketch.distance(days[0]) for sketch in days]
    left.plot(range(1, 8), [distance.value for distance in to_first], "o-")
    left.set(xlabel="day", ylabel="SSW$_2$ from day 1 (turns)", xticks=range(1, 8))
    right.loglog(bins, bounds, "o-", label="error bound")
    right.loglog(bins, errors, "s-", label="measured error")
    right.set(xlabel="number of bins", ylabel="error of SSW$_2$ (turns)", xticks=bins, xticklabels=bins)
    right.minorticks_off()
    right.legend()
plt.show()
