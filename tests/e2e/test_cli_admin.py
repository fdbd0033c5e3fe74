from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from arco.app import Workspace
from arco.catalog.events import NamespaceCreated
from arco.log.commit import publish
from arco.log.envelope import Batch, encode_batch
from arco.log.head import Head
from arco.log.inbox import Rejection
from arco.log.publish import Proposal
from arco.security.permissions import Role
from arco.storage import paths
from arco.storage.seal import seal
from tests.e2e.conftest import Servo, names, populate
from tests.kit.spark_cluster import jvm_options
from tests.kit.workspace import emptied


def test_init_says_what_it_checked_and_saves_the_choice(servo: Servo) -> None:
    servo.store.rmdir()
    made = servo.json("admin", "init", "--tenant", "acme", "--workspace", "prod", "--save")
    assert len(made["checks"]) == 4
    assert (made["tenant"], made["workspace"], made["generation"]) == ("acme", "prod", 0)
    assert list(servo.store.rglob("*.json")) == []
    del servo.env["ARCO_STORE"]
    assert "created namespace x" in servo.text("catalog", "namespace", "create", "x")
    assert (servo.store / "acme" / "prod" / "manifests").is_dir()
    assert servo.error("admin", "init", "--save", code=5)["kind"] == "conflict"


def test_the_log_is_shown_without_what_proves_keys(servo: Servo) -> None:
    servo.open().commands.security.create_key("own", Role.VIEWER)
    for command in (("tail",), ("tail", "--json"), ("show", "1"), ("show", "1", "--json")):
        text = servo.text("admin", "log", *command)
        assert "own" in text and "secret_hash" not in text


def test_log_tail_shows_the_newest_or_from_a_position(populated: Servo) -> None:
    text = populated.text("admin", "log", "tail", "-n", "2")
    assert [line.split()[0] for line in text.splitlines()] == ["4", "5"]
    text = populated.text("admin", "log", "tail", "--from", "2", "-n", "2", "--json")
    first, second = map(msgspec.json.decode, text.splitlines())
    assert (first["position"], first["type"]) == (2, "catalog.asset_created")
    assert first["data"]["name"] == "orders"
    assert first["received_at"].endswith("Z")
    assert second["position"] == 3
    text = populated.text("admin", "log", "tail", "--type", "catalog.namespace_*")
    assert [line.split()[0] for line in text.splitlines()] == ["1", "3"]


def test_log_show_has_the_event_and_its_outcome(populated: Servo) -> None:
    shown = populated.json("admin", "log", "show", "2")
    assert (shown["type"], shown["actor"], shown["void"]) == (
        "catalog.asset_created",
        "tester",
        False,
    )
    assert shown["outcome"] == {"status": "applied", "code": "", "message": ""}
    assert populated.error("admin", "log", "show", "6", code=3)["hint"] == "the log ends at 5"


def test_snapshot_describes_a_generation(populated: Servo) -> None:
    shown = populated.json("admin", "snapshot")
    assert (shown["generation"], shown["kind"], shown["position"]) == (5, "events", 5)
    tables = {table["table"]: table for table in shown["tables"]}
    assert tables["catalog.assets"]["l0"]["rows"] == 2
    older = populated.json("admin", "snapshot", "--generation", "1")
    assert "catalog.namespaces" in names(older["tables"], "table")
    history = populated.json("admin", "snapshot", "--history", "2")["generations"]
    assert names(history, "generation") == [5, 4]
    assert names(history, "events") == [1, 1]


def test_sql_answers_in_json_and_from_stdin(populated: Servo) -> None:
    query = "SELECT name, tags, created_at FROM catalog.assets ORDER BY name LIMIT 1"
    found = populated.json("admin", "sql", query)
    assert found["columns"][0] == {"name": "name", "type": "string"}
    (row,) = found["rows"]
    assert (row["name"], row["tags"]) == ("hosts", {"team": "infra"})
    assert row["created_at"].endswith("Z")
    assert (found["truncated"], found["generation"]) == (False, 5)
    text = populated.text("admin", "sql", "-", stdin="SELECT 42 AS answer")
    assert text.split() == ["answer", "42", "1", "row", "at", "generation", "5"]


def test_sql_says_that_there_is_more(populated: Servo) -> None:
    text = populated.text("admin", "sql", "SELECT * FROM range(10)", "--limit", "3")
    assert "there are more rows; this is the first 3 rows. See --limit" in text
    found = populated.json("admin", "sql", "SELECT * FROM range(10)", "--limit", "3")
    assert (len(found["rows"]), found["truncated"]) == (3, True)


def test_sql_lists_tables_and_columns(populated: Servo) -> None:
    found = populated.json("admin", "sql", "--tables")
    tables = {table["table"]: table for table in found["tables"]}
    assert tables["catalog.columns"]["key"] == ["asset_id", "column_id"]
    assert {"name": "row_count", "type": "int64"} in tables["catalog.asset_stats"]["columns"]


