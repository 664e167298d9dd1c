"""Quantiles of Student's t distribution against SciPy."""

import pytest
from numpy.testing import assert_allclose
from scipy.stats import t

from sphereot.distance.estimates import t_quantile


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9, 0.95, 0.99, 0.9999])
@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 7, 15, 30, 199, 200, 201, 1000, 10**6])
def test_equals_scipy(level, degrees):
    assert_allclose(t_quantile(level, degrees), t.ppf(0.5 + level / 2, degrees), rtol=1e-7)
