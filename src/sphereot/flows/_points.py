"""Points as the transforms take them: checked, of the flow's dimension and device, in the wider of the two types."""

import torch
from torch import Tensor

from sphereot.arrays import in_host_memory
from sphereot.distributions.axial import checked_points

__all__ = ["flow_points"]


def flow_points(name: str, points: Tensor, dim: int, like: Tensor) -> Tensor:
    """Unit vectors (..., d) for a flow.

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
    # A fraction of the time of the check that finds out what is wrong.
    if in_host_memory(points) and points.numel() > 0 and not _are_unit(points.detach()):
        checked_points(name, points)
    return points.to(torch.promote_types(points.dtype, like.dtype))


def _are_unit(points: Tensor) -> bool:
    """Whether all points have length 1 to the rounding of float32; False for NaN."""
    lengths = points[..., 0] * points[..., 0]
    for k in range(1, points.shape[-1]):
        lengths.addcmul_(points[..., k], points[..., k])
    return (lengths - 1.0).abs_().max().item() < 2e-6
