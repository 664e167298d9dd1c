"""`sphereot density`: fit a density to points on the sphere, ask it, draw from it, look at it."""

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from sphereot.cli.points import (
    AsJson,
    Columns,
    Debug,
    DropBad,
    Key,
    LonLat,
    Normalize,
    Prefix,
    ReadOptions,
    ended_plainly,
    label,
    read_files,
    waiting,
)

__all__ = ["density"]

density = typer.Typer(
    help="Fit a density to points on the sphere, evaluate it, draw from it, and look at it.", no_args_is_help=True
)

Data = Annotated[
    Path, typer.Argument(help="A file of points, or earthquake, flood, fire or volcano.", show_default=False)
]
Model = Annotated[Path, typer.Argument(help="A model file that `density fit` wrote.", show_default=False)]


@density.command("fit")
def _fit(
    data: Data,
    model: Annotated[
        str, typer.Option(help="expmap (flow on the sphere), stereo (flow on the plane) or kde.")
    ] = "expmap",
    loss: Annotated[
        str | None, typer.Option(help="ssw, sw, nll or ssw+nll.", show_default="ssw for expmap, sw for stereo")
    ] = None,
    epochs: Annotated[int, typer.Option(help="Steps on all points.")] = 2000,
    blocks: Annotated[int | None, typer.Option(help="Blocks of the flow.", show_default="48, 10 for stereo")] = None,
    components: Annotated[int, typer.Option(help="Components of each block of expmap.")] = 100,
    lr: Annotated[float | None, typer.Option(help="Learning rate.", show_default="0.1, 0.001 for stereo")] = None,
    projections: Annotated[int, typer.Option(help="Great circles in each step.")] = 20,
    validation: Annotated[float, typer.Option(help="Share of the points held back to follow the likelihood.")] = 0.0,
    patience: Annotated[
        int | None, typer.Option(help="Stop after so many epochs without a better likelihood; needs --validation.")
    ] = None,
    bandwidth: Annotated[
        float | None, typer.Option(help="Of kde, in radians.", show_default="cross-validation")
    ] = None,
    seed: Annotated[int, typer.Option(help="Where the random numbers come from.", min=0)] = 0,
    out: Annotated[Path, typer.Option(help="The model file to write.")] = Path("density.safetensors"),
    columns: Columns = None,
    prefix: Prefix = None,
    key: Key = None,
    lonlat: LonLat = False,
    normalize: Normalize = False,
    drop_bad: DropBad = False,
    debug: Debug = False,
) -> None:
    """Fit a density to points, and write it to a file.

    A fit that was killed goes on where it stopped when the same command is given again. Beside the model lies the
    learning curve, as PNG.

    Places on the earth: sphereot density fit quakes.csv --lonlat --out quakes.safetensors

    With early stopping: sphereot density fit flood --loss ssw+nll --validation 0.1 --patience 500
    """
    with ended_plainly(debug, "density"):
        from sphereot.density import DensityEstimator, TrainingDivergedError

        points, name = _read(data, ReadOptions(columns, prefix, key, lonlat, normalize, None, drop_bad))
        estimator = DensityEstimator(
            model, loss, n_blocks=blocks, n_components=components, epochs=epochs, lr=lr, n_projections=projections,
            validation_fraction=validation, patience=patience, bandwidth=bandwidth, seed=seed, progress=True,
        )  # fmt: skip
        typer.echo(f"{name}\n{estimator}")
        out.parent.mkdir(parents=True, exist_ok=True)
        try:
            estimator.fit(points, checkpoint=out.with_name(f"{out.name}.unfinished"))
        except TrainingDivergedError as error:
            raise ValueError(str(error)) from error
        estimator.save(out)
        typer.echo(f"mean log-likelihood of the data: {estimator.score(points):.4f}  (uniform: {_uniform(points):.4f})")
        written = [out]
        if estimator.history_.losses:
            written += _curve(estimator, out)
        typer.echo(f"Written: {', '.join(map(str, written))}")


