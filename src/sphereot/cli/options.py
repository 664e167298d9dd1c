"""Options that several commands share, each defined once."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

_NONE = "-"
_ORDER = "Order of the distance, from 1 to 16."
_ORDER_SHOWN = (
    "Order of the distance that is shown: 1 or 2 for the combined test. With --statistic ssw, from 1 to 16: clusters "
    "that move affect order 1 most, a change of spread order 2."
)
_SEED = "Seed of the random numbers. The same seed gives the same result."

SAMPLE = (
    "a file, a folder or quoted pattern of files of one type, which are read as one sample, or a URL such as "
    "s3://bucket/a.parquet. Types: CSV (also .csv.gz), TSV, JSON Lines, Feather, Parquet, GeoJSON, .npy, .npz, .pt, "
    ".safetensors"
)
"""Help text for an argument that is one sample."""

Sample = Annotated[Path, typer.Argument(help=f"Sample: {SAMPLE}.")]
FirstFile = Annotated[Path, typer.Argument(help=f"First sample: {SAMPLE}.")]
SecondFile = Annotated[Path, typer.Argument(help="Second sample, in the same form as the first.")]
Order = Annotated[float, typer.Option(help=_ORDER)]
OrderByData = Annotated[float | None, typer.Option(help=_ORDER, show_default="2, or 1 with --lonlat")]
OrderShown = Annotated[
    float | None, typer.Option("--p", help=_ORDER_SHOWN, show_default="1 up to 3 coordinates, otherwise 2")
]
Statistic = Annotated[
    str,
    typer.Option(
        help="What measures the difference. combined: SSW_1, SSW_2 and a statistic of axes and bands, in one p-value. "
        "ssw: SSW of the order --p only."
    ),
]
Projections = Annotated[int, typer.Option(help="Number of great circles.")]
Method = Annotated[
    str, typer.Option(help="How to draw the great circles: quasi (evenly spread), orthogonal, or iid (independent).")
]
Seed = Annotated[int, typer.Option(help=_SEED)]
NonnegativeSeed = Annotated[int, typer.Option(help=_SEED, min=0)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON: one line, or indented on a terminal.")]
Frames = Annotated[bool, typer.Option("--frames", help="With --json, include the frame (d x 2) of each great circle.")]
Groups = Annotated[
    str | None,
    typer.Option(help="Column with the document, user or session of each row. Tests permute whole groups of rows."),
]
Time = Annotated[str | None, typer.Option(help="Column with the time of each row. Requires --every.")]
Every = Annotated[
    str | None,
    typer.Option(help="Length of a window: hour, day, week (from Monday), month, quarter or year. Requires --time."),
]
Report = Annotated[
    Path | None, typer.Option(help="Write an HTML report to this file. It opens without a network connection.")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start again instead of resuming an interrupted run.")]
Unit = Annotated[
    str | None,
    typer.Option(
        help="Unit of distances: turns (1 turn = 360 degrees), degrees, radians, or km on the Earth.",
        show_default="turns, and degrees on S^2",
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the full traceback if an error occurs.")]


def _reading(help_text: str, *names: str) -> Any:
    return typer.Option(*names, help=help_text, rich_help_panel="Reading files")


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading files: arguments of `sphereot.datasets.read_points`."""

    columns: Annotated[
        list[str] | None,
        _reading(
            "Names or numbers (from 0) of the columns of the coordinates, such as x,y,z, or one column of lists. Give "
            "it once, or once per file. Use - for a file whose columns are found by their names."
        ),
    ] = None
    prefix: Annotated[str | None, _reading("Use all columns whose names begin with this text.")] = None
    key: Annotated[str | None, _reading("Name of the array in a .npz, .pt or .safetensors file.")] = None
    lonlat: Annotated[bool, _reading("The coordinates are longitude and latitude in degrees.", "--lonlat")] = False
    normalize: Annotated[bool, _reading("Scale every row to unit length.", "--normalize")] = False
    drop_bad: Annotated[
        bool, _reading("Skip and count rows that are not valid points. By default, they raise an error.", "--drop-bad")
    ] = False

    def for_file(self, index: int = 0, count: int = 1) -> dict[str, Any]:
        """Return the arguments of `read_points` for one of `count` files.

        >>> options = ReadOptions(columns=["lon,lat", "Laenge,Breite"])
        >>> options.for_file(1, 2)["columns"]
        ['Laenge', 'Breite']
        """
        arguments = dict(vars(self))
        for name in arguments.keys() & {"columns", "weights"}:
            values = arguments[name] or [_NONE]
            if len(values) not in (1, count):
                raise ValueError(f"--{name} must be given once, or once per file ({count} times), got {len(values)}.")
            value = values[index if len(values) > 1 else 0]
            arguments[name] = None if value == _NONE else value
        if arguments["columns"] is not None:
            arguments["columns"] = arguments["columns"].split(",")
        return arguments


@dataclass(frozen=True)
class WeightedReadOptions(ReadOptions):
    """Options for reading files of weighted points."""

    weights: Annotated[
        list[str] | None,
        _reading("Column of the weights. Give it once, or once per file. Use - for a file without weights."),
    ] = None


@dataclass(frozen=True)
class UnweightedReadOptions(ReadOptions):
    """Options for reading files in tests, which do not support weights."""

    weights: Annotated[list[str] | None, typer.Option(hidden=True)] = None

    def __post_init__(self) -> None:
        if self.weights:
            raise ValueError(
                "--weights is not supported by tests, which assume that all points have equal weight. If a weight is a "
                "number of independent observations, repeat the row that many times. For a weighted distance without "
                "a test, use `sphereot distance --weights`."
            )


def order_for(p: float | None, reading: ReadOptions) -> float:
    """Return the order p, by default 1 for locations (the mean displacement), otherwise 2."""
    default = 1.0 if reading.lonlat else 2.0
    return default if p is None else p


def refuse_for_sketches(context: typer.Context, reading: ReadOptions | None, *names: str) -> None:
    """Raise an error if one of these options, or of `reading`, was given, since sketches cannot follow them."""
    refused = [*names, *(() if reading is None else vars(reading))]
    given = [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name in refused and str(context.get_parameter_source(parameter.name)).endswith("COMMANDLINE")
    ]
    if given:
        raise ValueError(
            f"{', '.join(given)} cannot be given for sketches, whose great circles, rows and groups are fixed. See "
            "`sphereot sketch --help` to create a sketch with other options, such as --projections."
        )
