"""Declarations of tables.

A table has a domain, a name, a row type (a frozen struct), a primary key and a
shard key. The Arrow schema, the order of rows in files, the bucket of a row and
the conversion between rows and columns are derived from the declaration.

The shard key is made of the key's leading columns. Its hash picks one of 256
logical buckets; files are sorted by bucket, then by key. A shard key that may have very
many rows (an asset, with its partitions) is *spread*: the column after it picks one of so
many neighbouring buckets, and no single bucket holds all of them. Besides the declared
columns every file has `row_version` (the position of the event that last changed
the row), `_deleted` (a tombstone) and `_bucket`.
"""

from __future__ import annotations

import functools
import math
import operator
import struct
import types
import typing
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Generic, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from arco.epoch import MOMENTS
from arco.errors import Invalid
from arco.log.arrays import array_of
from arco.log.contents import TableFiles
from arco.log.manifest import ColumnSpec, TableManifest
from arco.state.arrow_columns import texts_of, values_of
from arco.state.enum_columns import EnumMembers, is_enum
from arco.state.row_reader import NOTHING, Cell, row_reader

LOOKED_UP_GROUP = 1_024
"""Rows of a row group, for tables with lookups of single rows in commands: a lookup decodes whole
row groups."""
WIDE_GROUP = 2_048
"""The same for tables with many columns, of which a merge holds a few row groups in memory."""
BUCKETS = 256

Key = tuple[Any, ...]


class Row(msgspec.Struct, frozen=True, gc=False):
    """Base of all rows. They form no cycles, and the garbage collector does not track them."""


R = TypeVar("R", bound=Row)
V = TypeVar("V", bound=Row)
Versioned = tuple[int, R | None]
"""The position that last changed a row, and the row; None if that deleted it."""


class History(msgspec.Struct, frozen=True):
    """Rows move to history once `column` is older than `after`, by the log's time.

    From then on folds do not see them (on either engine, merged or not), and readers find them in
    files of one day each. A null in the column keeps a row.
    """

    column: str
    after: timedelta

    def has_left(self, row: Row, log_time: datetime) -> bool:
        value = getattr(row, self.column)
        return value is not None and value < log_time - self.after


