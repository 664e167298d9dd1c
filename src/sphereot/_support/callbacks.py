"""Callbacks of iterative methods: one signature for every function that takes steps."""

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["Callback", "asks_to_stop"]

Callback = Callable[[int, float, Any], object]
"""Called as ``callback(step, loss, state)`` after each step; the work stops early if it returns True.

`step` is the number of steps taken, `loss` the loss of the last one as a float, and `state` what the work changes, as
that step left it: the particles of `gradient_flow`, the flow of `DensityEstimator.fit`, the sampler of `fit_sampler`.
"""


def asks_to_stop(callback: Callback | None, step: int, loss: float, state: Any) -> bool:
    """Call a callback, if there is one, and tell whether it returned True; other values do not stop the work.

    >>> asks_to_stop(lambda step, loss, state: step == 3, 3, 0.5, None), asks_to_stop(None, 3, 0.5, None)
    (True, False)
    """
    answer = None if callback is None else callback(step, loss, state)
    return isinstance(answer, bool | np.bool_) and bool(answer)
