"""
Locations on the earth: maps and densities
==========================================

Longitudes and latitudes become unit vectors, and a kernel density estimate on the sphere has no distorted poles and no
edge at the date line. This example estimates the density of people in the largest cities of 96 countries, with
weights, draws it on a map, and measures how far it is from uniform.
"""

import matplotlib.pyplot as plt
import numpy as np

import sphereot
from sphereot import plotting, sphere
from sphereot.density import SphericalKDE

# %%
# The largest city of each of 96 countries, from GeoNames (geonames.org, CC BY 4.0): longitude and latitude in degrees,
# and millions of people, all rounded.

cities = """
  121.5  31.2 24.9    15.3  -4.3 16.0    28.9  41.0 15.7     3.4   6.5 15.4   106.6  10.8 14.0    74.4  31.6 13.0
   72.9  19.1 12.7   -46.6 -23.5 12.4   -99.1  19.4 12.3    37.6  55.8 10.4    90.4  23.7 10.4   127.0  37.6 10.3
  139.7  35.7  9.7    31.2  30.1  9.6    28.0 -26.2  9.4    -0.1  51.5  9.0   -74.0  40.7  8.8   106.8  -6.2  8.5
  121.5  25.1  7.9   -77.0 -12.0  7.7   -74.1   4.6  7.7   114.2  22.3  7.4    44.4  33.3  7.2    51.4  35.7  7.2
   -4.0   5.4  6.3   151.2 -33.9  5.6   103.9   1.3  5.6    39.3  -6.8  5.4   100.5  13.8  5.1   -70.6 -33.5  4.8
   39.2  21.5  4.7    96.2  16.8  4.5    69.2  34.5  4.4    36.8  -1.3  4.4    -8.0  12.6  4.2    38.7   9.0  3.9
   55.3  25.1  3.8    -7.6  33.6  3.7    13.4  52.5  3.4    -3.7  40.4  3.3   125.8  39.0  3.2   121.1  14.6  3.1
  -66.9  10.5  3.0    30.5  50.5  3.0   -58.4 -34.6  2.9   -79.4  43.7  2.8   -78.5  -0.2  2.8    13.2  -8.8  2.8
  -17.4  14.7  2.6    45.3   2.0  2.6    -1.6   6.7  2.5    -1.5  12.4  2.4     3.1  36.7  2.4    49.9  40.4  2.4
   12.5  41.9  2.3    28.3 -15.4  2.2   -69.9  18.5  2.2     1.2   6.1  2.2   -82.4  23.1  2.2     2.3  48.9  2.1
   37.2  36.2  2.1   -68.2 -16.5  2.0    15.3  -4.3  2.0    69.2  41.3  2.0    76.9  43.3  2.0    32.5  15.6  2.0
   44.2  15.4  1.9   -13.7   9.5  1.9    35.5  33.9  1.9    26.1  44.4  1.9    27.6  53.9  1.7    19.0  47.5  1.7
   21.0  52.2  1.7    16.4  48.2  1.7    32.6   0.3  1.7   104.9  11.6  1.6   174.8 -36.8  1.5    31.1 -17.8  1.5
  -10.8   6.3  1.5    18.1  59.3  1.5   -57.6 -25.3  1.5   101.7   3.1  1.5    85.3  27.7  1.4    15.0  12.1  1.4
   47.5 -18.9  1.3     9.7   4.0  1.3     2.1  13.5  1.3    13.2  32.9  1.3    35.9  32.0  1.3    20.5  44.8  1.3
  -56.2 -34.9  1.3    32.6 -26.0  1.3   -72.3  18.5  1.2   -16.0  18.1  1.2    14.4  50.1  1.2    12.6  55.7  1.2
"""
longitude, latitude, millions = np.array(cities.split(), dtype=float).reshape(-1, 3).T
points = sphere.from_lonlat(np.stack([longitude, latitude], axis=1))
print(f"{len(points)} cities, {millions.sum():.0f} million people")

# %%
# The bandwidth is chosen by cross-validation. The density is per steradian of the sphere; the uniform density is
# 1 / (4 pi) = 0.08.

kde = SphericalKDE(weights=millions).fit(points)
print(f"bandwidth {np.rad2deg(kde.bandwidth_):.1f} degrees")

# %%
# Weights of points are an argument of distances too. All people in one city would have the largest distance to the
# uniform distribution, SSW_2^2 = 1/12.

estimate = sphereot.ssw_estimate(points, x_weights=millions)
print(f"SSW_2^2 to uniform: {estimate.value:.4f} turns^2 of at most {1 / 12:.4f}")

# %%
# The markers are cities, with an area proportional to the number of people. As one city stands for each country, the
# density is largest where large cities of several countries are close: around Shanghai and around Istanbul.

with plotting.style():
    fig = plt.figure(figsize=(7, 4))
    ax = fig.add_subplot(projection="mollweide")
    plotting.density_map(kde.density, ax=ax, coastlines=True, label="density of people (sr$^{-1}$)")
    plotting.scatter_map(points, ax=ax, size=millions, color=plotting.PALETTE[1], edgecolors="white", linewidths=0.4)
plt.show()
