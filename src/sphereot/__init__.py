"""Optimal transport on the sphere: exact, fast Spherical Sliced-Wasserstein distances."""

from typing import TYPE_CHECKING, Any

from sphereot import circle, radon, sketch, sphere
from sphereot._backends import get_num_threads, info, set_num_threads
from sphereot._support.checkpoints import DivergenceError
from sphereot._support.lazy_modules import import_on_use as _import_on_use
from sphereot.distance import (
    PairwiseSSWEstimate,
    SSWEstimate,
    pairwise_ssw,
    pairwise_ssw_estimate,
    ssw,
    ssw_estimate,
    ssw_uniform,
    uniform_kernel,
)
from sphereot.optim import gradient_flow
from sphereot.sketch import Sketch
from sphereot.slicing.circles import great_circles, project

if TYPE_CHECKING:
    from sphereot import compat as compat
    from sphereot import datasets as datasets
    from sphereot import density as density
    from sphereot import distributions as distributions
    from sphereot import flows as flows
    from sphereot import optim as optim
    from sphereot import plotting as plotting
    from sphereot import report as report
    from sphereot import sampling as sampling
    from sphereot import stats as stats
    from sphereot import torch as torch

    __version__: str

__all__ = [
    "DivergenceError",
    "PairwiseSSWEstimate",
    "SSWEstimate",
    "Sketch",
    "circle",
    "get_num_threads",
    "gradient_flow",
    "great_circles",
    "info",
    "pairwise_ssw",
    "pairwise_ssw_estimate",
    "project",
    "radon",
    "set_num_threads",
    "sketch",
    "sphere",
    "ssw",
    "ssw_estimate",
    "ssw_uniform",
    "uniform_kernel",
]

# Modules that are imported when they are first used, and the packages that each cannot do without.
_LAZY_MODULES: dict[str, tuple[str, ...]] = {
    "compat": (),
    "datasets": (),
    "density": (),
    "distributions": ("torch",),
    "flows": ("torch",),
    "optim": ("torch",),
    "plotting": ("matplotlib",),
    "report": ("matplotlib",),
    "sampling": ("torch",),
    "stats": (),
    "torch": ("torch",),
}


_module_on_use = _import_on_use(__name__, *_LAZY_MODULES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from sphereot._backends import installed_version

        globals()[name] = installed_version()
        return globals()[name]
    return _module_on_use(name)


def __dir__() -> list[str]:
    from importlib.util import find_spec

    # help() looks at every name listed here, so modules without their package are left out.
    usable = [name for name, needed in _LAZY_MODULES.items() if all(map(find_spec, needed))]
    return sorted({*globals(), *usable, "__version__"})