class Table(Generic[R]):
    def __init__(
        self,
        domain: str,
        name: str,
        row: type[R],
        *,
        key: Sequence[str],
        shard: int = 1,
        spread: int = 1,
        history: History | None = None,
        computed: Mapping[str, str] | None = None,
        group_rows: int = 0,
    ) -> None:
        """`computed` are columns that only SQL has, as expressions of the others.

        `group_rows`: the number of rows of a row group, if not the default.
        """
        self.computed = computed or {}
        self.domain = domain
        self.name = name
        self.row = row
        self.key = tuple(key)
        self.shard = shard
        self.spread = spread
        self.history = history
        self.group_rows = group_rows
        self.is_view = False
        self.columns = tuple(row.__struct_fields__)
        hints = typing.get_type_hints(row)
        self._types = {column: _arrow_type(hints[column]) for column in self.columns}
        self._maps = {c for c, t in self._types.items() if pa.types.is_map(t)}
        self._members = {
            c: EnumMembers(f"{self}.{c}", hints[c]) for c in self.columns if is_enum(hints[c])
        }
        self._defaults = _defaults(row)
        self._converted = self._maps | self._members.keys() | self._defaults.keys()
        self.schema = pa.schema(
            [pa.field(c, self._types[c]) for c in self.columns]
            + [("row_version", pa.int64()), ("_deleted", pa.bool_()), ("_bucket", pa.uint8())]
        )
        self._shard_is_text = shard == 1 and self._types[self.key[0]] == pa.string()
        self.key_of: Callable[[R], Key] = _values_at(self.key)
        """The key of a row."""
        self._ints = [c for c in self.columns if self._types[c] == pa.int64()]
        self._int_values = _values_at(self._ints)
        self._pack = struct.Struct(f"{len(self._ints)}q").pack
        specs = tuple(ColumnSpec(c, str(self._types[c])) for c in self.columns)
        self._manifest = TableManifest(specs, self.key, self.shard)
        self._decoder = msgspec.json.Decoder(row)
        self._floats = [c for c in self.columns if pa.types.is_floating(self._types[c])]
        self._check()

    def _check(self) -> None:
        if self.columns[: len(self.key)] != self.key:
            raise Invalid(f"{self}: the key {self.key} must be the first columns of {self.row}")
        if not 1 <= self.shard <= len(self.key):
            raise Invalid(f"{self}: the shard key is 1 to {len(self.key)} leading key columns")
        if not 1 <= self.spread <= BUCKETS or (self.spread > 1 and self.shard == len(self.key)):
            raise Invalid(f"{self}: what spreads a shard key is the key's next column")
        allowed = (pa.string(), pa.int64())
        if any(self._types[c] not in allowed for c in self.key):
            raise Invalid(f"{self}: key columns are text or integers")

    def view(self, row: type[V]) -> Table[V]:
        """Some columns of this table, for reading: a lookup decodes no others."""
        view = Table(
            self.domain,
            self.name,
            row,
            key=self.key,
            shard=self.shard,
            spread=self.spread,
            history=self.history,
            group_rows=self.group_rows,
        )
        view.is_view, view._manifest = True, self._manifest  # its files have all columns
        return view

    def __str__(self) -> str:
        return f"{self.domain}.{self.name}"

    def check(self, row: R) -> None:
        """Raise Invalid for a number that its column cannot hold; JSON has no limit."""
        try:
            self._pack(*self._int_values(row))
        except struct.error:  # one is too large, or there is none
            for column in self._ints:
                value = getattr(row, column)
                if value is not None and not -(1 << 63) <= value < 1 << 63:
                    raise Invalid(f"{self}.{column} cannot hold {value}") from None

    def shard_text(self, key: Key) -> str:
        return shard_text(key[: self.shard])

    def bucket(self, key: Key) -> int:
        if self._shard_is_text:  # of most tables, and this is asked for every row
            first = zlib.crc32(key[0].encode()) & 0xFF
        else:
            first = bucket_of(shard_text(key[: self.shard]))
        if self.spread == 1:
            return first
        return (first + bucket_of(str(key[self.shard])) % self.spread) % BUCKETS

    def bucket_numbers(self, keys: Iterable[Key]) -> list[int]:
        """`bucket` of many keys."""
        if self._shard_is_text and self.spread == 1:
            crc32 = zlib.crc32
            return [crc32(key[0].encode()) & 0xFF for key in keys]
        return list(map(self.bucket, keys))

    def buckets(self, prefix: Key) -> Sequence[int]:
        """The buckets of rows whose keys start with `prefix`: a shard key, or more of a key."""
        if self.spread == 1 or len(prefix) > self.shard:
            return (self.bucket(prefix),)
        first = bucket_of(shard_text(prefix))
        return [(first + i) % BUCKETS for i in range(self.spread)]

    def manifest(self) -> TableManifest:
        """An empty table, as the domain manifest describes it."""
        return self._manifest

    def no_files(self) -> TableFiles:
        """An empty table, as readers see it."""
        return TableFiles(self._manifest.columns, self.key, self.shard)

    @functools.cached_property
    def no_rows(self) -> pa.Table:
        """A table without rows."""
        return self.schema.empty_table()

    def to_arrow(self, rows: Mapping[Key, Versioned[R]]) -> pa.Table:
        """Rows and tombstones as columns, in file order."""
        if not rows:
            return self.no_rows
        arrays = list(map(self._array, self.schema, self._columns_of(rows)))
        table = pa.table(arrays, schema=self.schema)
        order = [(column, "ascending") for column in ("_bucket", *self.key)]
        return table.take(pc.sort_indices(table, sort_keys=order))

    def _columns_of(self, rows: Mapping[Key, Versioned[R]]) -> Iterator[Sequence[Any]]:
        """The values of one column after the other, which takes less memory than all together."""
        for i, _ in enumerate(self.key):
            yield [key[i] for key in rows]
        values = [NOTHING if row is None else row for _, row in rows.values()]
        for column in self.columns[len(self.key) :]:
            yield list(map(operator.attrgetter(column), values))
        yield [version for version, _ in rows.values()]
        yield [row is None for _, row in rows.values()]
        yield self.bucket_numbers(rows)

    def _array(self, field: pa.Field, values: Sequence[Any]) -> pa.Array:
        if field.name in self._maps:
            values = [None if v is None else sorted(v.items()) for v in values]
        return array_of(values, field.type)

    def fits_json(self, rows: Iterable[Versioned[R]]) -> bool:
        """Whether JSON can hold all values: it has no number that is not finite."""
        return not self._floats or all(
            row is None or math.isfinite(getattr(row, column) or 0.0)
            for _, row in rows
            for column in self._floats
        )

    def to_json(self, key: Key, row: R | None) -> bytes:
        """A row, or the key of one that was deleted."""
        if row is not None:
            return msgspec.json.encode(row)
        return msgspec.json.encode(dict(zip(self.key, key, strict=True)))

    def from_json(self, text: str, deleted: bool) -> tuple[Key, R | None]:
        if not deleted:
            row = self._decoder.decode(text)
            return self.key_of(row), row
        values = msgspec.json.decode(text)
        return tuple(values[column] for column in self.key), None

    def row_at(self, batch: pa.RecordBatch, i: int) -> R:
        """One row of a file. Columns that the file does not have yet get their defaults."""
        return row_reader(self.row, [self._cell(batch, c) for c in self.columns])(i, ())

    def reader(self, batch: pa.RecordBatch) -> Callable[[int, Key], R]:
        """`row_at` for many lookups in one batch, by index and key.

        Its columns are prepared once, and those of the key are not read again.
        """
        return row_reader(self.row, [self._cell(batch, c) for c in self.columns[len(self.key) :]])

    def _cell(self, batch: pa.RecordBatch, column: str) -> Cell:
        at = batch.schema.get_field_index(column)
        if at < 0:
            return Cell("call", (lambda i: self._defaults.get(column),))
        array = batch.column(at)
        if len(array) > 0 == array.null_count:
            if array.type == pa.string():
                data = texts_of(array)
                members = self._members.get(column)
                return Cell("text", data) if members is None else Cell("member", (*data, members))
            if array.type == pa.int64():
                return Cell("value", (values_of(array),))
            if array.type == _ARROW[datetime]:
                return Cell("moment", (values_of(array.view(pa.int64())),))
        return Cell("call", (lambda i: self._value(column, array[i].as_py()),))

    def rows_of(self, table: pa.Table | pa.RecordBatch) -> Iterable[R]:
        columns = []
        for column in self.columns:
            if table.schema.get_field_index(column) < 0:
                columns.append([self._defaults.get(column)] * table.num_rows)
            else:
                values = _pylist(table.column(column))
                if column in self._converted:
                    values = [self._value(column, v) for v in values]
                columns.append(values)
        return map(self.row, *columns)

    def versioned(self, table: pa.Table | pa.RecordBatch) -> dict[Key, Versioned[R]]:
        """All rows of a file by key, tombstones as None."""
        versions = table.column("row_version").to_pylist()
        deleted = table.column("_deleted").to_pylist()
        keys = zip(*[table.column(c).to_pylist() for c in self.key], strict=True)
        rows = self.rows_of(table)
        return {
            key: (version, None if is_deleted else row)
            for key, version, is_deleted, row in zip(keys, versions, deleted, rows, strict=True)
        }

    def _value(self, column: str, value: Any) -> Any:
        if value is None and column in self._defaults:
            return self._defaults[column]
        if value is not None and column in self._members:
            return self._members[column][value]
        return dict(value) if column in self._maps and value is not None else value


