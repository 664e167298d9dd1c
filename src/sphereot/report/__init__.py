"""HTML reports of drift tests and monitors, as self-contained pages to read and forward. Needs matplotlib."""

from sphereot.report.monitor_page import monitor_page
from sphereot.report.page import drift_page

__all__ = ["drift_page", "monitor_page"]
