"""Public signatures say what they take: no argument of type Any, but for those listed with a reason."""

import dataclasses
import importlib
import inspect
import types
import typing
from collections.abc import Sequence

import pytest

MODULES = (
    "sphereot", "sphereot.circle", "sphereot.compat.pot", "sphereot.compat.sklearn",
    "sphereot.datasets", "sphereot.density", "sphereot.distributions", "sphereot.flows",
    "sphereot.optim", "sphereot.plotting",
    "sphereot.radon", "sphereot.report", "sphereot.sampling", "sphereot.sketch",
    "sphereot.sketch.dask", "sphereot.sketch.spark", "sphereot.slicing", "sphereot.sphere", "sphereot.stats",
    "sphereot.torch", "sphereot.torch.euclidean", "sphereot.torch.metrics",
)  # fmt: skip

# What really takes anything.
ANY = {
    "DivergenceError(result)": "the result so far, of any kind of work",
    "HypersphericalUniform.expand(_instance)": "the signature of torch.distributions",
    "PowerSpherical.expand(_instance)": "the same",
    "VonMisesFisher.expand(_instance)": "the same",
}


def parameters(module):
    """("Class.method(argument)", annotation) for all public functions, classes and methods of a module."""
    for name in module.__all__:
        try:
            item = getattr(module, name)
        except ImportError:  # it needs an extra that is not installed
            continue
        if inspect.isclass(item):
            # Results are not made by users, and the arrays in them are of the library that the caller chose.
            made_by_users = {} if dataclasses.is_dataclass(item) else {name: item.__init__}
            functions = made_by_users | {
                f"{name}.{key}": getattr(value, "__func__", value)
                for key, value in inspect.getmembers(item)  # inherited ones too
                if not key.startswith("_") and callable(getattr(value, "__func__", value))
            }
        else:
            functions = {name: item} if inspect.isfunction(item) else {}
        for label, function in functions.items():
            if not str(getattr(function, "__module__", "")).startswith("sphereot"):
                continue
            for parameter in inspect.signature(function).parameters.values():
                if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                    yield f"{label}({parameter.name})", parameter.annotation


def says_any(annotation):
    """Whether an annotation is Any, a union with Any, or a sequence of Any."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType, Sequence, list, tuple):
        return any(map(says_any, typing.get_args(annotation)))
    return annotation is typing.Any or annotation == "Any"


@pytest.mark.parametrize("name", MODULES)
def test_no_argument_is_any(name):
    """`help(function)` and type checkers tell what an argument is."""
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        pytest.skip(str(error))
    found = {label for label, annotation in parameters(module) if says_any(annotation)}
    assert found <= set(ANY), sorted(found - set(ANY))
