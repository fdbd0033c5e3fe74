"""What checks make of a task: before it works, and of what it put out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import servo as sdk
from arco.dispatch.requests import masked
from arco.worker.commit import committed
from servo.contract.manifest import Asset, Check, Code, ColumnDef, GateAction, Gating
from servo.contract.task import CodeRef, InputRef, MaterializationRef, TaskResult
from tests.kit.bench import Bench, problem, version

TABLE = "@asset\ndef f(): return pa.table({'x': [1, 2, None]})"
OLD = MaterializationRef(partition="", materialization_id="old", path="data/old", rows=3)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path).deploy(TABLE)


def checked(bench: Bench, *checks: Check, **changes: Any) -> TaskResult:
    return bench.run(checks=checks, **changes)


def test_checks_that_pass_change_nothing(bench: Bench) -> None:
    result = checked(bench, sdk.row_count(min=1), sdk.in_range("x", min=1, max=2))
    assert [(c.name, c.status, c.method) for c in result.checks] == [
        ("row_count", "passed", "footer"),
        ("in_range(x)", "passed", "footer"),
    ]
    assert (result.outcome, result.gate) == ("succeeded", "continue")


@pytest.mark.parametrize(
    ("gating", "severity", "outcome", "gate"),
    [
        (Gating(), "info", "succeeded", "continue"),
        (Gating(), "warning", "succeeded", "warn"),
        (Gating(), "error", "succeeded", "block"),
        (Gating(), "critical", "failed", "fail_run"),
        (Gating(preset="lenient"), "error", "succeeded", "warn"),
        (Gating(preset="lenient"), "critical", "succeeded", "block"),
        (Gating(preset="quarantine"), "warning", "succeeded", "continue"),
        (Gating(preset="quarantine"), "critical", "succeeded", "quarantine"),
        (Gating(error="fail_task"), "error", "failed", "fail_task"),
    ],
)
def test_gating_turns_a_severity_into_what_follows(
    bench: Bench, gating: Gating, severity: str, outcome: str, gate: GateAction
) -> None:
    bad = sdk.not_null("x", severity=severity)  # type: ignore[arg-type]
    result = checked(bench, bad, gating=gating)
    assert (result.outcome, result.gate) == (outcome, gate)
    (found,) = result.checks
    assert (found.status, found.failing, found.rows, found.action) == ("failed", 1, 3, gate)
    assert result.materialization is not None and result.materialization.rows == 3


def test_an_output_in_quarantine_names_what_to_read_instead(bench: Bench) -> None:
    gating = Gating(preset="quarantine")
    bad = checked(bench, sdk.not_null("x"), gating=gating, previous=OLD)
    assert bad.instead == OLD
    blocked = checked(bench, sdk.not_null("x"), previous=OLD, run_id="r2")
    assert (blocked.gate, blocked.instead) == ("block", None)


def test_whoever_adopts_an_output_reports_the_same_gate_and_checks(bench: Bench) -> None:
    """Else a redelivery after a crash would make a bad output current."""
    gating = Gating(preset="quarantine")
    first = checked(bench, sdk.not_null("x"), gating=gating, previous=OLD)
    again = checked(bench, sdk.not_null("x"), gating=gating, previous=OLD, redelivery=1)
    assert (again.gate, again.checks, again.instead) == (first.gate, first.checks, first.instead)
    assert again.materialization == first.materialization
    later = checked(bench, sdk.not_null("x"), gating=gating, previous=OLD, attempt=2)
    assert (later.adopted, later.gate, later.checks) == (True, "quarantine", first.checks)


def test_a_task_that_its_checks_fail_commits_nothing_and_may_be_tried_again(bench: Bench) -> None:
    failed = checked(bench, sdk.not_null("x"), gating=Gating(error="fail_task"))
    assert failed.error is not None and failed.error.code == "checks.failed"
    assert "not_null(x)" in failed.error.message and "sales.f" in failed.error.message
    assert not failed.error.retriable
    assert committed(bench.store, bench.request()) is None
    bench.deploy("@asset\ndef f(): return pa.table({'x': [1]})")
    good = checked(bench, sdk.not_null("x"), gating=Gating(error="fail_task"), attempt=2)
    assert (good.outcome, good.adopted) == ("succeeded", False)


def test_a_bad_input_keeps_the_function_from_running(bench: Bench) -> None:
    made = version(bench.run())
    ref = MaterializationRef(
        partition="", materialization_id=made.materialization_id, path=made.path, rows=3
    )
    inputs = (InputRef(asset="sales.f", parameter="up", materializations=(ref,)),)
    bench.deploy("@asset\ndef g(up: AssetIn['sales.f']):\n    print('ran')\n    return up.arrow()")
    before = sdk.not_null("x", phase="before", input="up")
    result = bench.run("g", inputs=inputs, checks=(before,), run_id="r2")
    assert problem(result) == ("failed", "input", "checks.input")
    assert [(c.input, c.phase, c.status) for c in result.checks] == [
        ("sales.f", "before", "failed")
    ]
    assert "ran" not in bench.log("r2")
    warned = sdk.not_null("x", phase="before", severity="warning")
    result = bench.run("g", inputs=inputs, checks=(warned,), run_id="r3")
    assert (result.outcome, result.gate) == ("succeeded", "warn")


def test_samples_of_inputs_mask_what_is_personal_in_them(bench: Bench) -> None:
    bench.deploy("@asset\ndef f(): return pa.table({'x': [None, 1], 'Email': ['a@b.c', 'd']})")
    made = version(bench.run())
    ref = MaterializationRef(
        partition="", materialization_id=made.materialization_id, path=made.path, rows=2
    )
    given = InputRef(asset="sales.f", parameter="up", materializations=(ref,), pii=("email",))
    bench.deploy("@asset\ndef g(up: AssetIn['sales.f']): return up.arrow()")
    before = sdk.not_null("x", phase="before", input="up")
    (found,) = bench.run("g", inputs=(given,), checks=(before,), run_id="r2").checks
    assert found.sample == ('{"x": null, "Email": "***"}',)


def test_no_value_of_a_personal_column_is_recorded(bench: Bench) -> None:
    bench.deploy("@asset\ndef f(): return pa.table({'mail': ['a@b.c'], 'pay': [1], 'n': [2]})")
    columns = (
        ColumnDef(name="MAIL", pii="email"),
        ColumnDef(name="pay", sensitivity="restricted"),
        ColumnDef(name="n", sensitivity="internal"),
    )
    found = {c.name: (c.min, c.max) for c in version(bench.run(columns=columns)).schema}
    assert found == {"mail": (None, None), "pay": (None, None), "n": ("2", "2")}


def test_a_check_of_a_column_that_is_not_there_says_so(bench: Bench) -> None:
    result = checked(bench, sdk.not_null("y"), sdk.unique("z"))
    assert problem(result) == ("failed", "configuration", "checks.invalid")
    assert result.error is not None
    assert "sales.f" in result.error.message and "'y'" in result.error.message
    assert "'z'" in result.error.message


def test_python_checks_come_from_the_artifact_and_see_the_output(bench: Bench) -> None:
    bench.deploy(
        "from servo.check import check\n"
        "@check()\ndef small(data): return data.arrow().num_rows < 2, 'too many'\n"
        "@asset\ndef f(): return pa.table({'x': [1, 2]})"
    )
    code = Code(module="assets", name="small")
    result = checked(bench, Check(kind="python", name="small", code=code))
    assert [(c.status, c.message, c.method) for c in result.checks] == [
        ("failed", "too many", "python")
    ]


def test_returning_nothing_is_an_error_unless_it_was_declared(bench: Bench) -> None:
    bench.deploy(
        "@asset\ndef f(): pass\n"
        "@asset\ndef g() -> None: pass\n"
        "@asset\ndef none(): return AssetOut(None)\n"
        "@asset\ndef empty(): return []\n"
        "@asset\ndef unyielding():\n    yield from ()\n"
        "@asset\ndef rowless(): return pa.table({'x': pa.array([], pa.int64())})\n"
    )
    for at, name in enumerate(("f", "none", "empty", "unyielding")):
        assert problem(bench.run(name, run_id=f"r{at}")) == ("failed", "user_code", "output.none")
    assert version(bench.run("g", run_id="r5")).rows == 0
    assert version(bench.run("rowless", run_id="r6")).files


def test_a_request_says_what_is_personal_in_an_input() -> None:
    columns = (ColumnDef(name="Email", pii="email"), ColumnDef(name="x"))
    code = Code(module="assets", name="up")
    assets = {"sales.up": Asset(key="sales.up", code=code, columns=columns)}
    read = InputRef(asset="sales.up", parameter="up")
    assert masked(read, assets).pii == ("email",)
    other = InputRef(asset="sales.elsewhere", parameter="up")
    assert masked(other, assets) == other


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("return 1", "output.type"),
        ("return pa.table({'': [1]})", "output.columns"),
        ("return [pa.table({'x': [1]}), pa.table({'y': [1]})]", "output.schema"),
        ("return []", "output.none"),
        ("return pa.table({'y': [1]})", "checks.invalid"),
    ],
)
def test_a_bad_output_names_the_asset_its_file_and_its_line(
    bench: Bench, body: str, code: str
) -> None:
    bench.deploy(f"@asset\ndef f(): {body}")
    place = CodeRef(artifact=bench.artifact, module="assets", name="f", file="assets.py", line=7)
    error = checked(bench, sdk.not_null("x"), code=place).error
    assert error is not None and error.code == code
    assert (error.file, error.line) == ("assets.py", 7)
    assert "sales.f" in error.message and error.traceback == ""
