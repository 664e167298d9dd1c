"""Size of a normalizing flow: the number of its parameters, computed without making it, and the flow itself."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch

from sphereot._arrays.validation import as_int
from sphereot.flows import ExponentialMapFlow, Flow, StereographicFlow

__all__ = ["FlowSize"]


@dataclass(frozen=True)
class FlowSize:
    """Kind, dimension and size of a flow."""

    is_stereographic: bool
    dim: int
    n_blocks: int
    n_components: int

    @classmethod
    def of(cls, model: str, dim: int, n_blocks: Any, n_components: Any) -> "FlowSize":
        """Validate the parameters of `DensityEstimator`, and fill in the paper's number of blocks."""
        is_stereographic = model == "stereo"
        blocks = n_blocks or (10 if is_stereographic else 48)
        return cls(
            is_stereographic,
            dim,
            as_int("n_blocks", blocks, 1, "the number of blocks"),
            n_components if is_stereographic else as_int("n_components", n_components, 1, "the number of components"),
        )

    def parameter_count(self) -> int:
        """The number of parameters."""
        if not self.is_stereographic:
            return self.n_blocks * self.n_components * (self.dim + 2)
        half = (self.dim - 1) // 2
        halves = (half, self.dim - 1 - half)
        # A coupling has two networks from one half of the coordinates to the other; the next exchanges the halves.
        first, second = (2 * _network_size(held, moved) for held, moved in (halves, halves[::-1]))
        return (self.n_blocks + 1) // 2 * first + self.n_blocks // 2 * second

    def new_flow(self, seed: int | torch.Generator | None = None) -> Flow:
        """A flow of this size, to be trained."""
        if self.is_stereographic:
            return Flow(StereographicFlow(self.dim, self.n_blocks, seed=seed))
        return Flow(ExponentialMapFlow(self.dim, self.n_blocks, self.n_components, seed=seed))


def _network_size(inputs: int, outputs: int) -> int:
    """Parameters of a network of `RealNVP`, with its default widths."""
    widths = (inputs, 25, 25, 25, outputs)
    return sum((before + 1) * after for before, after in pairwise(widths))
