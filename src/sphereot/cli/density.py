"""`sphereot density`: fit a density to points on the sphere, evaluate it, sample from it, plot it."""

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from sphereot._support.atomic_write import is_stream
from sphereot._support.checkpoints import StateFile
from sphereot._support.units import finite_or_none
from sphereot.cli.files import file_summary, read_files, status
from sphereot.cli.options import SAMPLE, AsJson, NonnegativeSeed, ReadOptions, WeightedReadOptions
from sphereot.cli.show import IMAGE_TYPES, command, print_json, require_writable, warnings_in_one_line

_FLOWS = ("expmap", "stereo")
_WEIGHTED = ("kde", "adaptive", "mixture")  # models that take weights of points
_MODELS = (*_FLOWS, *_WEIGHTED, "auto")
_GLOBE_ROWS = 180
_CELLS_PER_STEP = 50_000
_PEAKED = 20.0  # times the uniform density

Data = Annotated[
    Path,
    typer.Argument(
        help=f"The points: {SAMPLE}; or a data set: earthquake, flood, fire or volcano.", show_default=False
    ),
]
Model = Annotated[Path, typer.Argument(help="A model file that `density fit` wrote.", show_default=False)]


def _default_model(is_training_set: bool, is_bandwidth_set: bool, reading: WeightedReadOptions) -> str:
    """The model with the largest likelihood among those that take the given options."""
    is_weighted = any(column != "-" for column in reading.weights or [])
    if is_training_set and (is_bandwidth_set or is_weighted):
        other = "--bandwidth" if is_bandwidth_set else "--weights"
        raise ValueError(f"--model: {other} and options of the training of a flow are for different models; name one.")
    if is_training_set:
        return "expmap"
    if is_bandwidth_set:
        return "kde"
    return "adaptive" if is_weighted else "auto"


