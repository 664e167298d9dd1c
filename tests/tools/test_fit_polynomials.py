"""The coefficients in the kernel are those of the script that fits them."""

import importlib.util
import sys
from dataclasses import replace
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


@pytest.mark.parametrize(
    ("header", "digits"),
    [
        ("grid.hpp", "0.0153460599369"),
        ("grid.hpp", "0.003250781541643700138"),
        ("exp.hpp", "0.0555032877377"),
        ("exp.hpp", "4.435285017207651730e-10"),
    ],
)
def test_another_coefficient_is_found(script, header, digits, monkeypatch, tmp_path, capsys):
    changed = tmp_path / header
    fits = script.fits()
    source = next(fit.header for fit in fits if fit.header.name == header).read_text()
    assert digits in source
    mantissa, _, exponent = digits.partition("e")
    other = mantissa[:-2] + str((int(mantissa[-2]) + 2) % 10) + mantissa[-1] + ("e" + exponent if exponent else "")
    changed.write_text(source.replace(digits, other))
    moved = [replace(fit, header=changed) if fit.header.name == header else fit for fit in fits]
    monkeypatch.setattr(script, "fits", lambda: moved)
    assert script.main() == 1
    assert "instead of" in capsys.readouterr().out
