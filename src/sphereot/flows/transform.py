"""Base class of the transforms of normalizing flows."""

from torch import Tensor, nn
from torch.distributions import Distribution

__all__ = ["FlowTransform"]


class FlowTransform(nn.Module):
    """Invertible map with a log-determinant: base class of the transforms of normalizing flows.

    `forward` moves points and nothing else: where only samples are needed, as for a sliced distance as the loss, no
    determinant is computed.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Images of points."""
        raise NotImplementedError

    def forward_and_log_det(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Images of points (..., d), and log |det J| of the map there, shape (...)."""
        raise NotImplementedError

    def inverse(self, y: Tensor) -> Tensor:
        """The points whose images are `y`."""
        raise NotImplementedError

    def inverse_and_log_det(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """The points whose images are `y`, and log |det J| of the inverse map at `y`, shape (...)."""
        x = self.inverse(y)
        return x, -self.forward_and_log_det(x)[1]

    def default_base(self) -> Distribution:
        """The default base distribution, in the dtype and on the device of the parameters."""
        raise NotImplementedError
