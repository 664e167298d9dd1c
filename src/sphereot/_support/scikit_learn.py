"""What scikit-learn asks of an estimator. It is imported here only when it calls, and so is installed."""

from typing import Any

__all__ = ["density_tags"]


def density_tags() -> Any:
    """The tags of a density estimator: points are rows of a dense array, and there is no target."""
    from sklearn.utils import InputTags, Tags, TargetTags

    return Tags(
        estimator_type="density_estimator",
        target_tags=TargetTags(required=False),
        input_tags=InputTags(two_d_array=True),
    )
