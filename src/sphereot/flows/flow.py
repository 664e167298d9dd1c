"""Normalizing flows: a transform and a base distribution make a distribution. Base classes, and the normal base."""

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Size, Tensor, nn
from torch.distributions import Distribution, constraints

from sphereot._arrays.random import torch_generator
from sphereot.distributions.uniform import check_points


class FlowTransform(nn.Module):
    """Invertible map with a log-determinant: base class of the transforms of normalizing flows.

    `forward` computes no determinant. It is sufficient for a loss that needs only samples, such as a sliced distance.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Compute the images of points."""
        raise NotImplementedError

    def forward_and_log_det(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the images of points (..., d), and log |det J| of the map at these points, shape (...)."""
        raise NotImplementedError

    def inverse(self, y: Tensor) -> Tensor:
        """Compute the points whose images are `y`."""
        raise NotImplementedError

    def inverse_and_log_det(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the points whose images are `y`, and log |det J| of the inverse map at `y`, shape (...)."""
        x = self.inverse(y)
        return x, -self.forward_and_log_det(x)[1]

    def default_base(self) -> Distribution:
        """Return the default base distribution, in the dtype and on the device of the parameters."""
        raise NotImplementedError


class Flow(nn.Module):
    """Normalizing flow: the distribution that a transform and a base distribution define.

    Parameters
    ----------
    transform : FlowTransform
        The map T, e.g. an `ExponentialMapFlow`.
    base : torch.distributions.Distribution, optional
        The distribution p_Z. The default depends on the transform: the uniform distribution on the sphere, or the
        standard normal distribution after a stereographic projection.
    from_base : bool, default False
        Direction of T. With False, for density estimation, T maps data to the base: log p(x) = log p_Z(T(x)) +
        log |det J_T(x)|, per unit area of the sphere (Appendix C.3). Sampling then needs the inverse. With True, for
        variational inference, T maps noise of the base to samples (Algorithm 2). The density then needs the inverse.

    Examples
    --------
    >>> import torch
    >>> from sphereot.flows import ExponentialMapFlow, Flow
    >>> flow = Flow(ExponentialMapFlow(3, n_blocks=6, n_components=5, seed=0))
    >>> x = flow.sample((1000,), seed=1)
    >>> bool((flow.log_prob(x).mean() + torch.log(torch.tensor(4 * torch.pi))).abs() < 0.01)  # almost uniform
    True
    """

    def __init__(self, transform: FlowTransform, base: Distribution | None = None, *, from_base: bool = False) -> None:
        super().__init__()
        if not isinstance(transform, FlowTransform):
            raise TypeError(
                "transform must be a sphereot.flows.FlowTransform, such as an ExponentialMapFlow, got "
                f"{type(transform).__name__}."
            )
        if base is not None and not isinstance(base, Distribution):
            raise TypeError(f"base must be a torch.distributions.Distribution or None, got {type(base).__name__}.")
        if base is not None and base.event_shape != transform.default_base().event_shape:
            raise ValueError(
                "base must be a distribution of vectors of shape "
                f"{tuple(transform.default_base().event_shape)}, got shape {tuple(base.event_shape)}."
            )
        self.transform, self.from_base = transform, bool(from_base)
        self._base = base

    def extra_repr(self) -> str:
        """Return the base and the direction, for the printed module."""
        return f"base={type(self.base).__name__}, from_base={self.from_base}"

    @property
    def base(self) -> Distribution:
        """The base distribution. The default has the dtype and the device of the transform."""
        return self.transform.default_base() if self._base is None else self._base

    def log_prob(self, x: Tensor) -> Tensor:
        """Compute log p(x) at unit vectors (..., d), differentiable in the points and in the transform's parameters."""
        pull = self.transform.inverse_and_log_det if self.from_base else self.transform.forward_and_log_det
        z, log_det = pull(x)
        return self.base.log_prob(z) + log_det

    def sample(self, sample_shape: Sequence[int] = (), *, seed: int | torch.Generator | None = None) -> Tensor:
        """Draw points (*sample_shape, d), without gradients.

        Parameters
        ----------
        sample_shape : sequence of int, default ()
            Shape of the array of points.
        seed : int, torch.Generator or None, default None
            Seed; with None, every call uses new random numbers. If `base` can only draw from torch's global random
            state, the state is set for the draw and restored.
        """
        with torch.no_grad():
            return self.rsample(sample_shape, seed=seed)

    def rsample(self, sample_shape: Sequence[int] = (), *, seed: int | torch.Generator | None = None) -> Tensor:
        """Draw points (*sample_shape, d) with gradients in the parameters of the transform; see `sample`."""
        push = self.transform if self.from_base else self.transform.inverse
        points: Tensor = push(self._noise(sample_shape, seed))
        return points

    def rsample_and_log_prob(
        self, sample_shape: Sequence[int] = (), *, seed: int | torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Draw points (*sample_shape, d) and compute log p there, without the inverse that `log_prob` may need."""
        push = self.transform.forward_and_log_det if self.from_base else self.transform.inverse_and_log_det
        z = self._noise(sample_shape, seed)
        x, log_det = push(z)
        return x, self.base.log_prob(z) - log_det

    def _noise(self, sample_shape: Sequence[int], seed: int | torch.Generator | None) -> Tensor:
        base, shape = self.base, torch.Size(sample_shape)
        draw: Callable[..., Tensor] = base.rsample if base.has_rsample else base.sample
        generator = torch_generator(seed, next(self.transform.parameters(), torch.empty(0)).device)
        if "seed" in inspect.signature(draw).parameters:
            return draw(shape, seed=generator)
        # The distributions of torch draw from the global random state.
        devices = [generator.device] if generator.device.type != "cpu" else []
        with torch.random.fork_rng(devices):
            torch.manual_seed(int(torch.randint(2**63 - 1, (), generator=generator, device=generator.device)))
            return draw(shape)


class StandardNormal(Distribution):
    """Standard normal distribution N(0, I) on R^m. Unlike `torch.distributions.Normal`, it accepts a seed.

    Parameters
    ----------
    features : int
        Dimension m.
    dtype, device : optional
        Dtype and device of samples; by default those of torch.

    Examples
    --------
    >>> import torch
    >>> StandardNormal(2).log_prob(torch.zeros(1, 2))
    tensor([-1.8379])
    """

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, features: int, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> None:
        self._like = torch.empty(0, dtype=dtype, device=device)
        super().__init__(Size(), Size((features,)), validate_args=False)

    def rsample(self, sample_shape: Sequence[int] = (), *, seed: int | torch.Generator | None = None) -> Tensor:
        """Draw vectors (*sample_shape, m). With `seed=None`, every call uses new random numbers."""
        shape, like = self._extended_shape(Size(sample_shape)), self._like
        generator = torch_generator(seed, like.device)
        return torch.randn(shape, generator=generator, dtype=like.dtype, device=like.device)

    sample = rsample  # there are no parameters, so vectors have no gradients

    def log_prob(self, value: Tensor) -> Tensor:
        """Compute the logarithm of the density at vectors (..., m)."""
        return -0.5 * ((value * value).sum(-1) + value.shape[-1] * math.log(2.0 * math.pi))


def flow_points(name: str, points: Tensor, dim: int, like: Tensor) -> Tensor:
    """Validate points (..., d), except their length, and convert them to the wider type of points and parameters."""
    if not isinstance(points, Tensor) or points.ndim == 0 or points.dtype not in (torch.float32, torch.float64):
        points = torch.nn.functional.normalize(check_points(name, points), dim=-1)
    if points.shape[-1] != dim:
        raise ValueError(
            f"{name} must have the dimension of the flow ({dim}), got points in dimension {points.shape[-1]}."
        )
    if points.device != like.device:
        raise ValueError(f"{name} must be on the device of the flow ({like.device}), got points on {points.device}.")
    return points.to(torch.promote_types(points.dtype, like.dtype))
