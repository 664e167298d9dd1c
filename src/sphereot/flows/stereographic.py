"""RealNVP after a stereographic projection of the sphere, the model "Stereo" of the paper (Appendix B.4)."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from sphereot import sphere
from sphereot._arrays.validation import as_int
from sphereot.flows._validation import flow_points
from sphereot.flows.normal import StandardNormal
from sphereot.flows.realnvp import RealNVP
from sphereot.flows.transform import FlowTransform

__all__ = ["StereographicFlow", "stereographic_log_det"]


def stereographic_log_det(u: Tensor) -> Tensor:
    """Log-determinant of the stereographic projection at the point that is mapped to `u`.

    Parameters
    ----------
    u : tensor, shape (..., d-1)
        Images rho(x).

    Returns
    -------
    tensor, shape (...)
        (d - 1) log((1 + |u|^2) / 2).

    Notes
    -----
    The projection stretches every direction of the tangent space by (1 + |u|^2) / 2, and there are d - 1 of them. The
    paper prints the exponent d, with which densities on S^{d-1} do not integrate to 1.

    Examples
    --------
    >>> import torch
    >>> stereographic_log_det(torch.tensor([[0.0, 1.0], [1.0, 1.0]]))  # the equator, where lengths are kept; beyond it
    tensor([0.0000, 0.8109])
    """
    return u.shape[-1] * (torch.log1p((u * u).sum(-1)) - math.log(2.0))


class StereographicFlow(FlowTransform):
    """Normalizing flow from the sphere S^{d-1} to R^{d-1}: stereographic projection from (-1, 0, ..., 0), then RealNVP.

    Parameters
    ----------
    dim : int
        Dimension d of the space around the sphere S^{d-1}, at least 3: couplings need two coordinates.
    n_blocks, hidden, seed, dtype, device
        As in `RealNVP`.

    Notes
    -----
    Images are vectors of R^{d-1}, to be compared with the standard normal distribution there. The untrained flow is the
    projection alone. The missing point is taken as its neighbor at the distance of rounding: its density is
    vanishingly small, and finite.

    Examples
    --------
    >>> import torch
    >>> from sphereot.flows import StereographicFlow
    >>> StereographicFlow(3)(torch.tensor([[0.0, 0.6, 0.8]])).detach()
    tensor([[0.6000, 0.8000]])
    """

    def __init__(
        self,
        dim: int,
        n_blocks: int = 10,
        hidden: Sequence[int] = (25, 25, 25),
        *,
        seed: int | torch.Generator | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.dim = as_int("dim", dim, 3, "the dimension of the space around the sphere")
        self.plane = RealNVP(self.dim - 1, n_blocks, hidden, seed=seed, dtype=dtype, device=device)

    def forward(self, x: Tensor) -> Tensor:
        """Images of unit vectors (..., d), shape (..., d-1)."""
        images: Tensor = self.plane(self._project(x))
        return images

    def forward_and_log_det(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Images of unit vectors (..., d), shape (..., d-1), and log |det J| (...)."""
        u = self._project(x)
        z, log_det = self.plane.forward_and_log_det(u)
        return z, log_det + stereographic_log_det(u)

    def inverse(self, y: Tensor) -> Tensor:
        """Unit vectors (..., d) whose images are `y` (..., d-1)."""
        points: Tensor = sphere.inverse_stereographic(self.plane.inverse(y))
        return points

    def inverse_and_log_det(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Unit vectors (..., d) whose images are `y` (..., d-1), and log |det J| of the inverse map (...)."""
        u, log_det = self.plane.inverse_and_log_det(y)
        return sphere.inverse_stereographic(u), log_det - stereographic_log_det(u)

    def default_base(self) -> StandardNormal:
        """The standard normal distribution on R^{d-1}."""
        return self.plane.default_base()

    def _project(self, x: Tensor) -> Tensor:
        x = flow_points("x", x, self.dim, next(self.parameters()))
        at_pole = (x[..., :1] < 0) & (x[..., 1:] == 0).all(-1, keepdim=True)
        beside = torch.eye(1, self.dim, dtype=x.dtype, device=x.device)[0].neg()
        beside[1] = torch.finfo(x.dtype).eps
        projected: Tensor = sphere.stereographic(torch.where(at_pole, beside, x))
        return projected
