"""Tags that tell scikit-learn what kind of estimator a class is; scikit-learn itself asks for them."""

import sys
from typing import Any

__all__ = ["density_tags", "not_fitted_error"]


def not_fitted_error(message: str) -> ValueError:
    """The error of an estimator that is not fitted: scikit-learn's own where that is loaded, else a ValueError."""
    exceptions = sys.modules.get("sklearn.exceptions")
    kind = ValueError if exceptions is None else exceptions.NotFittedError
    error: ValueError = kind(message)
    return error


def density_tags() -> Any:
    """Tags of a density estimator: points are rows of a dense array, and there is no target."""
    from sklearn.utils import InputTags, Tags, TargetTags

    return Tags(
        estimator_type="density_estimator",
        target_tags=TargetTags(required=False),
        input_tags=InputTags(two_d_array=True),
    )
