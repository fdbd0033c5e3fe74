"""Spark's errors, from their parts alone: no JVM."""

from __future__ import annotations

from typing import Any

import pytest

from arco.spark.damage import of_version
from arco.spark.error_info import Parts, driver_lost, judge, translate
from servo.contract.task import InputRef, MaterializationRef

ABORTED = "Job aborted due to stage failure: Task 1 in stage 2.0 failed 4 times, "
LOST = "most recent failure: Lost task 1.3 in stage 2.0 (TID 9) (10.0.0.1 executor 1): "
SPARK = "org.apache.spark.SparkException"


@pytest.mark.parametrize(
    ("parts", "category", "code"),
    [
        (Parts("X", "[SPARK_JOB_CANCELLED] Job 1", condition="SPARK_JOB_CANCELLED"),
         "cancelled", "cancelled.spark"),
        (Parts("X", ABORTED + LOST + "ExecutorLostFailure (executor 1 exited)"),
         "infrastructure", "spark.executor_lost"),
        (Parts("X", "", ((SPARK, ABORTED), ("java.lang.OutOfMemoryError", "Java heap space"))),
         "infrastructure", "spark.out_of_memory"),
        (Parts("X", "", ((SPARK, ABORTED), ("java.io.FileNotFoundException", "/a"))),
         "user_code", "spark.path_not_found"),
        (Parts("X", "", ((SPARK, ABORTED),
                         ("java.io.FileNotFoundException", "/t/blockmgr-1/0c/shuffle_0_1.data"))),
         "infrastructure", "spark.executor_lost"),
        (Parts("X", "[PATH_NOT_FOUND] Path does not exist: s3://a", condition="PATH_NOT_FOUND"),
         "user_code", "spark.path_not_found"),
        (Parts("X", "Python worker exited unexpectedly (crashed)"),
         "infrastructure", "spark.python_worker"),
        (Parts("X", "java.io.IOException: No space left on device"),
         "infrastructure", "os.no_space"),
        (Parts("X", "words", condition="NEW_THING", sqlstate="42000"),
         "user_code", "spark.new_thing"),
        (Parts("X", "words", condition="FAILED_READ_FILE.NO_HINT"), "input", "input.unreadable"),
        (Parts("X", "[USER_RAISED] job cancelled: Permission denied", condition="USER_RAISED",
               causes=((SPARK, ABORTED + "[USER_RAISED] the job was cancelled"),)),
         "user_code", "spark.user_raised"),
        (Parts("X", "", condition="TASK_WRITE_FAILED",
               causes=((SPARK, "[TASK_WRITE_FAILED] Task failed"),
                       ("java.io.IOException", "No space left on device"))),
         "infrastructure", "os.no_space"),
    ],
)  # fmt: skip
def test_the_tables_decide(parts: Parts, category: str, code: str) -> None:
    failure = judge(parts)
    assert (failure.category, failure.code) == (category, code)


@pytest.mark.parametrize(
    "parts",
    [
        Parts("X", "[PATH_NOT_FOUND] No s3a://b/data/a/f/_/01J5/x.", condition="PATH_NOT_FOUND"),
        Parts("X", "", condition="FAILED_READ_FILE.FILE_NOT_EXIST",
              causes=((SPARK, "[FAILED_READ_FILE.FILE_NOT_EXIST] file:/s/01J5/part-0.parquet"),)),
        Parts("X", "", ((SPARK, ABORTED), ("java.io.FileNotFoundException", "/s/01J5/part-0"))),
    ],
)  # fmt: skip
def test_files_of_what_the_task_reads_are_a_matter_of_the_input(parts: Parts) -> None:
    failure = judge(parts, {"01J4", "01J5"})
    assert (failure.category, failure.code) == ("input", "input.missing")
    assert judge(parts, {"01J4"}).code == "spark.path_not_found"


def test_the_words_of_a_failed_task_are_those_of_its_cause() -> None:
    said = ABORTED + LOST + "java.io.IOException: Mkdirs failed to create file:/x"
    failure = judge(Parts("SparkException", said, ((SPARK, said),)))
    assert failure.message == "IOException: Mkdirs failed to create file:/x"


def test_an_analysis_error_keeps_its_words_and_loses_its_plan() -> None:
    said = (
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `foo` cannot be resolved. "
        "Did you mean one of the following? [`id`, `t`.`name`]. SQLSTATE: 42703; line 2 pos 1;\n"
        "'Project [id#1L, 'foo]\n+- Range (0, 3, step=1)"
    )
    condition = "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    failure = judge(Parts("AnalysisException", said, condition=condition, sqlstate="42703"))
    assert failure.message == (
        "A column with name `foo` cannot be resolved. "
        "Did you mean one of the following? [`id`, `t`.`name`]."
    )
    assert failure.suggestions == ("`id`", "`t`.`name`")
    assert failure.hint == "candidates: id, t.name"
    assert (failure.sql_line, failure.sql_column) == (2, 1)
    assert failure.details == ""


def test_a_udf_failure_points_to_the_users_frame() -> None:
    traceback = (
        "Traceback (most recent call last):\n"
        '  File "/p/assets.py", line 7, in clean\n    return helper(x)\n'
        '  File "/v/site-packages/pandas/core.py", line 9, in map\n    return f(x)\n'
        "KeyError: 'k'\n"
    )
    parts = Parts("PythonException", "", condition="PYTHON_EXCEPTION")
    failure = judge(parts._replace(parameters={"traceback": traceback}))
    assert (failure.code, failure.message) == ("user_code.KeyError", "KeyError: 'k'")
    assert (failure.file, failure.line) == ("/p/assets.py", 7)


def test_how_the_driver_ended_is_said() -> None:
    failure = driver_lost(ConnectionRefusedError("refused"), 52)
    assert (failure.category, failure.code) == ("infrastructure", "spark.driver_lost")
    assert failure.message.endswith("it ran out of memory")


@pytest.mark.parametrize(
    "error", [ValueError("x"), ConnectionRefusedError(), FileNotFoundError("x"), KeyError("k")]
)
def test_what_is_not_sparks_is_left_alone(error: BaseException) -> None:
    assert translate(error) is None


def test_an_error_that_cannot_be_asked_does_no_harm() -> None:
    class PySparkException(Exception):
        def __getattr__(self, name: str) -> Any:
            raise ConnectionRefusedError

        def __str__(self) -> str:
            raise ConnectionRefusedError

    assert translate(PySparkException()) is None


def test_a_file_that_cannot_be_read_is_told_as_the_version_it_belongs_to() -> None:
    version = MaterializationRef(
        partition="p=i:2", materialization_id="01J5", path="data/sales/up/p=2/01J5"
    )
    inputs = [InputRef(asset="sales.up", materializations=(version,))]
    condition = "FAILED_READ_FILE.NO_HINT"
    words = f"[{condition}] Error while reading file file:/s/data/sales/up/p=2/01J5/part-0.parquet"
    failure = of_version(judge(Parts("X", words, condition=condition)), inputs)
    assert (failure.category, failure.code) == ("input", "input.corrupt")
    assert failure.message.startswith("version 01J5 of sales.up[p=2] is damaged: Error while")
    assert failure.hint == "run it again with `servo run sales.up -p p=2 --force`"
    elsewhere = judge(Parts("X", words.replace("01J5", "other"), condition=condition))
    assert of_version(elsewhere, inputs) == elsewhere
