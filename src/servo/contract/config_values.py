"""Values of an asset's configuration, as Python has them and as canonical JSON does.

Texts, whole numbers, booleans, null, lists and objects are themselves. What JSON has no exact
form for is an object with one member, whose name begins with `$`:

    0.1                    {"$float": "0.1"}           the shortest text that reads back as it
    Decimal("1.50")        {"$decimal": "1.50"}
    date(2025, 1, 31)      {"$date": "2025-01-31"}
    datetime(2025, 1, 31)  {"$datetime": "2025-01-31T00:00:00"}    in UTC if it has a zone

What is declared is also the type: a value that replaces it for a run must be of the same one.
A declared null takes whatever is given.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeAlias

from servo.contract.canonical import MAX_INT
from servo.errors import Invalid

ConfigValue: TypeAlias = (
    str
    | int
    | bool
    | float
    | Decimal
    | date
    | datetime
    | Sequence["ConfigValue"]
    | Mapping[str, "ConfigValue"]
    | None
)
WireValue: TypeAlias = str | int | bool | list[Any] | dict[str, Any] | None

ACCEPTED: Final = (
    "a configuration value is text, a number, a Decimal, a boolean, a date, a datetime, None, "
    "or a list or a dict of those"
)
_KINDS: Final = {
    "text": "text",
    "int": "a whole number (int)",
    "bool": "true or false (bool)",
    "float": "a number (float)",
    "decimal": "a decimal number (Decimal)",
    "date": "a date",
    "datetime": "a date-time",
    "list": "a JSON list",
    "dict": "a JSON object",
}


def to_wire(value: object, path: str) -> WireValue:
    """The canonical form of a Python value; Invalid names `path`."""
    match value:
        case None | bool():
            return value
        case str():
            return str.__str__(value)
        case int():
            if abs(value) > MAX_INT:
                raise Invalid(f"{path} is beyond 64 bits", hint="write it as text")
            return int(value)
        case float() | Decimal():
            return _number(value, path)
        case datetime():
            moment = value if value.tzinfo is None else value.astimezone(UTC)
            return {"$datetime": moment.isoformat()}
        case date():
            return {"$date": value.isoformat()}
        case list() | tuple():
            return [to_wire(item, f"{path}[{at}]") for at, item in enumerate(value)]
        case Mapping():
            return {_key(key, path): to_wire(item, f"{path}.{key}") for key, item in value.items()}
    raise Invalid(f"{path} is {value!r}, of type {type(value).__name__}", hint=ACCEPTED)


def from_wire(value: WireValue) -> Any:
    """The Python value that `to_wire` was given."""
    match value:
        case {"$float": str(text)}:
            return float(text)
        case {"$decimal": str(text)}:
            return Decimal(text)
        case {"$date": str(text)}:
            return date.fromisoformat(text)
        case {"$datetime": str(text)}:
            return datetime.fromisoformat(text)
        case list():
            return [from_wire(item) for item in value]
        case dict():
            return {key: from_wire(item) for key, item in value.items()}
    return value


def replaced(declared: WireValue, given: str | int | bool | None, what: str) -> WireValue:
    """What was given for a run in place of what is declared; Invalid if it is of another type.

    Text is read as the declared type is written, as on a command line.
    """
    kind = _kind(declared)
    try:
        return _read(declared, _plain(given) if kind == "" else given, kind)
    except (ValueError, TypeError, InvalidOperation):
        message = f"the configuration value {what} is {_described(declared)}, not {given!r}"
        name = what.partition(" ")[0]
        hint = f"write it like the declared one: --config {name}={_shell(text_of(declared))}"
        raise Invalid(message, hint=hint) from None


def text_of(value: WireValue) -> str:
    """A value as the command line takes it."""
    match _kind(value):
        case "text":
            return str(value)
        case "float" | "decimal" | "date" | "datetime":
            assert isinstance(value, dict)
            return str(next(iter(value.values())))
        case _:
            return json.dumps(_bare(value), ensure_ascii=False)


def _number(value: float | Decimal, path: str) -> WireValue:
    if not math.isfinite(value):
        raise Invalid(f"{path} is {value}, which is not a finite number", hint="use None or text")
    if isinstance(value, Decimal):
        return {"$decimal": f"{value:f}"}
    return {"$float": float.__repr__(value)}


def _key(key: object, path: str) -> str:
    if not isinstance(key, str):
        raise Invalid(f"{path} has the key {key!r}", hint="keys are text")
    if key.startswith("$"):
        raise Invalid(f"{path} has the key {key!r}", hint="a key does not begin with $")
    return str.__str__(key)


def _kind(value: WireValue) -> str:
    """Empty for null, which is of no type."""
    match value:
        case None:
            return ""
        case bool():
            return "bool"
        case int():
            return "int"
        case str():
            return "text"
        case list():
            return "list"
    name = next(iter(value), "")
    return name[1:] if name.startswith("$") else "dict"


def _described(value: WireValue) -> str:
    kinds = {_kind(item) for item in value} if isinstance(value, list) else set()
    items = f", each item {_KINDS[kinds.pop()]}" if len(kinds) == 1 and "" not in kinds else ""
    return f"{_KINDS[_kind(value)]}{items}"


def _plain(given: str | int | bool | None) -> str | int | bool | None:
    """Text that stands for no declared value."""
    if given in ("true", "false"):
        return given == "true"
    if isinstance(given, str) and given.removeprefix("-").isdecimal():
        return int(given) if abs(int(given)) <= MAX_INT else given
    return given


def _read(declared: WireValue, given: Any, kind: str) -> WireValue:
    """ValueError or TypeError for another type."""
    if kind in ("list", "dict"):
        return _container(declared, json.loads(given) if isinstance(given, str) else given)
    if kind == "bool":
        if given not in (True, False, "true", "false"):
            raise ValueError
        return given in (True, "true")
    if kind == "text" and not isinstance(given, str):
        raise TypeError
    if isinstance(given, bool) and kind:
        raise TypeError
    readers: dict[str, Callable[[Any], Any]] = {
        "int": _whole,
        "float": float,
        "decimal": lambda number: Decimal(str(number)),
        "date": date.fromisoformat,
        "datetime": datetime.fromisoformat,
    }
    return to_wire(readers[kind](given) if kind in readers else given, "it")


def _whole(given: Any) -> int:
    if isinstance(given, float):
        raise TypeError
    return int(given)


def _container(declared: Any, given: Any) -> WireValue:
    """Items of a list are of the type that the declared ones share; members of their own."""
    if isinstance(declared, list):
        if not isinstance(given, list):
            raise TypeError
        model = declared[0] if len({_kind(item) for item in declared}) == 1 else None
        return [_item(model, item) for item in given]
    if not isinstance(given, dict):
        raise TypeError
    return {_key(key, "it"): _item(declared.get(key), item) for key, item in given.items()}


def _item(model: WireValue, given: Any) -> WireValue:
    return to_wire(given, "it") if model is None else _read(model, given, _kind(model))


def _bare(value: WireValue) -> Any:
    """A value as JSON that people write: without what says its type."""
    match value:
        case {"$float": str(text)} | {"$decimal": str(text)}:
            return float(text)
        case {"$date": str(text)} | {"$datetime": str(text)}:
            return text
        case list():
            return [_bare(item) for item in value]
        case dict():
            return {key: _bare(item) for key, item in value.items()}
    return value


def _shell(text: str) -> str:
    return f"'{text}'" if any(sign in text for sign in ' "[]{}*') else text
