"""Section with one foldable part per window: where it differs most, and its points beside the reference."""

from collections.abc import Sequence

from sphereot.report.circle_densities import circle_figure
from sphereot.report.markup import cost_markup, data_name
from sphereot.report.results import ShownResult
from sphereot.report.scatter_plot import DifferingPlanePlot
from sphereot.report.units import DistanceUnit

__all__ = ["windows_section"]


Moved = tuple[Sequence[str], Sequence[str]]
"""Names of rows of a window that are new, and of rows of the reference that have gone."""


def windows_section(
    result: ShownResult,
    plot: DifferingPlanePlot | None,
    columns: Sequence[str] | None,
    unit: DistanceUnit,
    moved: Sequence[Moved | None] | None = None,
) -> str:
    """HTML of all windows; the one that most surely differs from the reference is unfolded.

    Without a `plot` (there are no points) each window has its great circle alone.
    """
    parts = ["<section>", "<h2>Window by window</h2>"]
    farthest, power = result.farthest, cost_markup(result.p)
    for k, window in enumerate(result.windows):
        verdict = '<strong class="mark-drift">drift</strong>' if window.drifted else "no drift"
        opened = " open" if window is farthest else ""
        # The id is inside, since a link to an element inside unfolds the part.
        parts.append(
            f"<details{opened}><summary>{data_name(window.label)}: {verdict}, "
            f"{power} {window.ratio:.3g} times that of chance</summary>"
            f'<div class="panels" id="window-{k + 1}">'
            f"{circle_figure(window, result, columns, unit)}"
            f"{'' if plot is None else plot.figure(k, window.label)}</div>"
            f"{_moved_rows(None if moved is None else moved[k])}</details>"
        )
    parts.append("</section>")
    return "\n".join(parts)


def _moved_rows(moved: Moved | None) -> str:
    """HTML of the rows that contribute most."""
    if moved is None:
        return ""
    titles = ("New rows that contribute most", "Rows of the reference that have gone")
    lists = [
        f"<div><h3>{title}</h3><ol>{''.join(f'<li>{data_name(name)}</li>' for name in names)}</ol></div>"
        for title, names in zip(titles, moved, strict=True)
    ]
    return f'<div class="panels">{"".join(lists)}</div>'
