"""Density estimation on earth data: the paper's Table 1 and map (Section 5.1, Appendix C.4), and more losses."""

import math
import time
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from paper.common import Curve, choose_epochs, select
from paper.experiment import Experiment, Table
from paper.learning.program_flows import ProgramDensity
from paper.run_context import Row, RunContext
from sphereot import datasets, plotting
from sphereot._arrays.types import Method
from sphereot.density import AverageDensity, FlowDensity, SphericalKDE
from sphereot.flows import Flow
from sphereot.plotting.coastlines import has_coastlines

_COLUMNS = {
    "SSW": {"model": "expmap", "loss": "ssw"},
    "SW": {"model": "expmap", "loss": "sw"},
    "Stereo": {"model": "stereo", "loss": "sw"},
    "NLL": {"model": "expmap", "loss": "nll"},
    "SSW + NLL": {"model": "expmap", "loss": "ssw+nll"},
    "KDE": {"model": "kde"},
    "Auto": {"model": "auto"},
    "SW, program's start": {"model": "expmap", "loss": "sw"},
    "Stereo, program's network": {"model": "stereo", "loss": "sw"},
}
_WITHOUT_EPOCHS = ("KDE", "Auto")
_OF_THE_PAPER = ("earthquake", "flood", "fire")
_BY_ROW, _BY_LOCATION = "trainings", "splits by location"  # parts of the run
_PAPER = {
    ("SSW", "earthquake"): "0.84 ± 0.07", ("SSW", "flood"): "1.26 ± 0.05", ("SSW", "fire"): "0.23 ± 0.18",
    ("SW", "earthquake"): "0.94 ± 0.02", ("SW", "flood"): "1.36 ± 0.04", ("SW", "fire"): "0.54 ± 0.37",
    ("Stereo", "earthquake"): "1.91 ± 0.1", ("Stereo", "flood"): "2.00 ± 0.07", ("Stereo", "fire"): "1.27 ± 0.09",
}  # fmt: skip


@dataclass(frozen=True)
class Config:
    """Data, columns of the table, splits, and the size and length of training."""

    data: tuple[str, ...] = ("earthquake", "flood", "fire", "volcano")
    columns: tuple[str, ...] = ("SSW", "SW", "Stereo", "NLL", "SSW + NLL", "KDE")
    splits: int = 5
    n_blocks: int = 48
    n_components: int = 100
    epochs: int = 20_000
    stereo_epochs: int = 20_000
    likelihood_epochs: int = 20_000
    n_projections: int = 20
    method: Method = "iid"
    curve_points: int = 20
    grid: int = 180


@dataclass(frozen=True)
class TwoProtocolsConfig(Config):
    """Also splits by location, for some of the columns: no location is in the training and in the test set."""

    location_columns: tuple[str, ...] = ()


def run(config: Config, context: RunContext) -> list[Row]:
    """Train once per data set, column and split, and record the test likelihood along the training."""

    def work(
        data: str, column: str, split: int, seed: int, checkpoint: Any, by: Literal["row", "location"] = "row"
    ) -> Row:
        train, test = datasets.load(data).split(split, by=by)
        lengths = {
            "Stereo": config.stereo_epochs,
            "Stereo, program's network": config.stereo_epochs,
            "NLL": config.likelihood_epochs,
            "SSW + NLL": config.likelihood_epochs,
        }
        epochs = lengths.get(column, config.epochs)
        parameters: dict[str, Any] = _COLUMNS[column] | {
            "seed": seed, "epochs": epochs, "n_projections": config.n_projections, "method": config.method
        }  # fmt: skip
        if parameters["model"] == "expmap":
            parameters |= {"n_blocks": config.n_blocks, "n_components": config.n_components}
        estimator: Any
        if column in _WITHOUT_EPOCHS:
            estimator = SphericalKDE() if column == "KDE" else AverageDensity(seed=seed)
        else:
            estimator = (ProgramDensity if "program" in column else FlowDensity)(**parameters)
        curve, stops = Curve(checkpoint, "epochs", "losses", "nll"), choose_epochs(epochs, config.curve_points)

        def follow(epoch: int, loss: float, flow: Flow) -> None:
            if epoch in stops:
                curve.add(epochs=epoch, losses=loss, nll=-estimator.score(test.points))

        start = time.perf_counter()
        if column in _WITHOUT_EPOCHS:
            estimator.fit(train.points)
        else:
            estimator.fit(train.points, checkpoint=curve, callback=follow)
        seconds = time.perf_counter() - start
        mapped = by == "row" and split == 0 and (column,) == config.columns[:1]  # shown by `plot`
        density = estimator.density(plotting.map_points(config.grid).reshape(-1, 3)) if mapped else None
        return {
            "test_nll": -estimator.score(test.points),
            "train_nll": -estimator.score(train.points),
            "seconds": seconds,
            "epochs": 0 if column in _WITHOUT_EPOCHS else epochs,
            **{f"curve_{name}": values for name, values in curve.values.items()},
        } | ({} if density is None else {"map": [float(f"{value:.3g}") for value in density]})

    rows = context.measure(_BY_ROW, _units(config, config.columns), work, checkpoints=True)
    columns = _location_columns(config)
    if columns:
        by_location = partial(work, by="location")
        rows += context.measure(_BY_LOCATION, _units(config, columns), by_location, checkpoints=True)
    return rows


