"""Formats of files of points: which reader the ending of a name stands for."""

from collections.abc import Callable
from pathlib import Path

from sphereot.datasets.geojson import open_geojson
from sphereot.datasets.point_file import PointFile, Selection
from sphereot.datasets.tables import open_csv, open_feather, open_json_lines, open_parquet
from sphereot.datasets.tensors import open_npy, open_npz, open_pt, open_safetensors

__all__ = ["FORMATS", "TABLES", "ZIP_FORMATS", "Opener", "ending_of", "opener_for"]

Opener = Callable[[Path, Selection], PointFile]

FORMATS: dict[str, Opener] = {
    ".npy": open_npy,
    ".npz": open_npz,
    ".csv": open_csv,
    ".tsv": open_csv,
    ".txt": open_csv,
    ".parquet": open_parquet,
    ".pq": open_parquet,
    ".feather": open_feather,
    ".arrow": open_feather,
    ".jsonl": open_json_lines,
    ".ndjson": open_json_lines,
    ".geojson": open_geojson,
    ".json": open_geojson,
    ".pt": open_pt,
    ".pth": open_pt,
    ".safetensors": open_safetensors,
}
TABLES: tuple[Opener, ...] = (open_csv, open_parquet, open_feather, open_json_lines)
ZIP_FORMATS: tuple[Opener, ...] = (open_npz, open_pt)


def ending_of(path: Path) -> str:
    """The ending of a name in lower case, without that of a compression by gzip.

    >>> ending_of(Path("quakes.CSV")), ending_of(Path("quakes.csv.gz"))
    ('.csv', '.csv')
    """
    return Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


def opener_for(path: Path) -> Opener | None:
    """The reader of a file by the ending of its name; None if there is none."""
    return FORMATS.get(ending_of(path))
