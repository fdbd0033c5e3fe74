"""`ARCO_API`: commands through a server print what they print on the store."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from arco.security.permissions import Role
from tests.e2e.conftest import Servo, populate
from tests.e2e.test_cli_imports import FILES
from tests.e2e.test_cli_processes import lines_until
from tests.kit.depth import DEEP

pytestmark = pytest.mark.xdist_group("cli_api")  # they share a server

FLOW = """
from servo import *
import pyarrow as pa

NAMESPACE = "shop"


@asset(description="Counted", checks=[in_range("n", min=0)])
def counted() -> pa.Table:
    print("counting")
    return pa.table({"n": [1, 2, 3]})


@asset(owners=["ana"])
def doubled(counted: AssetIn) -> pa.Table:
    return pa.table({"n": [2 * n for n in counted.arrow()["n"].to_pylist()]})


contract(counted, version="1.0.0", consumers=[doubled], columns=[column("n", "bigint")])
nightly = schedule("nightly", cron="30 2 * * *", selection=[counted])


@webhook_sensor("pushed", selection=[counted])
def pushed(ctx: SensorContext) -> SensorResult:
    return SensorResult(runs=[RunRequest(ctx.json()["id"])])
"""


class Both:
    """A store, and the same through a server: a project is deployed and runs through it."""

    def __init__(self, folder: Path) -> None:
        self.store = Servo(folder)
        self.store.store.mkdir()
        workspace = self.store.open()
        populate(workspace)
        security = workspace.commands.security
        self.owner = str(security.create_key("owner", Role.OWNER).text)
        self.viewer = str(security.create_key("viewer", Role.VIEWER).text)
        self.sales = str(security.create_key("sales", Role.ADMIN, namespaces=["sales"]).text)
        (folder / "flow.py").write_text(FLOW)
        self.server = self.store.start("serve", "--port", "0", "--json")
        assert self.server.stdout is not None
        self.url = json.loads(self.server.stdout.readline())["url"]
        api = self.through(self.owner)
        self.deployed = api.json("deploy", "-m", "first")
        with self._working():
            self.followed = api.text("run", "shop.*")
            self.detached = api.json("run", "shop.counted", "--force", "--detach")
            self.run: str = self.detached["run_id"]
            self.logged = api.text("runs", "logs", self.run, "--follow")

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Orchestrator and worker, on the store, as long as runs are to be made."""
        cache = str(self.store.directory / "cache")
        started = [
            self.store.start("orchestrator", "--json", "--interval", "0.1"),
            self.store.start("worker", "--json", "--slots", "1", "--cache", cache),
        ]
        for process in started:
            lines_until(process, "started")
        try:
            yield
        finally:
            for process in started:
                process.send_signal(signal.SIGTERM)
            for process in started:
                process.communicate(timeout=60)

    def through(self, token: str) -> Servo:
        servo = Servo(self.store.directory)
        servo.env.pop("ARCO_STORE")
        servo.env |= {"ARCO_API": self.url, "ARCO_TOKEN": token}
        return servo

    def close(self) -> None:
        self.server.send_signal(signal.SIGTERM)
        self.server.communicate(timeout=60)
        self.store.end()


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    both = Both(tmp_path_factory.mktemp("both"))
    yield both
    both.close()


def test_a_project_is_deployed_run_and_followed(both: Both) -> None:
    assert both.deployed["added"] == ["shop.counted", "shop.doubled"]
    assert both.store.json("deployments")["deployments"][0]["message"] == "first"
    assert re.search(r"SUCCEEDED +shop\.counted", both.followed)
    assert re.search(r"run \w+ SUCCEEDED in .*: 2 succeeded", both.followed)
    assert "counting" in both.logged
    assert "END     succeeded" in both.logged
    shown = both.store.json("runs", "show", both.run)
    assert (shown["state"], shown["trigger"]) == ("SUCCEEDED", "manual")
    assert "api_key:" in json.dumps(shown)


