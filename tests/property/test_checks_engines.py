"""One check, three answers: DuckDB and Spark count what a plain loop over the rows counts."""

from __future__ import annotations

import contextlib
import math
import operator
import random
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco.columns.arrow import from_arrow
from arco.spark.read import read_frame
from arco.storage.local import LocalStore
from arco.worker.checks import CheckContext, Subject, evaluate
from arco.worker.checks.check_request import CheckRequest
from arco.worker.checks.duck import DuckEngine
from arco.worker.checks.engine import CheckEngine, EngineNeed
from arco.worker.checks.kinds import need_of
from arco.worker.checks.needs import FalseRows, NewestValue, ProvenFinding, PythonCall
from arco.worker.checks.predicates import for_duckdb
from arco.worker.checks.sparks import SparkCheckEngine
from arco.worker.checks.subject_columns import Columns
from servo.check import (
    accepted_values,
    expression,
    in_range,
    matches,
    not_null,
    references,
    row_count,
    unique,
)
from servo.contract.manifest import Check
from servo.contract.task import CheckResult, InputRef, MaterializationRef
from tests.kit.depth import seeds
from tests.kit.spark_task import StandIn, spark_session

SPARK = [pytest.mark.spark, pytest.mark.xdist_group("spark")]
NAN, INF = math.nan, math.inf

INTS = [-(1 << 31), -2, -1, 0, 1, 2, 3, (1 << 31) - 1]
LONGS = [-(1 << 63), -1, 0, 1, 1 << 53, (1 << 53) + 1, (1 << 63) - 1]
DECIMALS = [Decimal(t) for t in ("-99999999.99", "-0.01", "0.00", "0.01", "1.50", "99999999.99")]
DOUBLES = [-INF, -1.5, -0.0, 0.0, 0.1, 1.5, 5e-324, INF, NAN]
SINGLES = [-INF, -0.0, 0.0, struct.unpack("f", struct.pack("f", 0.1))[0], 1.5, NAN]
ACCENTS = ["\u00e9", "e\u0301"]
TEXTS = ["", "a", "A", "b", *ACCENTS, "ab", "a b", "a\n", "\u2028", "😀", "z'", 'q"', "\\d", "a\0b"]
DAYS = [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(2025, 1, 31), date(9999, 12, 31)]
MOMENTS = [
    datetime(1900, 1, 1),
    datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime(1970, 1, 1),
    datetime(2025, 1, 1, 12, 0, 0, 1),
    datetime(2026, 1, 1),
]
POOLS: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "Num": (pa.int32(), INTS),
    "big": (pa.int64(), LONGS),
    "few": (pa.int16(), [-300, -1, 0, 1, 2, 300]),
    "price": (pa.decimal128(10, 2), DECIMALS),
    "x": (pa.float64(), DOUBLES),
    "y": (pa.float32(), SINGLES),
    "word": (pa.string(), TEXTS),
    "flag": (pa.bool_(), [True, False]),
    "day": (pa.date32(), DAYS),
    "at": (pa.timestamp("us", tz="UTC"), [each.replace(tzinfo=UTC) for each in MOMENTS]),
    "local": (pa.timestamp("us"), MOMENTS),
    "blob": (pa.binary(), [b"", b"\0", b"\xff"]),
    "place": (
        pa.struct([("City", pa.string()), ("no", pa.int32())]),
        [{"City": "x", "no": 1}, {"City": None, "no": 2}, {"City": "y", "no": None}],
    ),
    "tags": (pa.list_(pa.string()), [[], ["a"], [None], ["a", "b"]]),
    "pairs": (pa.map_(pa.string(), pa.int32()), [[], [("a", 1)], [("a", None)]]),
}
PREFIX = "shared " * 700
ODD: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "u8": (pa.uint8(), [0, 1, 127, 128, 255]),
    "u16": (pa.uint16(), [0, 1, (1 << 16) - 1]),
    "u32": (pa.uint32(), [0, 1, 1 << 31, (1 << 32) - 1]),
    "i8": (pa.int8(), [-128, -1, 0, 127]),
    "d5": (pa.decimal128(5, 2), [Decimal(t) for t in ("-999.99", "0.00", "0.01", "999.99")]),
    "d38": (
        pa.decimal128(38, 18),
        [Decimal(t) for t in ("-99999999999999999999", "0", "1E-18", "99999999999999999999")],
    ),
    "a b": (pa.string(), [PREFIX, f"{PREFIX}a", f"{PREFIX}b", PREFIX[:-1]]),
    "select": (pa.string(), ["\ue000", "\uffff", "\U00010000", "\U0010ffff", "\x7f", "z"]),
    "\u00e4": (pa.timestamp("s"), [each.replace(microsecond=0) for each in MOMENTS]),
    'q"': (pa.timestamp("ms"), [each.replace(microsecond=0) for each in MOMENTS]),
    "zone": (
        pa.timestamp("us", tz="Europe/Berlin"),
        [each.replace(tzinfo=UTC) for each in MOMENTS],
    ),
}
"""Types and names that are rarer."""
KINDS = {**POOLS, **ODD}
PATTERNS = [
    r"[a-z]",
    r"^\w+$",
    r"a|b",
    r".",
    r"\S*",
    r"[^a\s]+",
    r"a\s.?b?",
    r"(?:a|é)+",
    r"\\d",
    r"[\w-]*",
    r"a{1,2}b?",
    r".*\n?",
    r"",
]
JAVA_ONLY = [r"(?=a).*", r"(?i)a", r"\p{L}", r"(.)\1?", r"a++", r"\ba\b"]


