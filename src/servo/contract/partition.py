"""Partition keys: one text for one partition, in every language.

    date=d:2025-01-15,region=s:us-east

Dimensions are sorted by name and joined by `,`; each is `name=tag:value`:

| tag | value | text |
|---|---|---|
| `s` | string | its UTF-8, percent-encoded: RFC 3986's unreserved characters (`A-Z a-z 0-9 - . _ ~`) as they are, every other byte as `%XX` in upper case |
| `i` | integer, signed 64 bits | decimal, no `+`, no leading zeros, no `-0` |
| `b` | boolean | `true` or `false` |
| `d` | date, years 1 to 9999 | `YYYY-MM-DD` |
| `t` | timestamp in UTC | `YYYY-MM-DDTHH:MM:SS.ffffffZ`, always six digits |
| `n` | null | `null` |

An unpartitioned asset has the empty key, whose text is empty. A key with another
spelling is refused, not repaired: a text that two programs read as one key and
hash as two is a ghost partition. What follows from that:

* Strings are not normalised. "é" composed (NFC) and decomposed (NFD) are two
  keys: normalise where the data comes from, if it must be.
* Floats are refused: 0.1 + 0.2 is nobody's partition.
* A boolean is not an integer and a timestamp is not a date, though Python's
  classes say so. Values must be of exactly the types in `Scalar`; a subclass
  (`pandas.Timestamp`, an enum) may carry more than the key would keep.
* An aware datetime is converted to UTC. A naive one *is* UTC, like every naive
  datetime in our records; it is never read in the machine's local time.

Order, for planners: first the dimensions' names, compared as a list; then the
values, in the dimensions' order: null, then booleans (false first), integers,
dates, timestamps, strings; each kind by its value, strings by code point. The
empty key is the first of all. It is not the order of the texts (`i:10`, `i:9`).
"""  # noqa: E501

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from types import MappingProxyType
from typing import Any, Final, TypeAlias, final
from urllib.parse import quote, unquote_to_bytes

from servo.contract.keys import check_name
from servo.errors import Invalid

Scalar: TypeAlias = str | int | bool | date | datetime | None

MIN_INT: Final = -(1 << 63)
MAX_INT: Final = (1 << 63) - 1
MAX_SEGMENT_LENGTH: Final = 200


@final
@functools.total_ordering
class PartitionKey:
    """An immutable, hashable set of dimensions. Equal keys have equal texts."""

    __slots__ = ("_order", "_text", "_values")

    _values: dict[str, Scalar]
    _text: str
    _order: tuple[Any, ...]

    def __init__(self, dimensions: Mapping[str, Scalar] | None = None) -> None:
        given = dimensions or {}
        for name in given:
            check_name(name, "partition dimension")
        self._values = {name: _normal(given[name], name) for name in sorted(given)}
        self._text = ",".join(f"{name}={_spell(v)}" for name, v in self._values.items())
        self._order = (tuple(self._values), tuple(_rank(v) for v in self._values.values()))

    @classmethod
    def parse(cls, text: str) -> PartitionKey:
        """The exact inverse of `str(key)`: any other spelling is Invalid."""
        dimensions: dict[str, Scalar] = {}
        for part in text.split(",") if text else ():
            name, value = _read_dimension(part)
            if name in dimensions:
                raise Invalid(f"{text!r}: the dimension {name!r} appears twice")
            dimensions[name] = value
        key = cls(dimensions)
        # Whatever the readers let through, only one spelling of a key survives this.
        if key._text != text:
            raise Invalid(
                f"{text!r} is not the canonical spelling of a partition key",
                hint=f"write {key._text!r}",
            )
        return key

    @property
    def dimensions(self) -> Mapping[str, Scalar]:
        """Values by name, sorted by name. Timestamps are naive, in UTC."""
        return MappingProxyType(self._values)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"PartitionKey.parse({self._text!r})"

    def __eq__(self, other: object) -> bool:
        # By text, since to Python True == 1.
        return self._text == other._text if isinstance(other, PartitionKey) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)

    def __lt__(self, other: object) -> bool:
        return self._order < other._order if isinstance(other, PartitionKey) else NotImplemented

    def __reduce__(self) -> tuple[Callable[[str], PartitionKey], tuple[str]]:
        return PartitionKey.parse, (self._text,)


