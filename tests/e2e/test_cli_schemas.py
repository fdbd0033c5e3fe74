"""Schemas from outside: what came out, what breaks readers, what is accepted, what is renamed."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.conftest import Servo

SHOP = """
import pyarrow as pa

from servo import asset, column

NAMESPACE = "shop"


@asset
def orders() -> pa.Table:
    return pa.table({ORDERS})


@asset(columns=[COLUMNS])
def items() -> pa.Table:
    return pa.table({"sku": ["x"]})
"""
FIRST = '"id": pa.array([1], pa.int32()), "amt": [1.5], "note": ["a"]'
WITHOUT_NOTE = '"id": [1], "amount": [1.5]'


def write(servo: Servo, orders: str, columns: str) -> None:
    folder = servo.directory / "project"
    folder.mkdir(exist_ok=True)
    text = SHOP.replace("ORDERS", orders).replace("COLUMNS", columns)
    (folder / "shop.py").write_text(text)


def test_a_schema_is_registered_protected_accepted_and_renamed(tmp_path: Path) -> None:
    servo = Servo(tmp_path)
    servo.store.mkdir()
    deploy = ("deploy", "--project", str(tmp_path / "project"))
    write(servo, FIRST, 'column("sku", "string"), column("qty", "int")')
    servo.json(*deploy)
    servo.text("run", "shop.orders", "shop.items", code=1)  # an item has no quantity
    (held,) = servo.json("quarantine", "list")["outputs"]
    servo.text("quarantine", "approve", held["materialization_id"])
    first = servo.json("schema", "show", "shop.orders")
    ids = {row["name"]: row["column_id"] for row in first["columns"]}
    assert list(ids) == ["id", "amt", "note"]

    # What code declares is refused at deploy, what only comes out is held.
    write(servo, WITHOUT_NOTE, 'column("sku", "string")')
    refusal = servo.error(*deploy, code=2)
    assert "shop.items: qty was removed (compared with version 1)" in refusal["message"]
    assert "--accept-breaking shop.items.qty --reason" in refusal["hint"]
    accept = ("--accept-breaking", "shop.items.qty", "--reason", "never filled")
    assert servo.json(*deploy, *accept)["accepted_breaks"] == ["shop.items.qty"]
    said = servo.text("run", "shop.orders", code=1)
    assert "note was removed (compared with version 1" in " ".join(said.split())
    assert servo.json("schema", "show", "shop.orders")["current"] == 1

    # A rename is said, the rest is accepted.
    rename = ("schema", "rename-column", "shop.orders", "amt", "amount", "--reason")
    assert servo.error(*rename, "", code=2)["message"] == "the reason is empty"
    servo.text(*rename, "one word")
    accept = ("--accept-breaking", "shop.orders.note", "--reason", "empty")
    servo.json(*deploy, *accept)
    servo.text("run", "shop.orders")
    shown = servo.json("schema", "show", "shop.orders")
    by_name = {row["name"]: row for row in shown["columns"]}
    assert by_name["amount"]["column_id"] == ids["amt"]
    assert by_name["note"]["status"] == "Inactive"
    assert (by_name["id"]["actual_type"], by_name["id"]["first_version"]) == ("bigint", 1)
    changes = servo.json("schema", "diff", "shop.orders")["changes"]
    assert {(each["kind"], *each["breaks"]) for each in changes} == {
        ("removed", "backward", "forward"),
        ("widened", "forward"),
        ("renamed", "backward", "forward"),
    }
    history = servo.json("schema", "history", "shop.orders")
    assert [row["version"] for row in history["versions"]] == [2, 1]
    assert [row["change_type"] for row in history["renames"]] == ["GovernedRename"]
    assert {row["reason"] for row in history["accepted_breaks"]} == {"one word", "empty"}
    for command in ("show", "history", "diff"):
        assert "amount" in servo.text("schema", command, "shop.orders")

    # At an older generation, and after a rebuild.
    then = str(first["generation"])
    assert servo.json("schema", "show", "shop.orders", "--generation", then) == first
    assert servo.json("admin", "rebuild", "--check")["same"] is True

    # Bad input changes nothing.
    wrong = servo.error("schema", "rename-column", "shop.orders", "amount", "id", code=5)
    assert wrong["message"] == "column id already exists"
    declared = servo.error("schema", "rename-column", "shop.items", "sku", "key", code=5)
    assert 'column("key", renamed_from="sku")' in declared["hint"]
    assert "no version 9" in servo.error("schema", "diff", "shop.orders", "9", code=3)["message"]
    assert servo.json("schema", "show", "shop.orders")["columns"] == shown["columns"]
