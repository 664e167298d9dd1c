"""`sphereot sketch`: summarize files of any number and size as sketches."""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from time import monotonic, perf_counter
from typing import Annotated, Any
from urllib.parse import quote

import typer

from sphereot._support.atomic_write import reason_of, write_aside
from sphereot._support.extras import progress_bar
from sphereot._support.text import plural
from sphereot.cli import files as reader
from sphereot.cli import options as opt
from sphereot.cli.show import command, print_json

_SECONDS_BETWEEN_SAVES = 10.0
_STATE = b"sphereot sketch 2\n"
_MAX_NAME = 200  # bytes: file systems allow 255, and a temporary name needs some of them


@command()
def sketch(
    files: Annotated[
        list[Path],
        typer.Argument(help="Files (as for `distance`), folders of files of one type, quoted patterns and URLs."),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Sketch to write. With --by or --time, a folder for several sketches.")
    ],
    reading: opt.WeightedReadOptions,
    by: Annotated[
        str | None, typer.Option(help="Column of a CSV or Parquet file: write one sketch for each of its values.")
    ] = None,
    time: opt.Time = None,
    every: opt.Every = None,
    groups: opt.Groups = None,
    group_count: Annotated[
        int, typer.Option(help="Number of histograms among which groups are divided. Requires --groups.", min=2)
    ] = 64,
    projections: opt.Projections = 200,
    bins: Annotated[int, typer.Option(help="Number of bins of each great circle.")] = 4096,
    method: opt.Method = "quasi",
    seed: opt.NonnegativeSeed = 0,
    fresh: opt.Fresh = False,
    as_json: opt.AsJson = False,
) -> None:
    """Summarize large data in a small file, for later comparisons.

    A sketch contains a histogram of the points on each great circle. With the default options it needs 13 MB of memory
    for any number of points, and less in a file. Files are read in parts. The same command resumes an interrupted run.
    The output lists the sketches with their numbers of points.

    `sphereot distance`, `pairwise`, `uniformity`, `drift` and `monitor` accept .sketch files. `drift` and `monitor`
    need --groups. For `distance` and `uniformity`, a quoted pattern of sketches is their sum.

    Summarize a year of embeddings:
        sphereot sketch data/*.parquet -o 2025.sketch --columns embedding

    Write one sketch per value of a column:
        sphereot sketch data/ -o days --by day --columns embedding

    Write one sketch per week, from a column of times:
        sphereot sketch data/ -o weeks --columns x,y,z --time created --every week

    Create a sketch with groups, for drift tests:
        sphereot sketch data/ -o old.sketch --columns embedding --groups document
    """
    from sphereot.datasets import iter_points
    from sphereot.datasets.addresses import size_and_version
    from sphereot.sketch.streams import SketchesByKey

    reader.require_both(time, every)
    if by is not None and time is not None:
        raise ValueError("--by cannot be combined with --time: both choose the sketch of a point.")
    paths = _all_files(reader.input_files(files))
    if out.is_dir() != (by is not None or time is not None) and out.exists():
        kind, other = ("folder", "file") if out.is_dir() else ("file", "folder")
        raise ValueError(f"--out must be a {other}, got the {kind} {out}.")
    options = {"n_projections": projections, "bins": bins, "method": method, "seed": seed}
    if groups is not None:
        options["groups"] = group_count
    versions = [size_and_version(path) for path in paths]
    inputs = [[str(path), *version] for path, version in zip(paths, versions, strict=True)]
    work: dict[str, Any] = {"options": options, "by": by, "time": [time, every], "groups": groups}
    work |= {"reading": vars(reading), "files": inputs}
    state = _StateFile(out.with_name(out.name + ".unfinished"), work)
    sketches = SketchesByKey(options)
    labels = tuple(dict.fromkeys(name for name in (by, time, groups) if name is not None))
    if fresh:
        state.remove()
    position = state.load(sketches)
    start, rows_at_start = perf_counter(), position["rows"]
    ends = list(accumulate((version[0] for version in versions), initial=0))
    with progress_bar(True, "bytes of the files", ends[-1], ends[position["file"]]) as show:
        for index in range(position["file"], len(paths)):
            done = ends[index]
            for number, batch in enumerate(iter_points(paths[index], **reading.for_file(), labels=labels)):
                if index == position["file"] and number < position["batch"]:
                    continue
                keys = None if by is None else reader.read_labels(batch, by)
                if time is not None and every is not None:
                    keys = reader.name_periods(batch, time, every)
                members = None if groups is None else reader.read_labels(batch, groups)
                sketches.update(batch.points, batch.weights, members, keys)
                rows, dropped = position["rows"] + len(batch), position["dropped"] + batch.dropped
                position = {"file": index, "batch": number + 1, "rows": rows, "dropped": dropped}
                done = min(done + batch.points.nbytes, ends[index + 1])  # the size in the file is not known
                show(done)
                state.save(sketches, position)
            position |= {"file": index + 1, "batch": 0}
    if not position["rows"]:
        raise ValueError(f"{paths[0]}: there are no points in the files.")
    written = _write(sketches, out, every if by is None else by)
    state.remove()
    seconds = perf_counter() - start
    record = {"points": position["rows"], "dropped": position["dropped"], "files": len(paths), "sketches": written}
    if as_json:
        print_json(record)
        return
    rate = (position["rows"] - rows_at_start) / max(seconds, 1e-9)
    read = f"{plural(position['rows'], 'point')} of {plural(len(paths), 'file')}"
    typer.echo(f"{read} ({rate:,.0f} per second). Written:")
    for item in written:
        typer.echo(f"  {item['path']}: {plural(item['points'], 'point')}, {item['bytes'] / 1e6:.2f} MB")


