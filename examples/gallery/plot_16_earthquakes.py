"""
Great earthquakes: map, density and two tests
=============================================

Events in a catalog are points on the sphere. This example draws 82 great earthquakes since 1900 on a map with a density
estimate, tests whether they are spread evenly over the earth, and compares those before 1990 with those since.
"""

import matplotlib.pyplot as plt
import numpy as np

import sphereot
from sphereot import plotting, sphere
from sphereot.density import SphericalKDE
from sphereot.stats import two_sample_test, uniformity_test

# %%
# Year, magnitude, latitude and longitude of well-known earthquakes of magnitude 7.8 and more, rounded. The list is not
# complete, and catalogs differ by some tenths of a degree, for old events by more.

earthquakes = """
  1906 8.8   1.0  -79.4    1906 7.9  37.8 -122.6    1922 8.5 -28.3  -69.9    1923 8.4  54.5  161.5
  1933 8.4  39.2  144.6    1934 8.0  26.9   86.6    1938 8.5  -5.1  131.5    1944 8.1  33.7  136.2
  1945 8.1  25.2   63.5    1946 8.6  53.5 -162.8    1949 8.1  53.6 -133.3    1950 8.6  28.4   96.4
  1952 9.0  52.8  160.1    1957 8.6  51.5 -175.6    1957 8.1  45.2   99.2    1960 9.5 -38.1  -73.4
  1963 8.5  44.9  149.5    1964 9.2  60.9 -147.3    1965 8.7  51.3  178.7    1968 8.2  40.9  143.4
  1969 8.2  43.5  147.8    1970 8.0  -1.5  -72.6    1971 8.0  -5.5  153.9    1971 8.1  -4.9  153.2
  1972 8.0   6.4  126.6    1974 8.1 -12.3  -77.5    1976 8.0   6.3  124.1    1977 8.3 -11.1  118.5
  1979 8.1   1.6  -79.4    1985 8.0 -33.1  -71.9    1985 8.0  18.2 -102.5    1986 8.0  51.5 -174.8
  1989 8.0 -52.3  160.6    1992 7.8  -8.5  121.9    1994 8.2 -13.8  -67.6    1994 8.3  43.8  147.3
  1995 8.0 -23.3  -70.3    1995 8.0  19.1 -104.2    1995 7.9  44.7  149.3    1996 8.2  -0.9  137.0
  1996 7.9  51.6 -177.6    1997 7.8  54.8  162.0    1998 8.1 -62.9  149.5    2000 7.9  -4.7  102.1
  2000 8.0  -4.0  152.2    2001 8.4 -16.3  -73.6    2001 7.8  35.9   90.5    2002 7.9  63.5 -147.4
  2003 8.3  41.8  143.9    2004 8.1 -49.3  161.3    2004 9.1   3.3   96.0    2005 8.6   2.1   97.1
  2006 8.0 -20.2 -174.1    2006 8.3  46.6  153.3    2007 8.1  46.2  154.5    2007 8.1  -8.5  157.0
  2007 8.0 -13.4  -76.6    2007 8.4  -4.4  101.4    2008 7.9  31.0  103.3    2009 7.8 -45.8  166.6
  2009 8.1 -15.5 -172.1    2010 8.8 -36.1  -72.9    2010 7.8  -3.5  100.1    2011 9.1  38.3  142.4
  2012 8.6   2.3   93.1    2012 8.2   0.8   92.5    2012 7.8  52.8 -132.1    2013 8.0 -10.8  165.1
  2013 8.3  54.9  153.2    2014 8.2 -19.6  -70.8    2014 7.9  51.8  178.7    2015 7.8  28.2   84.7
  2015 8.3 -31.6  -71.7    2016 7.8 -42.7  173.1    2017 8.2  15.0  -93.9    2018 8.2 -18.1 -178.2
  2019 8.0  -5.8  -75.3    2021 8.1 -29.7 -177.3    2021 8.2  55.4 -157.9    2021 8.1 -58.4  -25.3
  2023 7.8  37.2   37.0    2025 8.8  52.5  160.2
"""
year, magnitude, latitude, longitude = np.array(earthquakes.split(), dtype=float).reshape(-1, 4).T
points = sphere.from_lonlat(longitude, latitude)
print(f"{len(points)} earthquakes, magnitude {magnitude.min()} to {magnitude.max()}")

# %%
# Are they spread evenly? SSW_2^2 to the uniform distribution is the exact mean over all great circles. Its null
# distribution is not simulated: it is that of a weighted sum of chi-squared variables, corrected for the number of
# points. The classical tests of Rayleigh, Bingham and Giné are computed too.

print(uniformity_test(points))

# %%
# Have they moved? The distance between earthquakes before and since 1990 is compared with the distances of 999 random
# divisions of the same earthquakes. A p-value above 5 % is no evidence of a change.

before, since = points[year < 1990], points[year >= 1990]
result = two_sample_test(before, since, p=1, permutations=999, seed=0)
distance = 360 * sphereot.ssw_estimate(before, since, p=1, seed=0).value
print(f"SSW_1 between {len(before)} and {len(since)} earthquakes: {distance:.1f} degrees, p-value {result.p_value:.2f}")

# %%
# The density per steradian, from kernels whose bandwidth is chosen by cross-validation; the uniform density is 1 / (4
# pi) = 0.08. Most great earthquakes are at the edges of the plates around the Pacific, and along Sumatra. The area of
# a marker grows with the magnitude.

kde = SphericalKDE().fit(points)
print(f"bandwidth {np.rad2deg(kde.bandwidth_):.1f} degrees")
with plotting.style():
    fig = plt.figure(figsize=(7, 4))
    ax = fig.add_subplot(projection="mollweide")
    plotting.density_map(kde.density, ax=ax, coastlines=True, label="density of great earthquakes (sr$^{-1}$)")
    size = 4 * 3 ** (magnitude - 7.8)
    plotting.scatter_map(points, ax=ax, size=size, color=plotting.PALETTE[1], edgecolors="white", linewidths=0.4)
plt.show()
