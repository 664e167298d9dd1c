"""The coefficients in the kernel are those of the script that fits them."""

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "fit_polynomials.py"


@pytest.fixture
def script(monkeypatch):
    spec = importlib.util.spec_from_file_location("fit_polynomials", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "fit_polynomials", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--check"])
    return module


def test_header_has_the_fitted_coefficients(script, capsys):
    """Every digit that the header writes, and the maximum errors that it claims."""
    assert script.main() == 0, capsys.readouterr().out


@pytest.mark.parametrize("digits", ["0.0153460599369", "0.003250781541643700138"])
def test_another_coefficient_is_found(script, digits, monkeypatch, tmp_path, capsys):
    changed = tmp_path / "grid.hpp"
    source = script.HEADER.read_text()
    assert digits in source
    changed.write_text(source.replace(digits, digits[:-1] + str((int(digits[-1]) + 2) % 10)))
    monkeypatch.setattr(script, "HEADER", changed)
    assert script.main() == 1
    assert "instead of" in capsys.readouterr().out
