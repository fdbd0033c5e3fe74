"""The columns of a subject, found as Spark finds them: case does not matter.

A name may lead into a struct (`address.city`). Files of different versions are seen
as one table, as Spark reads them: columns by name, types widened, and the dimensions of
partitions as columns where the files have none of that name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import pyarrow as pa

from arco.columns.arrow import scalar_type
from arco.columns.widening import unified
from arco.worker.checks.subject import File, Subject
from arco.worker.failures import failed

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


class CheckColumn(NamedTuple):
    path: tuple[str, ...]
    """Names as the files spell them; more than one for a field of a struct."""
    type: pa.DataType
    family: Family
    collated: bool = False
    """Whether texts in it are compared by a collation, which only Spark knows."""

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
        self._collated = frozenset(name for file in subject.files for name in file.collated)
        try:
            self.schema = _unified(subject.files)
        except ValueError as error:
            raise failed(
                "input",
                "input.schema",
                f"the versions of {subject.asset} have incompatible columns: {error}",
                "run the older partitions again",
            ) from None

    @property
    def names(self) -> list[str]:
        return list(self.schema.names)

    def find(self, name: str) -> CheckColumn | None:
        """A column of this name, or else the field of a struct that it leads to."""
        return self.at([name]) or self.at(name.split("."))

    def at(self, path: Sequence[str]) -> CheckColumn | None:
        """The column or field of a path, as in SQL: `a.b` is a field of `a`."""
        at = _position(self.schema.names, path[0])
        if at is None:
            return None
        top = self.schema.field(at)
        return _within(top, path[1:], top.name in self._collated)


def family_of(type: pa.DataType) -> Family:
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


def has_inside(type: pa.DataType, test: Callable[[pa.DataType], bool]) -> bool:
    """Whether it is true of a type, or of one that it is made of."""
    inner = (type.field(at).type for at in range(type.num_fields))
    return test(type) or any(has_inside(each, test) for each in inner)


def _position(names: Sequence[str], name: str) -> int | None:
    if name in names:
        return list(names).index(name)
    lowered = name.lower()
    return next((at for at, each in enumerate(names) if each.lower() == lowered), None)


def unused(names: Sequence[str]) -> str:
    """A prefix that no column has, for the names of a query's additional columns."""
    existing, prefix = [name.lower() for name in names], "_k"
    while any(name.startswith(prefix) for name in existing):
        prefix = f"_{prefix}"
    return prefix


def _within(field: pa.Field, names: Sequence[str], collated: bool) -> CheckColumn | None:
    path = [field.name]
    for name in names:
        if not pa.types.is_struct(field.type):
            return None
        at = _position([each.name for each in field.type], name)
        if at is None:
            return None
        field = field.type.field(at)
        path.append(field.name)
    return CheckColumn(tuple(path), field.type, family_of(field.type), collated)


def _unified(files: Sequence[File]) -> pa.Schema:
    """The files' own columns first, then the dimensions."""
    own = unified(file.schema for file in files)
    added = unified(
        pa.schema([(name, scalar_type(value)) for name, value in file.added.items()])
        for file in files
    )
    whole = unified((own, added))
    return pa.schema([_concrete(each, added.names) for each in whole])


def _concrete(field: pa.Field, dimensions: Sequence[str]) -> pa.Field:
    """A dimension that is null everywhere still needs a type."""
    is_typed = not pa.types.is_null(field.type) or field.name not in dimensions
    return field if is_typed else field.with_type(pa.string())
