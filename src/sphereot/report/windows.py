"""One part a window, to unfold: where it differs most, and its points beside those of the reference."""

from collections.abc import Sequence

from sphereot.report.circle_densities import circle_figure
from sphereot.report.markup import cost_markup, data_name
from sphereot.report.scatter_plot import PlaneView
from sphereot.stats import DriftResult

__all__ = ["windows_section"]


def windows_section(result: DriftResult, view: PlaneView, columns: Sequence[str] | None) -> str:
    """All windows; the one that is most surely away from the reference is unfolded."""
    parts = ["<section>", "<h2>Window by window</h2>", view.shared()]
    farthest, power = result.farthest, cost_markup(result.p)
    for k, window in enumerate(result.windows):
        verdict = '<strong class="mark-drift">drift</strong>' if window.drifted else "no drift"
        # A link to what is inside unfolds it; the same on the outside would not.
        parts.append(
            f"<details{' open' * (window is farthest)}><summary>{data_name(window.label)}: {verdict}, "
            f"{power} {window.ratio:.3g} times that of chance</summary>"
            f'<div class="panels" id="window-{k + 1}">'
            f"{circle_figure(window, result, columns)}{view.figure(k, window.label)}</div></details>"
        )
    parts.append("</section>")
    return "\n".join(parts)
