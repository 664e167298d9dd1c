"""Tags that tell scikit-learn what kind of estimator a class is; scikit-learn itself asks for them."""

from typing import Any

__all__ = ["density_tags"]


def density_tags() -> Any:
    """Tags of a density estimator: points are rows of a dense array, and there is no target."""
    from sklearn.utils import InputTags, Tags, TargetTags

    return Tags(
        estimator_type="density_estimator",
        target_tags=TargetTags(required=False),
        input_tags=InputTags(two_d_array=True),
    )
