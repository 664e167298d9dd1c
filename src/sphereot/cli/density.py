"""`sphereot density`: fit a density to a sample, evaluate it, sample from it, and plot it."""

import math
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from sphereot._support.atomic_write import is_stream, write_aside, write_text
from sphereot._support.checkpoints import DivergenceError, StateFile
from sphereot._support.extras import progress_bar
from sphereot._support.units import finite_or_none
from sphereot.cli import files as reader
from sphereot.cli import options as opt
from sphereot.cli.show import IMAGE_TYPES, command, print_json, require_writable

_FLOWS = ("expmap", "stereo")
_WEIGHTED = ("kde", "adaptive", "mixture")  # models that accept weights of points
_MODELS = (*_FLOWS, *_WEIGHTED, "auto")
_LOSS_LABELS = {
    "ssw": "SSW$_2^2$ to the prior [turns$^2$]",
    "sw": "SW$_2^2$ to the prior",
    "nll": "NLL [nats]",
    "ssw+nll": "SSW$_2^2$ to the prior + NLL",
}
_GLOBE_ROWS = 180
_CELLS_PER_STEP = 50_000
_PEAKED = 20.0  # times the uniform density: above, the colors of a map are logarithmic

Data = Annotated[
    Path, typer.Argument(help=f"Sample: {opt.SAMPLE}. Or a data set of the paper: earthquake, flood, fire or volcano.")
]
Model = Annotated[Path, typer.Argument(help="Model file, written by `sphereot density fit`.")]


@command("density")
def fit(
    data: Data,
    reading: opt.WeightedReadOptions,
    model: Annotated[
        str | None,
        typer.Option(
            help="auto (average with the best likelihood), expmap (flow on the sphere), stereo (flow on the plane), "
            "kde (kernel density), adaptive (kernels that are narrow where points are dense) or mixture (von "
            "Mises-Fisher).",
            show_default="auto; adaptive with --weights; kde with --bandwidth; expmap with options of the training",
        ),
    ] = None,
    loss: Annotated[
        str | None, typer.Option(help="Loss: ssw, sw, nll or ssw+nll.", show_default="ssw for expmap, sw for stereo")
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
        int | None,
        typer.Option(help="Stop after this number of epochs without a better likelihood. Requires --validation."),
    ] = None,
    bandwidth: Annotated[
        float | None, typer.Option(help="Bandwidth of kde, in radians.", show_default="cross-validation")
    ] = None,
    folds: Annotated[
        str, typer.Option(help="Cross-validation of auto: by locations, or by rows (repeated points are separate).")
    ] = "locations",
    seed: opt.NonnegativeSeed = 0,
    out: Annotated[Path, typer.Option("--out", "-o", help="Model file to write.")] = Path("density.safetensors"),
    fresh: opt.Fresh = False,
) -> None:
    """Fit a density to a sample, and write it to a file.

    The output shows the mean log-likelihood per point, and for comparison the value of the uniform distribution. The
    default model, auto, is the average of several estimates with the largest likelihood in a cross-validation.

    The models expmap and stereo are normalizing flows, which are trained. The state of the training is saved next to
    the model (.unfinished), and the same command resumes an interrupted fit. The learning curve is saved as .curve.png.

    Fit locations on the Earth:
        sphereot density fit quakes.csv --lonlat --out quakes.safetensors

    Fit cities, weighted by their population:
        sphereot density fit cities.csv --lonlat --weights population

    Train the flow of the paper on one of its data sets, with early stopping:
        sphereot density fit flood --model expmap --validation 0.1 --patience 500
    """
    require_writable("--out", [out], [data])
    has_folder = not is_stream(out)  # other files cannot be written next to a device or a FIFO
    state, curve = out.with_name(f"{out.name}.unfinished"), out.with_suffix(".curve.png")
    if has_folder:
        require_writable("--out", [state, curve], [data])
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
        raise ValueError(f"--weights requires one of the models {_quote(_WEIGHTED)}, got {model!r}.")
    typer.echo(f"{name}\n{' '.join(str(estimator).split())}")
    store = StateFile(state if has_folder else None)
    if fresh:
        store.remove()
    options: dict[str, Any] = {"checkpoint": store} if is_flow else {}
    if model in _WEIGHTED:
        options["sample_weight"] = weights
    try:
        estimator.fit(points, **options)
    except DivergenceError as error:
        raise ValueError(str(error)) from error
    try:
        estimator.save(out)
    except OSError as error:
        kept = f" The state of the training is in {state}." if has_folder and state.exists() else ""
        raise ValueError(
            f"{out}: the model cannot be written ({error.strerror or error}).{kept} Free space on the disk, and run "
            "the same command again."
        ) from error
    store.remove()  # only after the model was written
    typer.echo(
        f"mean log-likelihood of these points: {estimator.score(points):.4f}  (uniform: {_uniform(points):.4f})\n"
        "The value of new points is lower: hold points out, and use `sphereot density evaluate`."
    )
    typer.echo(f"Written: {out}")
    if has_folder and is_flow:
        try:
            draw_learning_curve(estimator, curve)
        except OSError as error:
            reason = error.strerror or error
            raise ValueError(
                f"{curve}: the learning curve cannot be written ({reason}); the model is in {out}."
            ) from error
        typer.echo(f"Written: {curve}")


