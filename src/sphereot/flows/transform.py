"""What every transform of a flow can do."""

from torch import Tensor, nn
from torch.distributions import Distribution

__all__ = ["FlowTransform"]


class FlowTransform(nn.Module):
    """An invertible map with a determinant; the base of the transforms of this package.

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
        """The law that images of data shall have by default, in the dtype and on the device of the weights."""
        raise NotImplementedError
