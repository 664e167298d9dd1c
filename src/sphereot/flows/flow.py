"""A probability distribution made of a transform and a base distribution: densities and samples, with gradients."""

import inspect
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from sphereot._arrays.random import torch_generator
from sphereot.flows.transform import FlowTransform

__all__ = ["Flow"]


class Flow(nn.Module):
    """Normalizing flow: the distribution that a transform makes of a base distribution.

    Parameters
    ----------
    transform : FlowTransform
        The map T, e.g. an `ExponentialMapFlow`.
    base : torch.distributions.Distribution, optional
        The distribution p_Z. By default that of the transform: uniform on the sphere, or standard normal after a
        stereographic projection.
    from_base : bool
        Which way T goes. False, for density estimation: T takes data to the base, and log p(x) = log p_Z(T(x)) +
        log |det J_T(x)| (Appendix C.3); drawing needs the inverse. True, for variational inference: T takes noise of
        the base to samples (Algorithm 2); the density at given points needs the inverse.

    Notes
    -----
    Densities are in the area measure of the sphere. The log-determinant is not computed where only samples are needed.

    Examples
    --------
    >>> import torch
    >>> from sphereot.flows import ExponentialMapFlow, Flow
    >>> flow = Flow(ExponentialMapFlow(3, n_blocks=6, n_components=5, seed=0))
    >>> x = flow.sample((1000,), seed=1)
    >>> bool((flow.log_prob(x).mean() + torch.log(torch.tensor(4 * torch.pi))).abs() < 0.01)  # still almost uniform
    True
    """

    def __init__(self, transform: FlowTransform, base: Distribution | None = None, *, from_base: bool = False) -> None:
        super().__init__()
        if not isinstance(transform, FlowTransform):
            raise TypeError(
                f"transform: got {type(transform).__name__}; give an ExponentialMapFlow, a StereographicFlow or "
                "another sphereot.flows.FlowTransform."
            )
        if base is not None and not isinstance(base, Distribution):
            raise TypeError(f"base: got {type(base).__name__}; give a torch.distributions.Distribution, or None.")
        if base is not None and base.event_shape != transform.default_base().event_shape:
            raise ValueError(
                f"base: got a distribution of vectors of shape {tuple(base.event_shape)}, but the transform works with "
                f"shape {tuple(transform.default_base().event_shape)}; give a base of that shape."
            )
        self.transform, self.from_base = transform, bool(from_base)
        self._base = base

    def extra_repr(self) -> str:
        """The base and the direction, for the printed module."""
        return f"base={type(self.base).__name__}, from_base={self.from_base}"

    @property
    def base(self) -> Distribution:
        """The base distribution; the default one has the dtype and device of the transform."""
        return self.transform.default_base() if self._base is None else self._base

    def log_prob(self, x: Tensor) -> Tensor:
        """Logarithm of the density at points.

        Parameters
        ----------
        x : tensor, shape (..., d)
            Unit vectors.

        Returns
        -------
        tensor, shape (...)
            log p(x), differentiable in the points and in the parameters of the transform.
        """
        pull = self.transform.inverse_and_log_det if self.from_base else self.transform.forward_and_log_det
        z, log_det = pull(x)
        return self.base.log_prob(z) + log_det

    def sample(self, sample_shape: Sequence[int] = (), *, seed: int | torch.Generator | None = None) -> Tensor:
        """Draw points (*sample_shape, d), without gradients.

        Parameters
        ----------
        sample_shape : sequence of int
            How many to draw.
        seed : int, torch.Generator or None
            Where the random numbers come from; None draws afresh. torch's global random state is neither read nor
            changed, unless `base` knows no other source: then it is set for the draw and restored.
        """
        with torch.no_grad():
            return self.rsample(sample_shape, seed=seed)

    def rsample(self, sample_shape: Sequence[int] = (), *, seed: int | torch.Generator | None = None) -> Tensor:
        """Draw points (*sample_shape, d) with gradients in the parameters of the transform."""
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
        # torch's own distributions draw from the global random state alone.
        devices = [generator.device] if generator.device.type != "cpu" else []
        with torch.random.fork_rng(devices):
            torch.manual_seed(int(torch.randint(2**63 - 1, (), generator=generator, device=generator.device)))
            return draw(shape)
