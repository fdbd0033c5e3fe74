"""SQL is checked by `servo validate`, `deploy` and `plan`, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import Servo

FLOW = """
import pyarrow as pa

from servo import asset, column, expression, sql_asset

NAMESPACE = "m"


@asset
def raw() -> pa.Table:
    return pa.table({"id": [1], "amount": [2.0]})


sql_asset("totals", '''
SELECT id, amount AS total
FROM {{ ref("raw") }}
''', checks=[expression("total > 0")])

sql_asset("report", "SELECT id, total FROM {{ ref('totals') }}")
"""


@pytest.fixture
def folder(servo: Servo) -> Path:
    folder = servo.directory / "project"
    folder.mkdir()
    servo.store.mkdir(exist_ok=True)
    (folder / "flow.py").write_text(FLOW)
    return folder


def test_sql_that_cannot_run_is_neither_valid_nor_deployed(servo: Servo, folder: Path) -> None:
    assert servo.json("validate", "--project", str(folder))["valid"]
    text = FLOW.replace("SELECT id, total FROM", "SELECT id, totl FROM").replace("> 0", "> ")
    (folder / "flow.py").write_text(text)
    checked = servo.json("validate", "--project", str(folder), code=1)
    assert [(each["message"], each["hint"]) for each in checked["problems"]] == [
        (
            "the check 'expression(total > )' of m.totals: something is missing after '>'\n"
            "line 1, column 7:\n  1 | total > \n    |       ^",
            "",
        ),
        (
            "the query of m.report: there is no column 'totl'\n"
            "line 1, column 12:\n  1 | SELECT id, totl FROM {{ ref('totals') }}\n"
            "    |            ^^^^",
            "did you mean 'total'?",
        ),
    ]
    refused = servo.error("deploy", "--project", str(folder), code=2)
    assert "there is no column 'totl'" in refused["message"]
    assert servo.json("deployments")["deployments"] == []


def test_columns_of_what_was_materialized_are_known(servo: Servo, folder: Path) -> None:
    (folder / "flow.py").write_text(FLOW.replace("amount AS total", "amout AS total"))
    assert servo.json("validate", "--project", str(folder))["warnings"] == []
    assert servo.json("deploy", "--project", str(folder))["warnings"] == []
    servo.json("run", "m.raw")
    for warnings in (
        servo.json("validate", "--project", str(folder))["warnings"],
        servo.json("plan", "m.totals")["warnings"],
    ):
        (warning,) = warnings
        assert "no column 'amout' is declared, or in the newest version" in warning["message"]
        assert warning["hint"] == "did you mean 'amount'?"
    assert "^^^^^" in servo.run("plan", "m.totals").stderr


def test_sql_that_only_spark_can_read_is_deployed_with_a_note(servo: Servo, folder: Path) -> None:
    piped = "FROM {{ ref('totals') }} |> SELECT id, total |> SET total = 2"
    (folder / "flow.py").write_text(
        FLOW.replace("SELECT id, total FROM {{ ref('totals') }}", piped)
    )
    said = servo.run("validate", "--project", str(folder))
    assert said.returncode == 0
    assert "the query of m.report: may not be valid Spark SQL" in said.stderr
    assert len(servo.json("deploy", "--project", str(folder))["warnings"]) == 1
