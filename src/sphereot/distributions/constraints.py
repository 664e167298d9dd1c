"""The constraint of torch.distributions for unit vectors."""

import torch
from torch import Tensor
from torch.distributions.constraints import Constraint

__all__ = ["UnitVector", "unit_vector"]


class UnitVector(Constraint):
    """Vectors of length 1 along the last dimension, to the rounding of vectors normalized in their own precision.

    Examples
    --------
    >>> import torch
    >>> unit_vector.check(torch.tensor([[0.6, 0.8], [0.6, 0.9]]))
    tensor([ True, False])
    """

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        """Whether each vector is one: a tensor without the last dimension."""
        # The same tolerance as for the points of `sphereot.ssw`.
        half = value.dtype in (torch.float16, torch.bfloat16)
        tolerance = 0.05 if half else max(1e-6, 1e3 * torch.finfo(value.dtype).eps)
        length = torch.linalg.vector_norm(value.float() if half else value, dim=-1)
        return (length - 1.0).abs() <= tolerance


unit_vector = UnitVector()
