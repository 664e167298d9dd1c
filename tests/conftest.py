import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Two JAX precisions are tested in one process: 64 bits must be on before anything is traced.
os.environ.setdefault("JAX_ENABLE_X64", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

# Each of several processes has a core for itself: threads of torch that wait for each other would slow all of them.
if "PYTEST_XDIST_WORKER" in os.environ and importlib.util.find_spec("torch") is not None:
    import torch

    torch.set_num_threads(1)

import numpy as np
import pytest
from hypothesis import settings

TESTS = Path(__file__).parent


def import_as(name: str, path: Path) -> None:
    """Import a file or a package of this folder under its own name.

    With this folder on sys.path, `import torch` would give the folder tests/torch where torch is not installed.
    """
    pytest.register_assert_rewrite(name)
    spec = importlib.util.spec_from_file_location(name, path)
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])


import_as("helpers", TESTS / "helpers" / "__init__.py")
import_as("golden_values", TESTS / "golden_values.py")

from helpers.browser import Browser, Page, require_browser
from helpers.libraries import DTYPES, LIBRARIES, Library

settings.register_profile("suite", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("suite")


# Scripts that make and a test run, and tensors for tests where there is torch: no tests of their own.
collect_ignore = [
    "golden_values.py",
    "typing/program.py",
    "_backends/jax/four_devices.py",
    "_backends/native/sanitized.py",
    "packaging/smoke.py",
    "torch/two_ranks.py",
    "helpers",
]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20230511)


@pytest.fixture(params=[(name, dtype) for name in LIBRARIES for dtype in DTYPES], ids="-".join)
def library(request: pytest.FixtureRequest) -> Library:
    return Library(*request.param)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    require_browser()
    with Browser() as running:
        yield running


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a file as `Browser.open` does; what a page complains about at the end fails the test."""
    opened = []

    def open_page(path: Path, **options: Any) -> Page:
        opened.append(browser.open(path, **options))
        return opened[-1]

    yield open_page
    for page in opened:
        assert page.complaints() == []
