"""Fits the result of a query to the terminal: a table, or one record after another."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
from rich.console import Group, RenderableType
from rich.text import Text

from arco.cli import render
from arco.cli.failures import visible
from arco.state.sql import SqlResult

NARROWEST = 8
GAP = 2


class FittedTable(NamedTuple):
    body: RenderableType
    cut: bool
    """Whether a value was cut."""


def document(result: SqlResult) -> dict[str, Any]:
    return {
        "generation": result.generation,
        **plain(result.table),
        "truncated": result.truncated,
    }


def plain(table: pa.Table) -> dict[str, Any]:
    """Columns and rows, for a document."""
    names = _names(table)
    types = [str(field.type) for field in table.schema]
    return {
        "columns": [{"name": n, "type": t} for n, t in zip(names, types, strict=True)],
        "rows": [dict(zip(names, row, strict=True)) for row in _rows(table)],
    }


def _names(table: pa.Table) -> list[str]:
    """Column names; of those that are alike, the later ones get a number."""
    seen: dict[str, int] = {}
    names = []
    for name in table.column_names:
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return names


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [
        [_value(value, field.type) for value in column.to_pylist()]
        for field, column in zip(table.schema, table.columns, strict=True)
    ]
    return list(zip(*columns, strict=True)) if columns else []


def _value(value: Any, kind: pa.DataType) -> Any:
    """Maps come as lists of pairs; whole decimals are integers."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return dict(value)
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    return value


def fitted(table: pa.Table, width: int) -> FittedTable:
    """As a table if every column fits with its minimum width, as records otherwise."""
    names = [_text(visible(name)) for name in _names(table)]
    cells = [[_text(value) for value in row] for row in _rows(table)]
    if not names:
        return FittedTable(Text(""), False)
    natural = [max([len(n), *(len(row[i]) for row in cells)]) for i, n in enumerate(names)]
    least = [min(w, max(NARROWEST, len(n))) for w, n in zip(natural, names, strict=True)]
    room = width - GAP * len(names)
    if sum(least) > room:
        return _records(names, cells, width)
    widths = _shared(natural, least, room)
    cut = any(len(text) > w for row in cells for text, w in zip(row, widths, strict=True))
    short = [[_cut(text, w) for text, w in zip(row, widths, strict=True)] for row in cells]
    right = [n for n, f in zip(names, table.schema, strict=True) if _is_number(f.type)]
    return FittedTable(render.table(names, short, right=right, whole=names), cut)


def _shared(natural: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Give the remaining width to the columns that need it, the widest last."""
    widths = list(least)
    left = room - sum(widths)
    order = sorted(range(len(widths)), key=lambda i: natural[i])
    for done, i in enumerate(order):
        share = min(natural[i] - widths[i], left // (len(order) - done))
        widths[i] += share
        left -= share
    return widths


def _records(names: list[str], cells: list[list[str]], width: int) -> FittedTable:
    if not cells:
        return FittedTable(Text(", ".join(names), "bold"), False)
    room = width - max(map(len, names)) - GAP
    parts: list[RenderableType] = []
    for number, row in enumerate(cells, 1):
        parts.append(Text(f"-- row {number} --", "dim"))
        fields = {
            name: _cut(text, max(room, NARROWEST)) for name, text in zip(names, row, strict=True)
        }
        parts.append(render.fields(fields))
    cut = any(len(text) > room for row in cells for text in row)
    return FittedTable(Group(*parts), cut)


def _text(value: Any) -> str:
    match value:
        case None:
            return "–"
        case str():
            return " ".join(value.split("\n"))
        case bool():
            return "true" if value else "false"
        case list() | dict() as many if not many:
            return "[]" if isinstance(many, list) else "{}"
        case dict():
            return render.pairs({str(k): _text(v) for k, v in value.items()}) or ""
        case list():
            return ", ".join(map(_text, value))
        case _:
            plain = render.plain(value)
            return plain if isinstance(plain, str) else str(plain)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )
