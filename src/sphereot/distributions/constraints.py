"""Argument constraints for torch.distributions: unit vectors, and when they are checked."""

import torch
from torch import Tensor
from torch.distributions.constraints import Constraint

from sphereot._arrays.unit_length import unit_length_tolerance

__all__ = ["UnitVector", "is_validating", "unit_vector"]


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
        """Whether each vector has unit length: a tensor without the last dimension."""
        # The same tolerance as for the points of `sphereot.ssw`.
        half = value.dtype in (torch.float16, torch.bfloat16)
        tolerance = unit_length_tolerance(torch.finfo(value.dtype).eps, half=half)
        length = torch.linalg.vector_norm(value.float() if half else value, dim=-1)
        return (length - 1.0).abs() <= tolerance


unit_vector = UnitVector()


def is_validating(validate_args: bool | None) -> bool:
    """Whether a distribution with this argument checks its values: by default always but in a trace of torch.compile.

    torch's own default is not read: the first call of torch.compile sets it to False for the whole process.
    """
    return not torch.compiler.is_compiling() if validate_args is None else validate_args
