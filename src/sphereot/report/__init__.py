"""HTML reports of drift tests, monitors and paired tests: self-contained pages to forward (`sphereot[plot]`)."""

from sphereot.report.drift import drift_page, monitor_page, paired_page

__all__ = ["drift_page", "monitor_page", "paired_page"]
