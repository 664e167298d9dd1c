"""The uniform distribution on the sphere, and the base class and checks of all distributions on the sphere."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import torch
from torch import Size, Tensor
from torch.distributions import Distribution, register_kl
from torch.distributions.constraints import Constraint

from sphereot._arrays.libraries import unit_length_tolerance
from sphereot._arrays.random import torch_generator
from sphereot._arrays.validation import as_points, require_same_dim
from sphereot.sphere.maps import log_area


class UnitVector(Constraint):
    """Vectors of length 1 along the last dimension, to the rounding of vectors normalized in their own precision.

    >>> unit_vector.check(torch.tensor([[0.6, 0.8], [0.6, 0.9]]))
    tensor([ True, False])
    """

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        """Check whether each vector has unit length, and return a tensor without the last dimension."""
        # The same tolerance as for the points of `sphereot.ssw`.
        half = value.dtype in (torch.float16, torch.bfloat16)
        tolerance = unit_length_tolerance(torch.finfo(value.dtype).eps, half=half)
        length = torch.linalg.vector_norm(value.float() if half else value, dim=-1)
        return (length - 1.0).abs() <= tolerance


unit_vector = UnitVector()


class SphereDistribution(Distribution):
    """Distribution of points on the sphere S^{d-1}."""

    support = unit_vector
    has_rsample = True

    @property
    def dim(self) -> int:
        """Dimension d of the space around the sphere."""
        return int(self.event_shape[0])

    def _validate_sample(self, value: Tensor) -> None:
        check_points("value", value)
        require_same_dim("value", value, "the distribution", torch.empty(self.event_shape))


class HypersphericalUniform(SphereDistribution):
    """Uniform distribution on the sphere S^{d-1}.

    Parameters
    ----------
    dim : int
        Dimension d of the space around the sphere, at least 2.
    batch_shape : sequence of int, default ()
        Shape of a batch of distributions.
    dtype, device : optional
        Dtype (torch.float32 or torch.float64) and device of samples and moments; by default those of torch.
    validate_args : bool, optional
        Check points in `log_prob`. On by default, except inside torch.compile.

    Examples
    --------
    >>> import torch
    >>> from sphereot.distributions import HypersphericalUniform
    >>> distribution = HypersphericalUniform(3)
    >>> points = distribution.sample((4,), seed=0)
    >>> distribution.log_prob(points)
    tensor([-2.5310, -2.5310, -2.5310, -2.5310])
    """

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012
    _like: Tensor  # empty; carries dtype and device

    def __init__(
        self,
        dim: int,
        batch_shape: Sequence[int] = (),
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(dim, Integral) or isinstance(dim, bool):
            raise TypeError(f"dim must be an int of at least 2, got {type(dim).__name__}.")
        if dim < 2:
            raise ValueError(f"dim must be at least 2 (the circle S^1), got {dim}.")
        self._like = torch.empty(0, dtype=dtype, device=device)
        if self._like.dtype not in (torch.float32, torch.float64):
            raise TypeError(f"dtype must be torch.float32 or torch.float64, got {self._like.dtype}.")
        super().__init__(Size(batch_shape), Size((int(dim),)), validate_args=is_validating(validate_args))

    def __repr__(self) -> str:
        return f"HypersphericalUniform(dim: {self.dim}, batch_shape: {tuple(self.batch_shape)})"

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> "HypersphericalUniform":
        """Repeat the distribution for each member of a larger batch."""
        new = self._get_checked_instance(HypersphericalUniform, _instance)
        torch.broadcast_shapes(self.batch_shape, Size(batch_shape))
        new._like = self._like
        Distribution.__init__(new, Size(batch_shape), self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def mean(self) -> Tensor:
        """The origin."""
        return self._full(0.0, self.batch_shape + self.event_shape)

    @property
    def variance(self) -> Tensor:
        """Variances of the d coordinates, 1 / d each."""
        return self._full(1.0 / self.dim, self.batch_shape + self.event_shape)

    def rsample(self, sample_shape: Sequence[int] = (), *, seed: int | torch.Generator | None = None) -> Tensor:
        """Draw points (*sample_shape, *batch_shape, d); see `VonMisesFisher.sample`."""
        like = self._like
        generator = torch_generator(seed, like.device)
        points = torch.randn(
            self._extended_shape(Size(sample_shape)), generator=generator, dtype=like.dtype, device=like.device
        )
        return points.div_(torch.linalg.vector_norm(points, dim=-1, keepdim=True))

    sample = rsample  # there are no parameters, so points have no gradients

    def log_prob(self, value: Tensor) -> Tensor:
        """Compute the logarithm of the density per unit area of the sphere at points (..., d), which is constant."""
        if self._validate_args:
            self._validate_sample(value)
        shape = torch.broadcast_shapes(value.shape[:-1], self.batch_shape)
        return torch.full(shape, -log_area(self.dim), dtype=value.dtype, device=value.device)

    def entropy(self) -> Tensor:
        """Compute the logarithm of the area of the sphere."""
        return self._full(log_area(self.dim), self.batch_shape)

    def _full(self, value: float, shape: Size) -> Tensor:
        return torch.full(shape, value, dtype=self._like.dtype, device=self._like.device)


def is_validating(validate_args: bool | None) -> bool:
    """Whether a distribution with this argument checks its values: by default always, except inside torch.compile.

    Torch's own default is not used, because the first call of torch.compile sets it to False for the whole process.
    """
    return not torch.compiler.is_compiling() if validate_args is None else validate_args


def wide(tensor: Tensor) -> Tensor:
    """Convert a tensor to double precision if its device supports it."""
    return tensor if tensor.device.type == "mps" else tensor.double()


def check_points(name: str, value: Any) -> Tensor:
    """Validate unit vectors (..., d) and return them as a tensor of float32 or float64."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a torch tensor of unit vectors, shape (..., d), got {type(value).__name__}.")
    if value.ndim == 0:
        raise ValueError(f"{name} must contain unit vectors, shape (..., d), got a single number.")
    if value.numel() == 0 and value.shape[-1] > 1:
        return value
    return as_points(name, value.reshape(-1, value.shape[-1])).reshape(value.shape)


def broadcast_batches(p: SphereDistribution, q: SphereDistribution) -> Size:
    """Broadcast the batch shapes of two distributions, for a divergence; both must be on the same sphere."""
    if p.dim != q.dim:
        raise ValueError(f"q must have the dimension of p ({p.dim}), got a distribution in dimension {q.dim}.")
    return torch.broadcast_shapes(p.batch_shape, q.batch_shape)


@register_kl(HypersphericalUniform, HypersphericalUniform)
def _uniform_uniform(p: HypersphericalUniform, q: HypersphericalUniform) -> Tensor:
    return p.entropy().new_zeros(broadcast_batches(p, q))
