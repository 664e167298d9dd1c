import os

# Two JAX precisions are tested in one process: 64 bits must be on before anything is traced.
os.environ.setdefault("JAX_ENABLE_X64", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("suite", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("suite")


# Scripts that make and a test run, and tensors for tests where there is torch: no tests of their own.
collect_ignore = ["sanitized.py", "two_ranks.py", "tensors.py"]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20230511)
