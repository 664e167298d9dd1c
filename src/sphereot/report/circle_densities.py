"""Chart of the great circle on which a window differs most from the reference, with both projected densities."""

from collections.abc import Sequence

import numpy as np

from sphereot._html.svg import Chart, area, line, picture
from sphereot.report.markup import cost_markup, data_name, legend
from sphereot.report.results import ShownResult, ShownWindow
from sphereot.report.units import DistanceUnit
from sphereot.sphere import to_lonlat

__all__ = ["circle_figure"]

_WIDTH, _HEIGHT = 420.0, 380.0
_MAX_COLUMNS = 3  # named in the caption


def circle_figure(window: ShownWindow, result: ShownResult, columns: Sequence[str] | None, unit: DistanceUnit) -> str:
    """Chart of both densities along the circle, which is cut open where the points are fewest."""
    densities = window.densities
    grid = len(densities.turns)
    start = int(np.argmin(densities.reference + densities.window))
    order = (start + np.arange(grid + 1)) % grid
    along = (np.arange(grid + 1) / grid).tolist()
    reference, current = densities.reference[order].tolist(), densities.window[order].tolist()
    top = 1.1 * max(*reference, *current)
    chart = Chart(52, _WIDTH - 12, 34, _HEIGHT - 52, (0.0, 1.0), (0.0, top))
    begin = float(densities.turns[start])
    marks = sorted(((tick - begin) % 1.0, f"{tick:g}") for tick in (0.0, 0.25, 0.5, 0.75))
    parts = [
        chart.y_axis("density per turn"),
        area(chart, along, reference, "reference-area"),
        area(chart, along, current, "window-area"),
        line(chart, along, reference, "reference-line"),
        line(chart, along, current, "window-line"),
        chart.x_axis(marks, "position on the great circle, in turns"),
    ]
    circle = window.circle
    cost, mean, deviation = (unit.cost(x, result.p) for x in (circle.cost, circle.null_mean, circle.null_deviation))
    chart_svg = picture(
        f"Densities of the reference and of {window.label} on the great circle that differs most",
        f"The cost on this circle is {unit.text(cost, 3)}; its mean by chance is {unit.text(mean, 3)}.",
        _WIDTH,
        _HEIGHT,
        parts,
        links=False,
    )
    power = cost_markup(result.p, "W")
    return (
        f"<figure><h3>The great circle that differs most</h3>{chart_svg}"
        f"<figcaption>{legend(('reference', 'reference'), ('window', data_name(window.label)))}"
        f"<p>Of {result.n_projections} great circles, the one where the two differ most surely: {power} is "
        f"{unit.text(cost, 3)} {unit.cost_markup(result.p)} there, and {unit.text(mean, 3)} ± "
        f"{unit.text(deviation, 2)} by chance.{_where(window, result, columns)}</p></figcaption></figure>"
    )


def _where(window: ShownWindow, result: ShownResult, columns: Sequence[str] | None) -> str:
    """Sentence on the location of the great circle: by its main columns, or by its pole on S^2."""
    frame = window.circle.frame
    if columns is not None:
        share = np.sum(frame**2, axis=1)
        named = ", ".join(data_name(columns[k]) for k in np.argsort(-share, kind="stable")[:_MAX_COLUMNS])
        return f" Its plane lies nearest to the columns {named}."
    if result.dim == 3:
        pole = np.cross(frame[:, 0], frame[:, 1]).astype(np.float64)
        lon, lat = to_lonlat(pole / np.linalg.norm(pole)).tolist()
        return f" It is 90° away from longitude {lon:.0f}°, latitude {lat:.0f}°."
    return ""
