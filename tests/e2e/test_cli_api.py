"""`ARCO_API`: commands through a server print what they print on the store."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from arco.security.permissions import Role
from tests.e2e.conftest import Servo, populate
from tests.e2e.test_cli_imports import FILES

FLOW = """
from servo import asset, AssetIn
import pyarrow as pa

@asset(namespace="sales", description="Counted")
def counted() -> pa.Table:
    print("counting")
    return pa.table({"n": [1, 2, 3]})
"""


class Both:
    """A store, and the same through a server."""

    def __init__(self, folder: Path) -> None:
        self.store = Servo(folder)
        self.store.store.mkdir()
        workspace = self.store.open()
        populate(workspace)
        security = workspace.commands.security
        self.owner = str(security.create_key("owner", Role.OWNER).text)
        self.viewer = str(security.create_key("viewer", Role.VIEWER).text)
        self.low = str(security.create_key("low", Role.VIEWER, namespaces=["sales"]).text)
        self.sales = str(security.create_key("sales", Role.ADMIN, namespaces=["sales"]).text)
        (folder / "flow.py").write_text(FLOW)
        self.server = self.store.start("serve", "--port", "0", "--json")
        self.url = json.loads(self.server.stdout.readline())["url"]

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


def test_a_project_is_deployed_and_commands_have_their_effect(both: Both) -> None:
    api = both.through(both.owner)
    deployed = api.json("deploy", "-m", "first")
    assert deployed["added"] == ["sales.counted"]
    assert both.store.json("deployments")["deployments"][0]["message"] == "first"
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


pytestmark = pytest.mark.xdist_group("cli_api")
"""The reads are of what the first test deploys."""

READS = (
    ("catalog", "asset", "show", "sales.orders"),
    ("deployments",),
    ("plan", "sales.counted"),
    ("auth", "keys", "list"),
    ("audit", "verify"),
    ("contracts", "list"),
    ("admin", "sql", "SELECT namespace, name FROM catalog.assets ORDER BY ALL"),
)


@pytest.mark.parametrize("command", READS, ids=" ".join)
def test_reads_print_the_same(both: Both, command: tuple[str, ...]) -> None:
    api = both.through(both.owner)
    assert api.text(*command) == both.store.text(*command)


def test_what_others_know_is_recorded(both: Both) -> None:
    api, store = both.through(both.owner), both.store
    assert len(api.json("lineage", "import-dbt", *FILES, "--dry-run")["added"]) == 8
    api.json("ingest", "output", "ops.hosts", "--id", "1", "--rows", "5", "--input", "sales.orders")
    (output,) = store.json("ingest", "list", "ops.hosts")["outputs"]
    assert (output["rows"], output["inputs"]) == (5, ["sales.orders"])


def test_what_needs_the_store_says_so(both: Both) -> None:
    api = both.through(both.owner)
    for command in (
        ("admin", "init"),
        ("admin", "gc"),
        ("admin", "log", "tail"),
        ("serve",),
    ):
        error = api.error(*command, code=2)
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
    refused = restricted.error("admin", "log", "tail", code=2)
    assert "needs the store itself" in refused["message"]
    listed = restricted.json("catalog", "asset", "list")["assets"]
    assert {each["namespace"] for each in listed} == {"sales"}
    assert restricted.error("catalog", "asset", "show", "ops.hosts", code=3)["kind"] == "not_found"
    low = both.through(both.low).error("auth", "keys", "list", code=4)
    assert "keys.manage" in low["hint"]
    assert both.through("arco_wrong").error("runs", "list", code=4)["kind"] == "denied"
