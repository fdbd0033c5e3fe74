"""From a folder of code to a finished run, as a user types it."""

# Keys inside AssetIn[...] are text, not names of types.

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from arco.orchestration.tables import RUNS
from arco.storage import paths
from tests.e2e.conftest import Servo
from tests.kit.forkserver import Forked

SHOP = '''
import os
import pathlib
import time

import pyarrow as pa

from servo import AssetContext, AssetIn, Retry, asset, daily, window

NAMESPACE = "shop"
DAYS = daily("date", start="2025-01-01", end="2025-02-01")


@asset(partitions=DAYS)
def orders(ctx: AssetContext) -> pa.Table:
    """Orders of a day."""
    print("fetching", ctx.partition_value("date"))
    return pa.table({"amount": [1, 2, 3]})


@asset(partitions=DAYS)
def totals(orders: AssetIn["orders", window(-1, 0)]) -> pa.Table:
    table = orders.arrow()
    return pa.table({"total": [sum(table["amount"].to_pylist())], "rows": [table.num_rows]})
'''
FLAKY = """
import pathlib

from servo import Retry, asset

NAMESPACE = "flaky"
TRIES = pathlib.Path("TRIES")


@asset(retry=Retry(max_attempts=3, delay=1, retry_on=("ValueError",)))
def third_time() -> None:
    with TRIES.open("a") as f:
        f.write("x")
    if len(TRIES.read_text()) < 3:
        raise ValueError("not yet")


@asset(deps=["third_time"])
def after() -> None:
    pass
"""


def project(servo: Servo, text: str, name: str = "shop.py") -> Path:
    folder = servo.directory / "project"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return folder


def deploy(servo: Servo, text: str, name: str = "shop.py") -> Any:
    return servo.json("deploy", "--project", str(project(servo, text, name)))


def test_code_becomes_data_and_is_not_made_again(servo: Servo) -> None:
    deployed = deploy(servo, SHOP)
    assert deployed["added"] == ["shop.orders", "shop.totals"]
    assert deploy(servo, SHOP)["changed"] is False

    days = ("-p", "date=2025-01-01..2025-01-03")
    first = servo.json("run", "*", *days)
    assert first["state"] == "SUCCEEDED"
    assert first["tasks_succeeded"] == 6
    again = servo.json("run", "*", *days)
    assert (again["tasks_reused"], again["tasks_succeeded"]) == (6, 0)
    forced = servo.json("run", "shop.totals", *days, "--force")
    assert forced["tasks_succeeded"] == 3

    log = servo.text(
        "runs", "logs", first["run_id"], "--task", "shop.orders", "-p", "date=2025-01-02"
    )
    assert "fetching 2025-01-02" in log
    shown = servo.text("runs", "show", first["run_id"][:10])
    assert "6 succeeded" in shown
    listed = servo.json("runs", "list")["runs"]
    assert [run["state"] for run in listed] == ["SUCCEEDED"] * 3

    workspace = servo.open()
    asset_id = workspace.read.orchestration().deployed_assets()["shop.totals"].asset_id
    rows = workspace.read.execution().partitions(asset_id)
    assert [(row.partition_key, row.version) for row in rows] == [
        ("date=d:2025-01-01", 2),
        ("date=d:2025-01-02", 2),
        ("date=d:2025-01-03", 2),
    ]
    assert not workspace.upkeep.fsck().findings
    assert (
        servo.json("catalog", "asset", "show", "shop.orders")["description"] == "Orders of a day."
    )


def test_only_what_changed_runs_after_a_deploy(servo: Servo) -> None:
    deploy(servo, SHOP)
    days = ("-p", "date=2025-01-01")
    servo.json("run", "*", *days)
    deploy(servo, SHOP.replace("table.num_rows", "table.num_rows + 0"))
    plan = servo.json("plan", "*", *days)["spec"]["tasks"]
    assert [(task["asset"], task["action"]) for task in plan] == [
        ("shop.orders", "reuse"),
        ("shop.totals", "run"),
    ]
    assert servo.json("run", "*", *days)["tasks_succeeded"] == 1
    back = servo.json("rollback", "1")
    assert back["number"] == 3
    assert [d["number"] for d in servo.json("deployments")["deployments"]] == [3, 2, 1]
    assert servo.json("plan", "*", *days)["spec"]["tasks"][1]["action"] == "run"


