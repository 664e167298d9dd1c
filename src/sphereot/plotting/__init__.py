"""Plots of points and densities on the sphere with matplotlib, and HTML pages with an interactive globe.

Each function draws on the given Axes or on a new Figure, and returns the Axes. pyplot is not used, so no window opens
and no global state changes. `style` sets a common style, and `save` writes figures to files.
"""

from sphereot._support.extras import require

require("matplotlib", "sphereot.plotting")
require("jinja2", "sphereot.plotting", extra="plot")

from sphereot.plotting.curves import evolution
from sphereot.plotting.difference import DIFFERENCE_COLORS, difference_map, difference_norm
from sphereot.plotting.globe import globe_page
from sphereot.plotting.great_circle import circle_projections
from sphereot.plotting.maps import density_map, map_points, scatter_map
from sphereot.plotting.sphere3d import scatter_sphere, sphere_axes
from sphereot.plotting.styling import PALETTE, save, style

__all__ = [
    "DIFFERENCE_COLORS",
    "PALETTE",
    "circle_projections",
    "density_map",
    "difference_map",
    "difference_norm",
    "evolution",
    "globe_page",
    "map_points",
    "save",
    "scatter_map",
    "scatter_sphere",
    "sphere_axes",
    "style",
]
