from __future__ import annotations

from arco.app import Workspace
from tests.e2e.conftest import Servo, names


def test_namespace_lives_and_dies(servo: Servo) -> None:
    made = servo.json(
        *("catalog", "namespace", "create", "sales", "--owner", "ana", "--owner", "bo"),
        *("--tag", "tier=gold", "--property", "a=b=c", "--description", "What we sold"),
    )
    assert made.pop("event_id")
    assert made == {"generation": 1, "replayed": False, "namespace": "sales"}
    said = servo.text(
        *("catalog", "namespace", "update", "sales", "--clear", "tags", "--owner", "cy"),
        *("--expected-version", "1"),
    )
    assert said == "updated namespace sales in generation 2\n"
    shown = servo.json("catalog", "namespace", "show", "sales")
    assert shown["owners"] == ["cy"]
    assert shown["tags"] == {}
    assert shown["properties"] == {"a": "b=c"}
    assert shown["description"] == "What we sold"
    assert (shown["row_version"], shown["updated_by"]) == (2, "tester")
    assert shown["created_at"].endswith("Z")
    refused = servo.error(
        *("catalog", "namespace", "update", "sales", "--owner", "di", "--expected-version", "1"),
        code=5,
    )
    assert refused["kind"] == "conflict"
    servo.text("catalog", "namespace", "drop", "sales")
    assert servo.json("catalog", "namespace", "list")["namespaces"] == []
    before = servo.json("catalog", "namespace", "list", "--generation", "2")
    assert names(before["namespaces"], "namespace") == ["sales"]


def test_asset_and_its_columns_live_and_die(servo: Servo) -> None:
    servo.text("catalog", "namespace", "create", "sales")
    made = servo.json(
        *("catalog", "asset", "create", "sales.orders", "--column", "id:bigint:not_null"),
        *("--column", "s:struct<a:int>", "--tag", "k=v", "--actor", "robot"),
    )
    asset_id = made["asset_id"]
    servo.text(
        *("catalog", "asset", "update", "sales.orders", "--format", "delta", "--location"),
        "s3://x/y",
    )
    servo.text(
        *("catalog", "column", "add", "sales.orders", "mail:string", "--pii", "email"),
        *("--sensitivity", "restricted", "--description", "where to write"),
    )
    servo.text(
        "catalog", "column", "update", "sales.orders", "mail", "--name", "email", "--not-null"
    )
    servo.text("catalog", "column", "drop", "sales.orders", "s")
    servo.text("catalog", "asset", "rename", "sales.orders", "purchases")
    shown = servo.json("catalog", "asset", "show", "sales.purchases")
    assert shown["asset_id"] == asset_id
    assert (shown["format"], shown["location"]) == ("delta", "s3://x/y")
    assert (shown["created_by"], shown["updated_by"]) == ("robot", "tester")
    assert shown["previous_names"] == ["orders"]
    described = [(c["name"], c["type"], c["nullable"], c["pii"]) for c in shown["columns"]]
    assert described == [("id", "bigint", False, ""), ("email", "string", False, "email")]
    servo.text("catalog", "asset", "drop", "sales.purchases")
    assert servo.text("catalog", "asset", "list") == "there are no assets\n"
    assert servo.error("catalog", "asset", "show", "sales.purchases", code=3)["kind"] == "not_found"


def test_idempotency_key_makes_a_command_happen_once(servo: Servo) -> None:
    create = ("catalog", "namespace", "create", "sales", "--idempotency-key", "k1")
    first, second = servo.json(*create), servo.json(*create)
    assert (first["replayed"], second["replayed"]) == (False, True)
    assert first["event_id"] == second["event_id"]
    assert servo.open().read.snapshot().position == 1
    other = ("catalog", "namespace", "create", "other", "--idempotency-key", "k1")
    assert "another request" in servo.error(*other, code=5)["message"]


def test_reads_answer_as_of_a_time(populated: Servo) -> None:
    workspace: Workspace = populated.open()
    second = workspace.manifests.read(2).manifest.published_at.isoformat() + "Z"
    then = populated.json("catalog", "asset", "list", "--as-of", second)
    assert (then["generation"], names(then["assets"], "name")) == (2, ["orders"])
    now = populated.json("catalog", "asset", "list")
    assert names(now["assets"], "name") == ["hosts", "orders"]
    one = populated.json("catalog", "asset", "list", "sales")
    assert names(one["assets"], "name") == ["orders"]
    assert populated.json("catalog", "asset", "list", "--as-of", "1d")["assets"] == []
