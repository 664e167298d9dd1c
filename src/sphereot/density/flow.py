"""Density by a normalizing flow, trained by SSW or SW to its base distribution, or by likelihood (Section 5.1)."""

import copy
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from numbers import Real
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sphereot._arrays.libraries import Array, to_numpy
from sphereot._arrays.random import torch_generator
from sphereot._arrays.types import Points, UniformMethod
from sphereot._arrays.validation import as_int, as_method, as_points, as_positive, as_slice_count
from sphereot._backends import backend_for
from sphereot._backends.protocol import Measure
from sphereot._support.atomic_write import reason_of
from sphereot._support.checkpoints import (
    Callback,
    CheckpointStore,
    DivergenceError,
    LastGood,
    StateFile,
    digest,
    require_same_work,
    run_steps,
    store_name,
)
from sphereot._support.extras import Progress
from sphereot.density._estimator import DensityModel
from sphereot.flows import ExponentialMapFlow, Flow, StereographicFlow
from sphereot.slicing.drawing import draw_frames
from sphereot.torch.euclidean import sliced_wasserstein


class _Defaults(NamedTuple):
    """Default settings of a model."""

    loss: str
    lr: float
    n_blocks: int


_DEFAULTS = {"expmap": _Defaults("ssw", 0.1, 48), "stereo": _Defaults("sw", 1e-3, 10)}
_LOSSES = ("ssw", "sw", "nll", "ssw+nll")
_COMPONENTS = 100
_BLOCK = 1 << 14  # points at a time in computations without gradients
_VALIDATE_EVERY = 50  # epochs


@dataclass
class History:
    """Losses and validation likelihoods of a training run, epoch by epoch.

    Attributes
    ----------
    losses : list of float
        The loss before each step.
    validation : list of (int, float)
        The number of epochs done, and the mean negative log-likelihood of the validation points after them.
    """

    losses: list[float] = field(default_factory=list)
    validation: list[tuple[int, float]] = field(default_factory=list)

    @property
    def best(self) -> tuple[int, float]:
        """The epoch with the best validation likelihood, and the mean negative log-likelihood after it."""
        return min(self.validation, key=lambda pair: pair[1])


