"""Density estimator for points on the sphere, with the interface of scikit-learn."""

import inspect
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import torch
from numpy.typing import NDArray

from sphereot._arrays.containers import Columns
from sphereot._arrays.libraries import Array, namespace, to_kind, to_numpy
from sphereot._arrays.random import numpy_generator, torch_generator
from sphereot._arrays.types import ArrayT, Bandwidth, Numbers, Points, Seed, UniformMethod
from sphereot._arrays.validation import as_int, as_points, as_points_or_table, as_weights, own_weights, require_same_dim
from sphereot._support.atomic_write import reason_of
from sphereot._support.checkpoints import Callback, CheckpointStore, DivergenceError, StateFile, asks_to_stop, digest
from sphereot._support.extras import Progress, progress_bar
from sphereot._support.scikit_learn import ScikitLearnDensity, not_fitted_error, seed_or_random_state
from sphereot.density.adaptive_kde import AdaptiveKDE
from sphereot.density.averaging import DensityAverage, fit_average
from sphereot.density.fit_state import LabeledStore, load_state
from sphereot.density.flow_sizes import FlowSize
from sphereot.density.kde import SphericalKDE
from sphereot.density.mixture import VonMisesFisherMixture
from sphereot.density.model_files import as_tensor, read_model, write_model
from sphereot.density.objectives import CircleSampling
from sphereot.density.parameters import AVERAGES, FLOWS, check_parameters, require_used_options
from sphereot.density.training import History, log_likelihood, train
from sphereot.flows import Flow
from sphereot.sphere import normalize

__all__ = ["DensityEstimator"]


