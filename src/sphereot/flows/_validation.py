"""Validation of points for the transforms: unit length, dimension, device, and the wider of two dtypes."""

import torch
from torch import Tensor

from sphereot._arrays.libraries import in_host_memory
from sphereot.distributions.axial import checked_points

__all__ = ["flow_points", "require_unit_columns"]


def flow_points(name: str, points: Tensor, dim: int, like: Tensor) -> Tensor:
    """Validate points (..., d) for a flow, all but their length.

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
            f"{name}: got points in dimension {points.shape[-1]}, but the flow is in dimension {dim}; both must lie on "
            "the same sphere."
        )
    if points.device != like.device:
        raise ValueError(f"{name}: got points on {points.device}, but the flow is on {like.device}; move one of them.")
    return points.to(torch.promote_types(points.dtype, like.dtype))


def require_unit_columns(name: str, columns: Tensor, points: Tensor) -> None:
    """Raise unless the columns (d, n) of `points` (..., d) are unit vectors; looked at on the CPU alone."""
    if columns.numel() == 0 or not in_host_memory(columns):
        return
    squares = (columns.detach() * columns.detach()).sum(0)
    # A fraction of the time of the check that finds out what is wrong; NaN is not below anything.
    if not squares.sub_(1.0).abs_().max().item() < 2e-6:
        checked_points(name, points)