def test_sql_refuses_changes_and_long_queries(populated: Servo) -> None:
    assert "read-only" in populated.error("admin", "sql", "DROP TABLE x", code=2)["hint"]
    slow = "SELECT count(*) FROM range(100000000000)"
    assert populated.error("admin", "sql", slow, "--timeout", "0.2", code=6)["hint"]


def test_diff_tells_what_changed(populated: Servo) -> None:
    found = populated.json("admin", "diff", "1", "2")
    tables = {table["table"]: table["rows"] for table in found["tables"]}
    assert names(tables["catalog.asset_names"], "key") == [["sales", "orders"]]
    (changed,) = tables["catalog.namespaces"]
    assert changed["change"] == "changed"
    assert (changed["before"]["assets"], changed["after"]["assets"]) == (0, 1)
    assert "have the same rows" in populated.text("admin", "diff", "5")


def test_fsck_is_clean_until_a_file_is_damaged(servo: Servo) -> None:
    populate(servo.open())
    assert servo.text("admin", "fsck").startswith("clean: 5 generations")
    assert servo.json("admin", "fsck", "--quick")["clean"] is True
    servo.text("admin", "merge", "--all")
    damaged = next(servo.store.glob("default/main/state/catalog/assets/base/*.parquet"))
    damaged.chmod(0o644)
    raw = bytearray(damaged.read_bytes())
    raw[len(raw) // 2] ^= 1
    damaged.write_bytes(raw)
    found = servo.json("admin", "fsck", code=1)
    assert found["clean"] is False
    assert "checksum" in names(found["findings"], "code")
    assert servo.json("admin", "fsck", "--quick")["clean"] is True
    assert servo.error("admin", "sql", "SELECT * FROM catalog.assets", code=8)["kind"] == "corrupt"


def lose_the_assets(workspace: Workspace) -> None:
    """Publish a generation whose table of assets is empty, as a bug might."""

    def propose(head: Head) -> Proposal:
        return emptied(workspace, head, ["catalog.assets"], "rebuild")

    publish(workspace.writer.publisher.begin(), propose)


def test_rebuild_finds_a_difference_and_repairs_it(servo: Servo) -> None:
    workspace = servo.open()
    populate(workspace)
    assert servo.json("admin", "rebuild", "--check")["same"] is True
    lose_the_assets(workspace)
    assert servo.text("catalog", "asset", "list") == "there are no assets\n"
    found = servo.json("admin", "rebuild", "--check", code=1)
    tables = {table["table"]: table for table in found["differences"]}
    assert (tables["catalog.assets"]["missing"], tables["catalog.assets"]["same"]) == (2, False)
    assert found["published"] is None
    text = servo.text("admin", "rebuild")
    assert "published the rebuilt state as generation 7" in text
    assert "all rows are equal" in servo.text("admin", "rebuild", "--check")


def test_rebuild_on_spark_needs_java(servo: Servo) -> None:
    populate(servo.open())
    servo.env["PATH"] = "/nonexistent"
    servo.env.pop("JAVA_HOME", None)
    error = servo.error("admin", "rebuild", "--engine", "spark", code=6)
    assert "Java" in error["message"]
    assert "JAVA_HOME" in error["hint"]


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_rebuild_on_spark_agrees(servo: Servo) -> None:
    populate(servo.open())
    servo.env["JDK_JAVA_OPTIONS"] = jvm_options()
    done = servo.run(
        *("admin", "rebuild", "--engine", "spark", "--master", "local[1]", "--check", "--json")
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["same"], found["events"]) == (True, 5)


def test_gc_shows_first_and_removes_only_when_told(servo: Servo) -> None:
    populate(servo.open())
    orphan = servo.store / "default/main/state/changes/orphan.parquet"
    orphan.write_bytes(b"x" * 2048)
    month_ago = orphan.stat().st_mtime - 30 * 86_400
    os.utime(orphan, (month_ago, month_ago))
    dry = servo.json("admin", "gc")
    assert (dry["dry_run"], dry["kinds"]) == (
        True,
        [{"kind": "table file", "count": 1, "bytes": 2048}],
    )
    assert "this was a dry run" in servo.text("admin", "gc", "--keep-days", "1")
    assert orphan.exists()
    assert "removed 1 object, 2.0 KiB" in servo.text("admin", "gc", "--apply")
    assert not orphan.exists()
    assert servo.json("admin", "gc", "--keep-at-least", "1")["objects"] == []


def test_backup_restores_into_an_empty_place(servo: Servo, tmp_path: Path) -> None:
    populate(servo.open())
    target, copy = str(tmp_path / "backup"), str(tmp_path / "copy")
    first = servo.json("admin", "backup", target)
    assert (first["generation"], first["position"], first["present"]) == (5, 5, 0)
    assert servo.json("admin", "backup", target)["copied"] == 0
    restored = servo.json("admin", "restore", target, "--store", copy, "--generation", "5")
    assert restored["copied"] == first["copied"]
    assert servo.json("catalog", "asset", "list", "--store", copy) == servo.json(
        "catalog", "asset", "list"
    )
    assert servo.error("admin", "restore", target, "--store", copy, code=5)["kind"] == "conflict"
    assert servo.error("admin", "restore", copy + "x", "--store", copy, code=3)


def test_rollback_brings_back_and_can_be_undone(servo: Servo) -> None:
    populate(servo.open())
    done = servo.json("admin", "rollback", "2", "--reason", "oops", "--actor", "ana")
    assert done == {"generation": 6, "rolled_back_to": 2, "position": 6}
    assert names(servo.json("catalog", "asset", "list")["assets"], "name") == ["orders"]
    lines = servo.text("admin", "log", "tail", "--from", "2").splitlines()
    assert [line.split()[0] for line in lines] == ["2", "3~", "4~", "5~", "6"]
    assert servo.json("admin", "log", "show", "6")["actor"] == "ana"
    servo.text("admin", "rollback", "5", "--reason", "undo")
    assert len(servo.json("catalog", "asset", "list")["assets"]) == 2
    assert servo.error("admin", "rollback", "99", "--reason", "x", code=2)


def test_merge_rewrites_when_told(servo: Servo) -> None:
    populate(servo.open())
    assert servo.text("admin", "merge") == "nothing is due; --all merges everything\n"
    assert servo.json("admin", "merge", "--all") == {"generation": 6}
    tables = servo.json("admin", "snapshot")["tables"]
    assert {table["l0"]["files"] for table in tables if table["table"] != "log.segments"} == {0}
    assert servo.json("admin", "merge", "--all") == {"generation": None}


def test_pins_come_and_go(servo: Servo) -> None:
    populate(servo.open())
    made = servo.json("admin", "pin", "keep", "2", "--reason", "audit", "--days", "3")
    assert (made["name"], made["generation"], made["reason"]) == ("keep", 2, "audit")
    (listed,) = servo.json("admin", "pins")["pins"]
    assert listed == made | {"active": True}
    assert servo.text("admin", "unpin", "keep") == "removed pin keep\n"
    assert servo.text("admin", "pins") == "there are no pins\n"
    assert servo.error("admin", "unpin", "keep", code=3)["hint"] == "there are no pins"
    assert servo.error("admin", "pin", "x", "99", "--reason", "y", code=3)


def test_rejected_batch_is_shown_and_requeued_once_it_can_be_read(servo: Servo) -> None:
    workspace = servo.open()
    workspace.store.put("ledger/inbox/broken.json", b'{"hello": 1}')
    assert "1 batch rejected" in servo.text("admin", "compact", "--once")
    (listed,) = servo.json("admin", "rejected")["rejected"]
    assert (listed["name"], listed["bytes"]) == ("broken", 12)
    assert servo.json("admin", "rejected", "broken")["body"] == '{"hello": 1}'
    assert (
        "still cannot" in servo.error("admin", "rejected", "broken", "--requeue", code=2)["message"]
    )
    assert servo.error("admin", "rejected", "nope", code=3)
    assert servo.error("admin", "rejected", "--requeue", code=2)
    body = encode_batch(
        Batch(batch="b", events=[workspace.ledger.event(NamespaceCreated(namespace="late"))])
    )
    now = workspace.clock.now()
    rejection = Rejection("mended", "b", "an older program", now, len(body))
    workspace.store.put(paths.rejection("mended"), seal(msgspec.json.encode(rejection)))
    workspace.store.put(paths.rejected_object("mended"), body)
    done = servo.json("admin", "rejected", "b", "--requeue")
    assert (done["requeued"], done["events"], done["name"]) == ("mended", 1, "b-1")
    servo.text("admin", "compact", "--once")
    assert names(servo.json("catalog", "namespace", "list")["namespaces"], "namespace") == ["late"]
    assert names(servo.json("admin", "rejected")["rejected"], "name") == ["broken"]
    # A bad read rejected it, and another process committed it all the same.
    workspace.store.put(paths.rejection("mended"), seal(msgspec.json.encode(rejection)))
    workspace.store.put(paths.rejected_object("mended"), body)
    taken = encode_batch(
        Batch(batch="b", events=[workspace.ledger.event(NamespaceCreated(namespace="twice"))])
    )
    workspace.store.put(paths.inbox("b"), taken)
    assert (
        "is still in the inbox"
        in servo.error("admin", "rejected", "b", "--requeue", code=5)["message"]
    )
    servo.text("admin", "compact", "--once")
    assert "is in the log" in servo.error("admin", "rejected", "b", "--requeue", code=5)["message"]
    assert names(servo.json("admin", "rejected")["rejected"], "name") == ["broken"]
