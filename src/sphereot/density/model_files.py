"""Model files: arrays and a JSON description in one safetensors file, which is read without running code from it."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sphereot._arrays.validation import as_int
from sphereot._support.atomic_write import reason_of
from sphereot.density._estimator import FORMAT, DensityModel
from sphereot.density.averaging import AverageDensity
from sphereot.density.kde import AdaptiveKDE, SphericalKDE
from sphereot.density.mixture import VonMisesFisherMixture

_MODELS = ("expmap", "stereo", "kde", "adaptive", "mixture", "auto")
# Parameters that are in every file of an earlier version, whether its model has them or not.
_SHARED = {
    "model", "loss", "n_blocks", "n_components", "epochs", "lr", "final_lr", "n_projections", "method",
    "validation_fraction", "patience", "bandwidth", "folds", "candidates", "seed", "progress", "columns",
}  # fmt: skip


def load(path: str | os.PathLike[str]) -> DensityModel:
    """Read a model that the method `save` of a density estimator wrote.

    Parameters
    ----------
    path : path
        The model file.

    Returns
    -------
    SphericalKDE, AdaptiveKDE, VonMisesFisherMixture, FlowDensity or AverageDensity
        The fitted model, of the class that was saved.

    Raises
    ------
    ValueError
        For a file that is truncated, or is not a density model.

    Examples
    --------
    >>> import tempfile
    >>> from sphereot import density
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = density.SphericalKDE(0.3).fit(np.eye(3)).save(f"{folder}/model.safetensors")
    ...     kde = density.load(path)
    >>> kde
    SphericalKDE(bandwidth=0.3)
    """
    arrays, description = _read(path)
    try:
        return _from_file(arrays, description)
    except MemoryError:
        raise
    except Exception as error:  # a description can be wrong in any way; the message names the file in all cases
        raise ValueError(
            f"{path}: this model file is damaged, or does not fit this version of sphereot ({reason_of(error)})."
        ) from error


def _from_file(arrays: dict[str, NDArray[Any]], description: dict[str, Any]) -> DensityModel:
    parameters = dict(description["parameters"])
    name = parameters["model"]
    if name not in _MODELS:
        raise ValueError(f"model: got {name!r}; choose one of {', '.join(map(repr, _MODELS))}.")
    kind: type[DensityModel]
    if name in ("expmap", "stereo"):
        from sphereot.density.flow import FlowDensity

        kind = FlowDensity
    else:
        kinds = {"kde": SphericalKDE, "adaptive": AdaptiveKDE, "mixture": VonMisesFisherMixture, "auto": AverageDensity}
        kind = kinds[name]
    if name == "mixture" and "epochs" in parameters:
        del parameters["n_components"]  # of a flow, in files of an earlier version
    unknown = set(parameters) - _SHARED - set(kind._get_param_names())
    if unknown:
        raise ValueError(f"there is no parameter {', '.join(map(repr, sorted(unknown)))}")
    model = kind._from_parameters(parameters)
    model.n_features_in_ = as_int("dim", description["dim"], 2, "the dimension")
    model._restore(arrays, description)
    return model


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read the arrays and the description of a model file, and raise ValueError if it is damaged."""
    from safetensors import SafetensorError, safe_open

    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(2, "there is no such model file", str(file))
    try:
        with safe_open(file, framework="np") as opened:
            metadata = opened.metadata() or {}
            arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, TypeError) as error:  # a TypeError for a dtype that NumPy does not have
        message = f"{file}: this is no complete model file ({reason_of(error)}); write it again with `density fit`."
        raise ValueError(message) from error
    if metadata.get("format") != FORMAT:
        raise ValueError(
            f"{file}: this safetensors file is no density model of sphereot (format {metadata.get('format')!r}, not "
            f"{FORMAT!r}); give a file that `density fit` wrote."
        )
    for name, array in arrays.items():
        if array.dtype not in (np.float32, np.float64) or not np.isfinite(array).all():
            raise ValueError(
                f"{file}: this model file is damaged: {name!r} must hold finite numbers in float32 or float64; write "
                "it again with `density fit`."
            )
    try:
        description = json.loads(metadata["description"])
        if not isinstance(description, dict):
            raise ValueError("it is no object")
    except (KeyError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{file}: this model file has no description that can be read ({reason_of(error)}); write it "
            "again with `density fit`."
        ) from error
    return arrays, description
