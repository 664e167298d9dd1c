"""Rows that contribute most to the distance of a window that has drifted, by number or by identifier."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sphereot.cli.time_windows import LOCATION

if TYPE_CHECKING:
    from sphereot.datasets import PointSet
    from sphereot.stats import TwoSampleResult

__all__ = ["MovedRows", "moved_rows"]

_COUNT = 20


@dataclass(frozen=True)
class MovedRows:
    """Rows of the window that the reference has nothing like, and the other way round; the first contribute most.

    Attributes
    ----------
    new, gone : list of dict
        With `row`, the number of the row in its file, counted from 0, `contribution`, and `id` if there is one.
    """

    new: list[dict[str, Any]]
    gone: list[dict[str, Any]]

    def record(self) -> dict[str, Any]:
        """Both lists, for JSON."""
        return {"new": self.new, "gone": self.gone}

    def as_text(self) -> tuple[list[str], list[str]]:
        """Identifiers, or numbers of rows, of both lists."""
        from sphereot._support.text import printable, shortened

        new, gone = (
            [shortened(printable(str(item.get("id", f"row {item['row']}"))), 60) for item in items]
            for items in (self.new, self.gone)
        )
        return new, gone


def moved_rows(
    reference: "PointSet", window: "PointSet", test: "TwoSampleResult", identifier: str | None
) -> MovedRows | None:
    """The rows that contribute most, on the great circles of the test; None without the compiled kernel."""
    from sphereot._backends import native
    from sphereot.stats.contributions import contributions_on

    if not native.available:
        return None
    contributions = contributions_on(test.projections, reference.points, window.points, test.p)

    def items(points: "PointSet", rows: Any, values: Any) -> list[dict[str, Any]]:
        numbers = rows.tolist() if points.rows is None else [int(points.rows[row]) for row in rows]
        listed = [
            {"row": number, "contribution": float(values[row])} for number, row in zip(numbers, rows, strict=True)
        ]
        label = LOCATION if identifier is None else identifier
        if label not in points.labels:
            return listed
        names = points.labels[label].tolist()
        return [{"id": names[row], **item} for row, item in zip(rows.tolist(), listed, strict=True)]

    return MovedRows(
        items(window, contributions.new(_COUNT), contributions.y),
        items(reference, contributions.gone(_COUNT), contributions.x),
    )
