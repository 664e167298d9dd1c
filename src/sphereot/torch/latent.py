"""Autoencoders whose codes are on the sphere and follow a prior (Section 5.2, Appendix C.6)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Distribution, Independent, MixtureSameFamily

from sphereot._arrays.libraries import is_torch_traced
from sphereot._arrays.random import torch_generator
from sphereot._arrays.validation import as_int, as_points, as_weight_factor
from sphereot._support.checkpoints import NotFiniteError
from sphereot.distributions import HypersphericalUniform, PowerSpherical, VonMisesFisher

Reconstruction = Callable[[Tensor, Tensor], Tensor]

Prior: TypeAlias = Distribution | Tensor
"""A distribution on the sphere, or a sample (m, d) of it."""

_SEEDED = (HypersphericalUniform, PowerSpherical, VonMisesFisher)  # their `sample` accepts a seed


@dataclass(frozen=True)
class Losses:
    """Parts of the loss of a batch.

    Attributes
    ----------
    reconstruction : tensor, shape ()
        Mean reconstruction error, c(x, g(f(x))).
    divergence : tensor, shape ()
        Divergence between the codes and the prior, without its weight.
    weight : float
        Weight lambda of the divergence.
    """

    reconstruction: Tensor
    divergence: Tensor
    weight: float

    @property
    def total(self) -> Tensor:
        """The loss to minimize: reconstruction + weight * divergence."""
        return self.reconstruction + self.weight * self.divergence


class SphericalAutoencoder(nn.Module):
    """Autoencoder whose codes are normalized to the sphere S^{d-1} and follow a prior on it.

    It minimizes the mean of c(x, g(f(x))) plus weight * D(codes, prior). Here f is the encoder followed by
    normalization, g the decoder, c the reconstruction loss and D a divergence. This is a Wasserstein autoencoder; with
    SSW it is the SSWAE of the paper.

    Parameters
    ----------
    encoder : module
        Network that maps a batch (n, ...) to vectors (n, d) of any length except zero.
    decoder : module
        Network that maps unit vectors (n, d) back to a batch. The default reconstruction loss needs values in [0, 1].
    divergence : callable
        `UniformityLoss`, which compares the codes with the uniform distribution, or a function of the codes and a
        sample of the prior of the same size, such as `SSWLoss`. The great circles of these two losses are drawn from
        the seed of a call, unless the loss has its own seed or fixed great circles.
    weight : float
        Factor lambda of the divergence, at least 0.
    latent_dim : int
        Dimension d of the codes.
    prior : distribution or tensor, optional
        A distribution of `sphereot.distributions`, a `torch.distributions.MixtureSameFamily` of them, or unit vectors
        (m, d) from which codes are drawn; by default the uniform distribution. Its parameters are not trained, and it
        is not part of the `state_dict`.
    reconstruction : {"bce", "mse"} or callable (output, batch) -> scalar, default "bce"
        Binary cross-entropy (for values in [0, 1], as in the paper), squared error (both are means over all values of
        the batch), or a function. The parameters of a module are part of the model, and are trained unless you freeze
        them.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> from sphereot.torch import SphericalAutoencoder, UniformityLoss
    >>> encoder = nn.Sequential(nn.Flatten(), nn.Linear(784, 11))
    >>> decoder = nn.Sequential(nn.Linear(11, 784), nn.Sigmoid(), nn.Unflatten(1, (1, 28, 28)))
    >>> loss = UniformityLoss(method="exact")
    >>> model = SphericalAutoencoder(encoder, decoder, loss, weight=10.0, latent_dim=11)
    >>> images = torch.rand(20, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    >>> model.losses(images).total.backward()
    >>> model.sample(4, seed=0).shape
    torch.Size([4, 1, 28, 28])
    """

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        divergence: Callable[..., Tensor],
        weight: float,
        *,
        latent_dim: int,
        prior: Prior | None = None,
        reconstruction: Literal["bce", "mse"] | Reconstruction = "bce",
    ) -> None:
        super().__init__()
        for name, part in (("encoder", encoder), ("decoder", decoder)):
            if not isinstance(part, nn.Module):
                raise TypeError(f"{name} must be a torch.nn.Module, got {type(part).__name__}.")
        if not callable(divergence):
            raise TypeError(
                f"divergence must be a loss module or a function of codes, got {type(divergence).__name__}."
            )
        if not callable(reconstruction) and reconstruction not in _RECONSTRUCTIONS:
            raise ValueError(
                f"reconstruction must be 'bce', 'mse', or a function (output, batch), got {reconstruction!r}."
            )
        self.encoder, self.decoder, self.divergence = encoder, decoder, divergence
        self.weight = as_weight_factor("weight", weight, "the factor of the divergence")
        self.latent_dim = as_int("latent_dim", latent_dim, 2, "the dimension of the codes")
        self.prior = _validated_prior(prior, self.latent_dim)
        self.reconstruction = reconstruction
        if self._compares_with_uniform and not self.prior_is_uniform:
            raise ValueError(
                "prior must be uniform, because this divergence compares the codes with the uniform distribution. "
                "For another prior, use SSWLoss() or another divergence between two samples."
            )

    @property
    def prior_is_uniform(self) -> bool:
        """Whether the prior is the uniform distribution."""
        return self.prior is None or isinstance(self.prior, HypersphericalUniform)

    def forward(self, batch: Tensor) -> Tensor:
        """Encode, normalize and decode a batch."""
        return self.decode(self.encode(batch))

    def encode(self, batch: Tensor) -> Tensor:
        """Compute the codes (n, d) of a batch, unit vectors."""
        vectors = self.encoder(batch)
        if vectors.ndim != 2 or vectors.shape[1] < 2:
            raise ValueError(
                f"encoder must return vectors (n, d) with d of at least 2, got shape {tuple(vectors.shape)}. End it "
                "with nn.Flatten() and nn.Linear(..., d)."
            )
        if vectors.shape[1] != self.latent_dim:
            raise ValueError(
                f"encoder must return codes in dimension latent_dim ({self.latent_dim}), got {vectors.shape[1]}."
            )
        if not is_torch_traced():
            _require_directions(vectors.detach())
        return nn.functional.normalize(vectors, dim=-1)

    def decode(self, codes: Tensor) -> Tensor:
        """Decode unit vectors (n, d)."""
        return self.decoder(codes)

    def losses(self, batch: Tensor, seed: int | torch.Generator | None = None) -> Losses:
        """Compute the reconstruction error and the divergence of a batch (n, ...).

        `seed` is the seed of the great circles and of the sample of the prior. With None, every call draws new ones.
        """
        codes = self.encode(batch)
        reconstruction = self.reconstruction_loss(self.decode(codes), batch)
        return Losses(reconstruction, self.code_divergence(codes, seed), self.weight)

    def code_divergence(self, codes: Tensor, seed: int | torch.Generator | None = None) -> Tensor:
        """Compute the divergence between codes (n, d) and the prior; `seed` as in `losses`."""
        arguments, circles_seed = [codes], seed
        if not self._compares_with_uniform:
            generator = torch_generator(seed, "cpu")
            arguments.append(sample_prior(self._prior, codes.shape[0], generator).to(codes))
            circles_seed = None if seed is None else generator
        if not getattr(self.divergence, "takes_seed", False):
            return self.divergence(*arguments)
        if isinstance(circles_seed, torch.Generator) and codes.device != circles_seed.device:
            drawn = int(torch.randint(2**62, (), generator=circles_seed))
            circles_seed = torch.Generator(codes.device).manual_seed(drawn)
        return self.divergence(*arguments, seed=circles_seed)

    @property
    def _compares_with_uniform(self) -> bool:
        """Whether the divergence needs no sample of the prior."""
        return bool(getattr(self.divergence, "to_uniform", False))

    @property
    def _prior(self) -> Prior:
        if self.prior is not None:
            return self.prior
        return HypersphericalUniform(self.latent_dim, dtype=torch.float32, device="cpu")

    def sample(self, n: int, seed: int | torch.Generator | None = None, batch_size: int = 1000) -> Tensor:
        """Generate n images: decode codes drawn from the prior, in evaluation mode and without gradients.

        Parameters
        ----------
        n : int
            Number of images.
        seed : int, torch.Generator or None, default None
            Seed of the codes. With None, every call draws new codes.
        batch_size : int, default 1000
            Number of codes that are decoded at a time.

        Returns
        -------
        tensor, shape (n, ...)
            The output of the decoder.
        """
        n, batch_size = as_int("n", n, 1, "the number of samples"), as_int("batch_size", batch_size, 1, "a batch")
        codes = sample_prior(self._prior, n, torch_generator(seed, "cpu"))
        like = next(self.decoder.parameters(), torch.empty(0))
        images = None
        with torch.no_grad(), evaluation_mode(self):
            for first in range(0, n, batch_size):
                part = self.decode(codes[first : first + batch_size].to(like))
                if images is None:  # one tensor, because a list of parts would need twice the memory
                    images = part.new_empty(n, *part.shape[1:])
                images[first : first + batch_size] = part
        return images

    def extra_repr(self) -> str:
        """Return the weight, the prior and the dimension of the codes."""
        prior = "uniform" if self.prior_is_uniform else type(self.prior).__name__
        return f"weight={self.weight:g}, prior={prior}, latent_dim={self.latent_dim}"

    def get_extra_state(self) -> dict[str, Any]:
        """Return the dimension of the codes."""
        return {"latent_dim": self.latent_dim}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Check that the codes of a state have the same dimension."""
        if state["latent_dim"] not in (None, self.latent_dim):
            raise ValueError(
                f"latent_dim must be {self.latent_dim} in the state, got {state['latent_dim']}. Make the autoencoder "
                f"with latent_dim={state['latent_dim']}."
            )

    def reconstruction_loss(self, output: Tensor, batch: Tensor) -> Tensor:
        """Compute the reconstruction error between the output of the decoder and the batch."""
        if callable(self.reconstruction):
            return self.reconstruction(output, batch)
        if output.shape != batch.shape:
            raise ValueError(
                f"decoder must return the shape of the batch {tuple(batch.shape)}, got {tuple(output.shape)}."
            )
        if self.reconstruction == "bce":
            require_unit_interval("batch", batch, " for binary cross-entropy, or choose reconstruction='mse'")
        return _RECONSTRUCTIONS[self.reconstruction](output, batch)


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Switch a module and its parts to evaluation mode, and restore the mode of each part at the end."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


def require_unit_interval(name: str, images: Tensor, why: str = "") -> None:
    """Raise an error unless all values are floating-point numbers in [0, 1]; `why` is added to the message."""
    if is_torch_traced():
        return
    if not isinstance(images, Tensor):
        raise TypeError(f"{name} must be a torch tensor, got {type(images).__name__}.")
    if not images.is_floating_point():
        raise TypeError(f"{name} must have a floating dtype, got {images.dtype}. Divide by 255 as floats.")
    if images.numel() == 0:
        raise ValueError(f"{name} must contain at least one image, got shape {tuple(images.shape)}.")
    least, largest = (float(value) for value in torch.aminmax(images.detach()))
    if not (least >= 0.0 and largest <= 1.0):  # NaN fails both
        remedy = "Divide them by 255" if largest > 2.0 and least >= 0.0 else "Scale or clamp them, and remove NaN"
        raise ValueError(
            f"{name} must have values in [0, 1], got values between {least:.9g} and {largest:.9g}. {remedy}{why}."
        )


def _require_directions(vectors: Tensor) -> None:
    """Raise an error for vectors that cannot be normalized."""
    lengths = torch.linalg.vector_norm(vectors, dim=1)
    if not bool(torch.isfinite(lengths).all()):
        raise NotFiniteError(
            "encoder must return finite vectors, got NaN, infinity, or vectors of infinite length. Lower the learning "
            "rate, or remove NaN from the batch."
        )
    if bool((lengths == 0).any()):
        row = int((lengths == 0).to(torch.int8).argmax())
        raise ValueError(
            f"encoder must not return zero vectors, which have no direction, got one in row {row}. End it with a "
            "linear layer with a bias, not with ReLU."
        )


def _binary_cross_entropy(output: Tensor, batch: Tensor) -> Tensor:
    try:
        return nn.functional.binary_cross_entropy(output, batch)
    except RuntimeError as error:
        if "between 0 and 1" not in str(error):
            raise
        if not bool(torch.isfinite(output).all()):
            raise NotFiniteError(
                "decoder must return finite values, got NaN or infinity. Lower the learning rate."
            ) from error
        raise ValueError(
            "decoder must return values in [0, 1] for binary cross-entropy, got other values. End it with "
            "nn.Sigmoid(), or choose reconstruction='mse'."
        ) from error


_RECONSTRUCTIONS: dict[Any, Reconstruction] = {"bce": _binary_cross_entropy, "mse": nn.functional.mse_loss}


def _validated_prior(prior: Any, dim: int) -> Prior | None:
    """Validate a prior: one distribution of unit vectors in this dimension, or a sample of it."""
    if prior is None:
        return None
    if isinstance(prior, np.ndarray):
        prior = torch.from_numpy(prior)
    if not isinstance(prior, Prior):
        raise TypeError(
            "prior must be None (uniform), a distribution of sphereot.distributions, a mixture of them, or an array or "
            f"tensor (m, d) of unit vectors, got {type(prior).__name__}."
        )
    if isinstance(prior, Tensor):
        prior = as_points("prior", prior).detach()
        prior_dim = prior.shape[1]
    else:
        if len(prior.event_shape) != 1 or tuple(prior.batch_shape) != ():
            raise ValueError(
                f"prior must be one distribution of vectors, got batch shape {tuple(prior.batch_shape)} and event "
                f"shape {tuple(prior.event_shape)}. Index the batch, or make a torch.distributions.MixtureSameFamily."
            )
        lengths = torch.linalg.vector_norm(sample_prior(prior, 16, torch.Generator().manual_seed(0)), dim=-1)
        if not bool(((lengths - 1.0).abs() < 1e-3).all()):
            raise ValueError(
                f"prior must draw unit vectors, got length {float(lengths[0]):.4g}. Use a distribution of "
                "sphereot.distributions."
            )
        prior_dim = prior.event_shape[0]
    if prior_dim != dim:
        raise ValueError(f"prior must have points in dimension latent_dim ({dim}), got {prior_dim}.")
    return prior


def sample_prior(prior: Prior, n: int, generator: torch.Generator) -> Tensor:
    """Draw n points (n, d) of a prior with a generator on the CPU; from a sample of n or more, without replacement.

    >>> sample_prior(torch.eye(3), 2, torch.Generator().manual_seed(0)).shape
    torch.Size([2, 3])
    """
    if isinstance(prior, Tensor):
        m = prior.shape[0]
        rows = torch.randperm(m, generator=generator)[:n] if n <= m else torch.randint(m, (n,), generator=generator)
        return prior[rows.to(prior.device)]
    if isinstance(prior, Independent) and prior.reinterpreted_batch_ndims == 0:
        return sample_prior(prior.base_dist, n, generator)
    if isinstance(prior, _SEEDED):
        points: Tensor = prior.sample((n,), seed=generator)
        return points
    components = getattr(prior, "component_distribution", None)
    if isinstance(prior, MixtureSameFamily) and isinstance(components, PowerSpherical | VonMisesFisher):
        chosen = torch.multinomial(prior.mixture_distribution.probs, n, replacement=True, generator=generator)
        drawn = type(components)(components.loc[chosen], components.concentration[chosen], validate_args=False)
        return drawn.sample(seed=generator)
    # Other distributions draw from torch's global random state, which is restored.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
        return prior.sample((n,))