def keep_newest(newest: dict[Key, Versioned[R]], rows: Mapping[Key, Versioned[R]]) -> None:
    """Put rows into `newest` that it lacks, or has in an older version."""
    for key, versioned in rows.items():
        if key not in newest or newest[key][0] < versioned[0]:
            newest[key] = versioned


def _values_at(columns: Sequence[str]) -> Callable[[Row], tuple[Any, ...]]:
    """A function that returns the values of some columns of a row."""
    if not columns:
        return lambda row: ()
    values = operator.attrgetter(*columns)
    return values if len(columns) > 1 else lambda row: (values(row),)


def shard_text(parts: Sequence[object]) -> str:
    return (
        parts[0] if len(parts) == 1 and isinstance(parts[0], str) else "\x1f".join(map(str, parts))
    )


def _pylist(values: pa.ChunkedArray | pa.Array) -> list[Any]:
    """`to_pylist`, which takes five times as long for timestamps."""
    if values.type == _ARROW[datetime]:
        microseconds = values.cast(pa.int64()).to_pylist()
        return [None if v is None else MOMENTS[v] for v in microseconds]
    return values.to_pylist()  # type: ignore[no-any-return]


def bucket_of(shard: str) -> int:
    """The logical bucket of a shard key: the low byte of the CRC-32 of its UTF-8 text."""
    return zlib.crc32(shard.encode()) & 0xFF


_ARROW: dict[Any, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    bool: pa.bool_(),
    float: pa.float64(),
    bytes: pa.binary(),
    datetime: pa.timestamp("us"),
    date: pa.date32(),
}


def _arrow_type(hint: Any) -> pa.DataType:
    if hint in _ARROW:
        return _ARROW[hint]
    if is_enum(hint):
        return pa.string()
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal and all(isinstance(a, str) for a in args):
        return pa.string()
    if origin in (types.UnionType, typing.Union):
        (inner,) = {_arrow_type(a) for a in args if a is not type(None)}
        return inner
    if origin in (list, tuple):
        return pa.list_(_arrow_type(args[0]))
    if origin is dict:
        return pa.map_(_arrow_type(args[0]), _arrow_type(args[1]))
    raise Invalid(f"{hint} is not a column type")


def _defaults(row: type[Row]) -> dict[str, Any]:
    """Defaults for columns that a file lacks, or in which it has null."""
    defaults: dict[str, Any] = {}
    for field in msgspec.structs.fields(row):
        if field.default is not msgspec.NODEFAULT:
            defaults[field.name] = field.default
        elif field.default_factory is not msgspec.NODEFAULT:
            defaults[field.name] = field.default_factory()
    return defaults
