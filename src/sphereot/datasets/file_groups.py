"""The files of one sample: those in a folder, or those that a pattern matches, all of one kind."""

import errno
from pathlib import Path

from sphereot._support.column_names import natural_order
from sphereot.datasets.addresses import files_at, is_pattern
from sphereot.datasets.formats import FORMATS, Opener, ending_of, opener_for

__all__ = ["files_of_sample"]

_NOTES = (".txt", ".json")  # beside files of another kind they hold notes or settings, not points


def files_of_sample(path: Path) -> list[Path] | None:
    """The files of points in a folder, or of those that a pattern matches; None if the path is that of one file.

    They are in the natural order of their names, week2 before week10. Files that hold no points by their names are left
    out: in folders also those whose names, or those of their folders, begin with a period or an underscore.

    Raises
    ------
    ValueError
        If the files are of several kinds, such as CSV and Parquet, or no file has a name that the pattern matches.
    IsADirectoryError
        If there are no files of points in the folder.
    """
    files = files_at(path)
    if files is None:
        return None
    points = [file for file in files if opener_for(file) is not None]
    data = [file for file in points if ending_of(file) not in _NOTES] or points
    if not data:
        endings = ", ".join(FORMATS)
        raise IsADirectoryError(errno.EISDIR, f"holds no files of points ({endings}); give another", str(path))
    kinds: dict[Opener | None, list[Path]] = {}
    for file in data:
        kinds.setdefault(opener_for(file), []).append(file)
    if len(kinds) > 1:
        examples = [ending_of(of_kind[0]) for of_kind in kinds.values()]
        pattern = f"*{examples[0]}" if is_pattern(path) else f"{path}/**/*{examples[0]}"
        raise ValueError(
            f"{path}: holds files of several kinds ({', '.join(sorted(examples))}), but a sample needs one kind; "
            f"give a pattern that matches one, such as '{pattern}'."
        )
    return sorted(data, key=lambda file: natural_order(str(file)))