def _default_model(is_training_set: bool, is_bandwidth_set: bool, reading: opt.WeightedReadOptions) -> str:
    """Choose the model with the largest likelihood among the models that accept the given options."""
    is_weighted = any(column != "-" for column in reading.weights or [])
    if is_training_set and (is_bandwidth_set or is_weighted):
        other = "--bandwidth" if is_bandwidth_set else "--weights"
        raise ValueError(f"--model: {other} and options of the training of a flow are for different models. Name one.")
    if is_training_set:
        return "expmap"
    if is_bandwidth_set:
        return "kde"
    return "adaptive" if is_weighted else "auto"


def _make_estimator(model: str, options: dict[str, Any], seed: int) -> Any:
    """Create the estimator of a model. An option that the model does not use raises an error."""
    if model not in _MODELS:
        raise ValueError(f"--model must be one of {_quote(_MODELS)}, got {model!r}.")
    own = {"kde": ("bandwidth",), "auto": ("folds",)}.get(model, ())
    of_other = {"bandwidth": "has no single bandwidth", "folds": "is a single estimate"}
    for name, value in options.items():
        if name not in own and (name in of_other or model not in _FLOWS):
            reason = of_other.get(name, "is not trained")
            raise ValueError(f"{name} must be left out for the model {model!r}, which {reason}, got {value!r}.")
    from sphereot import density

    if model in _FLOWS:
        return density.FlowDensity(cast(Any, model), **options, seed=seed, progress=True)
    if model == "auto":
        return density.AverageDensity(**options, seed=seed, progress=True)
    if model == "mixture":
        return density.VonMisesFisherMixture(seed=seed)
    return density.SphericalKDE(**options) if model == "kde" else density.AdaptiveKDE()


def _quote(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names))


def draw_learning_curve(estimator: Any, path: Path) -> None:
    """Save a plot of the loss of a fitted flow, and of the likelihood of the points held out."""
    from sphereot import plotting

    history = estimator.history_
    ax = plotting.evolution(range(1, len(history.losses) + 1), history.losses, label="loss")
    ax.set(xlabel="epoch", ylabel=_LOSS_LABELS[estimator.loss_])
    if history.validation:
        right = ax.twinx()
        right.plot(*zip(*history.validation, strict=True), color=plotting.PALETTE[1])
        right.set_ylabel("NLL of the points held out", color=plotting.PALETTE[1])
    plotting.save(ax, path)


@command("density")
def evaluate(
    model: Model,
    data: Data,
    reading: opt.ReadOptions,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the log-density of each point to this .npy file.")
    ] = None,
    as_json: opt.AsJson = False,
) -> None:
    """Compute the likelihood of points under a fitted density.

    The output is the mean log-density per point with its standard error, and for comparison the value of the uniform
    distribution. A larger value is a better fit. Use points that the model was not fitted to.

    Evaluate a model on new points:
        sphereot density evaluate quakes.safetensors new.csv --lonlat
    """
    import numpy as np

    require_writable("--out", [out], [model, data])
    from sphereot.density import load

    estimator = load(model)
    points, name, _ = _read(data, reading)
    with reader.status("Evaluating ..."):
        values = np.asarray(estimator.log_density(points))
    _require_numbers(values, model)
    mean = float(values.mean())
    error = finite_or_none(float(values.std(ddof=1) / math.sqrt(len(values)))) if len(values) > 1 else None
    if out is not None:
        with write_aside(out) as aside, aside.open("wb") as file:
            np.save(file, values)
    if as_json:
        record = {"n": len(values), "log_likelihood": finite_or_none(mean), "standard_error": error}
        print_json({**record, "uniform": _uniform(points)})
        return
    spread = "" if error is None else f" ± {error:.4f}"
    typer.echo(f"{name}\nmean log-likelihood: {mean:.4f}{spread}  (uniform: {_uniform(points):.4f})")