def test_commands_have_their_effect(both: Both) -> None:
    api = both.through(both.owner)
    created = api.json("catalog", "asset", "create", "ops.disks", "--column", "id:bigint")
    assert (
        both.store.json("catalog", "asset", "show", "ops.disks")["asset_id"]
        == (created["asset_id"])
    )
    again = ["catalog", "asset", "create", "ops.fans", "--idempotency-key", "fans"]
    assert not api.json(*again)["replayed"]
    assert api.json(*again)["replayed"]
    api.json("catalog", "asset", "update", "ops.disks", "--owner", "ben")
    refused = api.error("catalog", "namespace", "create", "ops", code=5)
    assert refused["kind"] == "conflict"
    assert api.error("catalog", "asset", "show", "ops.nothing", code=3)["kind"] == "not_found"
    tick = api.json("schedules", "tick", "nightly")
    assert api.json("requests", "show", tick["request_key"])["state"] == "PENDING"
    api.json("requests", "cancel", tick["request_key"])


def test_contracts_are_exchanged_and_checked(both: Both) -> None:
    api = both.through(both.owner)
    file = both.store.directory / "contract.json"
    document = api.json("contracts", "export", "shop.counted")
    document["schema"][0]["name"] = "sales.orders"
    document["schema"][0]["properties"] = [{"name": "id", "physicalType": "bigint"}]
    file.write_text(json.dumps(document))
    checked = api.json("contracts", "import", str(file), "--asset", "sales.orders", "--dry-run")
    assert checked["before"] is None
    api.json("contracts", "import", str(file), "--asset", "sales.orders")
    shown = both.store.json("contracts", "show", "sales.orders")
    assert shown["version"] == "1.0.0"
    api.json("contracts", "remove", "sales.orders", "--reason", "a mistake")
    assert api.json("contracts", "check", "shop.counted") == both.store.json(
        "contracts", "check", "shop.counted"
    )


def test_versions_are_held_and_released(both: Both) -> None:
    api = both.through(both.owner)
    add = ("quarantine", "add", "shop.counted", "--version", "2", "--reason", "half of it")
    held = api.json(*add)
    assert (held["is_new"], held["current"]["version"]) == (True, 1)
    assert not api.json(*add)["is_new"]
    assert both.store.json("quarantine", "list")["held"][0]["reason"] == "half of it"
    api.json("quarantine", "release", held["materialization_id"], "--reason", "it was good")
    assert both.store.json("quarantine", "list")["held"] == []


def test_what_others_know_is_recorded(both: Both) -> None:
    api, store = both.through(both.owner), both.store
    assert len(api.json("lineage", "import-dbt", *FILES, "--dry-run")["added"]) == 8
    assert api.json("lineage", "import-dbt", *FILES)["nodes"] == 8
    assert len(api.json("lineage", "remove-import", "dbt/jaffle_shop")["removed"]) == 8
    api.json("ingest", "output", "ops.hosts", "--id", "1", "--rows", "5", "--input", "sales.orders")
    api.json("ingest", "check", "ops.hosts", "named", "--id", "2", "--failed", "--failing", "3")
    check, output = store.json("ingest", "list", "ops.hosts")["outputs"]
    assert (output["rows"], output["inputs"]) == (5, ["sales.orders"])
    assert check["checks"][0]["failing"] == 3
    events = store.directory / "events.ndjson"
    event = {
        "eventType": "COMPLETE",
        "eventTime": "2026-01-31T00:00:00Z",
        "run": {"runId": "0176a8c2-fe01-7439-87e6-56a1a1b4029f"},
        "job": {"namespace": "cron", "name": "load"},
        "outputs": [{"namespace": "postgres://db:5432", "name": "crm.mails"}],
    }
    events.write_text(json.dumps(event))
    assert api.json("ingest", "openlineage", str(events))["events"][0]["recorded"] == ["crm.mails"]
    assert store.json("ingest", "list", "crm.mails")["outputs"][0]["state"] == "succeeded"


# -- reads -------------------------------------------------------------------------------------