class DensityEstimator(ScikitLearnDensity):
    """Density estimator for points on the sphere S^{d-1}: a flow, a kernel estimate, a mixture, or the best average.

    Parameters
    ----------
    model : {"expmap", "stereo", "kde", "adaptive", "mixture", "auto"}
        Exponential-map flow to the uniform distribution, RealNVP after a stereographic projection (the paper's
        "Stereo"), `sphereot.density.SphericalKDE`, `AdaptiveKDE`, `VonMisesFisherMixture`, or an average of many
        estimates with weights by cross-validation: the choice for the largest likelihood of new points.
    loss : {"ssw", "sw", "nll", "ssw+nll"}, optional
        Training loss of a flow: SSW_2^2 of the transformed data to the base distribution, the Euclidean SW_2^2, the
        negative log-likelihood, or the sum of the first and third. By default "ssw" for "expmap" and "sw" for "stereo",
        as in the paper.
    n_blocks, n_components : int, optional
        Size of the flow: 48 blocks of 100 components for "expmap", 10 blocks for "stereo", by default.
    epochs : int
        Steps of Adam on all points at once; the paper takes 20,000.
    lr : float, optional
        Learning rate; 0.1 for "expmap" and 0.001 for "stereo" by default.
    final_lr : float, optional
        Learning rate of the last epoch, reached from `lr` by equal factors; constant by default, as in the paper.
    n_projections : int
        The number of great circles (or directions), drawn anew in every epoch; not used with `method="exact"`.
    method : {"iid", "orthogonal", "quasi", "exact"}
        How great circles are drawn; see `sphereot.great_circles`. The noise of a few independent great circles acts as
        a regularizer: it keeps the flow from making the sample more even than a uniform sample is. "exact" takes the
        mean over all great circles, for the losses "ssw" and "ssw+nll"; its time grows with the square of the number of
        points.
    validation_fraction : float
        Share of the points that is held out to follow the likelihood; 0 for none.
    patience : int, optional
        Stop after so many epochs without a better likelihood of the points held out, and restore the best parameters.
        Needs a `validation_fraction`.
    bandwidth : float or str, optional
        Of the kernel estimate; see `SphericalKDE`.
    folds : {"locations", "rows"}
        How cross-validation divides the points for "auto". "locations" keeps repeated points together: weights are
        right for new locations. With "rows", a repeated point counts as a success of the narrowest kernels: weights are
        right for new points that repeat old locations as often as these repeat each other.
    candidates : tuple of {"kernels", "mixtures", "flow"}
        Estimates that "auto" considers: kernel estimates of 6 bandwidths and 33 adaptive ones, mixtures of 16, 64 and
        256 components, and the exponential-map flow trained by likelihood with early stopping. The flow is trained six
        times, for a weight that is near zero on the data of the paper, and is left out by default.
    seed : int, optional
        Makes a fit reproducible.
    progress : bool or callable (done, total)
        Show a progress bar, or call a function with the number of epochs done and their total; as in
        `sphereot.gradient_flow`.
    columns : str, int or sequence of them, optional
        Columns of the coordinates in a table: names or numbers, as in `sphereot.ssw`; longitude and latitude in degrees
        become unit vectors. `fit` then needs a table; the other methods take arrays of unit vectors too.

    Attributes
    ----------
    flow_ : sphereot.flows.Flow
        The fitted flow ("expmap", "stereo").
    kde_ : SphericalKDE
        The fitted kernel estimate ("kde").
    average_ : sphereot.density.DensityAverage
        The fitted von Mises-Fisher components ("adaptive", "mixture", "auto"); `average_.shares` has the weight of
        every estimate in the average.
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
    >>> from sphereot.density import DensityEstimator
    >>> x = sphere.normalize(sphere.random_uniform(200, 3, seed=0) + [1.0, 0.0, 0.0])
    >>> estimator = DensityEstimator(n_blocks=4, n_components=10, epochs=100, seed=0).fit(x)
    >>> bool(estimator.score(x) > -2.5)  # the uniform distribution has -2.53
    True
    >>> estimator.sample(5, seed=1).shape
    (5, 3)
    >>> best = DensityEstimator("auto", seed=0).fit(x)
    >>> bool(best.score(x) > estimator.score(x))
    True
    """

    def __init__(
        self,
        model: Literal["expmap", "stereo", "kde", "adaptive", "mixture", "auto"] = "expmap",
        loss: Literal["ssw", "sw", "nll", "ssw+nll"] | None = None,
        *,
        n_blocks: int | None = None,
        n_components: int = 100,
        epochs: int = 2000,
        lr: float | None = None,
        final_lr: float | None = None,
        n_projections: int = 20,
        method: UniformMethod = "iid",
        validation_fraction: float = 0.0,
        patience: int | None = None,
        bandwidth: Bandwidth | None = None,
        folds: Literal["locations", "rows"] = "locations",
        candidates: tuple[str, ...] = ("kernels", "mixtures"),
        seed: int | None = None,
        progress: Progress = False,
        columns: Columns | None = None,
    ) -> None:
        self.model, self.loss = model, loss
        self.n_blocks, self.n_components = n_blocks, n_components
        self.epochs, self.lr, self.final_lr = epochs, lr, final_lr
        self.n_projections, self.method = n_projections, method
        self.validation_fraction, self.patience = validation_fraction, patience
        self.bandwidth, self.folds, self.candidates = bandwidth, folds, candidates
        self.seed, self.progress, self.columns = seed, progress, columns

    # ---- fitting ----

    def fit(
        self,
        x: Points,
        y: None = None,
        sample_weight: Numbers | None = None,
        *,
        checkpoint: str | os.PathLike[str] | CheckpointStore | None = None,
        callback: Callback | None = None,
    ) -> "DensityEstimator":
        """Fit the model to points.

        Parameters
        ----------
        x : array, shape (n, d)
            Unit vectors.
        y : None
            Not used; there for pipelines.
        sample_weight : array, shape (n,), optional
            Nonnegative weights of the points, for the models "kde", "adaptive" and "mixture".
        checkpoint : path, optional
            A file for the state of the training, written every ten seconds: a fit that was interrupted resumes from
            there and ends with the same numbers. Removed at the end, and when the training diverges. Instead of a
            path, an object with ``load()`` and ``save(state)``, as in `sphereot.sampling.fit_sampler`. Models other
            than flows write none: their fits take seconds to a few minutes, and start again.
        callback : callable (epoch, loss, flow), optional
            For flows. Called after every epoch with the number of epochs done, the loss as a float, and the flow.
            Training stops early if it returns True, as in `sphereot.gradient_flow`.

        Returns
        -------
        DensityEstimator
            Itself.

        Raises
        ------
        ValueError
            Also for a checkpoint that is damaged, or belongs to a fit of other data, parameters or seed.
        DivergenceError
            If the loss becomes NaN or infinite.
        """
        sample_weight = own_weights(sample_weight, x)
        points = as_points("x", x, self.columns, weighted=True)
        check_parameters(self.get_params())
        require_used_options(self.get_params(), self._changed_params())
        self.n_features_in_ = int(points.shape[1])
        values = to_numpy(points)
        if sample_weight is not None and self.model not in ("kde", "adaptive", "mixture"):
            raise ValueError(
                f"sample_weight: model={self.model!r} takes no weights; choose 'kde', 'adaptive' or 'mixture'."
            )
        if self.model == "kde":
            self.kde_ = SphericalKDE(self.bandwidth).fit(values, sample_weight=sample_weight)
            self.history_ = History()
            return self
        if self.model in AVERAGES:
            self.average_ = self._fit_average(normalize(values.astype(np.float64)), sample_weight)
            self.history_ = History()
            return self
        loss, lr = self._objective()
        data = torch.as_tensor(values.astype(np.float32))
        store = StateFile(Path(checkpoint)) if isinstance(checkpoint, str | os.PathLike) else checkpoint
        work = self._work(data)
        saved = None if store is None else load_state(store, work)
        # A fit without a seed resumes with the seed it started from: which points are held out depends on it.
        generator = torch_generator(self.seed if saved is None else saved["seed"], "cpu")
        seed = generator.initial_seed()
        held_out = int(self.validation_fraction * len(data))
        order = torch.randperm(len(data), generator=generator)
        validation = data[order[:held_out]] if held_out else None
        self.flow_ = self._flow_size().new_flow(generator)
        with progress_bar(self.progress, "epochs", self.epochs) as advance:

            def after_epoch(epoch: int, value: float, flow: Flow) -> bool:
                advance(epoch)
                return asks_to_stop(callback, epoch, value, flow)

            try:
                self.history_ = train(
                    self.flow_,
                    data[order[held_out:]],
                    loss=loss,
                    epochs=self.epochs,
                    lr=lr,
                    final_lr=None if self.final_lr is None else float(self.final_lr),
                    circles=CircleSampling(self.n_projections, self.method, generator),
                    validation=validation,
                    patience=self.patience,
                    start=None if saved is None else saved["training"],
                    checkpoint=None if store is None else LabeledStore(store, {"work": work, "seed": seed}),
                    callback=after_epoch,
                )
            except DivergenceError:
                if isinstance(store, StateFile):
                    store.remove()  # it would diverge again, and block a fit with a smaller learning rate
                raise
        if store is not checkpoint and isinstance(store, StateFile):
            store.remove()
        return self

    def _fit_average(self, points: NDArray[np.float64], weights: Numbers | None) -> DensityAverage:
        """Fit a model of von Mises-Fisher components to points in float64."""
        generator = numpy_generator(self.seed)
        if self.model == "adaptive":
            return DensityAverage(
                AdaptiveKDE().fit(points, sample_weight=weights).components_, shares={"adaptive": 1.0}
            )
        if self.model == "mixture":
            mixture = VonMisesFisherMixture(seed=generator).fit(points, sample_weight=weights)
            return DensityAverage(mixture.components_, shares={"mixture": 1.0})
        return fit_average(
            points,
            candidates=tuple(self.candidates),
            folds=self.folds,
            fit_flow=self._fit_flow,
            generator=generator,
            progress=self.progress,
        )

    def _fit_flow(self, points: NDArray[np.float64], seed: int) -> Flow:
        """The exponential-map flow of the average: likelihood, with early stopping on a tenth of the points."""
        changes: dict[str, Any] = {
            "model": "expmap",
            "loss": self.loss or "nll",
            "validation_fraction": self.validation_fraction or 0.1,
            "patience": self.patience or 300,
            "seed": seed,
            "progress": False,
            "columns": None,
            "folds": "locations",
            "candidates": ("kernels", "mixtures"),
        }
        return DensityEstimator(**(self.get_params() | changes)).fit(points).flow_

    def _work(self, data: torch.Tensor) -> dict[str, Any]:
        """What identifies a training: data, settings and seed, as plain values."""
        loss, lr = self._objective()
        settings = self.get_params() | {"loss": loss, "lr": lr, "version": version("sphereot")}
        excluded = ("bandwidth", "folds", "candidates", "progress", "columns")
        plain = {name: _plain(value) for name, value in settings.items() if name not in excluded}
        if plain["final_lr"] is None:  # states of earlier versions do not have it
            del plain["final_lr"]
        return {"data": digest(data.numpy())} | plain

    def _objective(self) -> tuple[str, float]:
        loss, lr = FLOWS[self.model]
        return self.loss or loss, float(self.lr or lr)

    def _flow_size(self) -> FlowSize:
        return FlowSize.of(self.model, self.n_features_in_, self.n_blocks, self.n_components)

    # ---- densities and samples of a fitted model ----

    @overload
    def log_density(self, x: NDArray[Any]) -> NDArray[Any]: ...

    @overload
    def log_density(self, x: ArrayT) -> ArrayT: ...

    @overload
    def log_density(self, x: Points) -> Any: ...

    def log_density(self, x: Points) -> Any:
        """Logarithm of the density at points (n, d), as an array of their library; without gradients.

        Returns
        -------
        array, shape (n,)
            Against the area measure of the sphere: the uniform distribution on S^2 has -log(4 pi) = -2.53.
        """
        points = self._points(x)
        if self.model == "kde":
            return self.kde_.log_density(points)
        if self.model in AVERAGES:
            return to_kind(self.average_.log_density(_normalized(points)), points)
        data = torch.as_tensor(to_numpy(points).astype(np.float32))
        with torch.no_grad():
            values = torch.cat([self.flow_.log_prob(block) for block in torch.split(data, 1 << 14)])
        return to_kind(values.numpy(), points)

    @overload
    def density(self, x: NDArray[Any]) -> NDArray[Any]: ...

    @overload
    def density(self, x: ArrayT) -> ArrayT: ...

    @overload
    def density(self, x: Points) -> Any: ...

    def density(self, x: Points) -> Any:
        """The density at points (n, d)."""
        values = self.log_density(x)
        return namespace(values).exp(values)

    score_samples = log_density

    def score(self, x: Points, y: None = None, sample_weight: Numbers | None = None) -> float:
        """Mean log-likelihood of points (n, d); `sample_weight`, shape (n,), are nonnegative weights in the mean."""
        points = self._points(x)
        if self.model == "kde":
            return float(self.kde_.score(points, sample_weight=sample_weight))
        weights = as_weights("sample_weight", sample_weight, "x", points)
        if weights is not None:
            return float(np.average(to_numpy(self.log_density(points)), weights=to_numpy(weights)))
        if self.model in AVERAGES:
            return float(np.mean(self.average_.log_density(_normalized(points))))
        return log_likelihood(self.flow_, torch.as_tensor(to_numpy(points).astype(np.float32)))

    def sample(
        self, n: int = 1, seed: Seed = None, *, random_state: "Seed | np.random.RandomState" = None
    ) -> np.ndarray[Any, Any]:
        """Draw points (n, d) from the fitted density.

        Parameters
        ----------
        n : int
            The number of points.
        seed : int, generator or None
            Where the random numbers come from: a torch.Generator for a flow, a numpy Generator for the other models.
            None draws afresh.
        random_state : as `seed`, or a numpy RandomState
            scikit-learn's name for `seed`; give one of them.
        """
        self._require_fit()
        seed = seed_or_random_state(seed, random_state)
        n = as_int("n", n, 1, "the number of points")
        if self.model == "kde":
            return np.asarray(self.kde_.sample(n, seed))
        if self.model in AVERAGES:
            return self.average_.sample(n, numpy_generator(seed))
        return np.asarray(self.flow_.sample((n,), seed=seed).numpy())

    def _points(self, x: Points) -> Array:
        self._require_fit()
        points = as_points_or_table("x", x, self.columns)
        if points.shape[1] != self.n_features_in_:
            require_same_dim("x", points, "the fitted sample", np.empty((1, self.n_features_in_)))
        return points

    def _require_fit(self) -> None:
        if not hasattr(self, "n_features_in_"):
            raise not_fitted_error("this estimator is not fitted yet; call fit(x) first, or load a model file.")

    # ---- files ----

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the fitted model and its parameters into one safetensors file; `load` reads it. No pickle."""
        self._require_fit()
        if self.model == "kde":
            tensors = {"points": as_tensor(self.kde_.points_), "weights": as_tensor(self.kde_.weights_)}
            extra: dict[str, Any] = {"bandwidth_": self.kde_.bandwidth_}
        elif self.model in AVERAGES:
            tensors = self.average_.tensors()
            extra = {"shares": self.average_.shares, "flow_weight": self.average_.flow_weight}
        else:
            tensors, extra = dict(self.flow_.state_dict()), {}
        history = {"losses": self.history_.losses, "validation": self.history_.validation}
        parameters = self.get_params() | {"progress": self.progress is True}  # a function cannot be written
        if isinstance(self.columns, range):
            parameters["columns"] = list(self.columns)
        description = {"parameters": parameters, "dim": self.n_features_in_, "history": history} | extra
        return write_model(path, tensors, description)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "DensityEstimator":
        """Read a model that `save` wrote.

        Raises
        ------
        ValueError
            For a file that is truncated, or is no density model.
        """
        tensors, description = read_model(path)
        try:
            return cls._from_file(tensors, description)
        except MemoryError:
            raise
        except Exception as error:  # a description can be wrong in any way; the message names the file in all cases
            raise ValueError(
                f"{path}: this model file is damaged, or does not fit this version of sphereot ({reason_of(error)})."
            ) from error

    @classmethod
    def _from_file(cls, tensors: dict[str, torch.Tensor], description: dict[str, Any]) -> "DensityEstimator":
        parameters = dict(description["parameters"])
        if "slices" in parameters:  # what `method` was called in files of version 0.1
            parameters["method"] = parameters.pop("slices")
        if isinstance(parameters.get("candidates"), list):  # JSON has no tuples
            parameters["candidates"] = tuple(parameters["candidates"])
        model = cls(**parameters)
        dim = as_int("dim", description["dim"], 2, "the dimension")
        check_parameters(model.get_params())
        model.n_features_in_ = dim
        history = description["history"]
        model.history_ = History(
            [float(loss) for loss in history["losses"]],
            [(int(epoch), float(nll)) for epoch, nll in history["validation"]],
        )
        if model.model == "kde":
            if tensors["points"].ndim != 2 or tensors["points"].shape[1] != dim:
                raise ValueError(f"points: shape is {tuple(tensors['points'].shape)}, but dim is {dim}")
            kde = SphericalKDE(float(description["bandwidth_"]), weights=tensors["weights"].numpy())
            model.kde_ = kde.fit(tensors["points"].numpy())
            return model
        if model.model in AVERAGES:
            of_flow = {name.removeprefix("flow."): tensors[name] for name in tensors if name.startswith("flow.")}
            model.average_ = DensityAverage.from_tensors(
                tensors,
                dim,
                model._loaded_flow(of_flow) if of_flow else None,
                float(description["flow_weight"]),
                {str(name): float(share) for name, share in description["shares"].items()},
            )
            return model
        model.flow_ = model._loaded_flow(tensors)
        return model

    def _loaded_flow(self, tensors: dict[str, torch.Tensor]) -> Flow:
        # Before the flow is made: a wrong number in the description could need any amount of memory.
        expected, stored = self._flow_size().parameter_count(), sum(tensor.numel() for tensor in tensors.values())
        if expected != stored:
            raise ValueError(f"its description asks for {expected:,} parameters, but it holds {stored:,}")
        flow = self._flow_size().new_flow()
        flow.load_state_dict(tensors)
        return flow

    # ---- scikit-learn's protocol ----

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor arguments by name."""
        return {name: getattr(self, name) for name in _parameter_names()}

    def set_params(self, **params: Any) -> "DensityEstimator":
        """Change constructor arguments before the next fit."""
        for name, value in params.items():
            if name not in _parameter_names():
                raise ValueError(f"there is no parameter {name!r}; there are {', '.join(_parameter_names())}.")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        shown = {"model": self.model} | self._changed_params()
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in shown.items())})"

    def _changed_params(self) -> dict[str, Any]:
        names = inspect.signature(type(self).__init__).parameters
        return {k: v for k, v in self.get_params().items() if v != names[k].default}


def _normalized(points: Array) -> NDArray[np.float64]:
    normalized: NDArray[np.float64] = normalize(to_numpy(points).astype(np.float64))
    return normalized


def _plain(value: Any) -> Any:
    """Convert a NumPy number to a Python number, which a state can hold."""
    return value.item() if isinstance(value, np.generic) else value


def _parameter_names() -> list[str]:
    return [name for name in inspect.signature(DensityEstimator.__init__).parameters if name != "self"]
