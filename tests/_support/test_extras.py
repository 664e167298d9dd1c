"""Optional packages: errors that name the extra to install, and nothing else replaced."""

import sys

import pytest
from helpers.absent_modules import import_error

from sphereot._support.extras import require


def test_returns_the_package():
    assert require("numpy", "this test") is sys.modules["numpy"]


@pytest.mark.parametrize(
    ("module", "package", "message"),
    [
        ("torch", "torch", "sphereot.torch needs PyTorch: pip install 'sphereot[torch]'."),
        ("plotting", "matplotlib", "sphereot.plotting needs matplotlib: pip install 'sphereot[plot]'."),
    ],
)
def test_one_message_for_every_module(module, package, message):
    assert import_error(f"import sphereot.{module}", absent=package).strip() == message


def test_missing_package_is_named_in_the_error():
    with pytest.raises(
        ModuleNotFoundError, match=r"this test needs not_there: pip install 'sphereot\[torch\]'\."
    ) as got:
        require("not_there", "this test", extra="torch")
    assert got.value.name == "not_there"


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("import missing_below", ModuleNotFoundError, "No module named 'missing_below'"),
        ("raise ImportError('libcuda.so: cannot open')", ImportError, "libcuda.so: cannot open"),
        ("raise OSError('no memory')", OSError, "no memory"),
    ],
)
def test_errors_inside_the_package_are_not_replaced(tmp_path, monkeypatch, body, error, message):
    """A broken installation is not answered with advice to install what is there."""
    (tmp_path / "broken_package.py").write_text(body)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(error) as got:
        require("broken_package", "this test", extra="torch")
    assert str(got.value) == message
