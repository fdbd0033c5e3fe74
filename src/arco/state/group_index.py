"""The index of a table file: one row group is found and read without parsing the whole footer.

A footer describes each column of each row group. Of a large file that takes longer to parse than a
row group takes to read, and grows with the file. So the index lies before the footer, and has for
each row group its buckets, where its bytes are, where it is described in the footer, and a Bloom
filter of its shard keys (where few of them have very many rows, of whole keys too): a key that is
not there is known not to be, without a read.

The footer is Thrift (compact protocol): a list of row groups, each of them a struct. A footer of
some row groups is the same text with the other structs left out. `encode_index` finds the structs
by how they begin, and verifies some of them: where a footer says something else than expected,
there is no index, and readers parse the footer. Other programs read the file as if there were none.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from arco.state.row_groups import RowGroups

LEAST_GROUPS = 8
"""A footer with fewer is parsed in no time."""
LARGE_SHARD = 16
"""Where shard keys have more rows of a row group than this, its filter has whole keys too."""
_HEADER = struct.Struct("<3I")
_ENTRY = struct.Struct("<6I")
_FILTER, _FILTER_AT = struct.Struct("<2I"), 16
"""The last two numbers of an entry."""
_END = 8
"""The length of a footer and Parquet's mark."""


class GroupKeys(NamedTuple):
    """The keys of a row group, as texts in UTF-8."""

    shards: list[bytes]
    whole: list[bytes]
    """Of the rows, where few shard keys have many of them; else none."""


class IndexEntry(NamedTuple):
    """One row group."""

    start: int
    length: int
    described_at: int
    """In the footer."""
    described_length: int
    filter_at: int
    """In the index."""
    filter_length: int


