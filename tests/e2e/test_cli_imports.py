"""`servo lineage import-dbt`, as a user types it."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.conftest import Servo

ARTIFACTS = Path(__file__).parents[2] / "examples" / "dbt" / "target"
FILES = (
    *("--manifest", str(ARTIFACTS / "manifest.json")),
    *("--catalog", str(ARTIFACTS / "catalog.json")),
)


def test_a_dbt_project_is_imported_shown_and_removed(servo: Servo) -> None:
    planned = servo.json("lineage", "import-dbt", *FILES, "--dry-run")
    assert (planned["dry_run"], len(planned["added"])) == (True, 8)
    done = servo.json("lineage", "import-dbt", *FILES, "--namespace-map", "marts=gold")
    assert (done["source"], done["nodes"]) == ("dbt/jaffle_shop", 8)
    assert "gold.customers" in done["added"]
    again = servo.json("lineage", "import-dbt", *FILES, "--namespace-map", "marts=gold")
    assert (again["added"], again["changed"], again["removed"]) == ([], [], [])
    (row,) = servo.json("lineage", "imports")["imports"]
    assert (row["source"], row["nodes"], row["number"]) == ("dbt/jaffle_shop", 8, 1)
    impact = servo.json("lineage", "impact", "raw.raw_payments.cents")["impact"]
    assert [(each["asset"], each["column"]) for each in impact] == [
        ("gold.orders", "amount"),
        ("gold.customers", "total"),
    ]
    shown = servo.json("lineage", "show", "gold.customers")
    assert {edge["origin"] for edge in shown["edges"]} == {"dbt"}
    removed = servo.json("lineage", "remove-import", "dbt/jaffle_shop")
    assert len(removed["removed"]) == 8
    assert servo.json("lineage", "imports")["imports"][0]["nodes"] == 0
