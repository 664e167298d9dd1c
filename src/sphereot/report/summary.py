"""Summary of the drift test: a sentence, and a table with one row per window."""

import html
import re

from sphereot._support.text import cost_name
from sphereot.report.markup import cost_markup, data_name, distance_markup, distance_name
from sphereot.report.results import ShownResult
from sphereot.report.units import DistanceUnit

__all__ = ["summary_paragraph", "table_section"]


def summary_paragraph(result: ShownResult) -> str:
    """HTML of the summary sentence."""
    head, _, rest = result.summary.partition(": ")
    kind = "drift" if result.drifted else "calm"
    # Only where the summary writes the distance, not where the name of a window contains the same characters.
    plain = rf"\({re.escape(cost_name(result.p))} (?=\S+ times that of chance)"
    sentence = re.sub(plain, f"({cost_markup(result.p)} ", html.escape(rest))
    return f'<p class="summary {kind}"><strong>{html.escape(head)}:</strong> {sentence}</p>'


def table_section(result: ShownResult, unit: DistanceUnit) -> str:
    """HTML of the table, with distances in a unit; the names of windows are links to their sections.

    On a narrow screen each row is a block, with the name of the column before each value. The roles keep it a table for
    screen readers, which the change of layout would otherwise undo.
    """
    columns = {
        "Points": "Points",
        f"{distance_name(result.p)}, {unit.name}": f"{distance_markup(result.p)}, {unit.name}",
        "By chance": "By chance",
        "p-value": "p-value",
        "Corrected": "Corrected",
    }
    heads = [_head("Window", "name"), *(_head(markup) for markup in columns.values()), _head("Verdict", "verdict")]
    rows = []
    for k, window in enumerate(result.windows, start=1):
        low, high = (unit.distance(value, result.p) for value in window.band)
        values = [
            f"{window.n:,}",
            unit.text(unit.distance(window.value, result.p), 4),
            f"{unit.text(low, 3)} to {unit.text(high, 3)}",
            f"{window.p_value:.3g}",
            f"{window.adjusted_p_value:.3g}",
        ]
        cells = [
            f'<td role="cell" data-column="{name}">{value}</td>' for name, value in zip(columns, values, strict=True)
        ]
        verdict = '<strong class="mark-drift">drift</strong>' if window.drifted else "no drift"
        rows.append(
            f'<tr role="row"><th scope="row" role="rowheader">'
            f'<a href="#window-{k}">{data_name(window.label)}</a></th>'
            f'{"".join(cells)}<td role="cell" class="verdict">{verdict}</td></tr>'
        )
    return "\n".join(
        [
            "<section>",
            "<h2>Numbers</h2>",
            '<table role="table">',
            f'<thead role="rowgroup"><tr role="row">{"".join(heads)}</tr></thead>',
            f'<tbody role="rowgroup">{"".join(rows)}</tbody>',
            "</table>",
            "</section>",
        ]
    )


def _head(markup: str, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<th scope="col" role="columnheader"{named}>{markup}</th>'
