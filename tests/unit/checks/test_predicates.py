from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco.storage.local import LocalStore
from arco.worker.checks import Subject
from arco.worker.checks.dialects import DuckSql
from arco.worker.checks.predicates import for_duckdb
from arco.worker.checks.subject_columns import CheckColumn, Columns
from servo.check import expression, in_range
from servo.contract.task import InputRef, MaterializationRef
from tests.kit.checked_files import Files

AT = DuckSql().moment(CheckColumn(("at",), pa.timestamp("us", "UTC"), "timestamp"))

SCHEMA = pa.schema(
    [
        ("Num", pa.int32()),
        ("price", pa.decimal128(10, 2)),
        ("wide", pa.decimal128(38, 20)),
        ("x", pa.float64()),
        ("y", pa.float32()),
        ("word", pa.string()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("place", pa.struct([("no", pa.int32())])),
        ("big", pa.uint64()),
    ]
)


@pytest.fixture(scope="module")
def columns(tmp_path_factory: pytest.TempPathFactory) -> Columns:
    root: Path = tmp_path_factory.mktemp("lake")
    pq.write_table(SCHEMA.empty_table(), root / "part.parquet")
    version = MaterializationRef(partition="", materialization_id="m", path="data")
    (root / "data").mkdir()
    (root / "part.parquet").rename(root / "data" / "part.parquet")
    return Columns(
        Subject.read(LocalStore(root), InputRef(asset="a.b", materializations=(version,)))
    )


@pytest.mark.parametrize(
    ("sql", "translated"),
    [
        ("num > 2", '("Num" > 2)'),
        ("`Num` == -1 -- why", '("Num" = (-1))'),
        ("num BETWEEN 1 AND 9", '(("Num" >= 1) AND ("Num" <= 9))'),
        ("price <= num", '("price" <= "Num")'),
        ("x < 1.5", '("x" < 1.5)'),
        ("word NOT IN ('', 'é')", "(NOT ((\"word\" = '') OR (\"word\" = 'é')))"),
        ("NOT flag OR day > DATE'2025-01-01'", '((NOT "flag") OR ("day" > DATE \'2025-01-01\'))'),
        ("place.NO IS NULL", "(struct_extract(\"place\", 'no') IS NULL)"),
        ("at <= at", f"({AT} <= {AT})"),
    ],
)
def test_comparisons_are_said_in_duckdbs_words(columns: Columns, sql: str, translated: str) -> None:
    assert for_duckdb(sql, columns) == translated


@pytest.mark.parametrize(
    "sql",
    [
        "num + 1 > 2",
        "length(word) > 2",
        "num > '1'",
        "num > 1e3",
        "num > x",
        "y > 1",
        "wide = num",
        "big > 1",
        "day <= at",
        "at <= local",
        "at > '2025-01-01'",
        "day > '2025-01-01'",
        "word LIKE 'a%'",
        "word > 'a\\n'",
        'word > "a"',
        "word = 'it''s'",
        "word = 'a' 'b'",
        "num <=> 1",
        "1 = 1",
        "num = 1 = flag",
        "num",
        "num IN (SELECT 1)",
        "nope > 1",
        "num >",
        "num > 1; SELECT 1",
        "CASE WHEN flag THEN TRUE END",
        "max(num) > 1",
        "CAST(word AS DATE) > day",
        "",
    ],
)
def test_all_else_is_left_to_spark(columns: Columns, sql: str) -> None:
    assert for_duckdb(sql, columns) is None


def test_a_dot_leads_into_a_struct_whatever_columns_there_are(files: Files) -> None:
    """As in Spark: a column with a dot in its name needs backticks."""
    struct = pa.array([{"b": -1}, {"b": 2}])
    ref = files.put("a.b", pa.table({"a": struct, "a.b": [1, -2], "c.d": [1, 2]}))
    columns = Columns(Subject.read(files.store, ref))
    assert for_duckdb("a.b > 0", columns) == "(struct_extract(\"a\", 'b') > 0)"
    assert for_duckdb("`a.b` > 0", columns) == '("a.b" > 0)'
    assert for_duckdb("c.d > 0", columns) is None  # which Spark refuses
    found = files.results(
        ref, expression("a.b > 0"), expression("`a.b` > 0"), in_range("a.b", min=0)
    )
    assert [json.loads(each.sample[0])["a.b"] for each in found] == [1, -2, -2]
