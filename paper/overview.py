"""Every figure, table, statement and algorithm of the paper: how it is reproduced, its scale, and the verdict.

A verdict on an experiment is computed from its record in `paper/results` by the check next to it.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from paper.common import means, select
from paper.experiment import Result, read_rows
from paper.run_context import Row

RESULTS = Path(__file__).parent / "results"
COLUMNS = ("in the paper", "subject", "paper run ..., or test", "scale here (in the paper)", "verdict", "minutes")
MET, SMALLER, NOT_MET, NOT_COMPARABLE = "met", "met at smaller scale", "not met", "not comparable"
FINITE, NOT_FINITE = "finite numbers", "not finite"
_TESTS = "tests/paper/test_theory.py"


@cache
def _record(folder: str) -> Row:
    record: Row = json.loads((RESULTS / folder / "result.json").read_text(encoding="utf-8"))
    return record


@cache
def _rows(folder: str) -> list[Row]:
    return read_rows(RESULTS / folder, _record(folder))


@dataclass(frozen=True)
class Item:
    """An item of the paper.

    Attributes
    ----------
    number, subject : str
        As in the paper, such as "Figure 8", and what it is about.
    scale : str
        Ours, and the paper's in brackets where it differs.
    records : tuple of str
        Folders of `paper/results`.
    check : callable (folder) -> bool, optional
        Whether the first record shows what the paper reports.
    verdict : str
        The verdict if the check is true; NOT_MET if it is false.
    where : str
        The test or program; by default the arguments of `python -m paper run` for the first record.
    """

    number: str
    subject: str
    scale: str = ""
    records: tuple[str, ...] = ()
    check: Callable[[str], bool] | None = None
    verdict: str = MET
    where: str = ""

    def as_row(self) -> tuple[str, ...]:
        """Return the cells of the table."""
        where = self.where
        if not where:
            record = _record(self.records[0])
            where = f"{record['experiment']} --preset {record['preset']}"
        verdict = NOT_MET if self.check is not None and not self.check(self.records[0]) else self.verdict
        seconds = sum(map(_seconds, self.records))
        return self.number, self.subject, where, self.scale, verdict, f"{seconds / 60:.0f}" if seconds else ""

    def fits(self, name: str, preset: str) -> bool:
        """Return whether the check makes sense for a run of an experiment with a preset."""
        if self.check is None or _record(self.records[0])["experiment"] != name:
            return False
        return preset == _record(self.records[0])["preset"] or (preset == "quick" and self.check in _QUICK)


def _seconds(folder: str) -> float:
    """Time of a run; the sum over its trainings where several processes shared it."""
    seconds = _record(folder)["seconds"]
    return float(seconds or sum(row["seconds"] for row in _rows(folder) if "epochs" in row and "seconds" in row))


def table() -> list[tuple[str, ...]]:
    """Return the rows of the table, one per item of the paper."""
    return [item.as_row() for item in ITEMS]


def markdown() -> str:
    """Return the table for the documents."""
    cells = [COLUMNS, ("---",) * len(COLUMNS), *((a, b, f"`{c}`", *rest) for a, b, c, *rest in table())]
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def judge_run(result: Result, folder: Path) -> tuple[str, str]:
    """Judge a run in any folder by the items whose check makes sense for it.

    Returns
    -------
    checked : str
        The numbers of these items in the paper.
    verdict : str
        One of MET, NOT_MET, FINITE (no item has a check for this preset) and NOT_FINITE.
    """
    values = [value for row in result.rows for value in row.values() if isinstance(value, int | float | list)]
    items = [item for item in ITEMS if item.fits(result.experiment.name, result.preset)]
    verdict = MET if items else FINITE
    if not all(np.isfinite(np.asarray(value, dtype=float)).all() for value in values):
        verdict = NOT_FINITE
    elif not all(item.check(str(folder.resolve())) for item in items if item.check is not None):
        verdict = NOT_MET
    return ", ".join(item.number for item in items), verdict


# ---- checks ----


def _grows(values: Any) -> bool:
    return bool(np.all(np.diff(values) > 0))


def _kappa(folder: str) -> bool:
    """SSW grows with kappa in every dimension, and falls with the dimension at the largest kappa."""
    dims = sorted({row["dim"] for row in _rows(folder)})
    curves = [means(select(_rows(folder), dim=dim), "kappa", "ssw")[1] for dim in dims]
    # At small kappa and large d the values are those of two samples of one distribution, with their noise.
    return all(_grows(curve[curve > 2e-3]) for curve in curves) and _grows([-curve[-1] for curve in curves])


def _rotation(folder: str) -> bool:
    """All curves have their maximum at 180 degrees."""
    return all(cell.endswith("at 180°") for row in _record(folder)["table"]["rows"] for cell in row[1:])


def _projections(folder: str) -> bool:
    """The standard deviation with 100 independent circles is below a tenth of the value."""
    rows = [row for row in _record(folder)["table"]["rows"] if row[1] == "iid"]
    return all(float(row[3].removesuffix("%")) < 10 for row in rows)


def _samples(folder: str) -> bool:
    """SSW has the exponent -1/2 in every dimension."""
    return all(abs(float(row[1]) + 0.5) < 0.03 for row in _record(folder)["table"]["rows"])


def _runtime(folder: str) -> bool:
    """SSW is faster than W and Sinkhorn at every common size of 1,000 points or more."""
    rows = _record(folder)["table"]["rows"]
    times = {row[0]: [float(cell) if cell else np.inf for cell in row[2:]] for row in rows}
    ours = [values for name, values in times.items() if name.startswith("SSW") and "POT" not in name]
    peers = [values for name, values in times.items() if name.startswith(("W ", "Sinkhorn"))]
    return all(a < b for own in ours for peer in peers for a, b in zip(own, peer, strict=True))


def _runtime_of_circles(folder: str) -> bool:
    """Time grows at most in proportion to the number of great circles, and to n log n."""
    rows = _rows(folder)
    slopes = []
    for part, name, bound in (("projections", "count", 1.0), ("samples", "n", 1.15)):
        of_part = [row for row in rows if row["part"] == part]
        for dim in {row["dim"] for row in of_part}:
            x, y = np.log([(row[name], row["seconds"]) for row in of_part if row["dim"] == dim]).T
            slopes.append(np.polyfit(x, y, 1)[0] <= bound)
    return bool(slopes) and all(slopes)


def _flow_mixture(folder: str) -> bool:
    """Particles and network are as near to the target as two samples of it, within a factor of two."""
    return all(float(row[3]) < 2 for row in _record(folder)["table"]["rows"])


def _flow_vmf(folder: str) -> bool:
    """At the end the particles are as near to the target as another sample of it."""
    return float(_record(folder)["table"]["rows"][-1][2]) < 2


def _likelihood(folder: str) -> bool:
    """SSW is at most the paper's mean plus its spread, and below SW, on all three data sets."""
    cells = {row[0]: row[1:] for row in _record(folder)["table"]["rows"]}
    ours = [float(cell.split(" ")[0]) for cell in cells["SSW"]]
    paper = [cell.partition("[")[2].rstrip("]").split(" ± ") for cell in cells["SSW"]]
    others = [float(cell.split(" ")[0]) for cell in cells["SW"]]
    within = all(own <= float(mean) + float(spread) for own, (mean, spread) in zip(ours, paper, strict=True))
    return within and all(own < other for own, other in zip(ours, others, strict=True))


