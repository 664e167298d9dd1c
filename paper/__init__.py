"""The experiments of the paper, one module per figure or table, on top of the package.

`python -m paper` lists and runs them, and compares the results in `paper/results` with what the paper reports.
"""

import difflib
from importlib import import_module

from paper.experiment import Experiment

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
    "uniformity_study",
)
"""The experiments, in the order of the paper's appendix."""


def find(name: str) -> Experiment:
    """Find an experiment by its name.

    Examples
    --------
    >>> import paper
    >>> paper.find("rotation").section
    "Appendix C.1, Figure 'Evolution of SW between vMF samples'"
    """
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, n=1)
        hint = f"did you mean {near[0]!r}? Else " if near else ""
        raise ValueError(f"name: got {name!r}, but there is no such experiment; {hint}choose from {', '.join(NAMES)}.")
    experiment: Experiment = import_module(f"paper.experiments.{name}").EXPERIMENT
    return experiment