EXPRESSIONS = [
    "num > 0",
    "NUM BETWEEN -1 AND 2 OR num IS NULL",
    "num <> 3 AND NOT (num = -2)",
    "num < big",
    "big >= -9223372036854775",
    "num <= price",
    "price > 0.005",
    "price = 1.5 OR price <= big",
    "few IN (1, -1, 300) OR few NOT IN (2)",
    "x > -1.5",
    "x <= 0",
    "x = 0 OR x >= 1.5",
    "NOT x < 0.1",
    "word >= 'a' AND word < 'b'",
    "word IN ('a', 'A', 'é', '')",
    "word <> place.city",
    "flag",
    "NOT flag OR flag = FALSE",
    "day <= DATE'1970-01-01'",
    "day BETWEEN DATE'1969-12-31' AND DATE'2025-01-31'",
    "at = at",
    "local >= local",
    "place IS NULL OR place.no > 1",
    "tags IS NOT NULL",
    "true",
    "false",
]


NOT_DUCKDBS = ("once ['place']", "once ['tags']")


class Case(NamedTuple):
    check: Check
    misfit: Callable[[Sequence[Mapping[str, Any]]], int | None]
    """How many rows do not fit; none for a verdict of another kind."""


def each(test: Callable[[Mapping[str, Any]], bool]) -> Callable[..., int]:
    return lambda rows: sum(not test(row) for row in rows)


# -- a plain model ------------------------------------------------------------------------


def value_of(row: Mapping[str, Any], column: str) -> Any:
    found: Any = {name.lower(): value for name, value in row.items()}
    for part in column.lower().split("."):
        if found is None:
            return None
        found = {name.lower(): value for name, value in found.items()}[part]
    return found


