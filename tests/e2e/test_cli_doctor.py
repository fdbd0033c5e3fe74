"""`servo doctor`, `servo version`, `python -m servo`, completion."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from typing import Any

import pytest

from tests.e2e.conftest import Servo

SQL_ASSET = """
from servo import sql_asset

NAMESPACE = "s"
one = sql_asset("one", "SELECT 1 AS x")
"""


def statuses(document: Any) -> dict[str, str]:
    return {check["name"]: check["status"] for check in document["checks"]}


def test_a_doctor_checks_the_store_the_clock_and_the_machine(servo: Servo) -> None:
    servo.json("admin", "init")
    document = servo.json("doctor")
    assert document["healthy"] is True
    assert set(statuses(document)) == {
        "disk of the store",
        "store",
        "workspace",
        "clock",
        "signing keys",
        "dispatch",
        "python",
        "java",
        "spark",
        "memory",
        "disk for temporary files",
    }


def test_a_store_that_is_not_there_does_not_hide_the_rest(servo: Servo) -> None:
    document = servo.json("doctor", "--store", "nowhere", code=1)
    assert statuses(document)["store"] == "fail"
    assert statuses(document)["python"] == "ok"
    store = next(check for check in document["checks"] if check["name"] == "store")
    assert "servo admin init" in store["hint"]


def test_missing_java_is_a_failure_only_if_deployed_assets_need_it(servo: Servo) -> None:
    servo.env["JAVA_HOME"] = "/nowhere"
    servo.json("admin", "init")
    assert statuses(servo.json("doctor"))["java"] == "warn"
    folder = servo.directory / "project"
    folder.mkdir()
    (folder / "s.py").write_text(SQL_ASSET)
    servo.json("deploy", "--project", str(folder))
    document = servo.json("doctor", code=1)
    assert (statuses(document)["java"], statuses(document)["spark"]) == ("fail", "fail")
    text = servo.text("doctor", code=1)
    assert "fail  java: missing in JAVA_HOME (/nowhere); Spark needs it\n      install Java" in text


def test_wrong_signing_keys_are_a_failure(servo: Servo) -> None:
    servo.json("admin", "init")
    servo.env["ARCO_TASK_KEYS"] = "nonsense"
    assert statuses(servo.json("doctor", code=1))["signing keys"] == "fail"


def test_versions_are_those_that_are_installed(servo: Servo) -> None:
    assert servo.text("version") == f"servo {version('arco')}\n"
    document = servo.json("version", "--all")
    assert document["duckdb"] == version("duckdb")
    assert document["store_format"] == 3
    assert f"pyarrow                  {version('pyarrow')}\n" in servo.text("version", "--all")


def test_the_package_is_a_command_too(servo: Servo) -> None:
    command = [sys.executable, "-m", "servo", "--version"]
    done = subprocess.run(command, env=servo.env, capture_output=True, text=True, check=True)
    assert done.stdout == f"servo {version('arco')}\n"


@pytest.mark.parametrize(("words", "completed"), [("servo ru", {"run", "runs"})])
def test_a_shell_completes_commands(servo: Servo, words: str, completed: set[str]) -> None:
    servo.env |= {"_SERVO_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "1"}
    with servo.start() as process:
        assert set(process.stdout.read().split()) == completed
