"""Reports as pages that open from disk: what a test found, for people to look at and forward. Needs matplotlib."""

from sphereot.report.page import drift_page

__all__ = ["drift_page"]
