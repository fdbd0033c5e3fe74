"""Lineage against what really happens: every change of an input that shows must be told."""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

import pytest

from arco.lineage.sql import analyze
from arco.lineage.traced import TracedColumns
from arco.spark.lineage.capture import observe
from servo.contract.task import DIRECT, ColumnSource
from tests.golden.lineage.case import COLUMNS, NAMESPACE, Case
from tests.golden.lineage.cases import CASES
from tests.golden.lineage.more import QUERIES
from tests.golden.lineage.oracle import Change, Frames, Inputs, dependencies
from tests.kit.depth import DEEP, ORACLE_SEED
from tests.kit.spark_task import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SILENT: Final[dict[tuple[str, str, str], str]] = {
    ("filter on a hash", "id", "customers.id"): "no row has that hash",
    ("sql: items of an array that was built", "c", "orders.note"): "no order is number 0",
    (
        "more 18: select map_keys(map_from_arrays(collect_list(order_id), coll",
        "k",
        "orders.status",
    ): "a null would make the arrays differ in length, which is refused",
    ("sixty nested conditions", "label", "orders.note"): "what has no amount has no day either",
}
"""Sources that no change shows: case, column of the output, column of the input; and why."""
REFUSED: Final[dict[tuple[str, str], str]] = {}
"""Changes of a column that a query refuses in every way: case, column of the input; and why."""

ALL: Final = [
    *CASES,
    *(Case(f"more {at}: {sql[:60]}", sql=sql, columns={}) for at, sql in enumerate(QUERIES)),
]
CHOSEN: Final = ALL if DEEP else random.Random(ORACLE_SEED).sample(ALL, 7)
"""`make test` takes a sample, `make test-deep` all."""


@pytest.fixture(scope="module")
def session() -> SparkSession:
    return spark_session(
        ansi_enabled="false", codegen_factoryMode="NO_CODEGEN", leafNodeDefaultParallelism="1"
    )


@pytest.fixture(scope="module")
def inputs(session: SparkSession) -> Inputs:
    return Inputs(session)


def query_of(case: Case, session: SparkSession, frames: Frames) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    if case.frame is not None:
        made: DataFrame = case.frame(SimpleNamespace(spark=session, F=F, Window=Window, **frames))
        return made
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    return session.sql(case.sql.format(**{name: name for name in frames}))


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.name)
def test_every_change_that_shows_is_told(case: Case, session: SparkSession, inputs: Inputs) -> None:
    frame = query_of(case, session, inputs.base)
    shown, refused = dependencies(lambda frames: query_of(case, session, frames), inputs)
    unknown = {".".join(change[:2]) for change in refused}
    assert [each for each in unknown if (case.name, each) not in REFUSED] == []
    by_plan = observe(frame)
    assert missed(by_plan, frame.columns, shown) == []
    assert [
        (*each, "shows in no change")
        for each in silent(by_plan, frame.columns, shown)
        if (case.name, *each) not in SILENT
    ] == []
    if case.sql:
        refs = {name: f'{{{{ ref("{NAMESPACE}.{name}") }}}}' for name in inputs.base}
        by_text = analyze(case.sql.format(**refs), COLUMNS)
        assert missed(by_text, frame.columns, shown) == []


def test_exceptions_name_cases_that_exist() -> None:
    names = {case.name for case in ALL}
    assert {name for name, *_ in (*SILENT, *REFUSED)} <= names


def missed(
    found: TracedColumns, names: Sequence[str], shown: Sequence[dict[Change, bool]]
) -> list[tuple[str, Change]]:
    """Changes of a column whose sources are said to be known, by a column that is not named."""
    columns = {each.column: each for each in found.columns}
    result = []
    for name, changes in zip(names, shown, strict=True):
        column = columns.get(name)
        if column is None or column.confidence == "low":
            continue
        named = {_place(source) for source in (*column.sources, *found.influences)}
        result += [(name, c) for c, shows in changes.items() if shows and c[:2] not in named]
    return result


def silent(
    found: TracedColumns, names: Sequence[str], shown: Sequence[dict[Change, bool]]
) -> list[tuple[str, str]]:
    """Columns of the output, and direct sources that are said to be exact and never show."""
    columns = {each.column: each for each in found.columns if each.confidence == "high"}
    result = []
    for name, changes in zip(names, shown, strict=True):
        seen = {change[:2] for change, shows in changes.items() if shows}
        for source in columns[name].sources if name in columns else ():
            if source.kind in DIRECT and _place(source) not in seen:
                result.append((name, ".".join(_place(source))))
    return result


def _place(source: ColumnSource) -> tuple[str, str]:
    return source.asset.removeprefix(f"{NAMESPACE}."), source.column
