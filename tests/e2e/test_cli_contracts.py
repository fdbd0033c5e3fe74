"""Contracts from outside: promised, kept, broken, accepted, exchanged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.e2e.conftest import Servo
from tests.kit.datacontract import lint

SHOP = """
import pyarrow as pa

from servo import AssetIn, asset, column, contract, in_range, unique

NAMESPACE = "shop"


@asset(SETTINGS)
def orders() -> pa.Table:
    return pa.table({ORDERS})


@asset
def revenue(orders: AssetIn) -> pa.Table:
    return pa.table({"total": [sum(orders.arrow()["amount"].to_pylist())]})


@asset
def items() -> pa.Table:
    return pa.table({"sku": ["x"]})


CONTRACT
"""
CONTRACT = """
contract(
    orders,
    version="VERSION",
    consumers=[revenue, "finance@example.org"],
    columns=[column("id", "bigint", nullable=False), column("amount", "double")],
    key="id",
    checks=[in_range("amount", min=0)],
    terms="For reports.",
)
"""
FIRST = CONTRACT.replace("VERSION", "1.0.0")
GOOD = '"id": [1, 2], "amount": [1.5, 2.5]'
LENIENT = 'gating="lenient"'


class Project:
    def __init__(self, servo: Servo) -> None:
        self.servo = servo
        self.folder = servo.directory / "project"
        self.folder.mkdir()

    def write(self, orders: str = GOOD, contract: str = FIRST, settings: str = "") -> None:
        text = SHOP.replace("ORDERS", orders).replace("CONTRACT", contract)
        (self.folder / "shop.py").write_text(text.replace("SETTINGS", settings))

    def deploy(self, *options: str, **changes: str) -> None:
        self.write(**changes)
        self.servo.text("deploy", "--project", str(self.folder), *options)

    def refused(self, **changes: str) -> dict[str, str]:
        self.write(**changes)
        refusal: dict[str, str] = self.servo.error("deploy", "--project", str(self.folder), code=2)
        return refusal


def test_a_contract_is_kept_broken_accepted_and_replaced(tmp_path: Path) -> None:
    servo = Servo(tmp_path)
    servo.store.mkdir()
    project = Project(servo)
    assert "no asset has a contract" in servo.text("contracts", "list")
    wrong = project.refused(contract=FIRST.replace("orders,", '"shop.order",'))
    assert "the contract is about the unknown asset 'shop.order'" in wrong["message"]
    assert "shop.py:25" in wrong["message"]

    # A good output.
    project.deploy()
    servo.text("run", "+shop.revenue")
    kept = servo.json("contracts", "show", "shop.orders")
    assert (kept["version"], kept["source"], kept["state"]) == ("1.0.0", "code", "KEPT")
    assert servo.json("contracts", "check", "shop.orders")["is_kept"] is True
    checks = servo.json("checks", "list", "shop.orders")["checks"]
    assert {row["check_id"] for row in checks} == {
        "contract",
        "contract:not_null(id)",
        "contract:key(id)",
        "contract:in_range(amount)",
    }

    # Outputs that break it: held back, although errors are warnings here. Consumers read on.
    project.deploy(orders='"id": [1, 1], "amount": [1.5, -1.0]', settings=LENIENT)
    said = servo.text("run", "+shop.revenue", code=1)
    assert "contract:" in said
    (held,) = servo.json("quarantine", "list")["outputs"]
    assert held["status"] == "QUARANTINED"
    total = servo.json("show", "shop.revenue")["rows"]
    assert total == [{"total": 4.0}]
    project.deploy(orders='"id": [3], "price": [2.0]', settings=LENIENT)
    servo.text("run", "shop.orders", code=1)
    broken = servo.json("contracts", "list", "--breached")["contracts"]
    assert [(row["asset"], row["open_breaches"], row["breaches"]) for row in broken] == [
        ("shop.orders", 1, 2)
    ]
    history = servo.json("contracts", "history", "shop.orders")
    newest, older = history["breaches"]
    assert (newest["kind"], newest["columns"], newest["outcome"]) == ("schema", ["amount"], "")
    assert "promised by version 1.0.0 to shop.revenue, finance@example.org" in newest["message"]
    assert (older["kind"], older["outcome"]) == ("checks", "replaced")
    assert set(older["checks"]) == {"contract:key(id)", "contract:in_range(amount)"}
    assert servo.json("contracts", "check", "shop.orders")["is_kept"] is True  # what is current

    # Approving the output ends the breach, and the next one breaks the contract again.
    newest_held = newest["breach_id"]
    servo.text("quarantine", "approve", newest_held, "--reason", "agreed with finance")
    ended = servo.json("contracts", "history", "shop.orders")["breaches"][0]
    assert (ended["outcome"], ended["reason"]) == ("approved", "agreed with finance")
    report = json.loads(servo.text("contracts", "check", "shop.orders", "--json", code=1))
    assert report["promises"][0]["status"] == "broken"

    # A contract that breaks its promise needs a higher first number.
    less = FIRST.replace(', column("amount", "double")', "").replace(
        'checks=[in_range("amount", min=0)],', ""
    )
    refusal = project.refused(orders='"id": [3], "price": [2.0]', contract=less)
    assert "breaks what version 1.0.0 promises: amount was removed" in refusal["message"]
    assert 'version="2.0.0"' in refusal["hint"]
    project.deploy(orders='"id": [3], "price": [2.0]', contract=less.replace("1.0.0", "2.0.0"))
    servo.text("run", "shop.orders", "--force")
    assert servo.json("contracts", "show", "shop.orders")["state"] == "KEPT"
    changes = servo.json("contracts", "diff", "shop.orders")["changes"]
    assert {(each["text"], each["breaks"]) for each in changes} == {
        ("amount was removed", True),
        ("the check in_range(amount) was removed", True),
    }
    for command in ("show", "history", "diff"):
        assert "2.0.0" in servo.text("contracts", command, "shop.orders")

    # At an older generation, and after a rebuild.
    then = ("--generation", str(kept["generation"]))
    assert servo.json("contracts", "show", "shop.orders", *then) == kept
    assert servo.json("admin", "rebuild", "--check")["same"] is True


@pytest.mark.xdist_group("datacontract")
def test_a_contract_is_exported_imported_and_owned_by_one_side(tmp_path: Path) -> None:
    servo = Servo(tmp_path)
    servo.store.mkdir()
    project = Project(servo)
    project.deploy(settings='columns=[column("id", "bigint"), column("amount", "double")]')
    servo.text("run", "+shop.revenue", "shop.items")
    file = tmp_path / "contract.yaml"
    servo.text("contracts", "export", "shop.orders", "--output", str(file))
    assert lint(file) == ""
    document = yaml.safe_load(file.read_text())
    assert json.loads(servo.text("contracts", "export", "shop.orders", "--json")) == document
    code = servo.error("contracts", "import", str(file), code=2)
    assert "is declared in the code of the project main" in code["message"]

    # The same for another asset, by command.
    document["schema"][0] |= {"name": "shop.items", "physicalName": "shop.items", "quality": []}
    document["schema"][0]["properties"] = [{"name": "sku", "physicalType": "string"}]
    document["domain"] = "shop"
    file.write_text(yaml.safe_dump(document))
    imported = ("contracts", "import", str(file))
    assert servo.json(*imported, "--dry-run")["left_out"] == ["domain"]
    assert servo.error("contracts", "show", "shop.items", code=3)["kind"] == "not_found"
    assert servo.json(*imported)["version"] == "1.0.0"
    shown = servo.json("contracts", "show", "shop.items")
    assert (shown["source"], shown["declared_by"]) == ("people", "tester")
    assert servo.json("contracts", "check", "shop.items")["is_kept"] is True

    # What breaks it is refused at deploy, and may be accepted.
    text = 'columns=[column("id", "bigint"), column("total", "double", renamed_from="amount")]'
    renamed = FIRST.replace('"amount"', '"total"')
    moved = project.refused(settings=text)
    assert "promises the unknown column 'amount' (it was renamed to 'total'" in moved["message"]
    accept = ("--accept-breaking", "shop.orders.amount", "--reason", "one word")
    orders = '"id": [1, 2], "total": [1.5, 2.5]'
    refusal = project.refused(orders=orders, settings=text, contract=renamed)
    assert "amount was renamed to total" in refusal["message"]
    project.deploy(
        *accept, orders=orders, settings=text, contract=renamed.replace("1.0.0", "2.0.0")
    )
    servo.text("run", "shop.orders")
    assert servo.json("contracts", "show", "shop.orders")["state"] == "KEPT"

    # Bad input changes nothing.
    file.write_text(yaml.safe_dump(document | {"kind": "Other"}))
    assert "kind is 'Other'" in servo.error(*imported, code=2)["message"]
    file.write_text("a: [")
    message = servo.error(*imported, code=2)["message"]
    assert message.startswith(f"{file} is neither YAML nor JSON: ") and "\n" not in message
    file.write_text("")
    assert f"{file} is empty" in servo.error(*imported, code=2)["message"]
    other = document | {"schema": [{"name": "shop.none", "properties": [{"name": "a"}]}]}
    file.write_text(json.dumps(other))
    assert servo.error(*imported, code=3)["message"] == "there is no asset shop.none"
    assert servo.json("contracts", "show", "shop.items") == shown | {
        "generation": servo.json("contracts", "list")["generation"]
    }
    servo.text("contracts", "remove", "shop.items", "--reason", "nobody reads it")
    history = servo.json("contracts", "history", "shop.items")["versions"]
    assert [(row["event"], row["reason"]) for row in history] == [
        ("removed", "nobody reads it"),
        ("declared", ""),
    ]
    assert servo.json("admin", "rebuild", "--check")["same"] is True
