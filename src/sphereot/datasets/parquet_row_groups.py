"""Row groups of a Parquet file: how many rows each has, from the footer of the file.

polars reads a row group as a whole, even for a slice of it, and does not say where one ends. The footer is a struct in
the compact protocol of Apache Thrift; the fields wanted here are `FileMetaData.row_groups` and `RowGroup.num_rows`.
"""

from collections.abc import Iterator
from pathlib import Path

__all__ = ["row_group_sizes", "row_ranges"]

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_ROW_GROUPS, _NUM_ROWS = 4, 3


def row_group_sizes(path: Path) -> list[int]:
    """The number of rows of each row group, for a file that is known to be Parquet; empty if that cannot be read."""
    with path.open("rb") as file:
        file.seek(-8, 2)
        length = int.from_bytes(file.read(4), "little")
        file.seek(-8 - length, 2)
        footer = _Footer(file.read(length))
    try:
        return list(footer.row_group_sizes())
    except IndexError:
        return []


def row_ranges(sizes: list[int], step: int) -> Iterator[tuple[int, int]]:
    """First row and number of rows of pieces of at most `step` rows; of a group larger than that, one piece at a time.

    Examples
    --------
    >>> list(row_ranges([5, 25, 4, 4, 4], 10))
    [(0, 5), (5, 10), (15, 10), (25, 9), (34, 8)]
    """
    first = held = 0
    for size in sizes:
        if held and held + size > step:
            yield first, held
            first, held = first + held, 0
        held += size
        while held > step:
            yield first, step
            first, held = first + step, held - step
    if held:
        yield first, held


class _Footer:
    """Reads a struct of the compact protocol from the front to the back."""

    def __init__(self, content: bytes):
        self._content, self._at = content, 0

    def row_group_sizes(self) -> Iterator[int]:
        for field, kind in self._fields():
            if field != _ROW_GROUPS:
                self._skip(kind)
                continue
            count, _ = self._list_header()
            for _ in range(count):
                for inner, inner_kind in self._fields():
                    if inner == _NUM_ROWS:
                        yield self._integer()
                    else:
                        self._skip(inner_kind)

    def _fields(self) -> Iterator[tuple[int, int]]:
        """Number and type of each field; the caller reads or skips its value."""
        number = 0
        while header := self._byte():
            number = number + (header >> 4) if header >> 4 else self._integer()
            yield number, header & 15

    def _skip(self, kind: int, in_list: bool = False) -> None:
        if kind in (_TRUE, _FALSE):
            self._at += in_list  # a field has the value in its type
        elif kind == _BYTE:
            self._at += 1
        elif kind in (_I16, _I32, _I64):
            self._varint()
        elif kind == _DOUBLE:
            self._at += 8
        elif kind == _BINARY:
            length = self._varint()
            self._at += length
        elif kind in (_LIST, _SET):
            count, inner = self._list_header()
            for _ in range(count):
                self._skip(inner, in_list=True)
        elif kind == _MAP:
            count = self._varint()
            kinds = self._byte() if count else 0
            for _ in range(count):
                self._skip(kinds >> 4, in_list=True)
                self._skip(kinds & 15, in_list=True)
        elif kind == _STRUCT:
            for _, inner in self._fields():
                self._skip(inner)

    def _list_header(self) -> tuple[int, int]:
        header = self._byte()
        return (self._varint() if header >> 4 == 15 else header >> 4), header & 15

    def _integer(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7

    def _byte(self) -> int:
        self._at += 1
        return self._content[self._at - 1]