def test_an_asset_keeps_its_id_and_its_data_under_a_new_name(servo: Servo) -> None:
    deploy(servo, SHOP)
    days = ("-p", "date=2025-01-01")
    servo.json("run", "*", *days)
    before = servo.open().read.orchestration().deployed_assets()["shop.orders"].asset_id
    renamed = SHOP.replace(
        "@asset(partitions=DAYS)\ndef orders",
        '@asset(partitions=DAYS, renamed_from="orders")\ndef sold',
    ).replace('orders: AssetIn["orders",', 'orders: AssetIn["sold",')
    assert deploy(servo, renamed)["renamed"] == ["shop.orders -> shop.sold"]
    assets = servo.open().read.orchestration().deployed_assets()
    assert assets["shop.sold"].asset_id == before
    assert "shop.orders" not in assets
    assert servo.json("catalog", "asset", "show", "shop.sold")["asset_id"] == before


def test_a_flaky_task_succeeds_on_its_third_attempt(servo: Servo) -> None:
    tries = servo.directory / "tries"
    deploy(servo, FLAKY.replace('TRIES")', f'{tries}")'), "flaky.py")
    done = servo.json("run", "*")
    assert done["state"] == "SUCCEEDED"
    assert [(t["asset"], t["attempt"]) for t in done["tasks"]] == [
        ("flaky.third_time", 3),
        ("flaky.after", 1),
    ]
    assert tries.read_text() == "xxx"
    assert done["retries"] == 2


def test_a_failure_says_where_and_skips_what_is_below(servo: Servo) -> None:
    broken = SHOP.replace('return pa.table({"amount": [1, 2, 3]})', 'raise KeyError("amount")')
    deploy(servo, broken)
    done = servo.run("run", "*", "-p", "date=2025-01-01")
    assert done.returncode == 1
    assert "shop.orders[date=2025-01-01] failed at shop.py:" in done.stdout
    assert "(user_code.KeyError):" in done.stdout
    assert "1 failed, 1 skipped" in done.stdout
    run = servo.json("runs", "list")["runs"][0]
    failed = servo.json("runs", "show", run["run_id"])["tasks"][0]
    assert failed["error_category"] == "user_code"
    assert "shop.py" in servo.text("runs", "logs", run["run_id"])

    deploy(servo, SHOP)
    assert servo.json("runs", "retry", run["run_id"])["state"] == "SUCCEEDED"


def test_a_run_key_starts_one_run(servo: Servo) -> None:
    deploy(servo, SHOP)
    one = ("run", "shop.orders", "-p", "date=2025-01-01", "--run-key", "nightly")
    first, second = servo.json(*one), servo.json(*one)
    assert first["run_id"] == second["run_id"]
    other = ("run", "shop.orders", "-p", "date=2025-01-02", "--run-key", "nightly")
    assert servo.error(*other, code=5)["code"] == "run_key_conflict"
    assert len(servo.json("runs", "list")["runs"]) == 1


BAD = {
    "a circle": (
        """
from servo import AssetIn, asset
NAMESPACE = "x"
@asset
def a(c: AssetIn["c"]) -> None: ...
@asset
def b(a: AssetIn["a"]) -> None: ...
@asset
def c(b: AssetIn["b"]) -> None: ...
""",
        "x.a -> x.c -> x.b -> x.a",
    ),
    "an unknown input": (
        """
from servo import AssetIn, asset
NAMESPACE = "x"
@asset
def orders() -> None: ...
@asset
def totals(orders: AssetIn["ordres"]) -> None: ...
""",
        "did you mean 'x.orders'?",
    ),
    "a window over names": (
        """
from servo import AssetIn, asset, by_dimension, static, window
NAMESPACE = "x"
@asset(partitions=static("region", ["eu", "us"]))
def a() -> None: ...
@asset(partitions=static("region", ["eu", "us"]))
def b(a: AssetIn["a", by_dimension(region=window(-1, 0))]) -> None: ...
""",
        "region",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_definitions_are_refused_with_file_and_line(servo: Servo, what: str) -> None:
    text, expected = BAD[what]
    folder = project(servo, text, "bad.py")
    found = servo.json("validate", "--project", str(folder), code=1)
    assert not found["valid"]
    assert any(expected in p["message"] + p["hint"] for p in found["problems"]), found
    assert all(p["file"] == "bad.py" and p["line"] > 1 for p in found["problems"])
    refused = servo.error("deploy", "--project", str(folder), code=2)
    assert expected in refused["message"]
    assert servo.json("deployments")["deployments"] == []


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (("shop.ordrs",), "did you mean"),
        (("*", "-p", "date=2024-12-31"), "2024-12-31"),
        (("*", "-p", "date=yesterday"), "yesterday"),
        (("*", "-p", "region=eu"), "region"),
        (("shop.totals", "-p", "date=2025-01-05"), "+"),
        (("*", "-p", "date=2025-01-01..2025-01-31", "--max-tasks", "10"), "62"),
    ],
)
def test_bad_requests_are_refused_and_change_nothing(
    servo: Servo, asked: tuple[str, ...], expected: str
) -> None:
    deploy(servo, SHOP)
    generation = servo.json("runs", "list")["generation"]
    error = servo.error("run", *asked, code=2)
    assert expected in error["message"] + error["hint"], error
    after = servo.json("runs", "list")
    assert (after["runs"], after["generation"]) == ([], generation)