def _power_spherical(folder: str) -> bool:
    """The mean is found within a degree, and kappa = 10 within 5 %."""
    end = select(_rows(folder), part="fit", step=2000)
    return all(row["degrees"] < 1 and abs(row["kappa"] - 10) < 0.5 for row in end)


def _modes(folder: str) -> bool:
    """Every run has all four modes, each with a share between 0.2 and 0.3."""
    fits = [row for row in _rows(folder) if "least_share" in row]
    return bool(fits) and all(row["least_share"] > 0.2 and row["greatest_share"] < 0.3 for row in fits)


def _ess(folder: str) -> bool:
    """SSWVI has the larger effective sample size."""
    cells = {row[0]: float(row[3].split(" ")[0]) for row in _record(folder)["table"]["rows"]}
    return cells["SSWVI"] > cells["SWVI"]


def _fid_order(folder: str) -> bool:
    """SSWAE is ahead of SWAE, MMD and SAE on the two sets of gray images, by our features."""
    rows = _record(folder)["table"]["rows"]
    value = {(row[0], row[1]): float(row[2].split(" ")[0]) for row in rows}
    others = ("SWAE", "WAE-MMD IMQ", "WAE-MMD RBF", "SAE")
    return all(value[data, "SSWAE"] < value[data, name] for data in ("MNIST", "FashionMNIST") for name in others)


