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
    """To the last bit on the machine of the recording, elsewhere to a tolerance; `golden_values.py --write` records."""
    for package in NEEDED.get(group, []):
        pytest.importorskip(package)
    exact = golden_values.is_machine_of_recording()
    differing = golden_values.differences(group, exact=exact)
    assert not differing, "\n".join(differing)
