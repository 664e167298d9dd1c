"""HTML reports of drift tests and monitors: self-contained pages to read and forward (`sphereot[plot]`)."""

from sphereot.report.drift import drift_page, monitor_page

__all__ = ["drift_page", "monitor_page"]
