"""Great circles: sampling them and projecting points onto them (Section 3.2, Lemma 1)."""

from sphereot.slicing.circles import great_circles, project

__all__ = ["great_circles", "project"]
