"""Values as JSON has them, for `servo --json` and for the HTTP API alike."""

from __future__ import annotations

import enum
import json
import math
import operator
import types
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, get_args, get_type_hints

import msgspec
from msgspec import UNSET

from arco.times import iso


def picked(value: object, *names: str) -> dict[str, Any]:
    """These attributes, for a document."""
    return {name: getattr(value, name) for name in names}


DOCUMENT_NAMES: Final = {"asset_key": "asset", "partition_key": "partition"}
"""What fields of rows are called in documents: one name for each concept, whatever says it
(docs/reference/json.md). SQL and `servo admin diff` show tables, with their columns' names."""


def document_name(field: str) -> str:
    return DOCUMENT_NAMES.get(field, field)


class Document(dict[str, Any]):
    """A document that has only values that JSON has: made once, and shown many times."""


_AS_THEY_ARE: Final = frozenset({str, int, bool, type(None), Document})


def plain(value: Any) -> Any:
    """`value` as JSON knows it. Times are UTC, with a Z; a field that is not set is left out."""
    kind = type(value)
    if kind in _AS_THEY_ARE:  # most values are
        return value
    if kind is list or kind is tuple:
        return [each if type(each) in _AS_THEY_ARE else plain(each) for each in value]
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Decimal():
            return _number(value)
        case datetime():
            return iso(value)
        case date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case msgspec.Raw():
            return json.loads(bytes(value))
        case msgspec.Struct():
            return _DOCUMENTS[type(value)](value)
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case Iterable():
            return [plain(item) for item in value]
        case _:
            return str(value)


def _number(value: Decimal) -> int | float | str | None:
    """A number if JSON's readers keep it as it is; else its digits, as a text."""
    if not value.is_finite():
        return None
    if value == value.to_integral_value():
        return int(value)
    number = float(value)
    return number if Decimal(repr(number)) == value else f"{value:f}"


class _Document:
    """What makes documents of one kind of struct. Fields that are declared to hold what JSON has
    are taken as they are, all at once."""

    def __init__(self, kind: type[msgspec.Struct]) -> None:
        config = kind.__struct_config__
        self._tag = {config.tag_field: config.tag} if config.tag_field else {}
        fields = kind.__struct_fields__
        self._names = tuple(map(document_name, fields))
        self._values = operator.attrgetter(*fields) if len(fields) > 1 else msgspec.structs.astuple
        hints = get_type_hints(kind)
        self._others = tuple(document_name(f) for f in fields if not _is_simple(hints[f]))

    def __call__(self, value: msgspec.Struct) -> dict[str, Any]:
        document = dict(zip(self._names, self._values(value), strict=True))
        for name in self._others:
            each = document[name]
            if each is UNSET:
                del document[name]
            elif type(each) not in _AS_THEY_ARE:
                document[name] = plain(each)
        return {**self._tag, **document} if self._tag else document


def _is_simple(hint: Any) -> bool:
    """Whether all values of a type are as JSON has them."""
    parts = get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return all(part in _AS_THEY_ARE or _is_text(part) for part in parts)


def _is_text(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, enum.StrEnum)


class _Documents(dict[type[msgspec.Struct], _Document]):
    def __missing__(self, kind: type[msgspec.Struct]) -> _Document:
        document = self[kind] = _Document(kind)
        return document


_DOCUMENTS: Final = _Documents()