def encode_index(footer: bytes, keys: Sequence[GroupKeys]) -> bytes:
    """The index for a footer and the keys of its row groups; empty if there is none."""
    metadata = pq.read_metadata(pa.BufferReader(footer))
    groups = RowGroups(metadata)
    if len(groups) < LEAST_GROUPS or len(groups) != len(keys):
        return b""
    structs = _structs(footer, len(groups), metadata.num_columns)
    if structs is None:
        return b""
    filters = [_filter(each) for each in keys]
    flags = bytes(bool(each.whole) for each in keys)
    buckets = bytes(group.buckets[0] for group in groups), bytes(g.buckets[1] for g in groups)
    at = _HEADER.size + len(groups) * (3 + _ENTRY.size)
    entries = []
    for group, (start, end), bits in zip(groups, structs.places, filters, strict=True):
        places = (group.start, group.length, start, end - start, at, len(bits))
        entries.append(_ENTRY.pack(*places))
        at += len(bits)
    head = _HEADER.pack(len(groups), structs.list_at, structs.places[-1][1])
    raw = b"".join([head, *buckets, flags, *entries, *filters])
    index = GroupIndex(raw + footer, len(raw))
    for i in (0, len(groups) // 2, len(groups) - 1):  # all of them begin alike
        part = index.metadata([i])
        rows = part.row_group(0).num_rows, metadata.row_group(i).num_rows
        if RowGroups(part)[0] != groups[i] or rows[0] != rows[1]:
            return b""
    return raw


class GroupIndex:
    """The end of a file: its index and its footer."""

    def __init__(self, end: bytes, index_bytes: int) -> None:
        self._end = end
        self._footer_at = index_bytes
        count, self._list_at, self._groups_end = _HEADER.unpack_from(end)
        first, last, flags, numbers = (_HEADER.size + n * count for n in range(4))
        self._first_buckets, self._last_buckets = end[first:last], end[last:flags]
        self._has_whole_keys = end[flags:numbers]
        self._numbers_at = numbers

    def __len__(self) -> int:
        return len(self._first_buckets)

    def __getitem__(self, i: int) -> IndexEntry:
        return IndexEntry(*_ENTRY.unpack_from(self._end, self._numbers_at + i * _ENTRY.size))

    def of_bucket(self, bucket: int) -> range:
        """The numbers of the row groups that may hold a bucket."""
        first = bisect_left(self._last_buckets, bucket)
        return range(first, max(first, bisect_right(self._first_buckets, bucket)))

    def with_key(self, numbers: Iterable[int], shard: str, whole: str = "") -> list[int]:
        """Those of some row groups that may hold a shard key, or the whole key if it is given."""
        shard_hash, whole_hash = _hash(shard), _hash(whole)
        holding = []
        bits, filters = self._end, self._numbers_at + _FILTER_AT
        for i in numbers:
            hashed = whole_hash if whole and self._has_whole_keys[i] else shard_hash
            at, length = _FILTER.unpack_from(bits, filters + i * _ENTRY.size)
            one, other = _places(hashed, length)
            ones = bits[at + (one >> 3)] >> (7 - one & 7)
            if ones & bits[at + (other >> 3)] >> (7 - other & 7) & 1:
                holding.append(i)
        return holding

    def metadata(self, numbers: Iterable[int]) -> pq.FileMetaData:
        """The footer of some of the row groups alone."""
        end, at = self._end, self._footer_at
        described = [
            end[at + entry.described_at : at + entry.described_at + entry.described_length]
            for entry in map(self.__getitem__, numbers)
        ]
        head, tail = end[at : at + self._list_at], end[at + self._groups_end : -_END]
        text = b"".join([head, _list_of_structs(len(described)), *described, tail])
        # `pq.read_metadata` does more than this, and takes twice as long.
        reader = pq.ParquetReader()
        reader.open(pa.BufferReader(text + struct.pack("<I", len(text)) + b"PAR1"))
        return reader.metadata


# -- the filter of a row group ------------------------------------------------------------------


_FACTOR = 0x9E3779B1
"""Spreads hashes that follow each other."""


def _hash(text: str) -> int:
    """Without the low byte, which chose the bucket of a shard key."""
    return zlib.crc32(text.encode()) >> 8


def _places(hashed: int, length: int) -> tuple[int, int]:
    """The bits of a key in a filter of `length` bytes."""
    return hashed % (8 * length), (hashed * _FACTOR & 0xFFFF_FFFF) * 8 * length >> 32


def _filter(keys: GroupKeys) -> bytes:
    """A byte for each shard key: of those that are not there, one in twenty seems to be.

    Two for each whole key, of which one in seventy seems to be: all row groups of a large shard
    key are asked about it.
    """
    length = max(len(keys.shards) + 2 * len(keys.whole), 1)
    digits = bytearray(b"0") * (8 * length)
    size, crc32, one = 8 * length, zlib.crc32, ord("1")
    for key in (*keys.shards, *keys.whole):  # `_places`, without a call
        hashed = crc32(key) >> 8
        digits[hashed % size] = digits[(hashed * _FACTOR & 0xFFFF_FFFF) * size >> 32] = one
    return int(digits, 2).to_bytes(length, "big")


# -- the footer as Thrift -----------------------------------------------------------------------


class _Structs(NamedTuple):
    list_at: int
    """Where the number of row groups stands."""
    places: list[tuple[int, int]]
    """Where each is described."""


def _structs(footer: bytes, groups: int, columns: int) -> _Structs | None:
    """Where a footer describes its row groups; None if it is not written as expected."""
    # Field 1 of a row group, a list of columns; the first has the offset 0, and a description.
    begins = b"\x19" + _list_of_structs(columns) + b"\x26\x00\x1c"
    number = _list_of_structs(groups)
    at = footer.find(b"\x19" + number + begins)
    created_by = footer.rfind(b"parquet-cpp")
    # The last one ends with a zero. The next field, two further on, is a text and its length.
    if at < 0 or footer[created_by - 3 : created_by - 1] != b"\x00\x28":
        return None
    list_at, end = at + 1, created_by - 2
    starts = []
    start = list_at + len(number)
    while 0 <= start < end:
        starts.append(start)
        start = footer.find(begins, start + 1)
    if len(starts) != groups:
        return None
    return _Structs(list_at, list(zip(starts, [*starts[1:], end], strict=True)))


def _list_of_structs(count: int) -> bytes:
    """The beginning of a list in Thrift's compact protocol."""
    if count < 15:
        return bytes([count << 4 | 0xC])
    text = bytearray(b"\xfc")
    while count > 0x7F:
        text.append(count & 0x7F | 0x80)
        count >>= 7
    text.append(count)
    return bytes(text)
