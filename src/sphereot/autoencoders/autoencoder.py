"""Autoencoders whose codes lie on the sphere and follow a prior there (Section 5.2, Appendix C.6)."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sphereot._arrays.random import Seed, torch_generator
from sphereot._arrays.validation import as_int
from sphereot.autoencoders.divergences import Divergence
from sphereot.autoencoders.priors import Prior, prior_dim, sample_prior, validated_prior
from sphereot.distributions import HypersphericalUniform
from sphereot.torch import UniformityLoss

__all__ = ["Losses", "SphericalAutoencoder", "require_unit_interval"]

Reconstruction = Callable[[Tensor, Tensor], Tensor]


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
        From a batch (n, ...) to vectors (n, d), of any length but zero.
    decoder : module
        From unit vectors (n, d) back to a batch; with the default reconstruction loss, into [0, 1].
    divergence : callable
        A `Divergence` of `sphereot.autoencoders`, a loss of `sphereot.torch`, or any function: with one required
        argument it is called with the codes, with more, with the codes and a sample of the prior of the same size.
    weight : float
        The factor lambda of the divergence, at least 0.
    prior : None, distribution or tensor
        None for uniform; a distribution of `sphereot.distributions`, a `torch.distributions.MixtureSameFamily` of
        them; or points (m, d) of unit vectors, of which random ones are drawn.
    reconstruction : {"bce", "mse"} or callable (output, batch) -> scalar
        Binary cross-entropy (the paper's; for values in [0, 1]), squared error, both as means over all values of the
        batch, or a function.
    latent_dim : int, optional
        The dimension d; needed only to `sample` from a uniform prior before anything was encoded, where neither the
        networks nor the prior tell it (by an attribute `latent_dim`, or a first layer of the decoder that is linear).

    Examples
    --------
    >>> import torch
    >>> from sphereot.autoencoders import SphericalAutoencoder, UniformSSW, paper_networks
    >>> encoder, decoder = paper_networks(28, latent_dim=11, width=0.25, seed=0)
    >>> model = SphericalAutoencoder(encoder, decoder, UniformSSW(method="exact"), weight=10.0)
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
        prior: Prior | None = None,
        *,
        reconstruction: str | Reconstruction = "bce",
        latent_dim: int | None = None,
    ) -> None:
        super().__init__()
        for name, part in (("encoder", encoder), ("decoder", decoder)):
            if not isinstance(part, nn.Module):
                raise TypeError(f"{name}: got {type(part).__name__}; give a torch.nn.Module.")
        if not callable(divergence):
            raise TypeError(f"divergence: got {type(divergence).__name__}; give a divergence or a function of codes.")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < float("inf"):
            raise ValueError(f"weight: got {weight!r}, but the factor of the divergence is a number of at least 0.")
        self.encoder, self.decoder, self.divergence = encoder, decoder, divergence
        self.weight = float(weight)
        self.prior = validated_prior(prior)
        self.reconstruction = reconstruction
        self._reconstruct = _reconstruction(reconstruction)
        self.latent_dim = self._known_dim(latent_dim)
        if _compares_with_uniform(divergence) and not self.prior_is_uniform:
            raise ValueError(
                f"prior: {type(divergence).__name__} compares with the uniform distribution; for another prior choose "
                "a divergence to a sample, such as SSW() or SW()."
            )
        self._takes_target = _takes_target(divergence)

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
        if self.latent_dim is None:
            self.latent_dim = int(vectors.shape[1])
        elif vectors.shape[1] != self.latent_dim:
            whose = "the prior has" if self.prior is not None else "the autoencoder expects"
            raise ValueError(
                f"encoder: returned codes in dimension {vectors.shape[1]}, but {whose} dimension {self.latent_dim}; "
                "both must be on the same sphere."
            )
        return nn.functional.normalize(vectors, dim=-1)

    def decode(self, codes: Tensor) -> Tensor:
        """Decode unit vectors (n, d)."""
        return self.decoder(codes)

    def losses(self, batch: Tensor, seed: Seed = None) -> Losses:
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

    def code_divergence(self, codes: Tensor, seed: Seed = None) -> Tensor:
        """Divergence between codes (n, d) and the prior."""
        generator = torch_generator(seed, "cpu")
        arguments: list[Tensor] = [codes]
        if self._takes_target:
            target = sample_prior(self._prior_on(codes.shape[1]), codes.shape[0], generator)
            arguments.append(target.to(codes))
        if not isinstance(self.divergence, Divergence):
            return self.divergence(*arguments)
        own = generator if codes.device.type == "cpu" else _generator_on(codes.device, generator)
        return self.divergence(*arguments, seed=own)

    def sample(self, n: int, seed: Seed = None, batch_size: int = 1000) -> Tensor:
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
        if self.latent_dim is None:
            raise ValueError(
                "latent_dim: the dimension of the codes is not known yet; give latent_dim= to SphericalAutoencoder, or "
                "encode a batch first."
            )
        codes = sample_prior(self._prior_on(self.latent_dim), n, torch_generator(seed, "cpu"))
        like = next(self.decoder.parameters(), torch.empty(0))
        with torch.no_grad(), evaluation_mode(self):
            return torch.cat([self.decode(part.to(like)) for part in codes.split(batch_size)])

    def extra_repr(self) -> str:
        """The weight and the prior."""
        prior = "uniform" if self.prior_is_uniform else type(self.prior).__name__
        return f"weight={self.weight:g}, prior={prior}, latent_dim={self.latent_dim}"

    def _prior_on(self, dim: int) -> Prior:
        return HypersphericalUniform(dim, dtype=torch.float32, device="cpu") if self.prior is None else self.prior

    def _known_dim(self, given: int | None) -> int | None:
        """The dimension of the codes by what is known of them; an error where two sources differ."""
        known = {
            "latent_dim": None if given is None else as_int("latent_dim", given, 2, "the dimension of the codes"),
            "the prior": None if self.prior is None else prior_dim(self.prior),
            "the encoder": getattr(self.encoder, "latent_dim", None),
            "the decoder": getattr(self.decoder, "latent_dim", None) or _first_linear_inputs(self.decoder),
        }
        dims = {source: dim for source, dim in known.items() if isinstance(dim, int)}
        if len(set(dims.values())) > 1:
            told = ", ".join(f"{source}: {dim}" for source, dim in dims.items())
            raise ValueError(f"the dimensions of the codes differ ({told}); all must be on the same sphere.")
        return next(iter(dims.values()), None)

    def reconstruction_loss(self, output: Tensor, batch: Tensor) -> Tensor:
        """Reconstruction error between the output of the decoder and the batch, a mean over all values."""
        if output.shape != batch.shape:
            raise ValueError(
                f"decoder: returned shape {tuple(output.shape)} for a batch {tuple(batch.shape)}; it must return "
                "images of the size of the batch."
            )
        if self.reconstruction == "bce":
            require_unit_interval("batch", batch)
        return self._reconstruct(output, batch)


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Switch a module to evaluation mode, and back at the end."""
    was_training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(was_training)


