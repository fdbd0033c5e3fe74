"""What a query really depends on: change one column of its inputs, and look at the output.

Each column of each input is changed in two ways, one at a time. A column of the output whose
values differ from before depends on the column that was changed. All variants of a query run as
one: a union, in which each variant has a number.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
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
}


def changed(rows: Sequence[Row], column: str, way: str) -> list[Row]:
    values = WAYS[way]([row[column] for row in rows])
    return [{**row, column: value} for row, value in zip(rows, values, strict=True)]


class Inputs:
    """The inputs as they are, and with each of the changes."""

    def __init__(self, session: SparkSession, ways: Sequence[str]) -> None:
        self.base = {name: _frame(session, name, rows) for name, rows in BASE.items()}
        self._changed = {
            Change(name, column, way): _frame(session, name, changed(rows, column, way))
            for name, rows in BASE.items()
            for column in rows[0]
            for way in ways
        }

    def variants(self, assets: Sequence[str]) -> Iterator[tuple[Change, Frames]]:
        for change, frame in self._changed.items():
            if change.asset in assets:
                yield change, {**self.base, change.asset: frame}


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


def dependencies(query: Callable[[Frames], DataFrame], inputs: Inputs) -> list[dict[Change, bool]]:
    """Of each column of the output, the changes, and whether its values differ then."""
    base = query(inputs.base)
    changes = list(inputs.variants(read_assets(base)))
    frames = [base, *(query(given) for _, given in changes)]
    try:
        results = _collected(frames)
    except Exception:  # a change that the query refuses, as a null key of a map
        results = _collected_one_by_one(frames)
    empty = [Counter[str]() for _ in base.columns]
    return [
        {
            change: results.get(at, empty)[column] != results.get(0, empty)[column]
            for at, (change, _) in enumerate(changes, 1)
        }
        for column in range(len(base.columns))
    ]


def _collected_one_by_one(frames: Sequence[DataFrame]) -> dict[int, list[Counter[str]]]:
    """A variant that fails counts as one in which nothing changed."""
    base = _collected(frames[:1])[0]
    found = {0: base}
    for at, frame in enumerate(frames[1:], 1):
        try:
            found[at] = _collected([frame])[0]
        except Exception:
            found[at] = base
    return found


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
