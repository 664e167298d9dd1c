"""Import modules of a package, which need optional packages, when they are first used."""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def import_on_use(package: str, *modules: str) -> Callable[[str], Any]:
    """Return a function `__getattr__` for a package, which imports these modules of it when they are first used."""

    def get_attribute(name: str) -> Any:
        if name in modules:
            return import_module(f"{package}.{name}")  # which also makes it an attribute
        # With the package as `obj`, Python looks for similar names.
        raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])

    return get_attribute