READS = """
deployments
deploy --dry-run
plan shop.*
runs list
runs show RUN
runs logs RUN
runs outputs RUN
logs
schedules list
schedules show nightly
schedules preview nightly
sensors list
sensors show pushed
automation list
backfill list
backfill preview shop.counted
requests list
freshness
notifications list
notifications alerts
notifications rules
limits list
show shop.doubled
partitions status shop.doubled
partitions versions shop.doubled
partitions history shop.counted
partitions files shop.doubled
compare shop.counted 1 2 --key n
checks list shop.counted
quarantine list
schema show shop.counted
schema history shop.counted
contracts list
contracts show shop.counted
contracts history shop.counted
contracts export shop.counted
lineage show shop.doubled
lineage impact shop.counted.n
lineage inputs shop.doubled
lineage imports
ingest list ops.hosts
pii list
pii explain shop.counted.n
pii suggest sales.orders
pii suggest shop.counted --samples
costs
status
explain shop.doubled
explain RUN
health
recommend
diff 1
assets
search counted
catalog show shop.counted
catalog namespace list
catalog namespace show sales
catalog asset list
catalog asset show sales.orders
catalog terms list
auth keys list
roles list
roles show ana@example.org
audit list
audit verify
audit export
admin snapshot
admin snapshot --history 5
admin diff 1
admin sql SELECT*FROM/**/catalog.assets
""".strip().splitlines()
TEXTS = ("runs show RUN", "logs", "status", "assets", "audit verify", "partitions files")
"""Also compared as text; with `ARCO_TEST_DEEP` all are."""
NOW = frozenset({"at", "staleness", "computed_at", "age_s", "now"})
"""Fields that follow the clock, and not what is stored."""


@pytest.mark.parametrize("part", range(5))
def test_reads_print_the_same(both: Both, part: int) -> None:
    api = both.through(both.owner)
    for command in READS[part::5]:
        words = command.replace("RUN", both.run).split()
        _compare(both.store, api, (*words, "--json"))
        if DEEP or command.startswith(TEXTS):
            _compare(both.store, api, words)


def _compare(store: Servo, api: Servo, words: Any) -> None:
    """A server also commits, when keys were last used; so it is read again."""
    for _ in range(3):
        found, expected = api.run(*words), store.run(*words)
        if _seen(found.stdout) == _seen(expected.stdout):
            break
    assert (expected.returncode, expected.stdout != "") == (0, True), expected
    assert (found.returncode, found.stderr) == (0, expected.stderr), found
    assert _seen(found.stdout) == _seen(expected.stdout), words


def _seen(text: str) -> object:
    try:
        return _timeless(json.loads(text))
    except ValueError:
        return re.sub(r"generation \d+, \S+ \S+Z", "", text)


def _timeless(document: Any) -> Any:
    if isinstance(document, list):
        return [_timeless(each) for each in document]
    if not isinstance(document, dict):
        return document
    return {name: _timeless(value) for name, value in document.items() if name not in NOW}


def test_lineage_is_exported_without_the_stores_place(both: Both) -> None:
    event = json.loads(both.through(both.owner).text("lineage", "export", both.run).split("\n")[1])
    (output,) = event["outputs"]
    uri = output["facets"]["dataSource"]["uri"]
    assert uri == "arco://default/main/data/shop/counted"


def test_the_doctor_looks_at_the_api(both: Both) -> None:
    checks = both.through(both.owner).json("doctor")["checks"]
    states = {each["name"]: each["status"] for each in checks}
    assert {name: states[name] for name in ("api", "workspace", "dispatch")} == {
        "api": "ok",
        "workspace": "ok",
        "dispatch": "ok",
    }


def test_what_needs_the_store_says_so(both: Both) -> None:
    api = both.through(both.owner)
    for command in (
        "admin init",
        "admin gc",
        "admin log tail",
        "admin pins",
        "admin rejected",
        "gc",
        "orchestrator",
        f"runs resume {both.run}",
        "serve",
    ):
        error = api.error(*command.split(), code=2)
        assert "needs the store itself" in error["message"], command


def test_callers_have_what_their_roles_give(both: Both) -> None:
    viewer = both.through(both.viewer)
    assert viewer.json("catalog", "asset", "show", "sales.orders")["name"] == "orders"
    denied = viewer.error("catalog", "asset", "create", "ops.more", code=4)
    assert denied["kind"] == "denied"
    assert viewer.error("auth", "keys", "list", code=4)["kind"] == "denied"
    keys = viewer.json("admin", "sql", "SELECT * FROM security.api_keys")
    assert keys["rows"] == []
    restricted = both.through(both.sales)
    error = restricted.error("catalog", "asset", "list", code=4)
    assert "whole workspace" in error["message"]
    assert both.through("arco_wrong").error("runs", "list", code=4)["kind"] == "denied"