@command("density")
def fit(
    data: Data,
    reading: WeightedReadOptions,
    model: Annotated[
        str | None,
        typer.Option(
            help="auto (average with the best likelihood), expmap (flow on the sphere), stereo (flow on the plane), "
            "kde (kernel density), adaptive (kernels narrow where points are dense) or mixture (von Mises-Fisher).",
            show_default="auto; adaptive with --weights; kde with --bandwidth; expmap with options of its training",
        ),
    ] = None,
    loss: Annotated[
        str | None, typer.Option(help="ssw, sw, nll or ssw+nll.", show_default="ssw for expmap, sw for stereo")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Number of epochs, each one step on all points.", show_default="2000")
    ] = None,
    blocks: Annotated[
        int | None, typer.Option(help="Number of blocks of the flow.", show_default="48, 10 for stereo")
    ] = None,
    components: Annotated[
        int | None, typer.Option(help="Number of components of each block of expmap.", show_default="100")
    ] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate.", show_default="0.1, 0.001 for stereo")] = None,
    projections: Annotated[
        int | None, typer.Option(help="Number of great circles in each step.", show_default="20")
    ] = None,
    validation: Annotated[
        float | None, typer.Option(help="Fraction of the points held out to monitor the likelihood.", show_default="0")
    ] = None,
    patience: Annotated[
        int | None, typer.Option(help="Stop after this many epochs without a better likelihood; needs --validation.")
    ] = None,
    bandwidth: Annotated[
        float | None, typer.Option(help="Bandwidth of kde in radians.", show_default="cross-validation")
    ] = None,
    folds: Annotated[
        str, typer.Option(help="Cross-validation of auto: by locations, or by rows, where repeated points count.")
    ] = "locations",
    seed: NonnegativeSeed = 0,
    out: Annotated[Path, typer.Option("--out", "-o", help="The model file to write.")] = Path("density.safetensors"),
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start again instead of continuing an interrupted fit.")
    ] = False,
) -> None:
    """Fit a density to points, and write it to a file.

    Of the flows, expmap and stereo: the same command continues an interrupted fit where it stopped. The state of the
    training is in a file next to the model, with the suffix .unfinished; the learning curve is there too, as PNG.

    Locations on the earth, by the model with the largest likelihood of new points: sphereot density fit quakes.csv
    --lonlat --out quakes.safetensors

    Cities with their population: sphereot density fit cities.csv --lonlat --weights population

    The paper's flow, in minutes: sphereot density fit quakes.csv --lonlat --model expmap

    With early stopping: sphereot density fit flood --model expmap --loss ssw+nll --validation 0.1 --patience 500
    """
    require_writable("--out", [out], [data])
    has_folder = not is_stream(out)  # no files can be written next to a device or a FIFO
    state, curve = out.with_name(f"{out.name}.unfinished"), out.with_suffix(".curve.png")
    if has_folder:
        require_writable("--out", [state, curve], [data])
    from sphereot import DivergenceError

    of_training = {
        "loss": loss, "n_blocks": blocks, "n_components": components, "epochs": epochs, "lr": lr,
        "n_projections": projections, "validation_fraction": validation, "patience": patience,
    }  # fmt: skip
    given: Any = {name: value for name, value in of_training.items() if value is not None}
    model = model or _default_model(bool(given), bandwidth is not None, reading)
    if bandwidth is not None:
        given["bandwidth"] = bandwidth
    if folds != "locations":
        given["folds"] = folds
    estimator = _make_estimator(model, given, seed)
    is_flow = model in _FLOWS
    if has_folder and is_flow:
        from sphereot import plotting  # noqa: F401  (an error here, before the work, if a package is missing)
    points, name, weights = _read(data, reading)
    if weights is not None and model not in _WEIGHTED:
        raise ValueError(f"--weights: the model {model!r} does not take weights; choose {_quote(_WEIGHTED)}.")
    typer.echo(f"{name}\n{' '.join(str(estimator).split())}")
    store = StateFile(state if has_folder else None)
    if fresh:
        store.remove()
    try:
        with warnings_in_one_line():
            if is_flow:
                estimator.fit(points, checkpoint=store)
            elif model in _WEIGHTED:
                estimator.fit(points, sample_weight=weights)
            else:
                estimator.fit(points)
    except DivergenceError as error:
        raise ValueError(str(error)) from error
    _save(estimator, out, store)
    typer.echo(
        f"mean log-likelihood of these points: {estimator.score(points):.4f}  (uniform: {_uniform(points):.4f}); "
        "that of new points is lower: hold some out, and give them to `sphereot density evaluate`"
    )
    written = [out]
    if has_folder and is_flow:
        try:
            written += _curve(estimator, curve)
        except OSError as error:
            raise ValueError(
                f"{curve}: the learning curve cannot be written ({error.strerror or error}); the model is in {out}."
            ) from error
    typer.echo(f"Written: {', '.join(map(str, written))}")


def _make_estimator(model: str, options: dict[str, Any], seed: int) -> Any:
    """The estimator of a model; an option that the model does not use is an error."""
    if model not in _MODELS:
        raise ValueError(f"model: got {model!r}; choose one of {_quote(_MODELS)}.")
    own = {"kde": ("bandwidth",), "auto": ("folds",)}.get(model, ())
    for name, value in options.items():
        of_other = {"bandwidth": "has no single bandwidth", "folds": "is a single estimate"}
        if name not in own and (name in of_other or model not in _FLOWS):
            reason = of_other.get(name, "is not trained")
            raise ValueError(f"{name}: got {value!r}, but the model {model!r} {reason}; leave {name} out.")
    from sphereot import density as models

    if model in _FLOWS:
        kind: Any = model
        return models.FlowDensity(kind, **options, seed=seed, progress=True)
    if model == "auto":
        return models.AverageDensity(**options, seed=seed, progress=True)
    if model == "mixture":
        return models.VonMisesFisherMixture(seed=seed)
    return models.SphericalKDE(**options) if model == "kde" else models.AdaptiveKDE()


def _quote(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names))


def _save(estimator: Any, out: Path, store: StateFile) -> None:
    """Write the model, and only then remove the state of the training."""
    try:
        estimator.save(out)
    except OSError as error:
        is_stored = store.path is not None and store.path.exists()
        stored = f" The state of the training is in {store.path}." if is_stored else ""
        raise ValueError(
            f"{out}: the model cannot be written ({error.strerror or error}).{stored} Free some space, and run the "
            "same command again."
        ) from error
    store.remove()


