"""The golden cases on a real Spark."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from arco.spark.lineage.capture import capture
from arco.spark.lineage.trace import trace
from arco.spark.session import open_session
from tests.golden.lineage.case import NAMESPACE, SCHEMAS, Case, actual
from tests.golden.lineage.cases import CASES
from tests.kit import spark_texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    conf = {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
    }
    session = open_session("local[2]", conf=conf)
    yield session
    session.stop()


def frame_of(case: Case, session: SparkSession) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    given = {
        name: session.createDataFrame([], schema).alias(f"@{NAMESPACE}.{name}")
        for name, schema in SCHEMAS.items()
    }
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
