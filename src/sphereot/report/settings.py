"""Section with the settings of the test and an explanation of its terms."""

import html
from collections.abc import Mapping
from importlib.metadata import version

from sphereot._support.text import plural, printable
from sphereot.report.markup import distance_markup, distance_name
from sphereot.report.units import TURNS, DistanceUnit
from sphereot.stats import DriftResult

__all__ = ["settings_list", "settings_section", "turn_text"]


def settings_section(result: DriftResult, more: Mapping[str, str], unit: DistanceUnit) -> str:
    """HTML of the section: names and values, and a few sentences of explanation."""
    count = len(result.windows)
    correction = f", Holm's correction for {count}" if count > 1 else ""
    settings = {
        "Reference": f"{plural(result.n_reference, 'point')} in dimension {result.dim}",
        "Windows": f"{count}",
        "Distance": f"{distance_name(result.p)}, over {plural(result.n_projections, 'great circle')}, "
        "the same for all windows",
        "Permutations": f"{result.permutations:,} per window",
        "Level": f"{result.alpha:g} for all windows together{correction}",
        **more,
    }
    return f"""<section>
<h2>Settings</h2>
{settings_list(settings)}
<h2>How to read this</h2>
<p>Points on the sphere are projected onto great circles. The distance {distance_markup(result.p)} is that of optimal
transport on these circles, averaged; a great circle is {turn_text(unit)} long. It compares distributions, and does not
say how far single points moved. It is never zero between two samples, so each window is compared with random splits of
the pooled points of reference and window: the p-value is the share of splits that lie at least as far apart. If nothing
has changed, the chance that any window is called drift is at most {result.alpha:g}, as long as the points are
independent of each other; many points of one document, user or film are not, and make false alarms more frequent. Small
drifts become visible with more points.</p>
</section>"""


def turn_text(unit: DistanceUnit) -> str:
    """The length of a great circle in words.

    >>> turn_text(DistanceUnit("km", 40030.23)), turn_text(TURNS)
    ('one turn (40,030 km)', 'one turn')
    """
    return "one turn" if unit == TURNS else f"one turn ({unit.per_turn:,.5g} {unit.name})"


def settings_list(settings: Mapping[str, str]) -> str:
    """HTML of names and values, escaped, and of the version."""
    named = {**settings, "Made by": f"sphereot {version('sphereot')}"}
    escaped = ((html.escape(printable(name)), html.escape(printable(value))) for name, value in named.items())
    rows = "".join(f"<dt>{name}</dt><dd><bdi>{value}</bdi></dd>" for name, value in escaped)
    return f"<dl>{rows}</dl>"
