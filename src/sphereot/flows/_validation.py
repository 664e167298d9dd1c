"""Points as the transforms take them: checked, of the flow's dimension and device, in the wider of the two types."""

import torch
from torch import Tensor

from sphereot._arrays.libraries import in_host_memory
from sphereot.distributions.axial import checked_points

__all__ = ["flow_points", "require_unit_columns"]


def flow_points(name: str, points: Tensor, dim: int, like: Tensor) -> Tensor:
    """Points (..., d) for a flow, whose length is still to be checked.

    Parameters
    ----------
    name : str
        Of the argument, for messages.
    points : tensor, shape (..., d)
        Unit vectors; half types are widened and scaled to unit length.
    dim : int
        Dimension d that the flow has.
    like : tensor
        A parameter of the flow: its device must be that of the points.

    Returns
    -------
    tensor, shape (..., d)
        The points in the wider type of points and parameters.
    """
    if not isinstance(points, Tensor) or points.ndim == 0 or points.dtype not in (torch.float32, torch.float64):
        points = torch.nn.functional.normalize(checked_points(name, points), dim=-1)
    if points.shape[-1] != dim:
        raise ValueError(
            f"{name} has points in dimension {points.shape[-1]} and the flow is in dimension {dim}; both must lie on "
            "the same sphere."
        )
    if points.device != like.device:
        raise ValueError(
            f"{name} is on {points.device} and the flow on {like.device}; move one, so that both are on the "
            "same device."
        )
    return points.to(torch.promote_types(points.dtype, like.dtype))


def require_unit_columns(name: str, columns: Tensor, points: Tensor) -> None:
    """Raise unless the columns (d, n) of `points` (..., d) are unit vectors; looked at on the CPU alone."""
    if columns.numel() == 0 or not in_host_memory(columns):
        return
    squares = (columns.detach() * columns.detach()).sum(0)
    # A fraction of the time of the check that finds out what is wrong; NaN is not below anything.
    if not squares.sub_(1.0).abs_().max().item() < 2e-6:
        checked_points(name, points)