class FlowDensity(DensityModel):
    """Density by a normalizing flow on the sphere S^{d-1}.

    Parameters
    ----------
    model : {"expmap", "stereo"}, default "expmap"
        Exponential-map flow to the uniform distribution, or RealNVP after a stereographic projection.
    loss : {"ssw", "sw", "nll", "ssw+nll"}, optional
        Training loss: SSW_2^2 of the transformed data to the base distribution, the Euclidean SW_2^2, the negative
        log-likelihood, or the sum of the first and third. By default "ssw" for "expmap" and "sw" for "stereo".
    n_blocks : int, optional
        Number of blocks of the flow; 48 for "expmap" and 10 for "stereo" by default.
    n_components : int, default 100
        Number of components of each block, for "expmap".
    epochs : int, default 2000
        Number of steps of Adam, each on all points; the paper uses 20,000.
    lr : float, optional
        Learning rate; 0.1 for "expmap" and 0.001 for "stereo" by default.
    final_lr : float, optional
        Learning rate of the last epoch, reached from `lr` by equal factors; constant by default.
    n_projections : int, default 20
        Number of great circles (or directions), new in every epoch; not used with `method="exact"`.
    method : {"iid", "orthogonal", "quasi", "exact"}, default "iid"
        How great circles are drawn; see `sphereot.great_circles`. The noise of a few independent great circles is a
        regularizer: it prevents the flow from making the sample more even than a uniform sample. "exact" is the mean
        over all great circles, for the losses "ssw" and "ssw+nll"; its time is quadratic in the number of points.
    validation_fraction : float, default 0
        Fraction of the points that is held out to compute their likelihood during training.
    patience : int, optional
        Stop after this number of epochs without a better likelihood of the held-out points, and restore the best
        parameters. Requires a `validation_fraction`.
    seed : int, optional
        Seed of the random numbers, to make a fit reproducible.
    progress : bool or callable (done, total), default False
        Show a progress bar, or call a function with the number of epochs done and their total.

    Attributes
    ----------
    flow_ : sphereot.flows.Flow
        The fitted flow.
    loss_ : str
        The training loss, also if it is the default.
    history_ : History
        Losses, and likelihoods of the held-out points.

    Notes
    -----
    With T the flow and p_Z the base density, the density is p_Z(T(x)) |det J_T(x)| (Section 5.1, Equation 24), per unit
    area of the sphere. The defaults are the settings of the paper, except `epochs`.

    Examples
    --------
    >>> from sphereot import sphere
    >>> from sphereot.density import FlowDensity
    >>> x = sphere.normalize(sphere.random_uniform(200, 3, seed=0) + [1.0, 0.0, 0.0])
    >>> estimator = FlowDensity(n_blocks=4, n_components=10, epochs=100, seed=0).fit(x)
    >>> bool(estimator.score(x) > -2.5)  # the uniform distribution has -2.53
    True
    >>> estimator.sample(5, seed=1).shape
    (5, 3)
    """

    _model = ""  # `model` is a parameter

    def __init__(
        self,
        model: Literal["expmap", "stereo"] = "expmap",
        loss: Literal["ssw", "sw", "nll", "ssw+nll"] | None = None,
        *,
        n_blocks: int | None = None,
        n_components: int = _COMPONENTS,
        epochs: int = 2000,
        lr: float | None = None,
        final_lr: float | None = None,
        n_projections: int = 20,
        method: UniformMethod = "iid",
        validation_fraction: float = 0.0,
        patience: int | None = None,
        seed: int | None = None,
        progress: Progress = False,
    ) -> None:
        self.model, self.loss = model, loss
        self.n_blocks, self.n_components = n_blocks, n_components
        self.epochs, self.lr, self.final_lr = epochs, lr, final_lr
        self.n_projections, self.method = n_projections, method
        self.validation_fraction, self.patience = validation_fraction, patience
        self.seed, self.progress = seed, progress

    @property
    def loss_(self) -> str:
        """The training loss, also if it is the default."""
        return self.loss or _DEFAULTS[self.model].loss

    @property
    def _first_lr(self) -> float:
        return float(self.lr or _DEFAULTS[self.model].lr)

    def fit(
        self,
        x: Points,
        y: None = None,
        *,
        checkpoint: str | os.PathLike[str] | CheckpointStore | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """Train the flow on points.

        Parameters
        ----------
        x : array, shape (n, d)
            Unit vectors.
        y : None
            Ignored.
        checkpoint : path, optional
            File for the state of the training, written every ten seconds. An interrupted fit resumes from there and
            ends with the same numbers. The file is removed at the end, or if the training diverges. Instead of a path,
            you can pass an object with ``load()`` and ``save(state)``, as in `sphereot.sampling.fit_sampler`.
        callback : callable (epoch, loss, flow), optional
            Called after every epoch with the number of epochs done, the loss as a float, and the flow. Training stops
            early if it returns True.

        Raises
        ------
        ValueError
            If the checkpoint is damaged, or belongs to a fit with other data, parameters or seed.
        DivergenceError
            If the loss becomes NaN or infinite.
        """
        return self._fit_sample(to_numpy(as_points("x", x)), checkpoint, callback)

    def _fit_sample(
        self,
        points: NDArray[Any],
        checkpoint: str | os.PathLike[str] | CheckpointStore | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """Train the flow on validated points."""
        data = torch.as_tensor(points.astype(np.float32))
        self._check_parameters()
        self.n_features_in_ = int(data.shape[1])
        store = StateFile(Path(checkpoint)) if isinstance(checkpoint, str | os.PathLike) else checkpoint
        name = "checkpoint" if store is None else store_name(store)
        work = self._work(data)
        saved = None if store is None else store.load()
        if saved is not None:
            if not isinstance(saved, dict) or not {"work", "seed", "training"} <= set(saved):
                raise ValueError(
                    f"{name}: is not the state of a density fit; remove the file to start again (--fresh)."
                )
            require_same_work(name, saved["work"], work)
        # A fit without a seed resumes with the seed of its start, because the choice of held-out points depends on it.
        generator = torch_generator(self.seed if saved is None else saved["seed"], "cpu")
        seed = generator.initial_seed()

        def save(state: Callable[[], Any]) -> None:
            if store is not None:
                store.save(lambda: {"work": work, "seed": seed, "training": state()})

        n_held_out = int(self.validation_fraction * len(data))
        held_out, used = torch.randperm(len(data), generator=generator).tensor_split([n_held_out])
        self.flow_ = self._new_flow(generator)
        start = None if saved is None else saved["training"]
        try:
            self.history_ = self._train(data[used], data[held_out], generator, start, name, save, callback)
        except DivergenceError:
            if isinstance(store, StateFile):
                store.remove()  # it would diverge again, and block a fit with a smaller learning rate
            raise
        if store is not checkpoint and isinstance(store, StateFile):
            store.remove()
        return self

    def _train(
        self,
        x: Tensor,
        validation: Tensor,
        generator: torch.Generator,
        start: Mapping[str, Any] | None,
        name: str,
        save: Callable[[Callable[[], Any]], None],
        callback: Callback | None,
    ) -> History:
        """Fit the flow to points (n, d) by Adam, all points in each step, and compute the likelihood of other points.

        `start` is the state to resume from, out of the file `name`. `save` is called after every epoch except the last,
        with a function that returns the state.
        """
        flow, epochs, lr = self.flow_, self.epochs, self._first_lr
        optimizer = torch.optim.Adam(flow.parameters(), lr=lr)
        history, best = History(), None
        if start is not None:
            try:
                parameters = list(flow.parameters())
                for k, moments in start["optimizer"]["state"].items():
                    for tensor in (moments["exp_avg"], moments["exp_avg_sq"]):
                        if tensor.shape != parameters[k].shape or not bool(torch.isfinite(tensor).all()):
                            raise ValueError("the state of the optimizer is damaged, or belongs to another flow")
                if len(start["losses"]) != start["epoch"]:
                    raise ValueError(f"there are {len(start['losses'])} losses of {start['epoch']} epochs")
                flow.load_state_dict(start["flow"])
                optimizer.load_state_dict(start["optimizer"])
                generator.set_state(start["generator"])
                history.losses += start["losses"]
                history.validation += [(int(epoch), value) for epoch, value in start["validation"]]
                best = start["best"]
            except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
                raise ValueError(
                    f"{name}: its state does not fit this training ({reason_of(error)}); remove the file to start "
                    "again (--fresh)."
                ) from error
        last_good = LastGood(flow.state_dict().values())

        def take(epoch: int) -> float:
            nonlocal best
            optimizer.param_groups[0]["lr"] = learning_rate(lr, float(self.final_lr or lr), epoch, epochs)
            optimizer.zero_grad()
            value = self._loss(x, generator)
            loss_value = float(value.detach())
            if not math.isfinite(loss_value):
                last_good.restore()
                raise DivergenceError(
                    f"the loss is {loss_value} in epoch {epoch}: the learning rate lr={lr:g} is too large; give a "
                    "smaller one. The model has the last parameters with a finite loss.",
                    history,
                )
            last_good.keep()
            value.backward()
            optimizer.step()
            history.losses.append(loss_value)
            if len(validation) and (epoch % _VALIDATE_EVERY == 0 or epoch == epochs):
                with torch.no_grad():
                    blocks = torch.split(validation, _BLOCK)
                    total = sum(float(flow.log_prob(block).double().sum()) for block in blocks)
                history.validation.append((epoch, -total / len(validation)))
                if history.best[0] == epoch:
                    best = copy.deepcopy(flow.state_dict())
            return loss_value

        def has_settled() -> bool:
            if self.patience is None or not history.validation:
                return False
            return len(history.losses) - history.best[0] >= self.patience

        def state() -> dict[str, Any]:
            return {
                "flow": flow.state_dict(),
                "optimizer": optimizer.state_dict(),
                "generator": generator.get_state(),
                "losses": history.losses,
                "validation": [list(pair) for pair in history.validation],
                "best": best,
                "epoch": len(history.losses),
            }

        run_steps(
            take,
            epochs,
            label="epochs",
            done=len(history.losses),
            progress=self.progress,
            callback=callback,
            state=lambda: flow,
            settled=has_settled,
            save=lambda: save(state),
        )
        if self.patience is not None and best is not None:
            flow.load_state_dict(best)
        return history

    def _loss(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Compute the loss of the flow at points (n, d).

        "nll" is the mean negative log-likelihood. "sw" is the Euclidean SW_2^2 between the transformed points and a
        sample of the base of the same size. "ssw" is SSW_2^2 of the transformed points to the uniform distribution
        (Proposition 1). "ssw+nll" is a sum, in one pass of the flow.
        """
        flow, loss = self.flow_, self.loss_
        if loss == "nll":
            return -flow.log_prob(x).mean()
        if loss == "sw":
            prior = flow.base.sample((len(x),), seed=generator)
            return sliced_wasserstein(flow.transform(x), prior, self.n_projections, generator)
        if loss == "ssw":
            return self._ssw_to_uniform(flow.transform(x), generator)
        z, log_det = flow.transform.forward_and_log_det(x)
        likelihood = (flow.base.log_prob(z) + log_det).mean()
        return self._ssw_to_uniform(z, generator) - likelihood

    def _ssw_to_uniform(self, z: Tensor, generator: torch.Generator) -> Tensor:
        # `ssw_uniform` would validate in every epoch, but a flow maps unit vectors to unit vectors unless it diverged.
        if not torch.isfinite(z.detach()).all():
            return z.sum()  # not finite either, which `_train` reports
        if self.method == "exact":
            return backend_for(z).pair_cost(Measure(z))
        frames = draw_frames(self.n_projections, z.shape[-1], self.method, generator, z)
        return backend_for(z).mean_cost((Measure(z),), frames, 2.0)

    def _check_parameters(self) -> None:
        """Raise ValueError for a constructor argument that is out of range."""
        if self.model not in _DEFAULTS:
            raise ValueError(f"model must be one of {', '.join(map(repr, _DEFAULTS))}, got {self.model!r}.")
        if self.loss is not None and self.loss not in _LOSSES:
            raise ValueError(f"loss must be one of {', '.join(map(repr, _LOSSES))}, got {self.loss!r}.")
        uses_ssw = self.loss_ in ("ssw", "ssw+nll")
        if self.model == "stereo" and uses_ssw:
            raise ValueError(f"loss must be 'sw' or 'nll' with the model 'stereo', got {self.loss!r}.")
        if self.n_blocks is not None:
            as_int("n_blocks", self.n_blocks, 1, "the number of blocks")
        as_int("n_components", self.n_components, 1, "the number of components")
        as_int("epochs", self.epochs, 1, "the number of epochs")
        if self.patience is not None:
            as_int("patience", self.patience, 1, "the number of epochs without improvement")
        if self.model == "stereo" and self.n_components != _COMPONENTS:
            raise ValueError(f"n_components must be left out for the model 'stereo', got {self.n_components!r}.")
        if as_method(self.method, also=("exact",)) == "exact" and not uses_ssw:
            raise ValueError(
                f"method must not be 'exact' with the loss {self.loss_!r}; only 'ssw' and 'ssw+nll' support it."
            )
        as_slice_count(self.n_projections)
        share = self.validation_fraction
        if not isinstance(share, Real) or not 0 <= float(share) < 1:
            raise ValueError(f"validation_fraction must be in [0, 1), got {share!r}.")
        for name, rate in (("lr", self.lr), ("final_lr", self.final_lr)):
            if rate is not None:
                as_positive(name, rate, "the learning rate")
        if self.patience is not None and share == 0:
            raise ValueError(f"patience must be None without a validation_fraction, got {self.patience}.")

    def _work(self, data: Tensor) -> dict[str, Any]:
        """Describe the training by its data, settings and seed, as plain values."""
        settings = self.get_params(deep=False) | {
            "loss": self.loss_,
            "lr": self._first_lr,
            "version": version("sphereot"),
        }
        del settings["progress"]
        if self.final_lr is None:
            del settings["final_lr"]
        # A state can contain Python numbers, but not NumPy numbers.
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in settings.items()}
        return {"data": digest(data.numpy())} | plain

    def _new_flow(
        self, seed: int | torch.Generator | None = None, n_blocks: int | None = None, device: str | None = None
    ) -> Flow:
        """Make an untrained flow with the settings of the model, or with another number of blocks."""
        dim, n_blocks = self.n_features_in_, n_blocks or self.n_blocks or _DEFAULTS[self.model].n_blocks
        if self.model == "stereo":
            return Flow(StereographicFlow(dim, n_blocks, seed=seed, device=device))
        return Flow(ExponentialMapFlow(dim, n_blocks, self.n_components, seed=seed, device=device))

    def _parameter_count(self) -> int:
        """Compute the number of parameters of `_new_flow`, without its memory."""
        # Blocks of RealNVP exchange the halves of the coordinates: every second block has the same size.
        flows = [self._new_flow(n_blocks=n, device="meta") for n in (1, 2)]
        one, two = (sum(parameter.numel() for parameter in flow.parameters()) for flow in flows)
        pairs, rest = divmod(self.n_blocks or _DEFAULTS[self.model].n_blocks, 2)
        return int(pairs * two + rest * one)

    def _log_density(self, points: Array) -> NDArray[np.float64]:
        data = torch.as_tensor(to_numpy(points).astype(np.float32))
        with torch.no_grad():
            values = torch.cat([self.flow_.log_prob(block) for block in torch.split(data, _BLOCK)])
        return np.asarray(values, np.float64)

    def _sample(self, n: int, seed: Any) -> NDArray[np.floating[Any]]:
        return np.asarray(self.flow_.sample((n,), seed=seed).numpy())

    def _arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays = {name: tensor.detach().numpy() for name, tensor in self.flow_.state_dict().items()}
        return arrays, {"history": {"losses": self.history_.losses, "validation": self.history_.validation}}

    def _restore(self, arrays: dict[str, NDArray[Any]], values: dict[str, Any]) -> None:
        self._check_parameters()
        history = values["history"]
        self.history_ = History(
            [float(loss) for loss in history["losses"]],
            [(int(epoch), float(nll)) for epoch, nll in history["validation"]],
        )
        # Checked before the flow is made, because a wrong number in the description could need any amount of memory.
        expected, stored = self._parameter_count(), sum(array.size for array in arrays.values())
        if expected != stored:
            raise ValueError(f"its description asks for {expected:,} parameters, but it holds {stored:,}")
        self.flow_ = self._new_flow()
        self.flow_.load_state_dict({name: torch.as_tensor(array) for name, array in arrays.items()})


def learning_rate(first: float, last: float, epoch: int, epochs: int) -> float:
    """Compute the learning rate of an epoch, from 1: a geometric sequence from the first to the last."""
    return first if epochs == 1 else float(first * (last / first) ** ((epoch - 1) / (epochs - 1)))
