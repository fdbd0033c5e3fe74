"""Values as JSON has them, for `servo --json` and for the HTTP API alike."""

from __future__ import annotations

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


def plain(value: object) -> Any:
    """`value` as JSON knows it. Times are UTC, with a Z; a field that is not set is left out."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
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
            config, names = value.__struct_config__, value.__struct_fields__
            tag = {config.tag_field: config.tag} if config.tag_field else {}
            fields = ((name, getattr(value, name)) for name in names)
            return tag | {document_name(n): plain(each) for n, each in fields if each is not UNSET}
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case Iterable():
            return [plain(item) for item in value]
        case _:
            return str(value)
