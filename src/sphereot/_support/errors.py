"""Errors of the package that Python has no class for."""

from typing import Any

__all__ = ["DivergenceError", "InvalidValuesError", "NotFiniteError"]


class InvalidValuesError(ValueError):
    """Values of points or weights are not valid: NaN, infinity, other lengths than 1, negative weights."""


class NotFiniteError(ValueError):
    """A network returned NaN or infinity."""


class DivergenceError(ArithmeticError):
    """An iterative method diverged: a loss or a state became NaN or infinite, or a step exploded.

    `sphereot.gradient_flow`, `sphereot.density.DensityEstimator.fit` and `sphereot.sampling.fit_sampler` raise it, with
    a message that names the step and the step size or learning rate to reduce.

    Parameters
    ----------
    message : str
        What diverged, where, and what to do.
    result : object
        What was computed before, of the type that the function returns: `FlowResult`, `History` or `SamplerFit`.

    Attributes
    ----------
    result : object
        As above. Models that are fitted in place have the last parameters that gave a finite loss.

    Examples
    --------
    >>> import numpy as np
    >>> import sphereot
    >>> try:
    ...     sphereot.gradient_flow(np.eye(3), step_size=1e6, seed=0)
    ... except sphereot.DivergenceError as error:
    ...     print(error.result.particles.shape)
    (3, 3)
    """

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result