def _all_files(files: Sequence[Path]) -> list[Path]:
    """Return the files to read, also those in folders. A repeated file raises an error."""
    from sphereot.datasets.files import files_of_sample

    found = [file for path in files for file in files_of_sample(path) or [path]]
    seen: dict[Any, Path] = {}
    for file in found:
        if file.is_file():
            stat = file.stat()
            identity: Any = (stat.st_dev, stat.st_ino)  # also equal for links to the same file
        else:
            identity = str(file)
        if identity in seen:
            also = "" if seen[identity] == file else f", also as {seen[identity]}"
            raise ValueError(f"{file}: was given twice{also}. Give it once, so its points are counted once.")
        seen[identity] = file
    return found


def _write(sketches: Any, out: Path, by: str | None) -> list[dict[str, Any]]:
    written = []
    names = _file_names(list(map(str, sketches.keys())))
    for key, item in sketches.items():
        path = out if by is None else out / f"{names[str(key)]}.sketch"
        path.parent.mkdir(parents=True, exist_ok=True)
        item.save(path)
        entry = {"path": str(path), "points": item.n, "bytes": path.stat().st_size}
        written.append(entry if by is None else {by: key, **entry})
    return written


def _file_names(keys: Sequence[str]) -> dict[str, str]:
    """Choose file names for keys, without extension. Keys that are long, or differ only in case, get a hash.

    >>> _file_names(["2026-03-01", "a/b", ".b"])
    {'2026-03-01': '2026-03-01', 'a/b': 'a%2Fb', '.b': '%2Eb'}
    """
    names = {key: quote(key, safe=" -_.") for key in keys}
    names = {key: f"%2E{name[1:]}" if name.startswith(".") else name for key, name in names.items()}  # not hidden
    folded = Counter(name.casefold() for name in names.values())  # some file systems ignore case
    for key, name in names.items():
        if len(name) > _MAX_NAME or folded[name.casefold()] > 1:
            names[key] = f"{name[: _MAX_NAME - 40]}-{_digest(key.encode())}"
    return names


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


class _StateFile:
    """State file of an unfinished run: its options and files, its position, and the sketches."""

    def __init__(self, path: Path, work: dict[str, Any]):
        self.path, self._work = path, json.loads(json.dumps(work))
        self._last = monotonic()

    def load(self, sketches: Any) -> dict[str, int]:
        """Restore the sketches, and return the position at which to resume."""
        beginning = {"file": 0, "batch": 0, "rows": 0, "dropped": 0}
        if not self.path.exists():
            return beginning
        try:
            content = self.path.read_bytes()
            if not content.startswith(_STATE):
                raise ValueError("it is not a state of this version of the command")
            checksum, _, covered = content[len(_STATE) :].partition(b"\n")
            if checksum != _digest(covered).encode():
                raise ValueError("it is damaged: its checksum differs")
            line, _, rest = covered.partition(b"\n")
            header = json.loads(line)
            if header["work"] != self._work:
                raise ValueError("it belongs to a run with other files or options")
            contents, first = {}, 0
            for key, length in header["sketches"]:
                contents[key] = rest[first : first + length]
                first += length
            sketches.restore(contents)
            position: dict[str, int] = beginning | header["position"]
            return position
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{self.path}: an interrupted run cannot be resumed ({reason_of(error)}). Start again with --fresh."
            ) from error

    def save(self, sketches: Any, position: dict[str, int]) -> None:
        """Write the state, unless it was written less than ten seconds ago."""
        if monotonic() - self._last < _SECONDS_BETWEEN_SAVES:
            return
        contents = sketches.to_bytes()
        lengths = [[key, len(content)] for key, content in contents.items()]
        header = {"work": self._work, "position": position, "sketches": lengths}
        covered = json.dumps(header).encode() + b"\n" + b"".join(contents.values())
        with write_aside(self.path) as aside:
            aside.write_bytes(_STATE + _digest(covered).encode() + b"\n" + covered)
        self._last = monotonic()

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
