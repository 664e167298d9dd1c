"""HTML reports of drift tests, as self-contained pages to read and forward. Needs matplotlib."""

from sphereot.report.page import drift_page

__all__ = ["drift_page"]
