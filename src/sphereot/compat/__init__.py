"""Functions with the names and arguments of other libraries, which replace them if one import is changed."""

from typing import TYPE_CHECKING

from sphereot._support.lazy_modules import import_on_use
from sphereot.compat import pot

if TYPE_CHECKING:
    from sphereot.compat import bonet as bonet
    from sphereot.compat import sklearn as sklearn

__all__ = ["pot"]

__getattr__ = import_on_use(__name__, "bonet", "sklearn")
