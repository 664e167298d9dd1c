"""What scikit-learn asks of an estimator beyond `fit` and `score`: tags, routing of metadata, names of arguments.

scikit-learn is imported when it asks, never before: sphereot works without it.
"""

import inspect
import sys
from typing import Any, Self

import numpy as np

__all__ = ["ScikitLearnDensity", "not_fitted_error", "seed_or_random_state"]

_UNCHANGED = "$UNCHANGED$"  # the value of sklearn.utils.metadata_routing.UNCHANGED


def not_fitted_error(message: str) -> ValueError:
    """The error of an estimator that is not fitted: scikit-learn's own where that is loaded, else a ValueError."""
    exceptions = sys.modules.get("sklearn.exceptions")
    kind = ValueError if exceptions is None else exceptions.NotFittedError
    error: ValueError = kind(message)
    return error


def seed_or_random_state(seed: Any, random_state: Any) -> Any:
    """The seed, which may be given by scikit-learn's name instead; a RandomState gives a new seed at every call."""
    if random_state is None:
        return seed
    if seed is not None:
        raise ValueError("random_state: got seed too, which means the same; give one of them.")
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return random_state


class ScikitLearnDensity:
    """Tags and metadata routing of a density estimator; metadata are the arguments of a method after x and y."""

    _metadata_request: Any  # the name under which `sklearn.base.clone` looks for it; set by `set_fit_request`

    def __sklearn_tags__(self) -> Any:
        """Tags of a density estimator: points are rows of a dense array, and there is no target."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type="density_estimator",
            target_tags=TargetTags(required=False),
            input_tags=InputTags(two_d_array=True),
        )

    def get_metadata_routing(self) -> Any:
        """Which arguments of `fit` and `score` are requested: a `sklearn.utils.metadata_routing.MetadataRequest`."""
        from sklearn.utils.metadata_routing import MetadataRequest, get_routing_for_object

        if hasattr(self, "_metadata_request"):
            return get_routing_for_object(self._metadata_request)  # a copy
        requests = MetadataRequest(owner=type(self).__name__)
        for method in ("fit", "score"):
            for name in self._metadata_names(method):
                getattr(requests, method).add_request(param=name, alias=None)
        return requests

    def set_fit_request(self, **requests: bool | str | None) -> Self:
        """Choose which arguments a pipeline or search passes on to `fit`, for scikit-learn's metadata routing.

        Parameters
        ----------
        **requests : bool, str or None
            By name, e.g. ``sample_weight=True``. True passes the argument on, False does not, None makes it an error,
            and a string is another name under which it is given.

        Returns
        -------
        Self
            This estimator.

        Raises
        ------
        RuntimeError
            Unless routing is on: ``sklearn.set_config(enable_metadata_routing=True)``.
        TypeError
            For a name that is no argument of `fit`.
        """
        return self._request("fit", requests)

    def set_score_request(self, **requests: bool | str | None) -> Self:
        """Choose which arguments a pipeline or search passes on to `score`; see `set_fit_request`."""
        return self._request("score", requests)

    def _request(self, method: str, requests: dict[str, bool | str | None]) -> Self:
        import sklearn

        if not sklearn.get_config()["enable_metadata_routing"]:
            raise RuntimeError(
                f"set_{method}_request: metadata routing is off; switch it on with "
                "sklearn.set_config(enable_metadata_routing=True)."
            )
        names = self._metadata_names(method)
        routing = self.get_metadata_routing()
        for name, alias in requests.items():
            if name not in names:
                raise TypeError(
                    f"set_{method}_request: got {name}, but {method} takes {', '.join(names)}; choose among these."
                )
            if alias != _UNCHANGED:
                getattr(routing, method).add_request(param=name, alias=alias)
        self._metadata_request = routing
        return self

    @classmethod
    def _metadata_names(cls, method: str) -> list[str]:
        return list(inspect.signature(getattr(cls, method)).parameters)[3:]  # after self, x and y
