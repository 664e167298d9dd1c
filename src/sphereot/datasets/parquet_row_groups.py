"""Sizes of the row groups of a Parquet file, read from its footer.

polars reads a row group as a whole, even for a slice of it, and does not say where one ends. The footer is a struct in
the compact protocol of Apache Thrift; the fields read here are `FileMetaData.row_groups` and `RowGroup.num_rows`.
"""

from collections.abc import Iterator
from pathlib import Path

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_ROW_GROUPS, _NUM_ROWS = 4, 3


def row_group_sizes(path: Path) -> list[int]:
    """Number of rows of each row group of a Parquet file; empty if the footer cannot be read."""
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
    """Group whole row groups into ranges (first row, number of rows) of at most `step` rows; larger groups are split.

    Examples
    --------
    >>> list(row_ranges([5, 25, 4, 4, 4], 10))
    [(0, 5), (5, 10), (15, 10), (25, 9), (34, 8)]
    """
    first = count = 0
    for size in sizes:
        if count and count + size > step:
            yield first, count
            first, count = first + count, 0
        count += size
        while count > step:
            yield first, step
            first, count = first + step, count - step
    if count:
        yield first, count


class _Footer:
    """Reader of a struct in Thrift's compact protocol, from start to end."""

    def __init__(self, content: bytes):
        self._content, self._position = content, 0

    def row_group_sizes(self) -> Iterator[int]:
        """Number of rows of each row group."""
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
            self._position += in_list  # the type of a field holds its value; in a list it is a byte
        elif kind == _BYTE:
            self._position += 1
        elif kind in (_I16, _I32, _I64):
            self._varint()
        elif kind == _DOUBLE:
            self._position += 8
        elif kind == _BINARY:
            length = self._varint()
            self._position += length
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
        self._position += 1
        return self._content[self._position - 1]
