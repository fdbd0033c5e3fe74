"""Spark's names for types, as people write them, in one spelling."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from arco.columns import types
from arco.columns.arrow import file_fields, from_arrow
from arco.worker.checks.subject import File

_ALIASES: Final = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "bool": "boolean",
    "timestamp_ltz": "timestamp",
    "null": "void",
    "dec": "decimal",
    "numeric": "decimal",
    "time": "time(6)",
}
_NAMES: Final = (
    *("tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "boolean"),
    *("string", "binary", "date", "timestamp", "timestamp_ntz", "time(6)", "void", "variant"),
)
_SIMPLE = re.compile(r"([a-z_0-9]+)(?:\(([0-9, ]*)\))?")


def canonical(text: str) -> str | None:
    """`Struct<a: integer>` as `struct<a:int>`; None if it is no type."""
    text = text.strip()
    head, bracket, rest = text.partition("<")
    if not bracket:
        return _simple(text.lower())
    if not rest.endswith(">"):
        return None
    inner = list(_split(rest[:-1]))
    match head.strip().lower():
        case "array" if len(inner) == 1:
            parts = [canonical(inner[0])]
        case "map" if len(inner) == 2:
            parts = [canonical(each) for each in inner]
        case "struct":
            parts = [_field(each) for each in inner]
        case _:
            return None
    return None if None in parts else f"{head.strip().lower()}<{','.join(map(str, parts))}>"


def _simple(text: str) -> str | None:
    match = _SIMPLE.fullmatch(text)
    if match is None:
        return text if text.startswith("interval") else None
    name = _ALIASES.get(match[1], match[1])
    numbers = [each.strip() for each in (match[2] or "").split(",") if each.strip()]
    if name == "decimal":
        precision, scale = (*numbers, "10", "0")[:2] if not numbers else (*numbers, "0")[:2]
        return f"decimal({precision},{scale})"
    if name in ("varchar", "char"):
        return "string"
    return name if name in _NAMES and not (match[2] and name != "time(6)") else None


def _field(text: str) -> str | None:
    name, colon, kind = text.partition(":")
    type = canonical(kind) if colon else None
    return None if type is None else f"{name.strip().strip('`')}:{type}"


def _split(text: str) -> Iterator[str]:
    """At the commas that are not inside of brackets."""
    depth, start = 0, 0
    for at, each in enumerate(text):
        depth += (each in "<(") - (each in ">)")
        if each == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    if text.strip():
        yield text[start:]


def text_of(type: pa.DataType) -> str:
    """What Spark calls it; where Spark has nothing like it, what Arrow does."""
    try:
        return types.text(from_arrow(type))
    except ValueError:
        return str(type)


def stored(file: File) -> list[tuple[str, str]]:
    """The columns that a file has, and their types as Spark reads them."""
    fields = file_fields(file.footer.metadata)
    texts = [(each["name"], types.text(each["type"])) for each in fields]
    return [(name, canonical(text) or text) for name, text in texts]
