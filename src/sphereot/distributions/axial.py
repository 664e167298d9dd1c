"""Base classes of the distributions on the sphere, and drawing around a mean direction.

A point is drawn in two steps: first its cosine <loc, x>, then a uniform direction orthogonal to `loc`.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Size, Tensor
from torch.distributions import Distribution, constraints
from torch.distributions.constraints import Constraint

from sphereot._arrays.libraries import readable, unit_length_tolerance
from sphereot._arrays.random import torch_generator
from sphereot._arrays.validation import as_points, require_same_dim
from sphereot.sphere.maps import log_area

_BLOCK = 2**18  # coordinates drawn at a time: intermediate arrays stay in cache, and memory is bounded


class UnitVector(Constraint):
    """Vectors of length 1 along the last dimension, to the rounding of vectors normalized in their own precision.

    >>> unit_vector.check(torch.tensor([[0.6, 0.8], [0.6, 0.9]]))
    tensor([ True, False])
    """

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        """Check whether each vector has unit length; returns a tensor without the last dimension."""
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


class AxialDistribution(SphereDistribution):
    """Distribution on S^{d-1} whose density is a function of <loc, x>: base of von Mises-Fisher and power spherical."""

    arg_constraints = {"loc": unit_vector, "concentration": constraints.nonnegative}  # noqa: RUF012

    loc: Tensor
    concentration: Tensor

    def __init__(self, loc: Tensor, concentration: Tensor | float, *, validate_args: bool | None = None) -> None:
        validate = is_validating(validate_args)
        loc, concentration = _parameters(loc, concentration, validate)
        try:
            batch_shape = torch.broadcast_shapes(loc.shape[:-1], concentration.shape)
        except RuntimeError as error:
            raise ValueError(
                f"loc: got a batch of shape {tuple(loc.shape[:-1])}, but concentration has shape "
                f"{tuple(concentration.shape)}; give shapes that broadcast, such as one concentration for each mean "
                "direction."
            ) from error
        self.loc = loc.expand(*batch_shape, loc.shape[-1])
        self.concentration = concentration.expand(batch_shape)
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=False)  # validated above, with our messages
        self._validate_args = validate

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> "AxialDistribution":
        """Repeat the distribution for each member of a larger batch; nothing is copied."""
        new = self._get_checked_instance(AxialDistribution, _instance)
        batch_shape = Size(batch_shape)
        new.loc = self.loc.expand(*batch_shape, self.dim)
        new.concentration = self.concentration.expand(batch_shape)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def mode(self) -> Tensor:
        """The point of largest density, `loc`. At concentration 0, all points are modes."""
        return self.loc

    @property
    def mean(self) -> Tensor:
        """E[x], a vector in the direction of `loc`, shorter than 1."""
        return self._cosine_moments()[0].to(self.loc.dtype).unsqueeze(-1) * self.loc

    @property
    def variance(self) -> Tensor:
        """Variances of the d coordinates."""
        _, along, across = (moment.to(self.loc.dtype).unsqueeze(-1) for moment in self._cosine_moments())
        squared = self.loc * self.loc
        return along * squared + across * (1.0 - squared)

    def sample(self, sample_shape: Sequence[int] = (), *, seed: int | torch.Generator | None = None) -> Tensor:
        """Draw points, without gradients.

        Parameters
        ----------
        sample_shape : sequence of int
            Number of points for each member of the batch, as a shape.
        seed : int, torch.Generator or None
            Seed, or a generator on the device of `loc`. With None, every call uses new random numbers.

        Returns
        -------
        tensor, shape (*sample_shape, *batch_shape, d)
            Unit vectors.
        """
        generator = torch_generator(seed, self.loc.device)
        points = self.loc.new_empty(self._extended_shape(Size(sample_shape)))
        rows = points.view(-1, *self.batch_shape, self.dim)
        n_rows = max(1, _BLOCK // max(1, math.prod(rows.shape[1:])))
        with torch.no_grad():
            for block in rows.split(n_rows):
                self._draw(block, generator)
        return points

    def rsample(self, sample_shape: Sequence[int] = (), *, seed: int | torch.Generator | None = None) -> Tensor:
        """Draw points with gradients in `loc` and `concentration`; see `sample`."""
        out = self.loc.new_empty(self._extended_shape(Size(sample_shape)))
        return self._draw(out, torch_generator(seed, self.loc.device))

    def _draw(self, out: Tensor, generator: torch.Generator) -> Tensor:
        """Draw points of the shape of `out`, in its memory if no gradient is needed."""
        drops = self._drops(out.shape[:-1], generator)
        cosine = (1.0 - drops).to(self.loc.dtype)
        length = torch.sqrt((drops * (2.0 - drops)).to(self.loc.dtype))  # of the part orthogonal to `loc`
        # Points are drawn around the first axis e. The Householder reflection I - 2 h h^T / |h|^2 maps e to `loc` or to
        # -loc; the better conditioned one is used, with the factor -sign.
        sign = torch.where(self.loc[..., 0] < 0, -1.0, 1.0).to(self.loc.dtype)
        mirror = sign[..., None] * self.loc + torch.eye(1, self.dim, dtype=self.loc.dtype, device=self.loc.device)[0]
        if self.dim == 3 and not self.batch_shape:
            return _draw_around_single_loc(mirror, sign, cosine, length, out, generator)
        tangents = out.normal_(generator=generator)
        tangents[..., 0] = 0.0
        length = length / torch.linalg.vector_norm(tangents, dim=-1)
        along = tangents @ mirror if mirror.ndim == 1 else torch.einsum("...d,...d->...", tangents, mirror)
        inner = (cosine * mirror[..., 0] + length * along) * (2.0 / (mirror * mirror).sum(-1))
        scale, shift = (-sign * length).unsqueeze(-1), (sign * inner).unsqueeze(-1)
        # In place if no gradient needs the tangents: a new page of memory costs more than the arithmetic.
        points = tangents * scale if shift.requires_grad else tangents.mul_(scale)
        points = points.addcmul_(shift, mirror)
        points[..., 0] -= sign * cosine
        return points

    def log_prob(self, value: Tensor) -> Tensor:
        """Compute the logarithm of the density per unit area of the sphere, at points (..., d)."""
        if self._validate_args:
            self._validate_sample(value)
        return self._log_density(self._drop_of(value))

    def entropy(self) -> Tensor:
        """Compute -E[log p(x)], for the density per unit area of the sphere."""
        return (log_area(self.dim) - self._relative_entropy()).to(self.loc.dtype)

    def _drop_of(self, value: Tensor) -> Tensor:
        """Compute 1 - <loc, x> as half a squared distance, which keeps its digits close to `loc`."""
        value = value.to(torch.promote_types(value.dtype, self.loc.dtype))
        difference = value - self.loc
        return 0.5 * (difference * difference).sum(-1)

    def _drops(self, shape: Size, generator: torch.Generator) -> Tensor:
        """Draw 1 - <loc, x>, differentiable in the concentration."""
        raise NotImplementedError

    def _log_density(self, drop: Tensor) -> Tensor:
        """Logarithm of the density at points with these values of 1 - <loc, x>."""
        raise NotImplementedError

    def _cosine_moments(self) -> tuple[Tensor, Tensor, Tensor]:
        """Mean and variance of the cosine, and the variance of a coordinate across the axis."""
        raise NotImplementedError

    def _relative_entropy(self) -> Tensor:
        """Kullback-Leibler divergence to the uniform distribution, in double precision."""
        raise NotImplementedError


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
        raise TypeError(f"{name}: got {type(value).__name__}; pass a torch tensor of unit vectors, shape (..., d).")
    if value.ndim == 0:
        raise ValueError(f"{name}: got a single number; pass unit vectors, shape (..., d).")
    if value.numel() == 0 and value.shape[-1] > 1:
        return value
    return as_points(name, value.reshape(-1, value.shape[-1])).reshape(value.shape)


def _parameters(loc: Any, concentration: Any, validate: bool) -> tuple[Tensor, Tensor]:
    """Convert both parameters to tensors of one floating type, on the device of `loc`."""
    is_half = isinstance(loc, Tensor) and loc.dtype in (torch.float16, torch.bfloat16)
    if validate or not isinstance(loc, Tensor):
        loc = check_points("loc", loc)
    if is_half:  # computations are in float32, in which the length of a rounded vector is not 1
        loc = torch.nn.functional.normalize(loc.float(), dim=-1)
    if not isinstance(concentration, Tensor):
        concentration = torch.as_tensor(concentration, dtype=loc.dtype, device=loc.device)
    if concentration.is_complex():
        raise TypeError(
            f"concentration: got dtype {concentration.dtype}, but a real number is needed; pass a floating tensor."
        )
    dtype = torch.promote_types(loc.dtype, concentration.dtype)
    loc, concentration = loc.to(dtype), concentration.to(dtype)
    if validate:
        if loc.device != concentration.device:
            raise ValueError(
                f"concentration: got a tensor on {concentration.device}, but loc is on {loc.device}; move one of them."
            )
        valid = (concentration >= 0) & torch.isfinite(concentration)
        readable_valid = readable(valid)
        if readable_valid is None:
            concentration = torch.where(valid, concentration, torch.nan)
        elif not readable_valid.all():
            raise ValueError(
                f"concentration: got {float(concentration[~valid][0]):.4g}, but it must be finite and at least 0 (the "
                "uniform distribution); to concentrate points around the opposite pole, pass -loc."
            )
    return loc, concentration


def _draw_around_single_loc(
    mirror: Tensor, sign: Tensor, cosine: Tensor, length: Tensor, out: Tensor, generator: torch.Generator
) -> Tensor:
    """Draw around one mean direction on S^2: an angle instead of normals, and one product with a 3 x 3 matrix."""
    kind = {"dtype": mirror.dtype, "device": mirror.device}
    angle = torch.rand(cosine.shape, generator=generator, **kind).mul_(2.0 * math.pi)
    before = torch.stack([cosine, length * torch.cos(angle), length * torch.sin(angle)]).reshape(3, -1).T
    twice = torch.outer(mirror, mirror) * (2.0 / (mirror @ mirror))
    matrix = sign * (twice - torch.eye(3, **kind))
    if before.requires_grad or matrix.requires_grad:
        return (before @ matrix).view(out.shape)  # the matrix is symmetric
    torch.mm(before, matrix, out=out.view(-1, 3))
    return out
