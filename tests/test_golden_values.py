"""Values of every public function, compared with those recorded in golden_values.json."""

import golden_values
import pytest

NEEDED = {
    "torch distances": ["torch"],
    "torch models": ["torch"],
    "torch training": ["torch"],
    "jax": ["jax"],
    "command line": ["typer", "polars"],
}


@pytest.mark.parametrize("group", golden_values.GROUPS)
def test_values_are_those_recorded(group):
    """To a tolerance; `golden_values.py --write` records new values."""
    for package in NEEDED.get(group, []):
        pytest.importorskip(package)
    differing = golden_values.differences(group)
    assert not differing, "\n".join(differing)