@command("density")
def sample(
    model: Model,
    n: Annotated[int, typer.Option("-n", help="Number of points.", min=1)] = 1000,
    seed: Annotated[int | None, typer.Option(help="Seed of the random numbers.", min=0)] = None,
    lonlat: Annotated[
        bool, typer.Option("--lonlat", help="Write longitude and latitude in degrees, for d = 3.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write, .csv or .npy.", show_default="CSV on stdout")
    ] = None,
) -> None:
    """Sample points from a fitted density.

    Each row of the output is a point: its d coordinates, or longitude and latitude.

    Sample 500 locations:
        sphereot density sample quakes.safetensors -n 500 --lonlat --out drawn.csv
    """
    import numpy as np

    from sphereot import sphere

    require_writable("--out", [out], [model])
    if out is not None and out.suffix not in (".csv", ".npy") and not is_stream(out):
        raise ValueError(f"--out must have the extension .csv or .npy, got {out}.")
    from sphereot.density import load

    estimator = load(model)
    try:
        points: Any = estimator.sample(n, seed).astype(np.float64)
    except RuntimeError as error:  # the flow cannot be inverted
        raise ValueError(f"{model}: points cannot be sampled from this model ({error}). Fit it again.") from error
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
    reading: opt.ReadOptions,
    points: Annotated[
        Path | None, typer.Option(help="Points to show: a file, folder, pattern or data set, as for `density fit`.")
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="File to write: .png, .pdf or .svg for a map, .html for a globe. Without such an extension, both are "
            "written, as .png and .html.",
        ),
    ] = Path("density"),
    resolution: Annotated[int, typer.Option(help="Number of rows of the map.", min=2)] = 360,
    sky: Annotated[
        bool, typer.Option("--sky", help="Draw the sky: right ascension increases to the left, no coastlines.")
    ] = False,
) -> None:
    """Plot a fitted density on S^2, as a map and as a globe.

    The map is an image in the Mollweide projection, in which areas are comparable. The globe is an HTML page, to rotate
    and zoom. Colors show the density per steradian.

    Draw both, with the points on top:
        sphereot density plot quakes.safetensors --points quakes.csv --lonlat
    """
    image: Path | None = out
    page: Path | None = out
    if out.suffix.lower() in IMAGE_TYPES:
        page = None
    elif out.suffix.lower() == ".html":
        image = None
    else:
        image, page = out.with_name(f"{out.name}.png"), out.with_name(f"{out.name}.html")
    require_writable("--out", [image, page], [model, points])
    from matplotlib.colors import LogNorm

    from sphereot.density import load
    from sphereot.plotting import density_map, globe_page, map_points, save
    from sphereot.plotting.coastlines import has_coastlines

    estimator = load(model)
    if estimator.n_features_in_ != 3:
        raise ValueError(f"{model}: the model must have dimension 3 for a map, got {estimator.n_features_in_}.")
    overlay = None if points is None else _read(points, reading)[0]
    values = _on_map(estimator, map_points(resolution))
    # Densities of data on the Earth range over decades. Values below a tenth of the uniform density look the same.
    top, uniform = float(values.max()), 1 / (4 * math.pi)
    norm = LogNorm(0.1 * uniform, top, clip=True) if top > _PEAKED * uniform else None
    with reader.status("Drawing ..."):
        if image is not None:
            shores = has_coastlines() and not sky
            ax = density_map(values, points=overlay, coastlines=shores, norm=norm, sky=sky)
            save(ax, image)
        if page is not None:
            coarser = resolution >= 2 * _GLOBE_ROWS and resolution % 2 == 0  # for a small page
            on_globe = values.reshape(resolution // 2, 2, resolution, 2).mean(axis=(1, 3)) if coarser else values
            shown = False if sky else None  # on the Earth, if they are installed
            globe_page(
                page, density=on_globe, points=overlay, title=f"Density {model.stem}", norm=norm, coastlines=shown
            )
    typer.echo(f"Written: {', '.join(str(path) for path in (image, page) if path is not None)}")


def _on_map(estimator: Any, cells: Any) -> Any:
    """Evaluate a density at the cells of a map (rows, columns, 3), with a progress bar."""
    import numpy as np

    rows = max(1, _CELLS_PER_STEP // cells.shape[1])
    values = np.empty(cells.shape[:2])
    with progress_bar(True, "rows of the map", len(cells)) as show:
        for start in range(0, len(cells), rows):
            part = cells[start : start + rows]
            values[start : start + rows] = np.asarray(estimator.density(part.reshape(-1, 3))).reshape(part.shape[:2])
            show(min(start + rows, len(cells)))
    return values


def _read(data: Path, reading: opt.ReadOptions) -> tuple[Any, str, Any]:
    """Read a file or a named data set: points (n, d), a description in one line, and the weights or None."""
    from sphereot.datasets import NAMES, load

    if str(data) in NAMES and not data.exists():
        with reader.status("Reading ..."):
            named = load(str(data))
        return named.points, f"{named.name}: {len(named)} points ({named.source})", None
    (points,) = reader.read_files([data], reading)
    return points.points, reader.file_summary(points), points.weights


def _uniform(points: Any) -> float:
    """Return the log-density of the uniform distribution."""
    from sphereot.sphere.maps import log_area

    return -log_area(int(points.shape[1]))


def _require_numbers(values: Any, model: Path) -> None:
    """Raise an error if a model returns NaN."""
    import numpy as np

    bad = int(np.isnan(values).sum())
    if bad:
        raise ValueError(f"{model}: the model returns NaN ({bad} of {values.size} numbers). Fit it again.")
