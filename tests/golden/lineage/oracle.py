"""What a query really depends on: change one column of its inputs, and look at the output.

Each column of each input is changed in two ways, one at a time. A column of the output whose
values differ from before depends on the column that was changed. All variants of a query run as
one: a union, in which each variant has a number.

A change that the query refuses (a null as the key of a map) says nothing. It is replaced by one
of another way; if that is refused too, the answer names it.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.golden.lineage.case import NAMESPACE, SCHEMAS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]
Frames = Mapping[str, "DataFrame"]


class Change(NamedTuple):
    asset: str
    column: str
    way: str


class Dependencies(NamedTuple):
    changed: list[dict[Change, bool]]
    """Of each column of the output, the changes, and whether its values differ then."""
    refused: list[Change]


BASE: Final[Mapping[str, list[Row]]] = {
    "orders": [
        {
            "order_id": id,
            "customer_id": customer,
            "amount": float(amount),
            "day": dt.date(2025, 1, day) if day else None,
            "status": status,
            "note": note,
            "tags": tags,
            "attrs": attrs,
            "address": {"street": f"street {id}", "city": f"city {id % 2}"},
        }
        for id, customer, amount, day, status, note, tags, attrs in [
            (1, 2, 4, 3, "paid", "ann@x", ["a", "paid"], {"colour": "red", "k": "1"}),
            (2, 3, 0, 0, "open", '{"a":"x","b":"y"}', ["b"], {"k": "2"}),
            (3, 1, 9, 2, "paid", "bob@x", ["a", "open", "c"], {"colour": "blue"}),
            (4, 2, 2, 9, "x", None, ["b", "x"], {"colour": "green", "k": "4"}),
            (5, 9, 12, 5, "open", "dan@x", ["a", "dan@x"], {"k": "5"}),
        ]
    ],
    "customers": [
        {"id": 1, "name": "ann", "email": "ann@x", "region": "eu", "referrer": None},
        {"id": 2, "name": "bob", "email": "bob@x", "region": "us", "referrer": 1},
        {"id": 3, "name": "cid", "email": "eve@x", "region": "eu", "referrer": 2},
        {"id": 4, "name": "dan", "email": "dan@x", "region": "as", "referrer": 1},
    ],
}


def _turned(values: list[Any]) -> list[Any]:
    """The same values in other rows: they still join, and pass filters."""
    return [*values[1:], values[0]]


def _replaced(values: list[Any]) -> list[Any]:
    """Null, and values that were not there before, in turns."""
    return [None if at % 3 == 1 else _other(value) for at, value in enumerate(values)]


def _renewed(values: list[Any]) -> list[Any]:
    """Values that were not there before, and no null that was not there before."""
    return [_other(value) for value in values]


def _other(value: Any) -> Any:
    match value:
        case int():
            return value * 7 + 1
        case float():
            return value * 3 - 20
        case dt.date():
            return value + dt.timedelta(400)
        case str():
            return f"{value}b"
        case list():
            return [*value[1:], "new"] if len(value) > 2 else []
        case dict() if "city" in value:
            return {key: f"{text}!" for key, text in value.items()}
        case dict():
            return {**{key: f"{text}!" for key, text in value.items()}, "more": "m"}
    return value


WAYS: Final[Mapping[str, Callable[[list[Any]], list[Any]]]] = {
    "turned": _turned,
    "replaced": _replaced,
    "renewed": _renewed,
}
FIRST: Final = ("turned", "replaced")
SPARE: Final = "renewed"
"""Instead of a change that a query refuses."""


def changed(rows: Sequence[Row], column: str, way: str) -> list[Row]:
    values = WAYS[way]([row[column] for row in rows])
    return [{**row, column: value} for row, value in zip(rows, values, strict=True)]


class Inputs:
    """The inputs as they are, and with each of the changes."""

    def __init__(self, session: SparkSession) -> None:
        self.base = {name: _frame(session, name, rows) for name, rows in BASE.items()}
        self._changed = {
            Change(name, column, way): _frame(session, name, changed(rows, column, way))
            for name, rows in BASE.items()
            for column in rows[0]
            for way in WAYS
        }

    def changes(self, assets: Sequence[str]) -> list[Change]:
        return [each for each in self._changed if each.asset in assets and each.way in FIRST]

    def with_change(self, change: Change) -> Frames:
        return {**self.base, change.asset: self._changed[change]}


def _frame(session: SparkSession, name: str, rows: Sequence[Row]) -> DataFrame:
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    declared = StructType.fromDDL(SCHEMAS[name])
    assert isinstance(declared, StructType)
    schema = to_arrow_schema(declared)
    plain = [
        {key: list(v.items()) if key == "attrs" and v is not None else v for key, v in row.items()}
        for row in rows
    ]
    table = pa.Table.from_pylist(plain, schema=schema)
    return session.createDataFrame(table).alias(f"@{NAMESPACE}.{name}")


def read_assets(frame: DataFrame) -> list[str]:
    shown: str = frame._jdf.queryExecution().analyzed().toString()
    return [name for name in SCHEMAS if f"@{NAMESPACE}.{name}" in shown]


def dependencies(query: Callable[[Frames], DataFrame], inputs: Inputs) -> Dependencies:
    base = query(inputs.base)
    changes = inputs.changes(read_assets(base))
    refused: list[Change] = []
    try:
        results = _all_at_once(base, changes, lambda each: query(inputs.with_change(each)))
    except Exception:  # a change that the query refuses
        results, refused = _one_by_one(base, changes, lambda each: query(inputs.with_change(each)))
    before = results.pop(UNCHANGED)
    columns = range(len(base.columns))
    return Dependencies(
        [{change: now[n] != before[n] for change, now in results.items()} for n in columns],
        refused,
    )


UNCHANGED: Final = Change("", "", "")
Results = dict[Change, list[Counter[str]]]
"""How often each column has each value after each change."""


def _all_at_once(
    base: DataFrame, changes: Sequence[Change], variant: Callable[[Change], DataFrame]
) -> Results:
    results = _collected([base, *(variant(each) for each in changes)])
    empty = [Counter[str]() for _ in base.columns]
    return {each: results.get(at, empty) for at, each in enumerate([UNCHANGED, *changes])}


def _one_by_one(
    base: DataFrame, changes: Sequence[Change], variant: Callable[[Change], DataFrame]
) -> tuple[Results, list[Change]]:
    empty = [Counter[str]() for _ in base.columns]
    results: Results = {UNCHANGED: _collected([base]).get(0, empty)}
    refused = []
    for change in changes:
        for each in (change, change._replace(way=SPARE)):
            try:
                results[each] = _collected([variant(each)]).get(0, empty)
                break
            except Exception:
                continue
        else:
            refused.append(change)
    return results, refused


def _collected(frames: Sequence[DataFrame]) -> dict[int, list[Counter[str]]]:
    """Of each frame by its number, how often each column has each value."""
    from pyspark.sql import functions as F

    width = len(frames[0].columns)
    numbered = []
    for at, frame in enumerate(frames):
        plain = frame.toDF(*[f"c{n}" for n in range(width)])
        texts = [F.to_json(F.struct(f"c{n}")) for n in range(width)]
        numbered.append(plain.select(F.lit(at).alias("at"), F.array(*texts).alias("texts")))
    found: dict[int, list[Counter[str]]] = defaultdict(lambda: [Counter() for _ in range(width)])
    for at, texts in reduce(lambda one, other: one.union(other), numbered).collect():
        for counter, text in zip(found[at], texts, strict=True):
            counter[text] += 1
    return found