@density.command("evaluate")
def _evaluate(
    model: Model,
    data: Data,
    out: Annotated[Path | None, typer.Option(help="Also write the log-density of each point, as .npy.")] = None,
    columns: Columns = None,
    prefix: Prefix = None,
    key: Key = None,
    lonlat: LonLat = False,
    normalize: Normalize = False,
    drop_bad: DropBad = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Likelihood of points under a fitted density.

    sphereot density evaluate quakes.safetensors new.csv --lonlat
    """
    with ended_plainly(debug, "density"):
        import numpy as np

        from sphereot._files import write_aside
        from sphereot.density import DensityEstimator

        estimator = DensityEstimator.load(model)
        points, name = _read(data, ReadOptions(columns, prefix, key, lonlat, normalize, None, drop_bad))
        with waiting("Evaluating ..."):
            values = np.asarray(estimator.log_density(points))
        mean, error = (
            float(values.mean()),
            float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None,
        )
        if out is not None:
            with write_aside(out) as aside, aside.open("wb") as file:
                np.save(file, values)
        if as_json:
            record = {"n": len(values), "log_likelihood": mean, "standard_error": error, "uniform": _uniform(points)}
            typer.echo(json.dumps(record))
            return
        spread = "" if error is None else f" ± {error:.4f}"
        typer.echo(f"{name}\nmean log-likelihood: {mean:.4f}{spread}  (uniform: {_uniform(points):.4f})")


@density.command("sample")
def _sample(
    model: Model,
    n: Annotated[int, typer.Option("-n", help="How many points.", min=1)] = 1000,
    seed: Annotated[int | None, typer.Option(help="Makes the draw repeatable.", min=0)] = None,
    lonlat: Annotated[bool, typer.Option("--lonlat", help="Longitude and latitude in degrees, for d = 3.")] = False,
    out: Annotated[Path | None, typer.Option(help="A .csv or .npy file.", show_default="CSV on the screen")] = None,
    debug: Debug = False,
) -> None:
    """Draw points from a fitted density.

    sphereot density sample quakes.safetensors -n 500 --lonlat --out drawn.csv
    """
    with ended_plainly(debug, "density"):
        import numpy as np

        from sphereot import sphere
        from sphereot._files import write_aside, write_text
        from sphereot.density import DensityEstimator

        drawn: Any = DensityEstimator.load(model).sample(n, seed).astype(np.float64)
        if lonlat:
            drawn = sphere.to_lonlat(sphere.normalize(drawn))
        if out is not None and out.suffix == ".npy":
            with write_aside(out) as aside, aside.open("wb") as file:
                np.save(file, drawn)
            return
        names = ["lon", "lat"] if lonlat else [f"x_{k}" for k in range(drawn.shape[1])]
        text = "\n".join([",".join(names), *(",".join(f"{value:.9g}" for value in row) for row in drawn)])
        if out is None:
            typer.echo(text)
        elif out.suffix == ".csv":
            write_text(out, text + "\n")
        else:
            raise ValueError(f"--out: {out} is neither a .csv nor a .npy file; choose one of these.")


@density.command("plot")
def _plot(
    model: Model,
    points: Annotated[Path | None, typer.Option(help="Points to draw on it, a file or a name as in `fit`.")] = None,
    out: Annotated[Path, typer.Option(help="Where to write; the suffixes .png and .html are added.")] = Path("density"),
    resolution: Annotated[int, typer.Option(help="Rows of the map.", min=2)] = 360,
    columns: Columns = None,
    lonlat: LonLat = False,
    normalize: Normalize = False,
    drop_bad: DropBad = False,
    debug: Debug = False,
) -> None:
    """Draw a fitted density on S^2: a Mollweide map, and a page with a globe to turn and zoom.

    sphereot density plot quakes.safetensors --points quakes.csv --lonlat --out quakes
    """
    with ended_plainly(debug, "density"):
        from sphereot import plotting
        from sphereot.density import DensityEstimator
        from sphereot.plotting.coastlines import has_coastlines

        estimator = DensityEstimator.load(model)
        if estimator.n_features_in_ != 3:
            raise ValueError(f"{model}: the model is of dimension {estimator.n_features_in_}, but a map needs 3.")
        shown = None
        if points is not None:
            shown, _ = _read(points, ReadOptions(columns, None, None, lonlat, normalize, None, drop_bad))
        with waiting("Drawing ..."):
            ax = plotting.density_map(
                estimator.density,
                points=shown,
                resolution=resolution,
                label="density [1/sr]",
                coastlines=has_coastlines(),
            )
            written = plotting.save(ax, out, formats=("png",))
            page = out.with_name(f"{out.name}.html")
            plotting.globe_page(page, density=estimator.density, points=shown, title=f"Density {model.stem}")
        typer.echo(f"Written: {', '.join(map(str, [*written, page]))}")


def _read(data: Path, options: ReadOptions) -> tuple[Any, str]:
    """Points (n, d) of a file, or of a data set by its name; and a line that says what was read."""
    from sphereot import datasets

    with waiting("Reading ..."):
        if str(data) in datasets.NAMES and not data.exists():
            places = datasets.load(str(data))
            return places.points, f"{places.name}: {len(places)} places ({places.source})"
        (found,) = read_files([data], options)
        return found.points, label(found)


def _uniform(points: Any) -> float:
    """Log-density of the uniform law."""
    from sphereot._area import log_area

    return -log_area(int(points.shape[1]))


def _curve(estimator: Any, out: Path) -> list[Path]:
    from sphereot import plotting

    history = estimator.history_
    ax = plotting.evolution(range(1, len(history.losses) + 1), history.losses, label="loss")
    ax.set(xlabel="epoch", ylabel=f"loss ({estimator.loss or 'default'})")
    if history.validation:
        right = ax.twinx()
        right.plot(*zip(*history.validation, strict=True), color=plotting.PALETTE[1])
        right.set_ylabel("NLL of the points held back", color=plotting.PALETTE[1])
    return plotting.save(ax, out.with_suffix(".curve"), formats=("png",))