def _reported(column: str, data: str) -> str:
    """What the paper reports; empty where it has nothing. The variants "SW, ..." compare with its "SW"."""
    return _PAPER.get((column.split(",")[0], data), "")


def _units(config: Config, columns: tuple[str, ...]) -> list[Row]:
    return [
        {"data": name, "column": column, "split": split}
        for split in range(config.splits)
        for name in config.data
        for column in columns
    ]


def _location_columns(config: Config) -> tuple[str, ...]:
    return config.location_columns if isinstance(config, TwoProtocolsConfig) else ()


def plot(rows: list[Row], config: Config) -> dict[str, Any]:
    """Draw maps of the density of the first column with the test points, and learning curves of all columns.

    Where no column is trained in epochs, the likelihoods of the splits take the place of learning curves.
    """
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    with plotting.style():
        if not config.columns:
            return {"likelihoods": _likelihoods(rows, config)}
        rows_of_maps = math.ceil(len(config.data) / 2)
        maps = Figure(figsize=(6.8, 2.6 * rows_of_maps), layout="constrained")
        first = config.columns[0]
        for name, cells in zip(config.data, _in_two_columns(maps, config), strict=True):
            ax = maps.add_subplot(cells, projection="mollweide")
            values = select(rows, part=_BY_ROW, data=name, column=first, split=0)[0]["map"]
            grid = np.asarray(values).reshape(plotting.map_points(config.grid).shape[:-1])
            # Densities range over many decades; below the uniform density, 0.08 / sr, there is little to see.
            norm = LogNorm(0.01, max(float(grid.max()), 0.1), clip=True)
            plotting.density_map(
                grid, ax=ax, label="density [1/sr]", norm=norm, graticule="lines", coastlines=has_coastlines()
            )
            test = datasets.load(name).split(0).test.points
            # The rim keeps white points visible where the map is light.
            few = test[:500]  # all of them would hide the densities
            plotting.scatter_map(few, ax=ax, color="white", size=1.0, edgecolors="#333333", linewidths=0.2)
            ax.set_title(f"{name} ({first}), {len(few)} test points in white")

        if all(column in _WITHOUT_EPOCHS for column in config.columns):
            return {"maps": maps, "likelihoods": _likelihoods(rows, config)}
        curves = Figure(figsize=(6.8, 2.3 * rows_of_maps), layout="constrained")
        for name, cells in zip(config.data, _in_two_columns(curves, config), strict=True):
            ax = curves.add_subplot(cells)
            selected = select(rows, part=_BY_ROW, data=name)
            for k, column in enumerate(config.columns):
                color = plotting.PALETTE[list(_COLUMNS).index(column) % len(plotting.PALETTE)]
                _draw_curve(ax, select(selected, column=column), column, color)
                reported = _reported(column, name)
                if reported:
                    mean, spread = map(float, reported.split(" ± "))
                    style: dict[str, Any] = {"color": color, "markersize": 3, "linewidth": 0.8, "capsize": 2}
                    # The paper trains for 20,000 epochs. Columns are a little apart, to keep their bars visible.
                    ax.errorbar(20_000 * 1.05**k, mean, spread, fmt="s", **style)
            ax.set(xlabel="epoch", ylabel="test NLL [nats]", title=name, xscale="log")
            ax.xaxis.set_major_formatter("{x:,.0f}")
        handles, labels = curves.axes[0].get_legend_handles_labels()
        paper = Line2D([], [], color="black", marker="s", markersize=3, linewidth=0.8)
        curves.legend([*handles, paper], [*labels, "the paper"], loc="outside lower center", ncols=7)
    return {"maps": maps, "curves": curves}