def comparable(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return value


def ranged(rng: random.Random, column: str, name: str) -> Case:
    _, pool = KINDS[column]
    plain = [v for v in pool if not (isinstance(v, float) and math.isnan(v))]
    low, high = sorted(rng.choices(plain, k=2), key=comparable)
    low, high = rng.choice([(low, high), (low, None), (None, high)])

    def fits(row: Mapping[str, Any]) -> bool:
        value = comparable(value_of(row, column))
        if value is None:
            return True
        if isinstance(value, float) and math.isnan(value):
            return False
        at_least = low is None or value >= comparable(low)
        return at_least and (high is None or value <= comparable(high))

    check = in_range(column, min=bound(low), max=bound(high), name=name)
    return Case(check, each(fits))


def bound(value: Any) -> Any:
    return repr(value) if isinstance(value, float) else value


def accepted(rng: random.Random, column: str, name: str) -> Case:
    _, pool = KINDS[column]
    values = rng.choices(pool, k=rng.choice([1, 3, 15]))
    keys = {key_of(comparable(value)) for value in values}

    def fits(row: Mapping[str, Any]) -> bool:
        value = comparable(value_of(row, column))
        return value is None or key_of(value) in keys

    return Case(accepted_values(column, [text_of(v) for v in values], name=name), each(fits))


def text_of(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value)
    return value.isoformat() if isinstance(value, date) else str(value)


def key_of(value: Any) -> Any:
    """What makes two values one: NaN is itself, and zero has no sign."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((name, key_of(each)) for name, each in value.items())
    return tuple(map(key_of, value)) if isinstance(value, list) else value


def there(columns: Sequence[str], name: str) -> Case:
    fits = each(lambda row: all(value_of(row, column) is not None for column in columns))
    return Case(not_null(*columns, name=name), fits)


def once(columns: Sequence[str], name: str) -> Case:
    def repeated(rows: Sequence[Mapping[str, Any]]) -> int:
        keys = [[key_of(comparable(value_of(row, c))) for c in columns] for row in rows]
        known = [tuple(key) for key in keys if None not in key]
        return len(known) - len(set(known))

    return Case(unique(*columns, name=name), repeated)


def like(pattern: str, name: str) -> Case:
    dot = pattern.replace(".", "[^\n\r\x85\u2028\u2029]")
    known = re.compile(dot, re.ASCII)

    def fits(row: Mapping[str, Any]) -> bool:
        return row["word"] is None or known.fullmatch(row["word"]) is not None

    return Case(matches("word", pattern, name=name), each(fits))


def known_to(other: Sequence[Mapping[str, Any]], column: str, name: str) -> Case:
    keys = {comparable(row[column]) for row in other}

    def fits(row: Mapping[str, Any]) -> bool:
        value = comparable(row[column])
        return value is None or value in keys

    return Case(references(column, f"a.other.{column}", name=name), each(fits))


def battery(rng: random.Random, other: Sequence[Mapping[str, Any]]) -> list[Case]:
    plain = ["NUM", "big", "few", "price", "x", "y", "word", "day", "at", "local"]
    spelled = {"NUM": "Num"}
    cases = [ranged(rng, spelled.get(c, c), f"range {c}") for c in plain]
    cases += [accepted(rng, spelled.get(c, c), f"accepted {c}") for c in [*plain, "flag"]]
    cases += [there([c], f"there {c}") for c in (*POOLS, "PLACE.city", "place.no")]
    cases.append(there(["num", "Tags", "place.City"], "there together"))
    keys = [[c] for c in (*plain, "flag", "blob", "place", "tags", "place.no")]
    keys += [["num", "WORD"], ["x", "flag", "day"]]
    cases += [once(k, f"once {k}") for k in keys]
    cases += [like(pattern, f"like {pattern}") for pattern in PATTERNS]
    refs = ["Num", "big", "price", "word", "flag", "day", "at", "local", "blob"]
    cases += [known_to(other, c, f"known {c}") for c in refs]
    cases.append(Case(row_count(min=0), lambda rows: None))
    return cases


# -- data ---------------------------------------------------------------------------------


def made(
    rng: random.Random,
    count: int,
    kinds: Mapping[str, tuple[pa.DataType, Sequence[Any]]] = POOLS,
) -> list[dict[str, Any]]:
    width = rng.choice([1, 3, 99])
    return [
        {
            name: None if rng.random() < 0.15 else rng.choice(list(pool)[:width])
            for name, (_, pool) in kinds.items()
        }
        for _ in range(count)
    ]


NARROW: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "pairs": (pa.map_(pa.string(), pa.int8()), [[], [("a", 1)]]),
    "blob": (pa.large_binary(), [b"", b"\xff"]),
    "Num": (pa.int8(), [-2, -1, 0, 1, 2, 3]),
    "big": (pa.uint8(), [0, 1]),
    "few": (pa.float64(), [-1.0, 0.0, 1.0, 300.0]),
    "price": (pa.decimal128(4, 3), [Decimal("-0.010"), Decimal("0.010"), Decimal("1.500")]),
    "x": (pa.float32(), [-INF, -1.5, -0.0, 0.0, 1.5, INF, NAN]),
    "y": (pa.int16(), [0, 1]),
    "word": (pa.dictionary(pa.int8(), pa.string()), TEXTS),
    "day": (pa.date64(), DAYS[1:]),
    "at": (
        pa.timestamp("us", tz="Europe/Berlin"),
        [each.replace(tzinfo=UTC) for each in MOMENTS],
    ),
    "local": (pa.timestamp("ms"), [datetime(1970, 1, 1), datetime(2026, 1, 1)]),
    "place": (pa.struct([("no", pa.int8())]), [{"no": 1}, {"no": None}]),
    "tags": (pa.large_list(pa.large_string()), [[], ["a"], [None]]),
}
"""An older version: other types, other order, and a column less."""


def aged(rng: random.Random, count: int) -> list[dict[str, Any]]:
    return [
        {name: rng.choice([None, *pool]) for name, (_, pool) in NARROW.items()}
        for _ in range(count)
    ]


def widened(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same rows as they are among newer ones."""
    empty = dict.fromkeys(POOLS)
    return [
        {**empty, **row, "place": row["place"] and {"City": None, **row["place"]}} for row in rows
    ]


class Far(LocalStore):
    """The same files, as if they were not on this machine's disk."""

    @property
    def url(self) -> str:
        return "far://away"


class Lake:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.near, self.far = LocalStore(root), Far(root)

    def put(
        self,
        asset: str,
        rows: Sequence[Mapping[str, Any]],
        *,
        statistics: bool,
        files: int = 2,
        others: Mapping[str, pa.DataType] | None = None,
        rows_per_group: int | None = None,
    ) -> InputRef:
        folder = f"data/{asset}/{len(list(self.root.rglob('*.parquet')))}"
        (self.root / folder).mkdir(parents=True)
        schema = pa.schema(others or {name: type for name, (type, _) in POOLS.items()})
        for at in range(files):
            table = pa.Table.from_pylist(list(rows[at::files]), schema=schema)
            path = self.root / folder / f"part-{at}.parquet"
            kept = others is not None  # what Arrow says of its own types
            pq.write_table(
                table,
                path,
                write_statistics=statistics,
                store_schema=kept,
                row_group_size=rows_per_group,
            )
        version = MaterializationRef(partition="", materialization_id="m", path=folder)
        return InputRef(asset=asset, materializations=(version,))


def answers(
    lake: Lake, ref: InputRef, other: InputRef, cases: Sequence[Case], **around: Any
) -> Any:
    given = CheckContext(**{"store": lake.near, "references": (other,), **around})
    checks = [case.check for case in cases]
    return {each.name: each for each in evaluate(checks, Subject.read(lake.near, ref), given)}


def agree(
    found: Mapping[str, CheckResult], cases: Sequence[Case], rows: Sequence[Mapping[str, Any]]
) -> None:
    expected = {case.check.name: case.misfit(rows) for case in cases}
    assert {name: each.failing for name, each in found.items()} == expected
    for each in found.values():
        assert each.status == ("failed" if each.failing else "passed"), each
        assert bool(each.sample) == bool(each.failing), each


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("seed", seeds(2, 60))
def test_duckdb_counts_what_a_loop_counts(tmp_path: Path, seed: int, statistics: bool) -> None:
    rng = random.Random(seed)
    lake = Lake(tmp_path)
    rows, others = made(rng, rng.choice([0, 1, 5, 40])), made(rng, 6)
    cases = [c for c in battery(rng, others) if c.check.name not in NOT_DUCKDBS]
    ref = lake.put("a.this", rows, statistics=statistics)
    other = lake.put("a.other", others, statistics=True)
    found = answers(lake, ref, other, cases)
    agree(found, cases, rows)
    assert {each.method for each in found.values()} <= {"footer", "duckdb"}


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("seed", seeds(2, 60))
def test_duckdb_counts_in_columns_of_rarer_types(
    tmp_path: Path, seed: int, statistics: bool
) -> None:
    rng, lake = random.Random(seed), Lake(tmp_path)
    rows = made(rng, rng.choice([0, 1, 5, 40]), ODD)
    cases = [
        case
        for column in ODD
        for case in (
            ranged(rng, column, f"range {column}"),
            accepted(rng, column, f"accepted {column}"),
            there([column], f"there {column}"),
            once([column], f"once {column}"),
        )
    ]
    types = {name: type for name, (type, _) in ODD.items()}
    ref = lake.put("a.this", rows, statistics=statistics, others=types, rows_per_group=3)
    given = CheckContext(lake.near)
    found = evaluate([case.check for case in cases], Subject.read(lake.near, ref), given)
    agree({each.name: each for each in found}, cases, rows)


def two_versions(
    rng: random.Random, lake: Lake, *, statistics: bool
) -> tuple[InputRef, list[dict[str, Any]]]:
    narrow = {name: type for name, (type, _) in NARROW.items()}
    older, newer = aged(rng, 12), made(rng, 20)
    refs = [
        lake.put("a.this", older, statistics=statistics, others=narrow),
        lake.put("a.this", newer, statistics=statistics),
    ]
    rng.shuffle(refs)
    versions = tuple(version for ref in refs for version in ref.materializations)
    return InputRef(asset="a.this", materializations=versions), [*widened(older), *newer]


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("seed", seeds(1, 30))
def test_duckdb_counts_over_versions_of_other_types(
    tmp_path: Path, seed: int, statistics: bool
) -> None:
    rng = random.Random(seed)
    lake = Lake(tmp_path)
    ref, rows = two_versions(rng, lake, statistics=statistics)
    others = made(rng, 6)
    cases = [c for c in battery(rng, others) if c.check.name not in NOT_DUCKDBS]
    found = answers(lake, ref, lake.put("a.other", others, statistics=True), cases)
    agree(found, cases, rows)
    assert {each.method for each in found.values()} <= {"footer", "duckdb"}


# -- predicates ---------------------------------------------------------------------------

SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
Predicate = Callable[[Mapping[str, Any]], bool | None]


def ordered(value: Any) -> Any:
    """For comparisons as in SQL: a NaN is equal to itself, and greater than all others."""
    return (math.isnan(value), 0 if math.isnan(value) else value) if is_float(value) else value


def is_float(value: Any) -> bool:
    return isinstance(value, float)


def predicate(rng: random.Random, depth: int = 3) -> tuple[str, Predicate]:
    """Spark SQL, and what it says of a row: true, false, or unknown."""
    if depth and rng.random() < 0.6:
        (left, one), (right, other) = predicate(rng, depth - 1), predicate(rng, depth - 1)
        match rng.choice(["AND", "OR", "NOT"]):
            case "AND":
                return f"({left} AND {right})", lambda row: both(one(row), other(row))
            case "OR":
                return f"({left} OR {right})", lambda row: either(one(row), other(row))
        return f"(NOT {left})", lambda row: negation(one(row))
    return comparison(rng)


def both(one: bool | None, other: bool | None) -> bool | None:
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def either(one: bool | None, other: bool | None) -> bool | None:
    return negation(both(negation(one), negation(other)))


def negation(value: bool | None) -> bool | None:
    return None if value is None else not value


def comparison(rng: random.Random) -> tuple[str, Predicate]:
    column = rng.choice(["Num", "big", "few", "price", "x", "word", "day", "flag"])
    if rng.random() < 0.2:
        return f"{column} IS NULL", lambda row: row[column] is None
    sign, (text, value) = rng.choice(list(SIGNS)), constant(rng, column)

    def holds(row: Mapping[str, Any]) -> bool | None:
        return None if row[column] is None else SIGNS[sign](ordered(row[column]), ordered(value))

    return f"{column} {sign} {text}", holds


def constant(rng: random.Random, column: str) -> tuple[str, Any]:
    match column:
        case "word":
            value: Any = rng.choice(["", "a", "A", "b", "ab", "a b", *ACCENTS])
            return f"'{value}'", value
        case "day":
            value = rng.choice(DAYS)
            return f"DATE'{value.isoformat()}'", value
        case "flag":
            value = rng.choice([True, False])
            return str(value).upper(), value
        case "x":
            text = rng.choice(["-1.5", "0", "0.1", "1.5"])
            return text, float(text)
    text = rng.choice(["-300", "-1", "0", "0.005", "1", "1.5", "2", "9007199254740993"])
    return text, Decimal(text)


@pytest.mark.parametrize("seed", seeds(2, 60))
def test_duckdb_reads_predicates_as_a_loop_does(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    lake, rows = Lake(tmp_path), made(rng, 40)
    pairs = dict(predicate(rng) for _ in range(40))
    checks = [expression(sql, name=sql) for sql in pairs]
    subject = Subject.read(lake.near, lake.put("a.this", rows, statistics=True))
    found = evaluate(checks, subject, CheckContext(lake.near))
    untrue = {sql: sum(holds(row) is not True for row in rows) for sql, holds in pairs.items()}
    assert {each.name: each.failing for each in found} == untrue


# -- moments and days that Python has no values for ---------------------------------------

MAX_US, MAX_DAYS = (1 << 63) - 1, (1 << 31) - 1
EXTREMES: dict[str, tuple[pa.DataType, int, list[int | None]]] = {
    "at": (pa.timestamp("us", "UTC"), 1, [MAX_US, -MAX_US, MAX_US - 1, 1 - MAX_US]),
    "local": (pa.timestamp("us"), 1, [MAX_US, -MAX_US, MAX_US - 1, 1 - MAX_US]),
    "day": (pa.date32(), 86_400_000_000, [MAX_DAYS, -MAX_DAYS, MAX_DAYS - 1, 1 - MAX_DAYS]),
}
"""A column's type, the microseconds of its unit, and values at the ends."""


def extreme_rows(rng: random.Random) -> dict[str, list[int | None]]:
    return {
        name: rng.choices([*values, None, 0, 1, -1], k=12)
        for name, (_, _, values) in EXTREMES.items()
    }


def put_extremes(lake: Lake, asset: str, rows: Mapping[str, Any], statistics: bool) -> InputRef:
    folder = f"data/{asset}"
    (lake.root / folder).mkdir(parents=True)
    count = max(map(len, rows.values()))
    arrays = {}
    for name, (type, _, _) in EXTREMES.items():
        whole = pa.int32() if type == pa.date32() else pa.int64()
        values = [*rows[name], *([None] * (count - len(rows[name])))]
        arrays[name] = pa.array(values, whole).cast(type)
    path = lake.root / folder / "part-0.parquet"
    pq.write_table(pa.table(arrays), path, write_statistics=statistics, store_schema=False)
    version = MaterializationRef(partition="", materialization_id="m", path=folder)
    return InputRef(asset=asset, materializations=(version,))


def extreme_checks(
    rng: random.Random, rows: Mapping[str, list[int | None]], others: Mapping[str, list[int | None]]
) -> list[tuple[Check, int]]:
    """Checks, and how many rows fail."""
    found: list[tuple[Check, int]] = []
    for name, (_, unit, _) in EXTREMES.items():
        values = [each for each in rows[name] if each is not None]
        bound = rng.choice(["1970-01-01", "2025-01-01", "0001-01-01"])
        at = (date.fromisoformat(bound) - date(1970, 1, 1)).days * 86_400_000_000 // unit
        found.append((in_range(name, min=bound, name=f"min {name}"), sum(v < at for v in values)))
        found.append((in_range(name, max=bound, name=f"max {name}"), sum(v > at for v in values)))
        found.append((accepted_values(name, [bound]), sum(v != at for v in values)))
        found.append((not_null(name), len(rows[name]) - len(values)))
        found.append((unique(name), len(values) - len(set(values))))
        known = f"a.other.{name}"
        found.append((references(name, known), sum(v not in others[name] for v in values)))
        found.append((expression(f"{name} = {name}", name=f"same {name}"), rows[name].count(None)))
    return found


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("seed", seeds(2, 60))
def test_duckdb_counts_values_at_the_ends(tmp_path: Path, seed: int, statistics: bool) -> None:
    rng, lake = random.Random(seed), Lake(tmp_path)
    rows, others = extreme_rows(rng), extreme_rows(rng)
    ref = put_extremes(lake, "a.this", rows, statistics)
    other = put_extremes(lake, "a.other", others, True)
    pairs = extreme_checks(rng, rows, others)
    around = CheckContext(lake.near, references=(other,))
    found = evaluate([check for check, _ in pairs], Subject.read(lake.near, ref), around)
    assert {each.name: each.failing for each in found} == {c.name: count for c, count in pairs}


# -- Spark --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def session() -> Any:
    # The time zone must not matter.
    return spark_session(codegen_factoryMode="NO_CODEGEN", session_timeZone="Asia/Tokyo")


def frames(session: Any, lake: Lake) -> Callable[[InputRef], Any]:
    def frame(ref: InputRef) -> Any:
        return session.read.parquet(*[f"file://{lake.root}/{v.path}" for v in ref.materializations])

    return frame


def counted(engine: CheckEngine, needs: Mapping[str, EngineNeed]) -> dict[str, int | None]:
    """The engine's own counts: one pass for all that go together."""
    together = {name: need for name, need in needs.items() if engine.fuses(need)}
    alone = {name: need for name, need in needs.items() if name not in together}
    found = dict(zip(together, engine.fused(list(together.values())), strict=True))
    return {**found, **{name: engine.apart(need) for name, need in alone.items()}}


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("seed", seeds(1, 6))
def test_spark_counts_what_a_loop_counts(tmp_path: Path, seed: int, session: Any) -> None:
    rng = random.Random(seed)
    lake = Lake(tmp_path)
    rows, others = made(rng, [30, 4][seed % 2]), made(rng, 6)
    cases = battery(rng, others)
    apart = [case for case in cases if case.check.kind in ("unique", "references")]
    cases = [case for case in cases if case not in apart] + rng.sample(apart, 10)
    ref = lake.put("a.this", rows, statistics=False)
    other = lake.put("a.other", others, statistics=False)
    subject = Subject.read(lake.near, ref)
    around = CheckContext(lake.far, references=(other,), frame=frames(session, lake))
    columns = Columns(subject)
    needs = {c.check.name: need_of(CheckRequest(c.check, subject, columns, around)) for c in cases}
    said = {sql: FalseRows(sql, for_duckdb(sql, columns)) for sql in EXPRESSIONS}
    aged = {
        name: NewestValue(found, 1)
        for name in ("at", "local", "day")
        if (found := columns.find(name))
    }
    asked: dict[str, EngineNeed] = {
        name: need
        for name, need in needs.items()
        if not isinstance(need, ProvenFinding | PythonCall)
    }
    spark = counted(SparkCheckEngine(subject, around), {**asked, **said, **aged})
    expected = {c.check.name: c.misfit(rows) for c in cases if c.check.name in asked}
    assert {name: spark[name] for name in asked} == expected
    with contextlib.closing(DuckEngine(subject, columns, CheckContext(lake.near))) as duck:
        assert all(duck.can(need) for need in said.values())
        assert counted(duck, {**said, **aged}) == {n: spark[n] for n in (*said, *aged)}


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_spark_counts_over_versions_of_other_types(tmp_path: Path, session: Any) -> None:
    rng = random.Random(0)
    lake = Lake(tmp_path)
    ref, rows = two_versions(rng, lake, statistics=False)
    others = made(rng, 6)
    other = lake.put("a.other", others, statistics=False)
    cases = battery(rng, others)
    apart = [case for case in cases if case.check.kind in ("unique", "references")]
    cases = [case for case in cases if case not in apart] + rng.sample(apart, 6)
    subject = Subject.read(lake.near, ref)

    def frame(ref: InputRef) -> Any:
        return read_frame(StandIn(session), lake.near, ref)

    around = CheckContext(lake.near, references=(other,), frame=frame)
    columns = Columns(subject)
    assert [(field.name, from_arrow(field.type)) for field in columns.schema] == [
        (field.name, field.dataType.jsonValue()) for field in frame(ref).schema
    ]
    needs = {c.check.name: need_of(CheckRequest(c.check, subject, columns, around)) for c in cases}
    asked: dict[str, EngineNeed] = {
        name: need
        for name, need in needs.items()
        if not isinstance(need, ProvenFinding | PythonCall)
    }
    expected = {c.check.name: c.misfit(rows) for c in cases if c.check.name in asked}
    assert counted(SparkCheckEngine(subject, around), asked) == expected


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("seed", seeds(1, 20))
def test_files_that_spark_wrote_are_counted_alike(tmp_path: Path, seed: int, session: Any) -> None:
    rng = random.Random(seed)
    lake = Lake(tmp_path)
    rows, others = made(rng, 30), made(rng, 6)
    other = lake.put("a.other", others, statistics=True)
    pairs = dict(predicate(rng) for _ in range(20))
    cases = [c for c in battery(rng, others) if c.check.name not in NOT_DUCKDBS]
    cases += [Case(expression(sql, name=sql), each(is_true(h))) for sql, h in pairs.items()]
    folder = lake.root / "data/a.written/1"
    arrow = lake.put("a.arrow", rows, statistics=False)
    frames(session, lake)(arrow).repartition(2).write.parquet(f"file://{folder}")
    version = MaterializationRef(partition="", materialization_id="m", path="data/a.written/1")
    ref = InputRef(asset="a.written", materializations=(version,))
    agree(answers(lake, ref, other, cases), cases, rows)
    few = rng.sample(cases, 25)
    subject, around = Subject.read(lake.near, ref), CheckContext(lake.near, references=(other,))
    around = around._replace(frame=frames(session, lake))
    columns = Columns(subject)
    needs = {c.check.name: need_of(CheckRequest(c.check, subject, columns, around)) for c in few}
    asked: dict[str, EngineNeed] = {
        name: need
        for name, need in needs.items()
        if not isinstance(need, ProvenFinding | PythonCall)
    }
    expected = {c.check.name: c.misfit(rows) for c in few if c.check.name in asked}
    assert counted(SparkCheckEngine(subject, around), asked) == expected


def is_true(holds: Predicate) -> Callable[[Mapping[str, Any]], bool]:
    return lambda row: holds(row) is True


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("seed", seeds(1, 20))
def test_spark_counts_values_at_the_ends(tmp_path: Path, seed: int, session: Any) -> None:
    rng, lake = random.Random(seed), Lake(tmp_path)
    rows, others = extreme_rows(rng), extreme_rows(rng)
    # What Spark cannot subtract from 1970 is an error of the check, and no verdict.
    rows["local"] = [
        each if each is None or each > 2_000_000 - MAX_US else 0 for each in rows["local"]
    ]
    others["local"] = [0, MAX_US]
    ref = put_extremes(lake, "a.this", rows, False)
    other = put_extremes(lake, "a.other", others, True)
    pairs = extreme_checks(rng, rows, others)
    subject = Subject.read(lake.near, ref)
    around = CheckContext(lake.far, references=(other,), frame=frames(session, lake))
    columns = Columns(subject)
    asked: dict[str, EngineNeed] = {}
    for check, _ in pairs:
        need = need_of(CheckRequest(check, subject, columns, around))
        if not isinstance(need, ProvenFinding | PythonCall):
            asked[check.name] = need
    found = counted(SparkCheckEngine(subject, around), asked)
    assert found == {check.name: count for check, count in pairs if check.name in asked}
    newest = {name: NewestValue(c, 1) for name in EXTREMES if (c := columns.find(name))}
    with contextlib.closing(DuckEngine(subject, columns, CheckContext(lake.near))) as duck:
        latest = {name: max(v for v in rows[name] if v is not None) for name in EXTREMES}
        assert counted(duck, {**newest}) == latest
        assert counted(SparkCheckEngine(subject, around), {**newest}) == latest


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("versions", [1, 2])
def test_spark_alone_judges_collated_columns(tmp_path: Path, session: Any, versions: int) -> None:
    lake = Lake(tmp_path)
    words = "values ('paid', 'x'), ('PAID', 'y'), ('open', 'z') v(s, t)"
    frame = session.sql(f"SELECT s COLLATE UTF8_LCASE AS s, t FROM {words}")
    wider = session.sql(f"SELECT s COLLATE UTF8_LCASE AS s, 1 AS n FROM {words} WHERE s <> 'PAID'")
    refs = []
    for at, each in enumerate((frame, wider)[:versions]):
        each.coalesce(1).write.parquet(f"file://{lake.root}/data/{at}")
        path = f"data/{at}"
        refs.append(MaterializationRef(partition="", materialization_id=path, path=path))
    ref = InputRef(asset="a.this", materializations=tuple(refs))
    checks = [
        accepted_values("s", ["paid", "open"]),
        unique("s"),
        in_range("s", min="open", max="paid"),
        matches("s", "paid|open"),
        expression("s IN ('paid', 'open')", name="expression"),
        references("s", "a.this.s"),
        not_null("s"),
    ]
    subject = Subject.read(lake.near, ref)

    def evaluated(**around: Any) -> dict[str, tuple[Any, ...]]:
        given = CheckContext(**{"store": lake.near, "references": (ref,), **around})
        found = evaluate(checks, subject, given)
        return {each.name: (each.status, each.failing, each.method) for each in found}

    expected = {
        "accepted_values(s)": ("passed", 0, "spark"),
        "unique(s)": ("failed", [1, 3][versions - 1], "spark"),
        "in_range(s)": ("passed", 0, "spark"),
        "matches(s)": ("passed", 0, "spark"),
        "expression": ("passed", 0, "spark"),
        "references(s)": ("passed", 0, "spark"),
        "not_null(s)": ("passed", 0, "footer"),
    }

    def read(ref: InputRef) -> Any:
        return read_frame(StandIn(session), lake.near, ref)

    assert evaluated(frame=read) == evaluated(frame=read, store=lake.far) == expected
    alone = evaluated()
    assert {status for status, *_ in alone.values()} == {"error", "passed"}
    assert [name for name, (status, *_) in alone.items() if status == "passed"] == ["not_null(s)"]


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_what_duckdb_cannot_say_goes_to_spark(tmp_path: Path, session: Any) -> None:
    lake = Lake(tmp_path)
    rows = [dict.fromkeys(POOLS) | {"word": word, "Num": at} for at, word in enumerate(TEXTS)]
    checks = [
        *(matches("word", pattern, name=pattern) for pattern in JAVA_ONLY),
        expression("num > 2", name="plain sql"),
        expression("abs(num) > 2 -- not all are", name="sql with a comment"),
        expression("if(word = 'a', null, true)", name="null is not true"),
        unique("place", name="nested"),
        in_range("NUM", min=2, name="by duckdb"),
    ]
    ref = lake.put("a.this", rows, statistics=False)
    subject = Subject.read(lake.near, ref)
    found = evaluate(checks, subject, CheckContext(lake.near, frame=frames(session, lake)))
    assert {each.name: (each.method, each.failing) for each in found} == {
        r"(?=a).*": ("spark", sum(not re.fullmatch(r"a[^\n\u2028]*", word) for word in TEXTS)),
        r"(?i)a": ("spark", len(TEXTS) - 2),
        r"\p{L}": ("spark", len(TEXTS) - 4),
        r"(.)\1?": ("spark", len(TEXTS) - 5),
        "a++": ("spark", len(TEXTS) - 1),
        r"\ba\b": ("spark", len(TEXTS) - 1),
        "plain sql": ("duckdb", 3),
        "sql with a comment": ("spark", 3),
        "null is not true": ("spark", 1),
        "nested": ("spark", 0),
        "by duckdb": ("duckdb", 2),
    }
    assert len(found[6].sample) == 3
