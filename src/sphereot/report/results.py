"""What the sections of a report need of a result: of a drift test, or of a monitor."""

from collections.abc import Sequence
from typing import Protocol

from sphereot.stats import DifferingCircle, ProjectedDensities

__all__ = ["ShownResult", "ShownWindow"]


class ShownWindow(Protocol):
    """One window: `DriftWindow` or `MonitoredWindow`."""

    @property
    def label(self) -> str:
        """Name of the window."""

    @property
    def n(self) -> int:
        """Number of points."""

    @property
    def value(self) -> float:
        """SSW_p^p between reference and window."""

    @property
    def ratio(self) -> float:
        """The value divided by its mean under permutation."""

    @property
    def p_value(self) -> float:
        """P-value of this window alone."""

    @property
    def adjusted_p_value(self) -> float:
        """P-value after correction for several windows."""

    @property
    def drifted(self) -> bool:
        """Whether the window has drifted."""

    @property
    def band(self) -> tuple[float, float]:
        """Range of values that chance explains."""

    @property
    def circle(self) -> DifferingCircle:
        """The great circle on which the window differs most."""

    @property
    def densities(self) -> ProjectedDensities:
        """Densities of reference and window on that circle."""


class ShownResult(Protocol):
    """All windows, and what they share: `DriftResult`, or the last windows of a `DriftMonitor`."""

    @property
    def windows(self) -> Sequence[ShownWindow]:
        """The windows in their order."""

    @property
    def summary(self) -> str:
        """The result in one sentence."""

    @property
    def drifted(self) -> bool:
        """Whether any window has drifted."""

    @property
    def farthest(self) -> ShownWindow:
        """The window that most surely differs from the reference."""

    @property
    def p(self) -> float:
        """Order of the distance."""

    @property
    def dim(self) -> int:
        """Dimension d of the space around the sphere."""

    @property
    def n_projections(self) -> int:
        """Number of great circles."""