def _in_two_columns(figure: Any, config: Config) -> list[Any]:
    """Cells of a grid with two panels in a row; the last panel of an odd number is in the middle."""
    count = len(config.data)
    grid = figure.add_gridspec(math.ceil(count / 2), 4)
    cells = [grid[k // 2, 2 * (k % 2) : 2 * (k % 2) + 2] for k in range(count)]
    return [*cells[:-1], grid[-1, 1:3]] if count % 2 else cells


def _draw_curve(ax: Any, rows: list[Row], column: str, color: str) -> None:
    """Mean test likelihood along the training, with a band of one standard deviation of the splits."""
    if column in _WITHOUT_EPOCHS:
        ax.axhline(np.mean([row["test_nll"] for row in rows]), color=color, linestyle=":", label=column)
        return
    nll, epochs = np.array([row["curve_nll"] for row in rows]), rows[0]["curve_epochs"]
    mean = nll.mean(axis=0)
    ax.plot(epochs, mean, color=color, label=column)
    if len(nll) > 1:
        spread = nll.std(axis=0, ddof=1)
        ax.fill_between(epochs, mean - spread, mean + spread, color=color, alpha=0.2, linewidth=0)


def _likelihoods(rows: list[Row], config: Config) -> Any:
    """Figure of the test likelihood of every split, by column and protocol."""
    from matplotlib.figure import Figure

    parts = {_BY_ROW: config.columns, _BY_LOCATION: _location_columns(config)}
    figure = Figure(figsize=(6.8, 2.6), layout="constrained")
    for k, name in enumerate(config.data):
        ax = figure.add_subplot(1, len(config.data), k + 1)
        for column, color in zip(dict.fromkeys(sum(parts.values(), ())), plotting.PALETTE, strict=False):
            for position, (part, columns) in enumerate(parts.items()):
                if column in columns:
                    of_column = select(rows, part=part, data=name, column=column)
                    values = [row["test_nll"] for row in of_column]
                    at = [position + 0.08 * (row["split"] - (config.splits - 1) / 2) for row in of_column]
                    label = column if position == 0 or not config.columns else None
                    ax.plot(at, values, "o", color=color, markersize=3, label=label)
        ax.set(title=name, xlabel="split", xlim=(-0.5, 1.5), xticks=range(2), xticklabels=["by row", "by location"])
    figure.axes[0].set_ylabel("test NLL of every split [nats]")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(_COLUMNS))
    return figure


def summarize(rows: list[Row], config: Config) -> Table:
    """The paper's table: mean and standard deviation of the test NLL over splits, and the same by location."""
    lines = []
    for part, columns in ((_BY_ROW, config.columns), (_BY_LOCATION, _location_columns(config))):
        for column in columns:
            cells = []
            for name in config.data:
                values = [row["test_nll"] for row in select(rows, part=part, data=name, column=column)]
                spread = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
                reported = _reported(column, name) if part == _BY_ROW else ""
                cells.append(f"{np.mean(values):.2f}{spread}" + (f"  [{reported}]" if reported else ""))
            lines.append([column if part == _BY_ROW else f"{column}, by location", *cells])
    note = (
        f"Negative test log-likelihood, mean ± standard deviation of {config.splits} splits; in brackets, the paper's."
    )
    if _location_columns(config):
        note += " By location: all rows of a location are in the training set, or all in the test set."
    return Table(("", *config.data), lines, note)


EXPERIMENT = Experiment(
    name="earth",
    title="Density estimation on earth data: SSW, SW, Stereo, likelihood, kernels, averages",
    section="Section 5.1, Table 1 and Figure 'Density estimation of models trained on earth data'; Appendix C.4",
    paper="SSW has the least test NLL of the three methods on all three data sets; the numbers are in brackets.",
    needs="earth data",
    presets={
        "quick": Config(
            data=("flood",),
            columns=("SSW", "SW", "Stereo", "SSW + NLL", "KDE"),
            splits=1,
            n_blocks=3,
            n_components=10,
            epochs=20,
            stereo_epochs=20,
            likelihood_epochs=20,
            n_projections=50,
            curve_points=4,
            grid=30,
        ),
        "cpu": Config(
            splits=2,
            epochs=6000,
            stereo_epochs=1500,
            likelihood_epochs=400,
        ),
        "paper": Config(),
        # SSW and SW of the paper's table at its scale, two and a half hours of one core each; they can be run column by
        # column, one process each.
        "table": Config(data=_OF_THE_PAPER, columns=("SSW", "SW")),
        "ssw": Config(data=_OF_THE_PAPER, columns=("SSW",)),
        "sw": Config(data=_OF_THE_PAPER, columns=("SW",)),
        # The network of this package and the one of the program, for as many epochs as there; four hours of one core.
        "stereo": Config(data=_OF_THE_PAPER, columns=("Stereo", "Stereo, program's network"), stereo_epochs=10_000),
        "program": Config(data=("flood",), columns=("SW, program's start",)),
        # Splits by location, to compare with "table".
        "location": TwoProtocolsConfig(data=_OF_THE_PAPER, columns=(), location_columns=("SSW",)),
        # The estimates with the largest likelihood, on the paper's splits and on splits by location.
        "density": TwoProtocolsConfig(columns=("Auto", "KDE"), location_columns=("Auto", "KDE")),
    },
    run=run,
    plot=plot,
    summarize=summarize,
    measured=("test_nll", "train_nll", "seconds", "epochs"),
)
