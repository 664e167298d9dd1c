"""What was found: a sentence, and a table with a row a window."""

import html

from sphereot.report.words import data_name, distance, distance_name
from sphereot.stats import DriftResult

__all__ = ["summary_paragraph", "table_section"]


def summary_paragraph(result: DriftResult) -> str:
    """The sentence."""
    head, _, rest = result.summary.partition(": ")
    kind = "drift" if result.drifted else "calm"
    return f'<p class="found {kind}"><strong>{html.escape(head)}:</strong> {html.escape(rest)}</p>'


def table_section(result: DriftResult) -> str:
    """The table; names lead to what there is on each window."""
    columns = ["Points", f"{distance_name(result.p)}, turns", "By chance", "p-value", "Corrected"]
    heads = ['<th scope="col" class="name">Window</th>', *(f'<th scope="col">{name}</th>' for name in columns)]
    rows = []
    for k, window in enumerate(result.windows, start=1):
        low, high = (distance(value, result.p) for value in window.band)
        cells = [
            f"{window.n:,}",
            f"{distance(window.value, result.p):.4g}",
            f"{low:.3g} to {high:.3g}",
            f"{window.p_value:.3g}",
            f"{window.adjusted_p_value:.3g}",
        ]
        verdict = '<strong class="mark-drift">drift</strong>' if window.drifted else "no drift"
        rows.append(
            f'<tr><th scope="row"><a href="#window-{k}">{data_name(window.label)}</a></th>'
            f"{''.join(f'<td>{cell}</td>' for cell in cells)}<td class='verdict'>{verdict}</td></tr>"
        )
    return "\n".join(
        [
            "<section>",
            "<h2>Numbers</h2>",
            '<div class="wide"><table>',
            f'<thead><tr>{"".join(heads)}<th scope="col" class="verdict">Verdict</th></tr></thead>',
            f"<tbody>{''.join(rows)}</tbody>",
            "</table></div>",
            "</section>",
        ]
    )
