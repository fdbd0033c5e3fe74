"""The columns of a subject, found as Spark finds them: case does not matter.

A name may lead into a struct (`address.city`). Files of different versions are seen
as one table: columns by name, types widened, and the dimensions of partitions as
columns where the files have none of that name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from typing import Literal, NamedTuple

import pyarrow as pa

from arco.worker.checks.subject import File, Subject
from arco.worker.failures import failed
from servo.contract.partition import Scalar

Family = Literal[
    "integer",
    "decimal",
    "float",
    "text",
    "boolean",
    "date",
    "timestamp",
    "binary",
    "nested",
    "other",
]


class Column(NamedTuple):
    path: tuple[str, ...]
    """Names as the files spell them; more than one for a field of a struct."""
    type: pa.DataType
    family: Family

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def top(self) -> str:
        return self.path[0]

    @property
    def digits(self) -> tuple[int, int]:
        """Precision and scale of a number that is compared exactly."""
        if self.family == "decimal":
            return self.type.precision, self.type.scale
        return 20, 0


class Columns:
    """Of one subject."""

    def __init__(self, subject: Subject) -> None:
        self.schemas = [schema_of(file) for file in subject.files]
        self.schema = _unified(subject, self.schemas)
        self.stored = list(self.schema.names)
        """Those of the files, without dimensions that are not in them."""
        self.dimensions = [name for name in _dimensions(subject) if self._at(name) is None]
        for name in self.dimensions:
            self.schema = self.schema.append(pa.field(name, _dimension_type(subject, name)))

    @property
    def names(self) -> list[str]:
        return list(self.schema.names)

    def find(self, name: str) -> Column | None:
        at = self._at(name)
        if at is not None:
            field = self.schema.field(at)
            return Column((field.name,), field.type, family_of(field.type))
        head, dot, rest = name.partition(".")
        at = self._at(head) if dot else None
        return None if at is None else _within(self.schema.field(at), rest)

    def _at(self, name: str) -> int | None:
        return _position(self.schema.names, name)


def schema_of(file: File) -> pa.Schema:
    return file.footer.metadata.schema.to_arrow_schema()


def stored_as(file: File, name: str) -> str | None:
    """How a file itself spells a column that it has."""
    names = [field.name for field in schema_of(file)]
    at = _position(names, name)
    return None if at is None else names[at]


def dimension(file: File, name: str) -> Scalar:
    """The value that a dimension has in all rows of a file."""
    return next(value for key, value in file.dimensions.items() if key.lower() == name.lower())


def family_of(type: pa.DataType) -> Family:
    if pa.types.is_dictionary(type):
        return family_of(type.value_type)
    for family, tests in _FAMILIES:
        if any(test(type) for test in tests):
            return family
    return "other"


_T = pa.types
_FAMILIES: tuple[tuple[Family, tuple[Callable[[pa.DataType], bool], ...]], ...] = (
    ("integer", (_T.is_integer,)),
    ("decimal", (_T.is_decimal32, _T.is_decimal64, _T.is_decimal128)),
    ("float", (_T.is_float32, _T.is_float64)),
    ("text", (_T.is_string, _T.is_large_string, _T.is_string_view)),
    ("boolean", (_T.is_boolean,)),
    ("date", (_T.is_date32,)),
    ("timestamp", (_T.is_timestamp,)),
    ("binary", (_T.is_binary, _T.is_large_binary, _T.is_binary_view, _T.is_fixed_size_binary)),
    ("nested", (_T.is_nested,)),
)


def has_map(type: pa.DataType) -> bool:
    if pa.types.is_map(type):
        return True
    return any(has_map(type.field(at).type) for at in range(type.num_fields))


def has_float(type: pa.DataType) -> bool:
    if pa.types.is_dictionary(type):
        return has_float(type.value_type)
    if pa.types.is_floating(type):
        return True
    return any(has_float(type.field(at).type) for at in range(type.num_fields))


def _position(names: Sequence[str], name: str) -> int | None:
    if name in names:
        return list(names).index(name)
    lowered = name.lower()
    return next((at for at, each in enumerate(names) if each.lower() == lowered), None)


def _within(field: pa.Field, rest: str) -> Column | None:
    path = [field.name]
    while rest:
        if not pa.types.is_struct(field.type):
            return None
        head, _, rest = rest.partition(".")
        names = [field.type.field(at).name for at in range(field.type.num_fields)]
        at = _position(names, head)
        if at is None:
            return None
        field = field.type.field(at)
        path.append(field.name)
    return Column(tuple(path), field.type, family_of(field.type))


def _unified(subject: Subject, schemas: list[pa.Schema]) -> pa.Schema:
    plain = [schema.remove_metadata() for schema in schemas]
    different = [schema for at, schema in enumerate(plain) if not at or schema != plain[0]]
    if len(different) <= 1:
        return different[0] if different else pa.schema([])
    try:
        return pa.unify_schemas(different, promote_options="permissive")
    except pa.ArrowException as error:
        raise failed(
            "input",
            "input.schema",
            f"the versions of {subject.asset} do not go together: {error}",
            "materialize the older partitions again",
        ) from None


def _dimensions(subject: Subject) -> Iterator[str]:
    yield from dict.fromkeys(name for file in subject.files for name in file.dimensions)


def _dimension_type(subject: Subject, name: str) -> pa.DataType:
    values = (file.dimensions.get(name) for file in subject.files)
    return next((_type_of(value) for value in values if value is not None), pa.null())


def _type_of(value: Scalar) -> pa.DataType:
    match value:
        case bool():
            return pa.bool_()
        case int():
            return pa.int64()
        case datetime():
            return pa.timestamp("us", tz="UTC")
        case date():
            return pa.date32()
        case _:
            return pa.string()
