"""Density by a normalizing flow, trained by SSW or SW to its base distribution, or by likelihood (Section 5.1)."""

import os
from importlib.metadata import version
from itertools import pairwise
from numbers import Real
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray

from sphereot._arrays.libraries import Array, to_numpy
from sphereot._arrays.random import torch_generator
from sphereot._arrays.types import Points, UniformMethod
from sphereot._arrays.validation import as_int, as_method, as_points, as_slice_count
from sphereot._support.checkpoints import (
    Callback,
    CheckpointStore,
    DivergenceError,
    StateFile,
    digest,
    require_same_work,
    store_name,
)
from sphereot._support.extras import Progress
from sphereot.density._estimator import DensityModel
from sphereot.density.training import History, train
from sphereot.flows import ExponentialMapFlow, Flow, StereographicFlow

_DEFAULTS = {"expmap": ("ssw", 0.1), "stereo": ("sw", 1e-3)}  # loss and learning rate
_LOSSES = ("ssw", "sw", "nll", "ssw+nll")
_COMPONENTS = 100
_BLOCK = 1 << 14  # points at a time where no gradients are needed


class FlowDensity(DensityModel):
    """Density by a normalizing flow on the sphere S^{d-1}.

    Parameters
    ----------
    model : {"expmap", "stereo"}
        Exponential-map flow to the uniform distribution, or RealNVP after a stereographic projection (the paper's
        "Stereo").
    loss : {"ssw", "sw", "nll", "ssw+nll"}, optional
        Training loss: SSW_2^2 of the transformed data to the base distribution, the Euclidean SW_2^2, the negative
        log-likelihood, or the sum of the first and third. By default "ssw" for "expmap" and "sw" for "stereo", as in
        the paper.
    n_blocks, n_components : int, optional
        Size of the flow: 48 blocks of 100 components for "expmap", 10 blocks for "stereo", by default.
    epochs : int, default 2000
        Steps of Adam on all points at once; the paper uses 20,000.
    lr : float, optional
        Learning rate; 0.1 for "expmap" and 0.001 for "stereo" by default.
    final_lr : float, optional
        Learning rate of the last epoch, reached from `lr` by equal factors; constant by default, as in the paper.
    n_projections : int, default 20
        The number of great circles (or directions), new ones in every epoch; not used with `method="exact"`.
    method : {"iid", "orthogonal", "quasi", "exact"}
        How great circles are drawn; see `sphereot.great_circles`. The noise of a few independent great circles acts as
        a regularizer: it keeps the flow from making the sample more even than a uniform sample is. "exact" is the mean
        over all great circles, for the losses "ssw" and "ssw+nll"; its time grows with the square of the number of
        points.
    validation_fraction : float, default 0
        Fraction of the points that is held out to follow the likelihood.
    patience : int, optional
        Stop after so many epochs without a better likelihood of the points held out, and restore the best parameters.
        Needs a `validation_fraction`.
    seed : int, optional
        Makes a fit reproducible.
    progress : bool or callable (done, total)
        Show a progress bar, or call a function with the number of epochs done and their total; as in
        `sphereot.gradient_flow`.

    Attributes
    ----------
    flow_ : sphereot.flows.Flow
        The fitted flow.
    loss_ : str
        The training loss, also if it is the default.
    history_ : History
        Losses, and likelihoods of the points held out.
    n_features_in_ : int
        The dimension d.

    Notes
    -----
    With T the flow and p_Z the base density, the density is p_Z(T(x)) |det J_T(x)| (Section 5.1, Equation 24), against
    the area measure of the sphere.

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
        return self.loss or _DEFAULTS[self.model][0]

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
            Ignored; present for the API of scikit-learn.
        checkpoint : path, optional
            A file for the state of the training, written every ten seconds: a fit that was interrupted resumes from
            there and ends with the same numbers. Removed at the end, and when the training diverges. Instead of a
            path, an object with ``load()`` and ``save(state)``, as in `sphereot.sampling.fit_sampler`.
        callback : callable (epoch, loss, flow), optional
            Called after every epoch with the number of epochs done, the loss as a float, and the flow. Training stops
            early if it returns True, as in `sphereot.gradient_flow`.

        Returns
        -------
        FlowDensity
            This estimator.

        Raises
        ------
        ValueError
            Also for a checkpoint that is damaged, or belongs to a fit of other data, parameters or seed.
        DivergenceError
            If the loss becomes NaN or infinite.
        """
        data = torch.as_tensor(to_numpy(as_points("x", x)).astype(np.float32))
        self._check_parameters()
        self.n_features_in_ = int(data.shape[1])
        lr = float(self.lr or _DEFAULTS[self.model][1])
        store = StateFile(Path(checkpoint)) if isinstance(checkpoint, str | os.PathLike) else checkpoint
        work = self._work(data, lr)
        saved = None if store is None else store.load()
        if store is not None and saved is not None:
            if not isinstance(saved, dict) or not {"work", "seed", "training"} <= set(saved):
                raise ValueError(
                    f"{store_name(store)}: holds no state of a density fit; remove the file to start again (--fresh)."
                )
            require_same_work(store_name(store), saved["work"], work)
        # A fit without a seed resumes with the seed it started from: which points are held out depends on it.
        generator = torch_generator(self.seed if saved is None else saved["seed"], "cpu")
        label = {"work": work, "seed": generator.initial_seed()}
        held_out = int(self.validation_fraction * len(data))
        order = torch.randperm(len(data), generator=generator)
        self.flow_ = self._new_flow(generator)
        try:
            self.history_ = train(
                self.flow_,
                data[order[held_out:]],
                loss=self.loss_,
                epochs=self.epochs,
                lr=lr,
                final_lr=lr if self.final_lr is None else float(self.final_lr),
                n_projections=self.n_projections,
                method=self.method,
                generator=generator,
                validation=data[order[:held_out]] if held_out else None,
                patience=self.patience,
                start=None if saved is None else saved["training"],
                name="checkpoint" if store is None else store_name(store),
                save=None if store is None else lambda state: store.save(lambda: label | {"training": state()}),
                progress=self.progress,
                callback=callback,
            )
        except DivergenceError:
            if isinstance(store, StateFile):
                store.remove()  # it would diverge again, and block a fit with a smaller learning rate
            raise
        if store is not checkpoint and isinstance(store, StateFile):
            store.remove()
        return self

    def _check_parameters(self) -> None:
        """Raise ValueError for a constructor argument that is out of range."""
        if self.model not in _DEFAULTS:
            raise ValueError(f"model: got {self.model!r}; choose one of {', '.join(map(repr, _DEFAULTS))}.")
        if self.loss is not None and self.loss not in _LOSSES:
            raise ValueError(f"loss: got {self.loss!r}; choose one of {', '.join(map(repr, _LOSSES))}.")
        if self.model == "stereo" and self.loss_ in ("ssw", "ssw+nll"):
            raise ValueError(
                f"loss: got {self.loss!r}, which needs a model that stays on the sphere; choose 'sw' or 'nll'."
            )
        if self.n_blocks is not None:
            as_int("n_blocks", self.n_blocks, 1, "the number of blocks")
        as_int("n_components", self.n_components, 1, "the number of components")
        if self.model == "stereo" and self.n_components != _COMPONENTS:
            raise ValueError(
                f"n_components: got {self.n_components!r}, but the model 'stereo' has no components; leave "
                "n_components out."
            )
        as_int("epochs", self.epochs, 1, "the number of epochs")
        if as_method(self.method, also=("exact",)) == "exact" and self.loss_ not in ("ssw", "ssw+nll"):
            remedy = "another method" if self.model == "stereo" else "loss='ssw' or 'ssw+nll', or another method"
            raise ValueError(
                f"method: got 'exact', the mean over all great circles, but the loss {self.loss_!r} has no such mean; "
                f"choose {remedy}."
            )
        as_slice_count(self.n_projections)
        share = self.validation_fraction
        if not isinstance(share, Real) or not 0 <= float(share) < 1:
            raise ValueError(f"validation_fraction: got {share!r}, but a share in [0, 1) is needed; give e.g. 0.1.")
        for name, rate in (("lr", self.lr), ("final_lr", self.final_lr)):
            if rate is not None and (not isinstance(rate, Real) or not 0 < float(rate) < float("inf")):
                raise ValueError(
                    f"{name}: got {rate!r}, but the learning rate must be positive and finite; give such a number."
                )
        if self.patience is not None:
            as_int("patience", self.patience, 1, "the number of epochs without improvement")
            if share == 0:
                raise ValueError(
                    f"patience: got {self.patience}, but no points are held out; give a validation_fraction, e.g. 0.1."
                )

    def _work(self, data: torch.Tensor, lr: float) -> dict[str, Any]:
        """What identifies a training: data, settings and seed, as plain values."""
        settings = self.get_params(deep=False) | {"loss": self.loss_, "lr": lr, "version": version("sphereot")}
        del settings["progress"]
        if self.final_lr is None:
            del settings["final_lr"]
        # NumPy numbers become Python numbers, which a state can hold.
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in settings.items()}
        return {"data": digest(data.numpy())} | plain

    def _new_flow(self, seed: int | torch.Generator | None = None) -> Flow:
        """A flow of this size, to be trained."""
        if self.model == "stereo":
            return Flow(StereographicFlow(self.n_features_in_, self.n_blocks or 10, seed=seed))
        return Flow(ExponentialMapFlow(self.n_features_in_, self.n_blocks or 48, self.n_components, seed=seed))

    def _parameter_count(self) -> int:
        """The number of parameters of `_new_flow`, computed without making it."""
        dim = self.n_features_in_
        if self.model == "expmap":
            return (self.n_blocks or 48) * self.n_components * (dim + 2)
        n_blocks, half = self.n_blocks or 10, (dim - 1) // 2

        def coupling(held: int, moved: int) -> int:
            """Parameters of the two networks from one half of the coordinates to the other, as in `RealNVP`."""
            return 2 * sum((before + 1) * after for before, after in pairwise((held, 25, 25, 25, moved)))

        # The next coupling exchanges the halves.
        return (n_blocks + 1) // 2 * coupling(half, dim - 1 - half) + n_blocks // 2 * coupling(dim - 1 - half, half)

    def _log_density(self, points: Array) -> NDArray[np.float64]:
        data = torch.as_tensor(to_numpy(points).astype(np.float32))
        with torch.no_grad():
            values = torch.cat([self.flow_.log_prob(block) for block in torch.split(data, _BLOCK)])
        in_double: NDArray[np.float64] = values.numpy().astype(np.float64)
        return in_double

    def _sample(self, n: int, seed: Any) -> NDArray[np.floating[Any]]:
        return np.asarray(self.flow_.sample((n,), seed=seed).numpy())

    def _file_parameters(self) -> dict[str, Any]:
        return self.get_params(deep=False) | {"progress": self.progress is True}

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
        # Before the flow is made: a wrong number in the description could need any amount of memory.
        expected, stored = self._parameter_count(), sum(array.size for array in arrays.values())
        if expected != stored:
            raise ValueError(f"its description asks for {expected:,} parameters, but it holds {stored:,}")
        self.flow_ = self._new_flow()
        self.flow_.load_state_dict({name: torch.as_tensor(array) for name, array in arrays.items()})
