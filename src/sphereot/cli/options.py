"""Options that several commands share, each defined once."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

_READING = "Reading the files"
_NONE = "-"
_SEED_HELP = "Seed of the random numbers: the same seed gives the same result."

SAMPLE = (
    "a file (.csv, .csv.gz, .tsv, .txt, .jsonl, .feather, .parquet, .npy, .npz, .geojson, .pt or .safetensors), a "
    "folder or quoted pattern of files of one kind, read as one sample, or an address such as s3://bucket/a.parquet"
)
"""What an argument for one sample may be, for its help."""

Sample = Annotated[Path, typer.Argument(help=f"The points: {SAMPLE}.", show_default=False)]
FirstFile = Annotated[Path, typer.Argument(help=f"The first sample: {SAMPLE}.", show_default=False)]
SecondFile = Annotated[Path, typer.Argument(help="The second sample, given like the first.", show_default=False)]
Order = Annotated[float, typer.Option("--p", help="Order p of the distance, from 1 to 16.")]
OrderByData = Annotated[
    float | None,
    typer.Option(
        "--p", help="Order p of the distance, from 1 to 16.", show_default="2; 1 for locations, with --lonlat"
    ),
]
Projections = Annotated[int, typer.Option("--projections", help="Number of great circles.")]
Method = Annotated[
    str, typer.Option("--method", help="How great circles are drawn: quasi (well placed), orthogonal or iid.")
]
Seed = Annotated[int, typer.Option("--seed", help=_SEED_HELP)]
NonnegativeSeed = Annotated[int, typer.Option("--seed", help=_SEED_HELP, min=0)]
NoWeights = Annotated[str | None, typer.Option("--weights", help="Refused: tests take no weights.", hidden=True)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON: one line, or indented on a terminal.")]
Frames = Annotated[
    bool, typer.Option("--frames", help="With --json: also print the frames of great circles, d x 2 numbers each.")
]
Groups = Annotated[
    str | None,
    typer.Option(
        "--groups",
        help="Column with the document, user or session of each point: whole groups are permuted.",
        show_default=False,
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        "--time", help="Column with the time of each point: one window per --every, from all files.", show_default=False
    ),
]
Every = Annotated[
    str | None,
    typer.Option(
        "--every", help="With --time: hour, day, week (from Monday), month, quarter or year.", show_default=False
    ),
]
Unit = Annotated[
    str | None,
    typer.Option(
        "--unit",
        help="Unit of distances: turns, degrees, radians or km (on the earth).",
        show_default="turns, and degrees on S^2",
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the full traceback of an error.")]


def _reading(name: str, help_text: str) -> Any:
    return typer.Option(name, help=help_text, rich_help_panel=_READING)


@dataclass(frozen=True)
class ReadOptions:
    """How to read files of points: options of commands, and arguments of `sphereot.datasets.read_points`."""

    columns: Annotated[
        list[str] | None,
        _reading(
            "--columns",
            "Columns of the coordinates: names, or numbers from 0, as in x,y,z. Given once, or once per file; - for a "
            "file whose columns are found by their names.",
        ),
    ] = None
    prefix: Annotated[
        str | None, _reading("--prefix", "Take all columns whose names begin with this text as coordinates.")
    ] = None
    key: Annotated[str | None, _reading("--key", "Name of the array in a .npz, .pt or .safetensors file.")] = None
    lonlat: Annotated[
        bool,
        _reading(
            "--lonlat", "Coordinates are longitude and latitude in degrees, in columns of these names or --columns."
        ),
    ] = False
    normalize: Annotated[bool, _reading("--normalize", "Scale rows to unit length.")] = False
    drop_bad: Annotated[
        bool, _reading("--drop-bad", "Leave out and count rows that cannot be points, instead of ending with an error.")
    ] = False

    def for_file(self, index: int = 0, count: int = 1) -> dict[str, Any]:
        """Arguments of `read_points` for one of `count` files.

        >>> options = ReadOptions(columns=["lon,lat", "Laenge,Breite"])
        >>> options.for_file(1, 2)["columns"]
        ['Laenge', 'Breite']
        """
        arguments = dict(vars(self))
        columns = _of_file("--columns", self.columns, index, count)
        arguments["columns"] = None if columns is None else columns.split(",")
        if "weights" in arguments:
            arguments["weights"] = _of_file("--weights", arguments["weights"], index, count)
        return arguments


@dataclass(frozen=True)
class WeightedReadOptions(ReadOptions):
    """How to read files of weighted points."""

    weights: Annotated[
        list[str] | None,
        _reading("--weights", "Column of the weights. Given once, or once per file; - for a file without weights."),
    ] = None


def _of_file(option: str, values: list[str] | None, index: int, count: int) -> str | None:
    """The value of an option that is given once for all files, or once per file; None where it is not, or is "-"."""
    if not values:
        return None
    if len(values) not in (1, count):
        raise ValueError(f"{option}: given {len(values)} times for {count} files; give it once, or once per file.")
    value = values[0] if len(values) == 1 else values[index]
    return None if value == _NONE else value


def order_for(p: float | None, reading: ReadOptions) -> float:
    """The order p of distances: by default 1 for locations, where it is a mean displacement, else 2."""
    if p is not None:
        return p
    return 1.0 if reading.lonlat else 2.0


def refuse_for_sketches(context: typer.Context, reading: ReadOptions | None, *names: str) -> None:
    """Raise an error if one of these options was given, or one of `reading`: sketches cannot follow them."""
    refused = [*names, *(() if reading is None else vars(reading))]
    given = [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name in refused and str(context.get_parameter_source(parameter.name)).endswith("COMMANDLINE")
    ]
    if given:
        raise ValueError(
            f"{', '.join(given)}: cannot be given for sketches, which have no rows, and the great circles and groups "
            "they were made with. `sphereot sketch` makes others: its --help lists options such as --projections."
        )