def path_segment(key: PartitionKey) -> str:
    """One segment of an object's path for this key: never empty, never `.` or `..`.

    The key's text where that is safe to put into a path: at most 200 bytes, and
    free of `%` and `..`. An escape would be a separator, a NUL or an ordinary
    letter again for any layer that decodes it once too often, and others
    (Hadoop's URIs) encode it once more; `..` alarms whoever looks for it. All
    other keys are `h_` and 32 hex digits of the text's SHA-256; the empty key is
    `_`. No two forms can meet, as only the first contains `=`.
    """
    text = str(key)
    if not text:
        return "_"
    if "%" in text or ".." in text or len(text) > MAX_SEGMENT_LENGTH:
        return "h_" + hashlib.sha256(text.encode("ascii")).hexdigest()[:32]
    return text


def _normal(value: Scalar, name: str) -> Scalar:
    """The value as the key keeps it; Invalid if the key could not keep all of it."""
    kind: type = type(value)
    if value is None or kind is bool or kind is date:
        return value
    if type(value) is str:
        return _unicode(value, name)
    if type(value) is int:
        if not MIN_INT <= value <= MAX_INT:
            raise Invalid(
                f"dimension {name!r}: {value} does not fit in 64 bits", hint="use a string"
            )
        return value
    if type(value) is datetime:
        return _utc(value, name)
    if isinstance(value, float):
        raise Invalid(
            f"dimension {name!r}: {value!r} is a float, and floats cannot be partition keys",
            hint="use an integer, or a string such as '0.5'",
        )
    raise Invalid(
        f"dimension {name!r}: a {kind.__name__} cannot be a partition key",
        hint="use exactly str, int, bool, datetime.date, datetime.datetime or None",
    )


def _unicode(value: str, name: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise Invalid(
            f"dimension {name!r}: not valid Unicode: a lone surrogate at character {error.start}",
            hint="decode the original bytes with their real encoding",
        ) from error
    return value


def _utc(value: datetime, name: str) -> datetime:
    if value.tzinfo is not None:
        try:
            value = value.astimezone(UTC)
        except OverflowError as error:
            raise Invalid(
                f"dimension {name!r}: {value.isoformat()} is outside the years 1 to 9999 in UTC"
            ) from error
    return value.replace(tzinfo=None, fold=0)


def _spell(value: Scalar) -> str:
    match value:
        case None:
            return "n:null"
        case bool():  # before int, and datetime before date: they are subclasses
            return "b:true" if value else "b:false"
        case int():
            return f"i:{value}"
        case str():
            return "s:" + quote(value, safe="")
        case datetime():
            return f"t:{value.isoformat(timespec='microseconds')}Z"
        case date():
            return f"d:{value.isoformat()}"


def _rank(value: Scalar) -> tuple[int, Any]:
    match value:
        case None:
            return 0, 0
        case bool():
            return 1, value
        case int():
            return 2, value
        case datetime():
            return 4, value
        case date():
            return 3, value
        case str():
            return 5, value


def _read_dimension(part: str) -> tuple[str, Scalar]:
    name, equals, tagged = part.partition("=")
    tag, colon, text = tagged.partition(":")
    if not equals or not colon:
        raise Invalid(f"{part!r} is not a partition dimension", hint="write name=tag:value")
    shape = _SHAPES.get(tag)
    if shape is None:
        hint = "floats cannot be partition keys" if tag == "f" else "the tags are s i b d t n"
        raise Invalid(f"dimension {name!r}: unknown tag {tag!r}", hint=hint)
    pattern, example, read = shape
    try:
        if pattern.fullmatch(text):
            return name, read(text)
    except ValueError as error:  # the right shape, but no such day, or no such text
        raise Invalid(f"dimension {name!r}: {tag}:{text} does not exist: {error}") from error
    raise Invalid(
        f"dimension {name!r}: {text!r} is not the value of a {tag}: dimension",
        hint=f"write it like {tag}:{example}",
    )


_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_SHAPES: dict[str, tuple[re.Pattern[str], str, Callable[[str], Scalar]]] = {
    "s": (
        re.compile(r"(?:[A-Za-z0-9._~-]|%[0-9A-F]{2})*"),
        "us-east%2F1",
        lambda text: unquote_to_bytes(text).decode("utf-8"),
    ),
    "i": (re.compile(r"0|-?[1-9][0-9]{0,18}"), "-42", int),
    "b": (re.compile(r"true|false"), "true", lambda text: text == "true"),
    "d": (re.compile(_DAY), "2025-01-15", date.fromisoformat),
    "t": (
        re.compile(_DAY + r"T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z"),
        "2025-01-15T06:00:00.000000Z",
        lambda text: datetime.fromisoformat(text[:-1]),
    ),
    "n": (re.compile(r"null"), "null", lambda _: None),
}