def require_unit_interval(name: str, images: Tensor) -> None:
    """Raise unless all values are floating-point numbers in [0, 1]."""
    if not isinstance(images, Tensor):
        raise TypeError(f"{name}: got {type(images).__name__}; give a torch tensor.")
    if not images.is_floating_point():
        raise TypeError(f"{name}: dtype is {images.dtype}, but values in [0, 1] are needed; divide by 255 as floats.")
    if images.numel() == 0:
        raise ValueError(f"{name}: shape is {tuple(images.shape)}; give at least one image.")
    least, largest = (float(value) for value in torch.aminmax(images.detach()))
    if not (least >= 0.0 and largest <= 1.0):  # NaN fails both
        hint = "divide them by 255" if largest > 2.0 and least >= 0.0 else "scale them, and remove NaN"
        raise ValueError(
            f"{name}: values are between {least:g} and {largest:g}, but binary cross-entropy needs [0, 1]; {hint}, or "
            "choose reconstruction='mse'."
        )


def _binary_cross_entropy(output: Tensor, batch: Tensor) -> Tensor:
    try:
        return nn.functional.binary_cross_entropy(output, batch)
    except RuntimeError as error:
        if "between 0 and 1" not in str(error):
            raise
        raise ValueError(
            "decoder: returned values outside [0, 1], but binary cross-entropy needs [0, 1]; end it with nn.Sigmoid(), "
            "or choose reconstruction='mse'."
        ) from error


def _reconstruction(loss: str | Reconstruction) -> Reconstruction:
    if callable(loss):
        return loss
    known: dict[Any, Reconstruction] = {"bce": _binary_cross_entropy, "mse": nn.functional.mse_loss}
    if loss not in known:
        raise ValueError(f"reconstruction: got {loss!r}; choose 'bce', 'mse', or give a function (output, batch).")
    return known[loss]


def _compares_with_uniform(divergence: Any) -> bool:
    return isinstance(divergence, UniformityLoss) or (isinstance(divergence, Divergence) and divergence.to_uniform)


def _takes_target(divergence: Callable[..., Any]) -> bool:
    """Whether a divergence is called with a sample of the prior: unless it has a single required argument."""
    if isinstance(divergence, Divergence | UniformityLoss):
        return not _compares_with_uniform(divergence)
    function = divergence.forward if isinstance(divergence, nn.Module) else divergence
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return True
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.default is p.empty and p.kind in positional for p in parameters) != 1


def _first_linear_inputs(decoder: nn.Module) -> int | None:
    """Number of inputs of the first layer with parameters, if it is linear."""
    for layer in decoder.modules():
        if next(layer.parameters(recurse=False), None) is not None:
            return layer.in_features if isinstance(layer, nn.Linear) else None
    return None


def _generator_on(device: torch.device, generator: torch.Generator) -> torch.Generator:
    """A generator on another device, seeded by a draw of one on the CPU."""
    return torch.Generator(device).manual_seed(int(torch.randint(2**62, (), generator=generator)))
