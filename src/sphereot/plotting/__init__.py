"""Pictures of measures on the sphere, with matplotlib, and a page with a globe that one can turn.

Each function draws on Axes that it is given, or on a new Figure, and returns the Axes. Nothing here goes through
pyplot: no window opens, and no global state changes. `style` makes figures of one look, `save` writes them.
`globe_page` writes HTML that opens from disk.
"""

from sphereot._support.extras import require

require("matplotlib", "sphereot.plotting")

from sphereot.plotting.curves import evolution
from sphereot.plotting.globe_pages import globe_page
from sphereot.plotting.great_circle import circle_projections
from sphereot.plotting.maps import density_map, map_points, scatter_map
from sphereot.plotting.sphere3d import scatter_sphere, sphere_axes
from sphereot.plotting.styling import PALETTE, save, style

__all__ = [
    "PALETTE",
    "circle_projections",
    "density_map",
    "evolution",
    "globe_page",
    "map_points",
    "save",
    "scatter_map",
    "scatter_sphere",
    "sphere_axes",
    "style",
]