def _self_supervised(folder: str) -> bool:
    """SSW is ahead of SW and not behind align-uniform on S^2, as in the paper."""
    rows = {row[1]: float(row[2].split(" ")[0]) for row in _record(folder)["table"]["rows"] if row[0] == "S^2"}
    ours = rows["SSW-SSL, L = 10"]
    return ours > rows["SW-SSL, L = 10"] and ours > rows["align-uniform"] - 1


_QUICK = (_kappa, _rotation, _projections, _samples, _flow_mixture, _flow_vmf, _power_spherical, _modes)
"""The checks that also hold at the size of the preset "quick"."""

_FLOWS_SCALE = "as printed; the step (not printed) is that of the program"
ITEMS = (
    Item("Figure 1", "projections on a great circle", where="examples/geometry.py", scale="a picture"),
    Item("Figure 2", "time against W, Sinkhorn and SW", "on a CPU (GPU)", ("runtime",), _runtime),
    Item("Figure 3", "flow to six clusters", _FLOWS_SCALE, ("flow_mixture",), _flow_mixture),
    Item(
        "Figure 4", "latent space of autoencoders", "10 epochs", ("autoencoders",), verdict=NOT_COMPARABLE
    ),
    Item("Figure 5", "density of earth data", "as printed", ("earth_table",), _likelihood),
    Item("Figure 6", "set of integration", where="examples/geometry.py", scale="a picture"),
    Item("Figure 7", "KL and SSW against the concentration", "as printed", ("kappa",), _kappa),
    Item(
        "Figure 8", "a rotating distribution", "500 points, 1,000 circles, as in the program (not printed)",
        ("rotation",), _rotation,
    ),
    Item("Figure 9", "number of great circles", "as printed", ("projections",), _projections),
    Item("Figure 10", "sample complexity", "sizes up to 10,000 (not printed)", ("samples",), _samples),
    Item("Figure 11", "time against circles and points", "as printed", ("runtime",), _runtime_of_circles),
    Item("Figure 12", "flow to six clusters, two models", _FLOWS_SCALE, ("flow_mixture",), _flow_mixture),
    Item("Figures 13, 14", "flow to one cluster", _FLOWS_SCALE, ("flow_vmf",), _flow_vmf),
    Item("Figure 15", "inference of a power spherical", "as printed", ("vi_power_spherical",), _power_spherical),
    Item("Figure 16", "inference of a mixture", "200 circles (not printed)", ("vi_mixture",), _modes),
    Item("Figure 17", "effective sample size", "10 runs, as printed", ("vi_mixture",), _ess),
    Item("Figure 18", "generated images", "10 epochs", ("autoencoders",), verdict=NOT_COMPARABLE),
    Item("Figure 19", "W along trainings of autoencoders", "10 epochs", ("autoencoders",), verdict=NOT_COMPARABLE),
    Item(
        "Figure 20, Table 4", "self-supervised learning, S^2", "ResNet18 of width 8, 10,000 images, 20 epochs "
        "(width 64, 50,000, 200)", ("self_supervised",), _self_supervised, SMALLER,
    ),
    Item("Table 1", "likelihood of earth data", "as printed: 5 splits, 20,000 epochs", ("earth_table",), _likelihood),
    Item(
        "Table 2", "FID of autoencoders", "other features than Inception, which need a download", ("autoencoders",),
        _fid_order, NOT_COMPARABLE,
    ),
    Item("Table 3", "sizes of the earth data", where="tests/datasets/test_earth.py", scale="as printed"),
    Item("Table 5", "cost of losses", "on a CPU, up to 32,768 points", ("self_supervised",)),
    Item("Algorithm 1", "SSW", where="tests/distance"),
    Item("Algorithm 2", "SWVI", where="tests/sampling"),
    Item("Proposition 1, Lemma 1", "uniform measure; closed form of the projection", where=_TESTS),
    Item("Propositions 2 to 4, 6, 7", "the Radon transform", where="tests/test_radon.py"),
    Item("Propositions 5, 8 to 10", "pseudo-distance, convergence, complexity", where=_TESTS),
    Item("Proposition 11", "uniqueness of the projection", where="tests/slicing"),
)  # fmt: skip
"""The items of the paper, in its order."""
