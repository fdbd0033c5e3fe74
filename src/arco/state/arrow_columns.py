"""Single values of Arrow columns, without Arrow's scalars.

A scalar and its `as_py` cost three times as much as reading the value from the buffer, and searches
in a bucket, and reading its rows, consist of such reads.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

ID_LENGTH = 26
"""Of a ULID. A shorter text may be a part of many others."""
SEARCHED = 1_024


class Texts(Sequence[str]):
    """Texts, read from the buffer."""

    __slots__ = ("_data", "_length", "_offsets")

    def __init__(self, column: pa.Array) -> None:
        self._length = len(column)
        self._data, self._offsets = texts_of(column)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, i: Any) -> Any:
        offsets = self._offsets
        return str(self._data[offsets[i] : offsets[i + 1]], "utf-8")

    def first(self, value: str, start: int, end: int) -> int:
        """The index of the first of the sorted texts from `start` that is not less than `value`.

        For an id among not too many: `end`, if it is not one of them. The bytes of all of them are
        searched in less time than it takes to make a text of each that a bisection looks at.
        """
        if len(value) < ID_LENGTH or end - start > SEARCHED:
            return bisect_left(self, value, start, end)
        offsets, text = self._offsets, value.encode()
        first = offsets[start]
        texts = bytes(self._data[first : offsets[end]])
        at = texts.find(text)
        while at >= 0:
            i = bisect_right(offsets, first + at, start, end) - 1  # empty texts begin there too
            if offsets[i] == first + at and offsets[i + 1] == first + at + len(text):
                return i
            at = texts.find(text, at + 1)
        return end


def texts_of(column: pa.Array) -> tuple[memoryview, memoryview]:
    """The bytes of a column of text, and where each of its texts begins and ends in them."""
    _, offsets, data = column.buffers()
    start = column.offset
    used = memoryview(offsets)[4 * start : 4 * (start + len(column) + 1)]
    return memoryview(data or b""), used.cast("i")


def values_of(column: pa.Array) -> Sequence[Any]:
    """A column without nulls of text, int64 or uint8, as keys and buckets are."""
    if len(column) == 0:
        return ()
    if column.type == pa.string():
        return Texts(column)
    first, last = column.offset, column.offset + len(column)
    data = memoryview(column.buffers()[1])
    if column.type == pa.uint8():
        return data[first:last].cast("B")
    return data[8 * first : 8 * last].cast("q")
