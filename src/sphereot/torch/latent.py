"""Autoencoders whose codes lie on the sphere and follow a prior there (Section 5.2, Appendix C.6)."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sphereot._arrays.libraries import is_torch_traced
from sphereot._arrays.random import torch_generator
from sphereot._arrays.validation import as_int, as_weight_factor
from sphereot._support.checkpoints import NotFiniteError
from sphereot.autoencoders.divergences import Divergence
from sphereot.autoencoders.priors import Prior, prior_dim, sample_prior, validated_prior
from sphereot.distributions import HypersphericalUniform
from sphereot.torch import UniformityLoss

__all__ = ["Losses", "SphericalAutoencoder", "evaluation_mode", "require_unit_interval"]

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
        Slices of a `Divergence` come from the seed of a call; other losses draw by themselves.
    weight : float
        The factor lambda of the divergence, at least 0.
    prior : None, distribution or tensor
        None for uniform; a distribution of `sphereot.distributions`, a `torch.distributions.MixtureSameFamily` of
        them; or points (m, d) of unit vectors, of which random ones are drawn. It is fixed: no gradient reaches its
        parameters, and it is not part of the state dict.
    reconstruction : {"bce", "mse"} or callable (output, batch) -> scalar
        Binary cross-entropy (the paper's; for values in [0, 1]), squared error, both as means over all values of the
        batch, or a function. A module is part of the model: freeze its parameters if they must not be trained.
    latent_dim : int, optional
        The dimension d. By default that of the prior, of an attribute `latent_dim` of the networks, or of linear layers
        at the end of the encoder and at the start of the decoder; else it is known when something was encoded.

    Notes
    -----
    `torch.save(model.state_dict(), path)` keeps a trained model; make the same model and `load_state_dict` to use it.

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
        reconstruction: Literal["bce", "mse"] | Reconstruction = "bce",
        latent_dim: int | None = None,
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
        self.prior = validated_prior(prior)
        self.reconstruction = reconstruction
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
        if self._takes_target:
            generator = torch_generator(seed, "cpu")
            target = sample_prior(self._prior_on(codes.shape[1]), codes.shape[0], generator)
            arguments.append(target.to(codes))
            slices_seed = None if seed is None else generator
        if not isinstance(_uncompiled(self.divergence), Divergence):
            return self.divergence(*arguments)
        if isinstance(slices_seed, torch.Generator) and codes.device != slices_seed.device:
            slices_seed = _generator_on(codes.device, slices_seed)
        return self.divergence(*arguments, seed=slices_seed)

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
        if self.latent_dim is None:
            raise ValueError(
                "latent_dim: the dimension of the codes is not known yet; give latent_dim= to SphericalAutoencoder, or "
                "encode a batch first."
            )
        codes = sample_prior(self._prior_on(self.latent_dim), n, torch_generator(seed, "cpu"))
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

    def _prior_on(self, dim: int) -> Prior:
        return HypersphericalUniform(dim, dtype=torch.float32, device="cpu") if self.prior is None else self.prior

    def get_extra_state(self) -> dict[str, Any]:
        """The dimension of the codes, which may have been learned by encoding."""
        return {"latent_dim": self.latent_dim}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore what `get_extra_state` returned."""
        if self.latent_dim is None:
            self.latent_dim = state["latent_dim"]

    def _known_dim(self, given: int | None) -> int | None:
        """The dimension of the codes by what declares it; an error where two declarations differ."""
        known = {
            "latent_dim": None if given is None else as_int("latent_dim", given, 2, "the dimension of the codes"),
            "the prior": None if self.prior is None else prior_dim(self.prior),
            "the encoder": getattr(self.encoder, "latent_dim", _linear_size(self.encoder, -1)),
            "the decoder": getattr(self.decoder, "latent_dim", _linear_size(self.decoder, 0)),
        }
        dims = {source: dim for source, dim in known.items() if isinstance(dim, int)}
        if len(set(dims.values())) > 1:
            listed = ", ".join(f"{source}: {dim}" for source, dim in dims.items())
            raise ValueError(f"the dimensions of the codes differ ({listed}); all must be on the same sphere.")
        return next(iter(dims.values()), None)

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


def _uncompiled(divergence: Any) -> Any:
    """The module that torch.compile has wrapped, if it has."""
    return getattr(divergence, "_orig_mod", divergence)


def _compares_with_uniform(divergence: Any) -> bool:
    divergence = _uncompiled(divergence)
    return isinstance(divergence, UniformityLoss) or (isinstance(divergence, Divergence) and divergence.to_uniform)


def _takes_target(divergence: Callable[..., Any]) -> bool:
    """Whether a divergence is called with a sample of the prior: unless it has a single required argument."""
    divergence = _uncompiled(divergence)
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


def _linear_size(network: nn.Module, end: int) -> int | None:
    """Inputs of the first layer (`end` 0) or outputs of the last (-1), if it is linear and surely at that end."""
    while isinstance(network, nn.Sequential) and len(network) > 0:
        network = network[end]
    if not isinstance(network, nn.Linear):
        return None
    return network.in_features if end == 0 else network.out_features


def _generator_on(device: torch.device, generator: torch.Generator) -> torch.Generator:
    """A generator on another device, seeded by a draw of one on the CPU."""
    return torch.Generator(device).manual_seed(int(torch.randint(2**62, (), generator=generator)))
