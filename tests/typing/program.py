"""A program of a user, for type checkers: what is right has no message; what is wrong is marked with the reason."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import sphereot
from sphereot.stats import drift_test, two_sample_test, uniformity_test

x: NDArray[np.float64] = sphereot.sphere.random_uniform(10, 3, seed=0)
y: NDArray[np.float64] = sphereot.sphere.random_uniform(10, 3, seed=1)
generator = np.random.default_rng(0)

# Right: arrays, nested lists, methods by name, ints and generators as seeds.
value: np.floating[Any] = sphereot.ssw(x, y, method="quasi", seed=generator)
exact: np.floating[Any] = sphereot.ssw_uniform(x, method="exact")
nested = sphereot.ssw([[1.0, 0.0]], [[0.0, 1.0]], x_weights=[1.0], p=1)
matrix = sphereot.pairwise_ssw([x, y], weights=[None, [1.0] * 10])
estimate: sphereot.SSWEstimate = sphereot.ssw_estimate(x, y, rtol=0.1)
p_value: float = two_sample_test(x, y, permutations=99, seed=0).p_value
same: bool = drift_test(x, [y], permutations=99).drifted
uniform: float = uniformity_test(x).p_value
total: sphereot.Sketch = sphereot.Sketch(3).update(x) + sphereot.Sketch(3).update(y)
tensor: torch.Tensor = sphereot.ssw(torch.eye(3), torch.eye(3), seed=0)

# Wrong: each line with this mark must have a message of the type checker.
sphereot.ssw(x, "abc")  # WRONG
sphereot.ssw(x, y, method="sobol")  # WRONG
sphereot.ssw_uniform(x, method="importance")  # WRONG
two_sample_test(x, 3)  # WRONG
drift_test(x, [y], permutations="many")  # WRONG
uniformity_test(x, null="exact")  # WRONG
