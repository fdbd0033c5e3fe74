"""Failing rows as JSON to be shown: short, without personal data and secrets."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

from arco.worker.secrets import MASK

MAX_BYTES: Final = 1 << 10
MAX_CHARS: Final = 200


def sample_texts(
    rows: Iterable[Mapping[str, Any]],
    first: Sequence[str],
    pii: frozenset[str],
    redact: Callable[[str], str],
) -> tuple[str, ...]:
    """Each row as a JSON object of at most MAX_BYTES.

    The columns in `first` come first; of the others as many as fit. A column with a field
    in `pii` is masked as a whole.
    """
    paths = (name.lower().split(".") for name in pii)
    hidden = {head for path in paths for head in itertools.accumulate(path, "{}.{}".format)}
    return tuple(_object(row, first, hidden, redact) for row in rows)


def _object(
    row: Mapping[str, Any], first: Sequence[str], hidden: set[str], redact: Callable[[str], str]
) -> str:
    order = [*dict.fromkeys([name for name in first if name in row]), *row]
    parts: list[str] = []
    size = 2
    for name in dict.fromkeys(order):
        value = row[name]
        masked = value is not None and name.lower() in hidden
        plain = MASK if masked else _plain(value, redact)
        part = f"{_json(redact(name))}: {_json(plain)}"
        size += len(part.encode()) + 2
        if size > MAX_BYTES:
            break
        parts.append(part)
    return redact("{" + ", ".join(parts) + "}")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _plain(value: Any, redact: Callable[[str], str]) -> Any:
    match value:
        case None | bool():
            return value
        case int():
            return value if redact(str(value)) == str(value) else redact(str(value))
        case float():
            return (
                value
                if math.isfinite(value) and redact(repr(value)) == repr(value)
                else _cut(repr(value), redact)
            )
        case datetime() | date() | time():
            return _cut(value.isoformat(), redact)
        case str():
            return _cut(value, redact)
        case bytes() | bytearray():
            return _cut(bytes(value).hex(), redact)
        case Mapping():
            return {_cut(str(k), redact): _plain(v, redact) for k, v in value.items()}
        case list() | tuple():
            return [_plain(each, redact) for each in value]
        case Decimal():
            return _cut(f"{value:f}", redact)
        case timedelta():
            return _cut(str(value), redact)
    return _cut(str(value), redact)


def _cut(text: str, redact: Callable[[str], str]) -> str:
    """Redacted before it is cut, so that no half of a secret is left."""
    text = redact(text).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= MAX_CHARS else f"{text[: MAX_CHARS - 1]}…"
