"""Modules of a package that need optional packages, imported when they are first used."""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["import_on_use"]


def import_on_use(package: str, *modules: str) -> Callable[[str], Any]:
    """Return the function `__getattr__` of a package that imports these of its modules when they are first used."""

    def get_attribute(name: str) -> Any:
        if name in modules:
            return import_module(f"{package}.{name}")  # which also makes it an attribute
        # With the package as `obj`, Python looks for similar names.
        raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])

    return get_attribute