def test_a_damaged_artifact_fails_the_task_and_says_so(servo: Servo) -> None:
    deploy(servo, SHOP)
    workspace = servo.open()
    current = workspace.read.orchestration().current_deployment()
    assert current is not None
    artifact = servo.store / "default" / "main" / paths.artifact(current.artifact)
    artifact.write_bytes(artifact.read_bytes()[:-1] + b"!")
    done = servo.json("run", "shop.orders", "-p", "date=2025-01-01", code=1)
    assert (done["tasks"][0]["state"], done["tasks"][0]["attempt"]) == ("FAILED", 1)
    assert current.artifact[:12] in done["tasks"][0]["error_message"]


SLOW = """
import pathlib, time
from servo import AssetContext, asset
NAMESPACE = "slow"

@asset
def nap(ctx: AssetContext) -> None:
    pathlib.Path("STARTED").write_text("yes")
    for second in range(600):
        ctx.report_progress(second, "sleeping")
        ctx.check_cancelled()
        time.sleep(0.05)
"""


def wait_for(path: Path) -> None:
    for _ in range(1_200):
        if path.exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} did not appear")


def test_control_c_cancels_the_run(servo: Servo) -> None:
    started = servo.directory / "started"
    deploy(servo, SLOW.replace("STARTED", str(started)), "slow.py")
    with servo.start("run", "*", "--json") as process:
        wait_for(started)
        os.kill(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert json.loads(out)["state"] == "CANCELLED"


def test_remote_work_is_done_by_workers_and_can_be_cancelled(servo: Servo) -> None:
    started = servo.directory / "started"
    deploy(servo, SLOW.replace("STARTED", str(started)), "slow.py")
    pace = ("--interval", "0.2", "--heartbeat", "0.5", "--zombie-after", "20", "--claim", "40")
    crew: list[Forked] = [
        servo.start("orchestrator", *pace),
        servo.start("worker", "--slots", "1", *pace),
    ]
    try:
        run_id = servo.json("run", "*", "--remote", "--detach")["run_id"]
        wait_for(started)
        servo.text("runs", "cancel", run_id, "--reason", "changed my mind")
        workspace = servo.open()
        for _ in range(1_200):
            row = workspace.read.snapshot().get(RUNS, run_id)
            if row is not None and row.finished_at is not None:
                break
            time.sleep(0.05)
        shown = servo.json("runs", "show", run_id)
        assert (shown["state"], shown["cancel_reason"]) == ("CANCELLED", "changed my mind")
    finally:
        for process in crew:
            process.terminate()
        for process in crew:
            process.communicate(timeout=60)
    assert [process.returncode for process in crew] == [0, 0]


def test_keys_of_a_dynamic_dimension_are_added_while_it_runs(servo: Servo) -> None:
    deploy(
        servo,
        """
from servo import AssetContext, asset, dynamic
NAMESPACE = "crm"

@asset(partitions=dynamic("customer", keys="customers"))
def profile(ctx: AssetContext) -> None:
    print(ctx.partition_value("customer"))
""",
        "crm.py",
    )
    assert servo.error("run", "*", code=2)
    servo.text("partitions", "add", "customers", "acme", "globex")
    assert servo.json("run", "*")["tasks_succeeded"] == 2
    servo.text("partitions", "add", "customers", "initech")
    assert servo.json("run", "*")["tasks_succeeded"] == 1


LEAKY = """
import os
from servo import AssetContext, asset
NAMESPACE = "leaky"

@asset(secrets={"token": "env:LEAKY_TOKEN"})
def careless(ctx: AssetContext) -> None:
    print("using", ctx.secret("token"))
    ctx.log.warning("it is %s", ctx.secret("token"))
    ctx.report_progress(10, ctx.secret("token"))
    raise RuntimeError("denied for " + ctx.secret("token"))

@asset(secrets={"token": "env:LEAKY_TOKEN"})
def proud(ctx: AssetContext):
    return ctx.output(None, used=ctx.secret("token"))
"""


def test_no_secret_reaches_the_store_or_the_screen(servo: Servo) -> None:
    planted = "s3cr3t-planted-value"
    servo.env["LEAKY_TOKEN"] = planted
    deploy(servo, LEAKY, "leaky.py")
    done = servo.run("run", "*")
    assert done.returncode == 1
    run_id = servo.json("runs", "list")["runs"][0]["run_id"]
    seen = done.stdout + done.stderr
    seen += servo.text("runs", "logs", run_id) + servo.text("runs", "show", run_id)
    assert "using ***" in seen
    assert planted not in seen
    files = [path for path in servo.store.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert [path for path in files if planted.encode() in path.read_bytes()] == []


def test_the_example_project_runs(servo: Servo) -> None:
    servo.env["SHOP_API_TOKEN"] = "only an example"
    example = Path(__file__).parents[2] / "examples" / "pipelines"
    servo.json("deploy", "--project", str(example))
    done = servo.json("run", "*", "-p", "date=2025-01-01..2025-01-02")
    assert done["state"] == "SUCCEEDED", done
    assert done["tasks_succeeded"] == 15


ONCE = """
import pathlib, time
from servo import Retry, asset
NAMESPACE = "once"
STARTED = pathlib.Path("STARTED")

@asset(retry=Retry(delay=1))
def sleepy() -> None:
    if not STARTED.exists():
        STARTED.write_text("yes")
        time.sleep(600)

@asset(deps=["sleepy"])
def after() -> None:
    pass
"""


def test_a_run_whose_process_was_killed_is_resumed(servo: Servo) -> None:
    started = servo.directory / "started"
    deploy(servo, ONCE.replace('"STARTED"', f'"{started}"'), "once.py")
    with servo.start("run", "*", "--json") as process:
        wait_for(started)
        process.kill()
        process.communicate(timeout=60)
    (run,) = servo.json("runs", "list")["runs"]
    assert run["state"] == "RUNNING"
    assert servo.error("runs", "retry", run["run_id"], code=2)
    # Another run does not touch it.
    assert servo.json("run", "once.after")["state"] == "SUCCEEDED"
    assert servo.json("runs", "show", run["run_id"])["state"] == "RUNNING"
    done = servo.json("runs", "resume", run["run_id"])
    assert (done["state"], done["run_id"]) == ("SUCCEEDED", run["run_id"])
    assert [task["attempt"] for task in done["tasks"]] == [1, 1] or done["retries"] == 1


def test_retry_of_a_forced_run_does_again_what_did_not_succeed(servo: Servo) -> None:
    flag = servo.directory / "broken"
    text = f"""
import pathlib
from servo import asset
NAMESPACE = "x"

@asset
def a() -> None:
    pass

@asset
def b() -> None:
    if pathlib.Path({str(flag)!r}).exists():
        raise ValueError("broken")
"""
    deploy(servo, text, "x.py")
    assert servo.json("run", "*")["tasks_succeeded"] == 2
    flag.write_text("yes")
    failed = servo.json("run", "*", "--force", code=1)
    assert failed["tasks_failed"] == 1
    flag.unlink()
    done = servo.json("runs", "retry", failed["run_id"])
    states = {task["asset"]: task["state"] for task in done["tasks"]}
    assert states == {"x.a": "REUSED", "x.b": "SUCCEEDED"}


def test_options_that_exclude_each_other_are_refused(servo: Servo) -> None:
    deploy(servo, SHOP)
    assert "--remote" in servo.error("run", "*", "--detach", code=2)["message"]
    assert "--dry-run" in servo.error("run", "*", "--deploy", "--dry-run", code=2)["message"]


BLANKS = """
import pyarrow as pa

from servo import AssetContext, asset, static

NAMESPACE = "n"


@asset(partitions=static("k", ["", " lead", "trail ", "plain"]))
def part(ctx: AssetContext) -> pa.Table:
    return pa.table({"key": [ctx.partition_value("k")]})
"""


def test_partition_keys_with_blanks_and_the_empty_key_can_be_asked_for(servo: Servo) -> None:
    deploy(servo, BLANKS)
    for key in ("", " lead", "trail ", "plain"):
        done = servo.json("run", "n.part", "-p", f"k={key}")
        assert (done["state"], done["tasks_succeeded"]) == ("SUCCEEDED", 1)
    workspace = servo.open()
    asset_id = workspace.read.orchestration().deployed_assets()["n.part"].asset_id
    rows = workspace.read.execution().partitions(asset_id)
    assert [row.version for row in rows] == [1, 1, 1, 1]


def test_run_whose_code_closes_stdout_ends_as_its_tasks_do(servo: Servo) -> None:
    text = (
        "import os\nfrom servo import asset\n\n\n@asset(namespace='n')\ndef a() -> None:\n    {}\n"
    )
    deploy(servo, text.format("os.close(1)"))
    assert servo.json("run", "*")["state"] == "SUCCEEDED"
    deploy(servo, text.format("os.close(1); os.close(2); raise ValueError('no')"))
    done = servo.run("run", "*")
    assert done.returncode == 1
    assert "no" in done.stdout + done.stderr and "Traceback" not in done.stderr


def test_a_plan_says_what_changed(servo: Servo) -> None:
    text = SHOP.replace("DAYS)\ndef totals", 'DAYS, config={"top": 3})\ndef totals')
    folder = project(servo, text)
    day = ("-p", "date=2025-01-01")
    servo.text("run", "*", *day, "--deploy", "--project", str(folder))
    assert changes(servo, "shop.totals", *day, "--config", "top=4") == [
        {"kind": "configuration", "name": "top"}
    ]
    shown = servo.text("plan", "shop.totals", *day, "--config", "top=4", "--wide")
    assert "selected; configuration top changed\n" in shown

    servo.text("run", "shop.orders", *day, "--force")
    assert changes(servo, "shop.totals", *day) == [{"kind": "input", "name": "shop.orders"}]

    project(servo, text.replace('"rows": [', '"count": ['))
    servo.text("deploy", "--project", str(folder))
    assert {"kind": "code", "name": ""} in changes(servo, "shop.totals", *day)


def changes(servo: Servo, *arguments: str) -> list[dict[str, str]]:
    document = servo.json("plan", *arguments)
    return [change for task in document["changed"] for change in task["changes"]]


def test_a_run_on_spark_without_java_is_refused_before_it_starts(servo: Servo) -> None:
    text = 'from servo import sql_asset\nNAMESPACE = "s"\none = sql_asset("one", "SELECT 1 AS x")\n'
    servo.text("deploy", "--project", str(project(servo, text)))
    servo.env["JAVA_HOME"] = "/nowhere"
    error = servo.error("run", "s.one", code=6)
    assert error["message"] == (
        "s.one needs Spark: Spark needs Java, which is missing in JAVA_HOME (/nowhere)"
    )
    assert "install" in error["hint"]
    assert servo.json("runs", "list")["runs"] == []


def test_an_unquoted_star_is_explained(servo: Servo) -> None:
    (servo.directory / "flow.py").touch()
    (servo.directory / "data.csv").touch()
    names = sorted(path.name for path in servo.directory.iterdir())
    error = servo.error("plan", *names, code=2)
    assert "quote it: '*'" in error["hint"]


def test_a_retry_of_a_run_that_succeeded_names_the_command_to_run_it_again(servo: Servo) -> None:
    folder = project(servo, SHOP)
    servo.text("run", "shop.orders", "-p", "date=2025-01-01", "--deploy", "--project", str(folder))
    run_id = servo.json("runs", "list")["runs"][0]["run_id"]
    error = servo.error("runs", "retry", run_id, code=2)
    assert error["hint"] == ("to run them again: servo run shop.orders -p date=2025-01-01 --force")
