"""Tests that bad input raises the right errors, from a table of calls."""

from collections.abc import Callable, Mapping

import pytest

__all__ = ["assert_libraries_do_not_mix", "refusal_test"]


def refusal_test(faults: Mapping[str, tuple[Callable[[], object], type[Exception], str]]) -> Callable[[str], None]:
    """Make a parametrized test: each call of the table raises its error, with a message that matches."""

    @pytest.mark.parametrize("fault", faults)
    def test(fault: str) -> None:
        call, error, message = faults[fault]
        with pytest.raises(error, match=message):
            call()

    return test


def assert_libraries_do_not_mix(calls: Mapping[str, Callable]) -> None:
    """Each call, given the module torch, mixes its tensors with NumPy arrays, and its TypeError matches the key."""
    torch = pytest.importorskip("torch")
    for message, call in calls.items():
        with pytest.raises(TypeError, match=message):
            call(torch)
