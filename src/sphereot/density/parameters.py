"""Parameters of `DensityEstimator`: the models there are, and the errors that name a bad value."""

from collections.abc import Collection, Mapping
from numbers import Real
from typing import Any

from sphereot._arrays.validation import as_int, as_method, as_slice_count
from sphereot.density.averaging import CANDIDATES, FOLDS
from sphereot.density.objectives import OBJECTIVES

__all__ = ["AVERAGES", "FLOWS", "check_parameters", "require_used_options"]

FLOWS = {"expmap": ("ssw", 0.1), "stereo": ("sw", 1e-3)}
"""Default loss and learning rate of the flows."""

AVERAGES = ("adaptive", "mixture", "auto")
"""Models whose density is a sum of von Mises-Fisher components."""

_MODELS = (*FLOWS, "kde", *AVERAGES)

_OF_TRAINING = (
    "n_blocks",
    "n_components",
    "epochs",
    "lr",
    "final_lr",
    "n_projections",
    "method",
    "validation_fraction",
    "patience",
)


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Raise ValueError for a constructor argument of `DensityEstimator` that is out of range."""
    model, loss = parameters["model"], parameters["loss"]
    if model not in _MODELS:
        raise ValueError(f"model: got {model!r}; choose one of {', '.join(map(repr, _MODELS))}.")
    _check_average(parameters["folds"], parameters["candidates"])
    if loss is not None and loss not in OBJECTIVES:
        raise ValueError(f"loss: got {loss!r}; choose one of {', '.join(map(repr, OBJECTIVES))}.")
    is_trained = model in FLOWS or (model == "auto" and "flow" in parameters["candidates"])
    if loss is not None and not is_trained:
        raise ValueError(f"loss: got {loss!r}, but the model {model!r} is not trained by a loss; leave loss out.")
    if model == "stereo" and loss in ("ssw", "ssw+nll"):
        raise ValueError(f"loss: got {loss!r}, which needs a model that stays on the sphere; choose 'sw' or 'nll'.")
    as_int("epochs", parameters["epochs"], 1, "the number of epochs")
    if as_method(parameters["method"], also=("exact",)) == "exact" and is_trained:
        _check_exact(model, loss)
    as_slice_count(parameters["n_projections"])
    share, patience = parameters["validation_fraction"], parameters["patience"]
    if not isinstance(share, Real) or not 0 <= float(share) < 1:
        raise ValueError(f"validation_fraction: got {share!r}, but a share in [0, 1) is needed; give e.g. 0.1.")
    for name in ("lr", "final_lr"):
        rate = parameters[name]
        if rate is not None and (not isinstance(rate, Real) or not 0 < float(rate) < float("inf")):
            raise ValueError(
                f"{name}: got {rate!r}, but the learning rate must be positive and finite; give such a number."
            )
    if patience is not None:
        as_int("patience", patience, 1, "the number of epochs without improvement")
        if share == 0 and model in FLOWS:
            raise ValueError(
                f"patience: got {patience}, but no points are held out; give a validation_fraction, e.g. 0.1."
            )


def require_used_options(parameters: Mapping[str, Any], given: Collection[str]) -> None:
    """Raise ValueError for an option that the model does not use; `given` are those that differ from their default."""
    model = parameters["model"]
    unused: dict[str, str] = {}
    if model not in FLOWS and not (model == "auto" and "flow" in parameters["candidates"]):
        unused |= dict.fromkeys(_OF_TRAINING, "is not trained")
    if model == "stereo":
        unused["n_components"] = "has no components"
    if model != "kde":
        unused["bandwidth"] = "has no single bandwidth"
    if model != "auto":
        unused |= dict.fromkeys(("folds", "candidates"), "is a single estimate")
    for name, reason in unused.items():
        if name in given:
            raise ValueError(f"{name}: got {parameters[name]!r}, but the model {model!r} {reason}; leave {name} out.")


def _check_exact(model: str, loss: str | None) -> None:
    default = "nll" if model == "auto" else FLOWS[model][0]
    if (loss or default) not in ("ssw", "ssw+nll"):
        remedy = "another method" if model == "stereo" else "loss='ssw' or 'ssw+nll', or another method"
        raise ValueError(
            f"method: got 'exact', the mean over all great circles, but the loss {loss or default!r} has no such mean; "
            f"choose {remedy}."
        )


def _check_average(folds: Any, candidates: Any) -> None:
    if folds not in FOLDS:
        raise ValueError(f"folds: got {folds!r}; choose one of {', '.join(map(repr, FOLDS))}.")
    if not isinstance(candidates, tuple | list) or not candidates or not all(name in CANDIDATES for name in candidates):
        raise ValueError(
            f"candidates: got {candidates!r}; give a tuple of one or more of {', '.join(map(repr, CANDIDATES))}."
        )