@command("density")
def evaluate(
    model: Model,
    data: Data,
    reading: ReadOptions,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also write the log-density of each point, as .npy.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate the likelihood of points under a fitted density.

    sphereot density evaluate quakes.safetensors new.csv --lonlat
    """
    import numpy as np

    from sphereot._support.atomic_write import write_aside

    if out is not None:
        require_writable("--out", [out], [model, data])
    from sphereot.density import load

    estimator = load(model)
    points, name, _ = _read(data, reading)
    with status("Evaluating ..."):
        values = np.asarray(estimator.log_density(points))
    _require_numbers(values, model)
    mean = float(values.mean())
    error = finite_or_none(float(values.std(ddof=1) / math.sqrt(len(values)))) if len(values) > 1 else None
    if out is not None:
        with write_aside(out) as aside, aside.open("wb") as file:
            np.save(file, values)
    if as_json:
        record = {
            "n": len(values),
            "log_likelihood": finite_or_none(mean),
            "standard_error": error,
            "uniform": _uniform(points),
        }
        print_json(record)
        return
    spread = "" if error is None else f" ± {error:.4f}"
    typer.echo(f"{name}\nmean log-likelihood: {mean:.4f}{spread}  (uniform: {_uniform(points):.4f})")


@command("density")
def sample(
    model: Model,
    n: Annotated[int, typer.Option("-n", help="Number of points.", min=1)] = 1000,
    seed: Annotated[int | None, typer.Option(help="Seed of the random numbers.", min=0)] = None,
    lonlat: Annotated[bool, typer.Option("--lonlat", help="Longitude and latitude in degrees, for d = 3.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A .csv or .npy file to write.", show_default="CSV on stdout")
    ] = None,
) -> None:
    """Sample points from a fitted density.

    sphereot density sample quakes.safetensors -n 500 --lonlat --out drawn.csv
    """
    import numpy as np

    from sphereot import sphere
    from sphereot._support.atomic_write import write_aside, write_text

    if out is not None:
        require_writable("--out", [out], [model])
        if out.suffix not in (".csv", ".npy") and not is_stream(out):
            raise ValueError(f"--out: {out} is neither a .csv nor a .npy file; choose one of these.")
    from sphereot.density import load

    estimator = load(model)
    try:
        points: Any = estimator.sample(n, seed).astype(np.float64)
    except RuntimeError as error:  # the flow cannot be inverted
        raise ValueError(f"{model}: points cannot be sampled from this model ({error}); fit it again.") from error
    _require_numbers(points, model)
    if lonlat:
        points = sphere.to_lonlat(sphere.normalize(points))
    if out is not None and out.suffix == ".npy":
        with write_aside(out) as aside, aside.open("wb") as file:
            np.save(file, points)
        return
    names = ["lon", "lat"] if lonlat else [f"x_{k}" for k in range(points.shape[1])]
    text = "\n".join([",".join(names), *(",".join(f"{value:.9g}" for value in row) for row in points)])
    if out is None:
        typer.echo(text)
    else:
        write_text(out, text + "\n")


@command("density")
def plot(
    model: Model,
    reading: ReadOptions,
    points: Annotated[
        Path | None, typer.Option(help="Points to show: a file, folder, pattern or data set as in `fit`.")
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="A name that ends in .png, .pdf or .svg for the map, or in .html for the globe; without such an "
            "ending, both are written, as .png and .html.",
        ),
    ] = Path("density"),
    resolution: Annotated[int, typer.Option(help="Number of rows of the map.", min=2)] = 360,
    sky: Annotated[
        bool, typer.Option("--sky", help="A map of the sky: right ascension increases to the left, no coastlines.")
    ] = False,
) -> None:
    """Plot a fitted density on S^2: a Mollweide map, and an HTML page with a globe to rotate and zoom.

    sphereot density plot quakes.safetensors --points quakes.csv --lonlat --out quakes
    """
    image, page = _pictures(out)
    outputs = [path for path in (image, page) if path is not None]
    require_writable("--out", outputs, [model] if points is None else [model, points])
    from matplotlib.colors import LogNorm

    from sphereot import plotting
    from sphereot.density import load
    from sphereot.plotting.coastlines import has_coastlines

    estimator = load(model)
    if estimator.n_features_in_ != 3:
        raise ValueError(
            f"{model}: the model has dimension {estimator.n_features_in_}, but a map needs 3; plot a model on S^2."
        )
    overlay = None if points is None else _read(points, reading)[0]
    values = _on_map(estimator, plotting.map_points(resolution))
    # The densities of data on the earth range over decades; below a tenth of the uniform one there is little to see.
    top, uniform = float(values.max()), 1 / (4 * math.pi)
    norm = LogNorm(0.1 * uniform, top, clip=True) if top > _PEAKED * uniform else None
    with status("Drawing ..."):
        if image is not None:
            shores = has_coastlines() and not sky
            plotting.save(
                plotting.density_map(
                    values, points=overlay, label="density [1/sr]", coastlines=shores, norm=norm, sky=sky
                ),
                image,
            )
        if page is not None:
            coarser = resolution >= 2 * _GLOBE_ROWS and resolution % 2 == 0  # for a small page
            on_globe = values.reshape(resolution // 2, 2, resolution, 2).mean(axis=(1, 3)) if coarser else values
            plotting.globe_page(
                page,
                density=on_globe,
                points=overlay,
                title=f"Density {model.stem}",
                norm=norm,
                coastlines=False if sky else None,  # on the earth where they are installed
            )
    typer.echo(f"Written: {', '.join(map(str, outputs))}")


def _pictures(out: Path) -> tuple[Path | None, Path | None]:
    """The image and the page to write: one of them if the name has its ending, else both."""
    ending = out.suffix.lower()
    if ending in IMAGE_TYPES or not out.name:
        return out, None
    if ending == ".html":
        return None, out
    return out.with_name(f"{out.name}.png"), out.with_name(f"{out.name}.html")


def _on_map(estimator: Any, cells: Any) -> Any:
    """Densities at the cells of a map (rows, columns, 3), row by row with a progress bar."""
    import numpy as np

    from sphereot._support.extras import progress_bar

    rows = max(1, _CELLS_PER_STEP // cells.shape[1])
    values = np.empty(cells.shape[:2])
    with progress_bar(True, "rows of the map", len(cells)) as show:
        for start in range(0, len(cells), rows):
            part = cells[start : start + rows]
            values[start : start + rows] = np.asarray(estimator.density(part.reshape(-1, 3))).reshape(part.shape[:2])
            show(min(start + rows, len(cells)))
    return values


_LOSS_LABELS = {
    "ssw": "SSW$_2^2$ to the prior [turns$^2$]",
    "sw": "SW$_2^2$ to the prior",
    "nll": "NLL [nats]",
    "ssw+nll": "SSW$_2^2$ to the prior + NLL",
}


def _read(data: Path, reading: ReadOptions) -> tuple[Any, str, Any]:
    """Points (n, d) of a file or of a named data set, one line that says what was read, and the weights or None."""
    from sphereot import datasets

    with status("Reading ..."):
        if str(data) in datasets.NAMES and not data.exists():
            named = datasets.load(str(data))
            return named.points, f"{named.name}: {len(named)} points ({named.source})", None
        (points,) = read_files([data], reading)
        return points.points, file_summary(points), points.weights


def _uniform(points: Any) -> float:
    """Log-density of the uniform distribution."""
    from sphereot.sphere.maps import log_area

    return -log_area(int(points.shape[1]))


def _require_numbers(values: Any, model: Path) -> None:
    """Raise an error if a model gives NaN."""
    import numpy as np

    bad = int(np.isnan(values).sum())
    if bad:
        raise ValueError(f"{model}: the model gives NaN ({bad} of {values.size} numbers); fit it again.")


def _curve(estimator: Any, target: Path) -> list[Path]:
    from sphereot import plotting

    history = estimator.history_
    ax = plotting.evolution(range(1, len(history.losses) + 1), history.losses, label="loss")
    ax.set(xlabel="epoch", ylabel=_LOSS_LABELS[estimator.loss_])
    if history.validation:
        right = ax.twinx()
        right.plot(*zip(*history.validation, strict=True), color=plotting.PALETTE[1])
        right.set_ylabel("NLL of the points held out", color=plotting.PALETTE[1])
    return plotting.save(ax, target.with_suffix(""), formats=("png",))
