"""The golden cases on a real Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from sqlglot.errors import ParseError

from arco.lineage.sql import analyze
from arco.lineage.traced import TracedColumns
from arco.spark.lineage.capture import capture, observe
from arco.spark.lineage.trace import trace
from servo.contract.task import ColumnSource
from tests.golden.lineage import more, tpc
from tests.golden.lineage.case import NAMESPACE, SCHEMAS, Case, actual
from tests.golden.lineage.cases import CASES
from tests.golden.lineage.texts import MORE_THAN_THE_PLAN, NOT_PARSED, TEXTS
from tests.kit import spark_texts
from tests.kit.depth import rotated
from tests.kit.spark_task import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def session() -> SparkSession:
    return spark_session()


def inputs(session: SparkSession, schemas: Mapping[str, str], namespace: str) -> Any:
    return {
        name: session.createDataFrame([], schema).alias(f"@{namespace}.{name}")
        for name, schema in schemas.items()
    }


def frame_of(case: Case, session: SparkSession) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    given = inputs(session, SCHEMAS, NAMESPACE)
    if case.frame is not None:
        made: DataFrame = case.frame(SimpleNamespace(spark=session, F=F, Window=Window, **given))
        return made
    for name, frame in given.items():
        frame.createOrReplaceTempView(name)
    return session.sql(case.sql.format(**{name: name for name in given}))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_plan_says_exactly_what_was_written_by_hand(case: Case, session: SparkSession) -> None:
    plan = capture(frame_of(case, session))
    assert plan is not None
    found = trace(plan)
    assert actual(found) == case.expected
    assert {each.confidence for each in found.columns} <= set(case.confidence.split())


# -- the text of a query agrees with its plan, or says less ------------------------------------


@pytest.fixture(scope="module")
def frames(session: SparkSession) -> dict[str, Any]:
    """Of both sets of inputs, by namespace; and the columns that the text is given."""
    return {
        NAMESPACE: inputs(session, SCHEMAS, NAMESPACE),
        tpc.NAMESPACE: inputs(session, tpc.SCHEMAS, tpc.NAMESPACE),
    }


ALL_TEXTS = [
    *((NAMESPACE, sql) for sql in (*more.QUERIES, *TEXTS)),
    *((tpc.NAMESPACE, sql) for sql in (*tpc.TPC_H, *tpc.DECISION_SUPPORT)),
]


@pytest.mark.parametrize(
    ("namespace", "sql"), rotated(ALL_TEXTS, 3), ids=lambda text: " ".join(text.split())
)
def test_the_text_of_a_query_agrees_with_its_plan_or_says_less(
    namespace: str, sql: str, session: SparkSession, frames: dict[str, Any]
) -> None:
    given = frames[namespace]
    for name, frame in given.items():
        frame.createOrReplaceTempView(name)
    by_plan = observe(session.sql(sql.format(**{name: name for name in given})))
    assert by_plan.names
    columns = {f"{namespace}.{name}": frame.columns for name, frame in given.items()}
    text = sql.format(**{name: f'{{{{ ref("{namespace}.{name}") }}}}' for name in given})
    try:
        by_text = analyze(text, columns)
    except ParseError:  # the parser knows less of Spark's syntax than Spark: nothing is said
        assert sql in NOT_PARSED
        return
    differences = contradictions(by_text, by_plan)
    assert bool(differences) == (sql in MORE_THAN_THE_PLAN), differences


def contradictions(text: TracedColumns, plan: TracedColumns) -> list[object]:
    """What the text says and the plan does not."""
    result: list[object] = []
    by_position = len(text.names) == len(plan.names)
    names = dict(zip(text.names, plan.names, strict=True)) if by_position else {}
    truth = {each.column: each for each in plan.columns}
    for each in text.columns:
        traced = truth.get(names.get(each.column, each.column))
        if each.confidence == "low":
            continue
        if traced is None:
            result.append((each, "the plan does not know it"))
        elif each.confidence == "high":
            if (each.sources, each.confidence) != (traced.sources, traced.confidence):
                result.append((each, traced))
        elif not _places(traced.sources) <= _places(each.sources):
            result.append((each, traced))
    more_influences = set(text.influences) - set(plan.influences)
    fewer = set(plan.influences) - set(text.influences)
    if more_influences or (fewer and not text.reason):
        result.append(("influences", more_influences, fewer))
    return result


def _places(sources: Iterable[ColumnSource]) -> set[tuple[str, str]]:
    return {(each.asset, each.column) for each in sources}


@pytest.mark.parametrize("text", spark_texts.ACCEPTED)
def test_spark_reads_what_validation_must_not_refuse(text: str, session: SparkSession) -> None:
    from pyspark.errors import AnalysisException, ParseException

    for name, schema in spark_texts.SCHEMAS.items():
        session.createDataFrame([], schema).createOrReplaceTempView(f"`@x.{name}`")
    try:
        session.sql(spark_texts.with_tables(text, "`@x.t`", "`@x.u`"))
    except ParseException:
        raise
    except AnalysisException as error:  # of types, which validation does not look at
        assert not str(error.getCondition()).startswith(("UNRESOLVED", "TABLE_OR_VIEW"))
