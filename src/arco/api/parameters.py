"""Parameters of a request, from the path and the query, as their struct.

A parameter that is not declared is refused. Of one that is declared once, a second value is
refused too; lists take all values. An empty list and an absent one are different things.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl

import msgspec

from arco.api.problems import ApiError, invalid_body, invalid_field
from servo.suggest import did_you_mean

S = TypeVar("S", bound=msgspec.Struct)

MAX_FIELDS = 100


def parse(kind: type[S], path: Mapping[str, str], query: bytes) -> S:
    values: dict[str, Any] = {}
    lists = list_fields(kind)
    names = kind.__struct_fields__
    for name, value in _pairs(query):
        if name not in names or name in path:
            hint = did_you_mean(name, [each for each in names if each not in path])
            raise invalid_field(name, "is not a parameter of this operation", hint=hint)
        if name in lists:
            values.setdefault(name, []).append(value)
        elif name in values:
            raise invalid_field(name, "is given twice")
        else:
            values[name] = value
    try:
        return msgspec.convert({**values, **path}, kind, strict=False)
    except msgspec.ValidationError as error:
        raise invalid_body(error, "query") from None


def _pairs(query: bytes) -> list[tuple[str, str]]:
    try:
        text = query.decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except (UnicodeDecodeError, ValueError):
        raise ApiError(
            "invalid",
            "the query cannot be read",
            code="invalid_query",
            hint="names and values are percent-encoded UTF-8, at most 100 of them",
        ) from None
    for name, value in pairs:
        if "\0" in value:
            raise invalid_field(name, "has a zero byte")
    return pairs


@functools.cache
def list_fields(kind: type[msgspec.Struct]) -> frozenset[str]:
    hints = get_type_hints(kind)
    return frozenset(name for name, hint in hints.items() if _is_list(hint))


def _is_list(hint: Any) -> bool:
    if get_origin(hint) in (Union, types.UnionType):
        return any(_is_list(each) for each in get_args(hint))
    return get_origin(hint) in (list, tuple)
