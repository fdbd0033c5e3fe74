"""SQL assets on a real Spark: refs, literals, and errors that point into the author's text."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from arco.spark.host import SparkHost, SparkTask
from arco.spark.query import TaskQuery
from arco.spark.read import HasSession
from arco.tasks.failure import TaskFailed
from tests.kit.spark_task import StandIn, spark_host, spark_task

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def host() -> Iterator[SparkHost]:
    with spark_host() as made:
        yield made


@pytest.fixture(scope="module")
def task(host: SparkHost) -> Iterator[SparkTask]:
    with spark_task(host) as made:
        yield made


@pytest.fixture
def inputs(task: SparkTask) -> dict[str, Any]:
    orders = task.session.sql(
        "SELECT explode(sequence(1, 3)) AS id, DATE'2025-01-15' AS day"
    ).alias("@sales.orders")
    return {"sales.orders": orders, "other": task.session.range(2).toDF("id")}


def failure(task: HasSession, sql: str, inputs: dict[str, Any], **given: Any) -> Any:
    with pytest.raises(TaskFailed) as caught:
        TaskQuery(sql, file="shop/marts.py", line=7, **given).run(task, inputs)
    return caught.value.info


def marked(message: str) -> str:
    """The part of the shown line that has marks below it."""
    line, marks = message.splitlines()[-2:]
    return line[marks.index("^") : marks.rindex("^") + 1]


def test_refs_are_tables_and_templates_are_literals(
    task: SparkTask, inputs: dict[str, Any]
) -> None:
    sql = """
    WITH orders AS (SELECT * FROM {{ ref("sales.orders") }}),  -- its own name for a part
         other AS (SELECT id FROM {{ ref('other') }})
    SELECT o.id, {{ config("label") }} AS label, {{ config("none") }} IS NULL AS none,
      {{ partition("region") }} AS region
    FROM orders o LEFT ANTI JOIN other USING (id)
    WHERE day = {{ partition("date") }} AND id < {{ config("limit") }};
    """
    query = TaskQuery(
        sql,
        partition="date=d:2025-01-15,region=s:it%27s%20%5C%20%22",
        config={"label": "a'b\\c\n{{x}}", "limit": 3, "none": None},
    )
    frame = query.run(task, inputs)
    assert [tuple(row) for row in frame.collect()] == [(2, "a'b\\c\n{{x}}", True, "it's \\ \"")]


def test_configured_values_stand_wherever_a_literal_may(
    task: SparkTask, inputs: dict[str, Any]
) -> None:
    sql = """
    SELECT {{ config("top") }} AS top, {{ config("top") }} * 2000000000 AS more,
      id - {{ config("less") }} AS less, date_add(DATE'2025-01-01', {{ config("less") }}) AS day,
      date_add(DATE'2025-01-01', -{{ config("top") }}) AS earlier, {{ config("rate") }} AS rate,
      {{ config("price") }} AS price, {{ config("since") }} AS since, substr('abc', 1,
      {{ config("top") }}) AS start, round(2.345, {{ config("top") }}) AS round
    FROM range(10)
    WHERE id IN ({{ config("ids") }}) AND id < {{ config("big") }}
    ORDER BY id LIMIT {{ config("top") }} -- so many
    OFFSET {{ config("one") }}
    """
    config = {
        "top": 2,
        "less": -5,
        "one": 1,
        "big": 5_000_000_000,
        "rate": 1e-7,
        "price": Decimal("1.50"),
        "since": datetime(2025, 1, 1, 6, tzinfo=UTC),
        "ids": [3, 4, 7, 8],
    }
    frame = TaskQuery(sql, config=config).run(task, {})
    assert frame.schema.simpleString() == (
        "struct<top:bigint,more:bigint,less:bigint,day:date,earlier:date,rate:double,"
        "price:decimal(3,2),since:timestamp,start:string,round:decimal(4,2)>"
    )
    assert [tuple(row)[:-3] for row in frame.drop("since").collect()] == [
        (2, 4_000_000_000, each + 5, date(2024, 12, 27), date(2024, 12, 30), 1e-7)
        for each in (4, 7)
    ]
    assert frame.first().price == Decimal("1.50")  # type: ignore[union-attr]


@pytest.mark.parametrize("connect", [False, True])
def test_every_kind_of_query_runs(task: SparkTask, inputs: dict[str, Any], connect: bool) -> None:
    stand_in = StandIn(task.session, connect=connect)
    for sql, count in (
        ("TABLE {{ ref('sales.orders') }}", 3),
        ("VALUES (1), (2)", 2),
        ("FROM {{ ref('sales.orders') }} |> WHERE id > 1", 2),
        ("(SELECT 1) UNION ALL SELECT 2 ; -- the end", 2),
        ("WITH a AS (SELECT 1 AS x, 2 AS x) SELECT * FROM a -- the end", 1),
    ):
        assert TaskQuery(sql).run(stand_in, inputs).count() == count


@pytest.mark.parametrize("connect", [False, True])
@pytest.mark.parametrize(
    ("sql", "at"),
    [
        ("CREATE TABLE x AS SELECT 1 AS a", "CREATE"),
        ("INSERT INTO x SELECT 1", "INSERT"),
        ("  SET spark.sql.ansi.enabled = false", "SET"),
        ("SELECT 1; SELECT 2", "SELECT"),
        ("SHOW TABLES", "SHOW"),
    ],
)
def test_only_one_query_is_allowed(
    task: SparkTask, inputs: dict[str, Any], sql: str, at: str, connect: bool
) -> None:
    info = failure(StandIn(task.session, connect=connect), sql, inputs)
    assert (info.category, info.code) == ("user_code", "sql.invalid")
    assert marked(info.message) == at
    assert "one query" in info.hint


@pytest.mark.parametrize("connect", [False, True])
@pytest.mark.parametrize(
    "sql",
    [
        "WITH a AS (SELECT 1 AS x) INSERT OVERWRITE DIRECTORY '{}' USING parquet SELECT * FROM a",
        "FROM range(3) INSERT OVERWRITE DIRECTORY '{}' USING parquet SELECT id",
    ],
)
def test_what_begins_like_a_query_and_writes_is_refused(
    task: SparkTask, inputs: dict[str, Any], tmp_path: Path, sql: str, connect: bool
) -> None:
    target = tmp_path / "written"
    info = failure(StandIn(task.session, connect=connect), sql.format(target), inputs)
    assert (info.code, "not a query" in info.message) == ("sql.invalid", True)
    assert not target.exists()


@pytest.mark.parametrize("connect", [False, True])
@pytest.mark.parametrize(
    ("sql", "at", "words"),
    [
        (
            "SELECT id,\n  nope\nFROM {{ ref('sales.orders') }}",
            "nope",
            "`nope` cannot be resolved",
        ),
        (
            "SELECT a.id\nFROM {{ ref('sales.orders') }} a JOIN {{ ref('other') }} b ON b.nope",
            "b.nope",
            "cannot be resolved",
        ),
        (
            "SELECT 'ü😀' AS s, id FROM {{ ref('sales.orders') }} WHERE idd = 1",
            "idd",
            "cannot be resolved",
        ),
        (
            "SELECT id\n  frm xx y FROM {{ ref('other') }}",
            "xx",
            "Syntax error",
        ),
        (
            "SELECT * FROM {{ ref('other') }} JOIN nowhere.nothing",
            "nowhere.nothing",
            "cannot be found",
        ),
        ("SELECT no_such(1)", "no_such(1)", "no_such"),
        ("SELECT DATE'2025-99-01' AS d", "DATE'2025-99-01'", "2025-99-01"),
    ],
)
def test_errors_point_into_the_authors_text(
    task: SparkTask, inputs: dict[str, Any], sql: str, at: str, words: str, connect: bool
) -> None:
    info = failure(StandIn(task.session, connect=connect), sql, inputs)
    assert info.category == "user_code"
    assert (info.file, info.line) == ("shop/marts.py", 7)
    assert marked(info.message) == at
    before = sql[: sql.index(at)]
    place = f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}:"
    assert place in info.message
    assert words in info.message
    assert "shop/marts.py:7" in info.message
    assert "@" not in info.hint + info.message


def test_errors_that_come_with_the_rows_point_there_too(
    task: SparkTask, inputs: dict[str, Any]
) -> None:
    sql = "SELECT id,\n  10 / (id - 1) AS x FROM {{ ref('sales.orders') }}"
    query = TaskQuery(sql, file="shop/marts.py", line=7)
    frame = query.run(task, inputs)
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO") as caught:
        frame.collect()
    found = query.failure(caught.value)
    assert found is not None
    assert (found.info.category, marked(found.info.message)) == ("user_code", "10 / (id - 1)")
    assert query.failure(ValueError("not Spark's")) is None


def test_a_ref_that_was_not_planned_is_told(task: SparkTask, inputs: dict[str, Any]) -> None:
    info = failure(task, "SELECT * FROM {{ ref('gone') }}", inputs)
    assert (info.category, info.code) == ("configuration", "code.parameters")
