"""Autoencoders whose codes lie on the sphere and follow a prior there (Section 5.2, Appendix C.6)."""

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
"""A distribution on the sphere, or points (m, d) of one."""

_SEEDED = (HypersphericalUniform, PowerSpherical, VonMisesFisher)  # their `sample` takes a seed


@dataclass(frozen=True)
class Losses:
    """Parts of the loss of a batch; unpacks as the pair (reconstruction, divergence).

    Attributes
    ----------
    reconstruction : tensor, shape ()
        Mean reconstruction error, c(x, g(f(x))).
    divergence : tensor, shape ()
        Divergence between the codes and the prior, without its weight.
    weight : float
        The weight lambda of the divergence.
    """

    reconstruction: Tensor
    divergence: Tensor
    weight: float

    @property
    def total(self) -> Tensor:
        """The loss to minimize: reconstruction + weight * divergence."""
        return self.reconstruction + self.weight * self.divergence

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.reconstruction, self.divergence))


class SphericalAutoencoder(nn.Module):
    """Autoencoder whose codes are normalized to the sphere S^{d-1} and pushed to a prior there.

    It minimizes the mean of c(x, g(f(x))) plus weight * D(codes, prior), where f is the encoder followed by
    normalization, g the decoder, c the reconstruction loss and D a divergence: a Wasserstein autoencoder, with SSW the
    paper's SSWAE.

    Parameters
    ----------
    encoder : module
        From a batch (n, ...) to vectors (n, d) of any length except zero.
    decoder : module
        From unit vectors (n, d) back to a batch; with the default reconstruction loss, into [0, 1].
    divergence : callable
        `UniformityLoss`, which compares the codes with the uniform distribution; or a function of the codes and a
        sample of the prior of the same size, such as `SSWLoss`. The slices of these two losses come from the seed of a
        call, unless the loss has a seed or fixed slices of its own.
    weight : float
        The factor lambda of the divergence, at least 0.
    latent_dim : int
        The dimension d of the codes.
    prior : None, distribution or tensor
        None for uniform; a distribution of `sphereot.distributions`, a `torch.distributions.MixtureSameFamily` of
        them; or points (m, d) of unit vectors, of which random ones are drawn. It is fixed: no gradient reaches its
        parameters, and it is not part of the state dict.
    reconstruction : {"bce", "mse"} or callable (output, batch) -> scalar
        Binary cross-entropy (the paper's; for values in [0, 1]), squared error, both as means over all values of the
        batch, or a function. A module is part of the model: freeze its parameters if they must not be trained.

    Notes
    -----
    `torch.save(model.state_dict(), path)` keeps a trained model; make the same model and `load_state_dict` to use it.

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
    >>> reconstruction, divergence = model.losses(images)
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
                raise TypeError(f"{name}: got {type(part).__name__}; give a torch.nn.Module.")
        if not callable(divergence):
            raise TypeError(f"divergence: got {type(divergence).__name__}; give a divergence or a function of codes.")
        if not callable(reconstruction) and reconstruction not in _RECONSTRUCTIONS:
            raise ValueError(
                f"reconstruction: got {reconstruction!r}; choose 'bce', 'mse', or give a function (output, batch)."
            )
        self.encoder, self.decoder, self.divergence = encoder, decoder, divergence
        self.weight = as_weight_factor("weight", weight, "the factor of the divergence")
        self.latent_dim = as_int("latent_dim", latent_dim, 2, "the dimension of the codes")
        self.prior = _validated_prior(prior, self.latent_dim)
        self.reconstruction = reconstruction
        if self._compares_with_uniform and not self.prior_is_uniform:
            raise ValueError(
                "prior: this divergence compares the codes with the uniform distribution; for another prior choose a "
                "divergence to a sample, such as SSWLoss()."
            )

    @property
    def prior_is_uniform(self) -> bool:
        """Whether the prior is the uniform distribution."""
        return self.prior is None or isinstance(self.prior, HypersphericalUniform)

    def forward(self, batch: Tensor) -> Tensor:
        """Reconstruction of a batch: it is encoded, normalized and decoded."""
        return self.decode(self.encode(batch))

    def encode(self, batch: Tensor) -> Tensor:
        """Codes of a batch on the sphere, (n, d)."""
        vectors = self.encoder(batch)
        if vectors.ndim != 2 or vectors.shape[1] < 2:
            raise ValueError(
                f"encoder: returned shape {tuple(vectors.shape)}, but codes are vectors (n, d) with d of at least 2; "
                "end it with nn.Flatten() and nn.Linear(..., d)."
            )
        if vectors.shape[1] != self.latent_dim:
            raise ValueError(
                f"encoder: returned codes in dimension {vectors.shape[1]}, but latent_dim is {self.latent_dim}; change "
                "one of them."
            )
        if not is_torch_traced():
            _require_directions(vectors.detach())
        return nn.functional.normalize(vectors, dim=-1)

    def decode(self, codes: Tensor) -> Tensor:
        """Decode unit vectors (n, d)."""
        return self.decoder(codes)

    def losses(self, batch: Tensor, seed: int | torch.Generator | None = None) -> Losses:
        """Reconstruction error and divergence of a batch, separately.

        Parameters
        ----------
        batch : tensor, shape (n, ...)
            With the default reconstruction loss, in [0, 1].
        seed : int, torch.Generator or None
            Where slices and the sample of the prior come from; None draws afresh.
        """
        codes = self.encode(batch)
        return Losses(
            self.reconstruction_loss(self.decode(codes), batch), self.code_divergence(codes, seed), self.weight
        )

    def code_divergence(self, codes: Tensor, seed: int | torch.Generator | None = None) -> Tensor:
        """Divergence between codes (n, d) and the prior."""
        arguments: list[Tensor] = [codes]
        slices_seed = seed
        if not self._compares_with_uniform:
            generator = torch_generator(seed, "cpu")
            arguments.append(sample_prior(self._prior, codes.shape[0], generator).to(codes))
            slices_seed = None if seed is None else generator
        if not getattr(self.divergence, "takes_seed", False):
            return self.divergence(*arguments)
        if isinstance(slices_seed, torch.Generator) and codes.device != slices_seed.device:
            drawn = int(torch.randint(2**62, (), generator=slices_seed))
            slices_seed = torch.Generator(codes.device).manual_seed(drawn)
        return self.divergence(*arguments, seed=slices_seed)

    @property
    def _compares_with_uniform(self) -> bool:
        """Whether the divergence needs no sample of the prior; `torch.compile` passes on the attribute of a loss."""
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
            The number of images.
        seed : int, torch.Generator or None
            Makes them reproducible.
        batch_size : int
            The number of codes that are decoded at a time.
        """
        n, batch_size = as_int("n", n, 1, "the number of samples"), as_int("batch_size", batch_size, 1, "a batch")
        codes = sample_prior(self._prior, n, torch_generator(seed, "cpu"))
        like = next(self.decoder.parameters(), torch.empty(0))
        images = None
        with torch.no_grad(), evaluation_mode(self):
            for first in range(0, n, batch_size):
                part = self.decode(codes[first : first + batch_size].to(like))
                if images is None:  # one tensor for all, not a list of parts beside it
                    images = part.new_empty(n, *part.shape[1:])
                images[first : first + batch_size] = part
        return images

    def extra_repr(self) -> str:
        """The weight and the prior."""
        prior = "uniform" if self.prior_is_uniform else type(self.prior).__name__
        return f"weight={self.weight:g}, prior={prior}, latent_dim={self.latent_dim}"

    def get_extra_state(self) -> dict[str, Any]:
        """The dimension of the codes."""
        return {"latent_dim": self.latent_dim}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Check that a state is of codes in the same dimension."""
        if state["latent_dim"] not in (None, self.latent_dim):
            raise ValueError(
                f"latent_dim: the state is of codes in dimension {state['latent_dim']}, but the autoencoder has "
                f"{self.latent_dim}; make it with latent_dim={state['latent_dim']}."
            )

    def reconstruction_loss(self, output: Tensor, batch: Tensor) -> Tensor:
        """Reconstruction error between the output of the decoder and the batch, a mean over all values."""
        if callable(self.reconstruction):
            return self.reconstruction(output, batch)
        if output.shape != batch.shape:
            raise ValueError(
                f"decoder: returned shape {tuple(output.shape)} for a batch {tuple(batch.shape)}; it must return "
                "images of the size of the batch."
            )
        if self.reconstruction == "bce":
            require_unit_interval("batch", batch, " for binary cross-entropy, or choose reconstruction='mse'")
        return _RECONSTRUCTIONS[self.reconstruction](output, batch)


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Switch a module and its parts to evaluation mode, and each back to its own mode at the end."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


def require_unit_interval(name: str, images: Tensor, why: str = "") -> None:
    """Raise unless all values are floating-point numbers in [0, 1]; `why` adds to the remedy."""
    if is_torch_traced():
        return
    if not isinstance(images, Tensor):
        raise TypeError(f"{name}: got {type(images).__name__}; give a torch tensor.")
    if not images.is_floating_point():
        raise TypeError(f"{name}: dtype is {images.dtype}, but values in [0, 1] are needed; divide by 255 as floats.")
    if images.numel() == 0:
        raise ValueError(f"{name}: shape is {tuple(images.shape)}; give at least one image.")
    least, largest = (float(value) for value in torch.aminmax(images.detach()))
    if not (least >= 0.0 and largest <= 1.0):  # NaN fails both
        remedy = "divide them by 255" if largest > 2.0 and least >= 0.0 else "scale or clamp them, and remove NaN"
        raise ValueError(
            f"{name}: values are between {least:.9g} and {largest:.9g}, but [0, 1] is needed; {remedy}{why}."
        )


def _require_directions(vectors: Tensor) -> None:
    """Raise for vectors that cannot be normalized."""
    lengths = torch.linalg.vector_norm(vectors, dim=1)
    if not bool(torch.isfinite(lengths).all()):
        raise NotFiniteError(
            "encoder: returned NaN, infinity, or vectors too long to have a length; lower the learning rate, or remove "
            "NaN from the batch."
        )
    if bool((lengths == 0).any()):
        row = int((lengths == 0).to(torch.int8).argmax())
        raise ValueError(
            f"encoder: row {row} of its output is the zero vector, which has no direction; end it with a linear layer "
            "with a bias, not with ReLU."
        )


def _binary_cross_entropy(output: Tensor, batch: Tensor) -> Tensor:
    try:
        return nn.functional.binary_cross_entropy(output, batch)
    except RuntimeError as error:
        if "between 0 and 1" not in str(error):
            raise
        if not bool(torch.isfinite(output).all()):
            raise NotFiniteError("decoder: returned NaN or infinity; lower the learning rate.") from error
        raise ValueError(
            "decoder: returned values outside [0, 1], but binary cross-entropy needs [0, 1]; end it with nn.Sigmoid(), "
            "or choose reconstruction='mse'."
        ) from error


_RECONSTRUCTIONS: dict[Any, Reconstruction] = {"bce": _binary_cross_entropy, "mse": nn.functional.mse_loss}


def _validated_prior(prior: Any, dim: int) -> Prior | None:
    """Check that a prior is a single distribution of unit vectors in this dimension, or a sample of them."""
    if prior is None:
        return None
    if isinstance(prior, np.ndarray):
        prior = torch.from_numpy(prior)
    if not isinstance(prior, Prior):
        raise TypeError(
            f"prior: got {type(prior).__name__}; give None (uniform), a distribution of sphereot.distributions, a "
            "mixture of them, or an array or tensor (m, d) of unit vectors."
        )
    if isinstance(prior, Tensor):
        prior = as_points("prior", prior).detach()
        prior_dim = prior.shape[1]
    else:
        if len(prior.event_shape) != 1 or tuple(prior.batch_shape) != ():
            raise ValueError(
                f"prior: batch shape is {tuple(prior.batch_shape)} and event shape {tuple(prior.event_shape)}, but one "
                "distribution of vectors is needed; index the batch, or make a torch.distributions.MixtureSameFamily."
            )
        lengths = torch.linalg.vector_norm(sample_prior(prior, 16, torch.Generator().manual_seed(0)), dim=-1)
        if not bool(((lengths - 1.0).abs() < 1e-3).all()):
            raise ValueError(
                f"prior: draws vectors of length {float(lengths[0]):.4g}, but codes lie on the unit sphere; choose a "
                "distribution of sphereot.distributions."
            )
        prior_dim = prior.event_shape[0]
    if prior_dim != dim:
        raise ValueError(f"prior: its points have dimension {prior_dim}, but latent_dim is {dim}; change one of them.")
    return prior


def sample_prior(prior: Prior, n: int, generator: torch.Generator) -> Tensor:
    """Draw n points of a prior, (n, d), from a generator on the CPU.

    Points are drawn from a given sample without replacement, as long as it has n.

    Examples
    --------
    >>> import torch
    >>> from sphereot.torch.latent import sample_prior
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
    # Other distributions draw from torch's global random state, which is put back.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
        return prior.sample((n,))
