"""Two folders of code, two projects, one workspace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.e2e.conftest import Servo

SHOP = """
import pyarrow as pa

from servo import asset, column

NAMESPACE = "sales"
RATE = 2


@asset(columns=[column("amount", "bigint")])
def orders() -> pa.Table:
    return pa.table({"amount": [RATE, RATE]})


@asset
def refunds() -> pa.Table:
    return pa.table({"amount": [1]})
"""
ADS = """
import pyarrow as pa

from servo import AssetIn, asset

NAMESPACE = "ads"
RATE = 10


@asset
def reach(orders: AssetIn["sales.orders"]) -> pa.Table:
    total = sum(orders.arrow()["amount"].to_pylist())
    return pa.table({"total": [total * RATE]})
"""


@pytest.fixture
def folders(servo: Servo) -> dict[str, Path]:
    """Both have their code in modules of the same name."""
    made = {}
    for name, text in (("shop", SHOP), ("advertising", ADS)):
        folder = servo.directory / name
        folder.mkdir()
        (folder / "arco.toml").write_text(f'[project]\nname = "{name}"\n')
        (folder / "pipeline.py").write_text(text)
        made[name] = folder
    servo.store.mkdir(exist_ok=True)
    return made


def deploy(servo: Servo, folder: Path, *options: str) -> Any:
    return servo.json("deploy", "--project", str(folder), *options)


def test_two_projects_share_a_workspace(servo: Servo, folders: dict[str, Path]) -> None:
    shop, ads = folders["shop"], folders["advertising"]
    early = servo.error("deploy", "--project", str(ads), code=2)
    assert "the input 'sales.orders' of ads.reach is not deployed" in early["message"]
    checked = servo.json("validate", "--project", str(ads), code=1)
    assert [problem["asset"] for problem in checked["problems"]] == ["ads.reach"]

    first = deploy(servo, shop)
    assert (first["project"], first["added"]) == ("shop", ["sales.orders", "sales.refunds"])
    assert servo.json("validate", "--project", str(ads))["valid"]
    assert deploy(servo, ads)["added"] == ["ads.reach"]

    # Each task runs the code of its own project.
    run = servo.json("run", "+ads.reach")
    assert run["state"] == "SUCCEEDED"
    rows = servo.json("run", "+ads.reach")
    assert {task["state"] for task in rows["tasks"]} == {"REUSED"}
    path = next((servo.store / "default/main/data/ads/reach").rglob("part-*.parquet"))
    assert pq.read_table(path).to_pydict() == {"total": [40]}

    # What another project reads stays, unless somebody insists.
    (shop / "pipeline.py").write_text(SHOP.replace("def orders", "def purchases"))
    refused = servo.error("deploy", "--project", str(shop), code=2)
    assert "sales.orders (project advertising)" in refused["message"]
    (shop / "pipeline.py").write_text(SHOP.partition("@asset\ndef refunds")[0])
    assert deploy(servo, shop)["removed"] == ["sales.refunds"]

    listed = {row["name"]: row for row in servo.json("catalog", "asset", "list")["assets"]}
    assert {n: (row["project"], row["active"]) for n, row in listed.items()} == {
        "orders": ("shop", True),
        "refunds": ("shop", False),
        "reach": ("advertising", True),
    }
    assert "removed from shop" in servo.text("catalog", "asset", "list")
    assert "removed from shop" in servo.text("catalog", "asset", "show", "sales.refunds")

    # Rolling back one project leaves the other as it is.
    back = servo.json("rollback", "shop/1")
    assert (back["project"], back["number"], back["added"]) == ("shop", 3, ["sales.refunds"])
    shown = servo.json("catalog", "asset", "show", "sales.refunds")
    assert (shown["asset_id"], shown["active"]) == (listed["refunds"]["asset_id"], True)

    rows = servo.json("deployments")["deployments"]
    assert [(row["project"], row["number"], row["current"]) for row in rows] == [
        ("shop", 3, True),
        ("shop", 2, False),
        ("advertising", 1, True),
        ("shop", 1, False),
    ]
    only = servo.json("deployments", "advertising")["deployments"]
    assert [row["project"] for row in only] == ["advertising"]
    assert "advertising/1 *" in servo.text("deployments", "advertising")
    missing = servo.error("deployments", "advertisin", code=3)
    assert missing["hint"] == "did you mean 'advertising'?"


def test_namespace_of_another_project_cannot_be_taken(
    servo: Servo, folders: dict[str, Path]
) -> None:
    deploy(servo, folders["shop"])
    (folders["advertising"] / "pipeline.py").write_text(ADS.replace('"ads"', '"sales"'))
    refused = servo.error("deploy", "--project", str(folders["advertising"]), code=2)
    assert "the input 'sales.orders' is unknown" in refused["message"]
    (folders["advertising"] / "pipeline.py").write_text(SHOP)
    refused = servo.error("deploy", "--project", str(folders["advertising"]), code=2)
    assert "sales.orders is deployed by the project shop" in refused["message"]
    assert json.dumps(refused).count("shop") >= 2


def test_validation_without_a_workspace_leaves_other_projects_out(
    servo: Servo, folders: dict[str, Path]
) -> None:
    servo.store.rmdir()
    said = servo.run("validate", "--project", str(folders["advertising"]))
    assert said.returncode == 0
    assert "1 input from other projects: checked at deploy" in said.stdout + said.stderr


def test_folder_without_assets_takes_nothing_away(servo: Servo, folders: dict[str, Path]) -> None:
    deploy(servo, folders["shop"])
    deploy(servo, folders["advertising"])
    files = sorted(servo.store.rglob("*"))
    (folders["shop"] / "pipeline.py").write_text("")
    refused = servo.error("deploy", "--project", str(folders["shop"]), code=2)
    assert refused["message"].splitlines() == [
        "this deployment has no assets; it would remove all 2 of the project shop:",
        "sales.orders, read by ads.reach (project advertising)",
        "sales.refunds",
    ]
    assert "--allow-removals and --allow-missing-inputs" in refused["hint"]
    assert refused["removals"] == [
        {"asset": "sales.orders", "read_by": [{"asset": "ads.reach", "project": "advertising"}]},
        {"asset": "sales.refunds", "read_by": []},
    ]
    assert sorted(servo.store.rglob("*")) == files
    shown = servo.run("deploy", "--project", str(folders["shop"]))
    assert shown.returncode == 2
    assert f"there are no assets in {folders['shop']}" in shown.stderr
    assert "sales.orders, read by ads.reach (project advertising)" in shown.stderr
    options = ("--allow-removals", "--allow-missing-inputs")
    done = deploy(servo, folders["shop"], *options)
    assert done["removed"] == ["sales.orders", "sales.refunds"]


def test_only_declared_modules_are_imported(servo: Servo, folders: dict[str, Path]) -> None:
    shop = folders["shop"]
    (shop / "arco.toml").write_text('[project]\nname = "shop"\nmodules = ["pipeline"]\n')
    (shop / "draft.py").write_text("import servo\nraise RuntimeError\n")
    (shop / "generate.py").write_text("open('ran', 'w')\n")
    assert servo.json("validate", "--project", str(shop))["valid"]
    assert len(deploy(servo, shop)["added"]) == 2
    assert not list(servo.directory.rglob("ran"))
    (shop / "arco.toml").write_text('[project]\nmodules = ["pipelin"]\n')
    checked = servo.json("validate", "--project", str(shop), code=1)
    assert [(p["file"], p["message"], p["hint"]) for p in checked["problems"]] == [
        ("arco.toml", "modules: there is no module 'pipelin'", "did you mean 'pipeline'?")
    ]


def test_what_is_packed_is_listed_and_warned_about(servo: Servo, folders: dict[str, Path]) -> None:
    shop = folders["shop"]
    (shop / "credentials.json").write_text("{}")
    (shop / "data.csv").write_bytes(b"x" * (2 << 20))
    (shop / "helper.py").write_text("from pipeline import RATE\n")
    listed = servo.json("deploy", "--dry-run", "--project", str(shop))
    assert [file["path"] for file in listed["files"]] == [
        "arco.toml",
        "credentials.json",
        "data.csv",
        "helper.py",
        "pipeline.py",
    ]
    assert (listed["changes"]["added"], listed["changes"]["number"]) == (
        ["sales.orders", "sales.refunds"],
        1,
    )
    assert [asset["key"] for asset in listed["manifest"]["assets"]] == listed["changes"]["added"]
    said = servo.run("deploy", "--dry-run", "--project", str(shop))
    assert "credentials.json      2 B" in said.stdout
    assert "new: sales.orders, sales.refunds" in said.stdout
    for warning in (
        "helper.py:1: helper was not imported: it only imports pipeline",
        "packed, although the name suggests a secret: credentials.json",
        "packed, although large: data.csv (2.0 MiB); name files that tasks do not need in",
    ):
        assert warning in said.stderr
        assert any(warning in each for each in listed["warnings"])
    assert servo.json("deployments")["deployments"] == []

    (shop / ".servoignore").write_text("data.csv\ncredentials.json\nhelper.py\n")
    done = deploy(servo, shop)
    assert ([file["path"] for file in done["files"]], done["warnings"]) == (
        ["arco.toml", "pipeline.py"],
        [],
    )
