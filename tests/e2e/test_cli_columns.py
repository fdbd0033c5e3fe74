"""Declared columns, as a user sees that they are a promise."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.conftest import Servo

SHOP = """
import pyarrow as pa

from servo import asset, column

NAMESPACE = "shop"


@asset(columns=[column("x", "bigint", nullable=False), column("gone", "string")])
def differs() -> pa.Table:
    return pa.table({"x": ["text", None]})


@asset(columns=[column("x", "bigint")], extra="warn")
def more() -> pa.Table:
    return pa.table({"x": [1], "y": [2]})
"""


def test_an_output_that_is_not_as_declared_is_held(tmp_path: Path) -> None:
    servo = Servo(tmp_path)
    servo.store.mkdir()
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "shop.py").write_text(SHOP)
    servo.json("deploy", "--project", str(folder))
    said = servo.text("run", "shop.*", code=1)
    assert "'gone' is declared and missing" in said.replace("\n", " ")
    assert "SUCCEEDED, 1 output held in " in said
    assert ": 1 succeeded, 1 held" in said.replace("\n", " ")
    (run,) = servo.json("runs", "list")["runs"]
    assert (run["state"], run["tasks_held"]) == ("SUCCEEDED", 1)
    assert run["state_text"] == "SUCCEEDED, 1 output held"
    assert servo.json("runs", "show", run["run_id"])["state_text"] == run["state_text"]
    for command in (("runs", "show", run["run_id"]), ("runs", "list")):
        assert "SUCCEEDED, 1 output held" in servo.text(*command)
    by_name = {
        (asset, row["check_name"]): row
        for asset in ("shop.differs", "shop.more")
        for row in servo.json("checks", "list", asset)["checks"]
    }
    failed = by_name["shop.differs", "columns"]
    assert (failed["status"], failed["kind"]) == ("failed", "columns")
    assert failed["message"] == (
        "'x' is declared bigint, and is string; 'gone' is declared and missing; "
        "'x' is declared not null, and is null in 1 of 2 rows"
    )
    assert by_name["shop.more", "columns"]["status"] == "passed"
    assert by_name["shop.more", "columns(extra)"]["severity"] == "warning"
    (held,) = servo.json("quarantine", "list")["outputs"]
    assert held["asset"] == "shop.differs"
