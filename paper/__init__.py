"""The experiments of the paper: one module per figure or table, written with the public API.

`find` returns an experiment by name, `run_experiment` runs it; the command line does both with `sphereot reproduce`.
"""

import difflib
from importlib import import_module

from sphereot.experiments.base import Experiment, Result, Table, replot, run_experiment
from sphereot.experiments.run_context import RunContext

__all__ = ["NAMES", "Experiment", "Result", "RunContext", "Table", "find", "replot", "run_experiment"]

NAMES = (
    "kappa",
    "rotation",
    "projections",
    "samples",
    "runtime",
    "flow_mixture",
    "flow_vmf",
    "vi_power_spherical",
    "vi_mixture",
    "earth",
    "earth_training",
    "autoencoders",
    "self_supervised",
)
"""The experiments, in the order of the paper's appendix."""


def find(name: str) -> Experiment:
    """Find an experiment by its name.

    Examples
    --------
    >>> from sphereot import experiments
    >>> experiments.find("rotation").section
    "Appendix C.1, Figure 'Evolution of SW between vMF samples'"
    """
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, n=1)
        hint = f"did you mean {near[0]!r}? Else " if near else ""
        raise ValueError(f"name: got {name!r}, but there is no such experiment; {hint}choose from {', '.join(NAMES)}.")
    experiment: Experiment = import_module(f"sphereot.experiments.{name}").EXPERIMENT
    return experiment
