"""Values as JSON has them, for `servo --json` and for the HTTP API alike."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

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


_AS_THEY_ARE: Final = frozenset({str, int, bool, type(None)})


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
            document, fields = _document(type(value))
            document = document.copy()
            for name, field in fields:
                each = getattr(value, field)
                if type(each) in _AS_THEY_ARE:
                    document[name] = each
                elif each is not UNSET:
                    document[name] = plain(each)
            return document
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


@functools.cache
def _document(kind: type[msgspec.Struct]) -> tuple[dict[str, Any], tuple[tuple[str, str], ...]]:
    """What every document of a struct begins with, and its fields: their names there, and here."""
    config = kind.__struct_config__
    tag = {config.tag_field: config.tag} if config.tag_field else {}
    return tag, tuple((document_name(name), name) for name in kind.__struct_fields__)
