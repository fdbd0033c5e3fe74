"""Natural values and configuration, from a declaration to a run, as a user types it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import Servo

SHOP = """
from datetime import date
from decimal import Decimal

import pyarrow as pa

from servo import AssetContext, AssetIn, In, asset, daily, window
from servo import accepted_values, in_range, row_count

NAMESPACE = "shop"
DAYS = daily("date", start="2025-01-01", end="2025-02-01")


@asset(
    partitions=DAYS,
    config={"rate": 0.5, "codes": ["a", "b"], "since": date(2025, 1, 1)},
    checks=[
        in_range("rate", min=0.25, max=Decimal("9.5")),
        in_range("since", min=date(2025, 1, 1)),
        accepted_values("rate", [0.5, 1]),
        row_count(min=1),
    ],
    gating="quarantine",
    retry=3,
    timeout="30 min",
)
def orders(ctx: AssetContext):
    for code in ctx.config["codes"]:
        yield {"code": code, "rate": ctx.config["rate"], "since": ctx.config["since"]}


@asset(partitions=DAYS, ins={"week": In("orders", window(-6, 0))}, config={"n": 3})
def weekly(week: AssetIn):
    yield week.arrow()


@asset(partitions=DAYS)
def beside(ctx: AssetContext):
    return [{"quick": ctx.config.get("quick", False)}]
"""
DAY = ("-p", "date=2025-01-01")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Servo:
    servo = Servo(tmp_path_factory.mktemp("config"))
    servo.store.mkdir()
    folder = servo.directory / "project"
    folder.mkdir()
    (folder / "shop.py").write_text(SHOP)
    servo.json("deploy", "--project", str(folder))
    servo.json("run", "*", *DAY)
    return servo


def runs(servo: Servo, *config: str) -> list[str]:
    """The assets that a plan with this configuration would run."""
    options = [word for each in config for word in ("--config", each)]
    tasks = servo.json("plan", "*", *DAY, *options)["spec"]["tasks"]
    return [task["asset"] for task in tasks if task["action"] == "run"]


def test_only_what_has_the_name_is_out_of_date(shop: Servo) -> None:
    assert runs(shop) == []
    assert runs(shop, "rate=0.50", 'codes=["a","b"]', "since=2025-01-01", "n=3") == []
    assert runs(shop, "quick=true") == ["shop.beside"]
    assert runs(shop, "n=4") == ["shop.weekly"]
    assert runs(shop, "rate=1") == ["shop.orders", "shop.weekly"]


def test_a_value_reaches_the_function_as_its_declared_type(shop: Servo) -> None:
    shop.json("run", "shop.orders", *DAY, "--config", 'codes=["c"]', "--config", "rate=1")
    held = shop.json("run", "shop.orders", *DAY, "--config", "rate=7", code=1)
    assert held["tasks"][0]["gate"] == "quarantine"


@pytest.mark.parametrize(
    ("value", "message", "hint"),
    [
        ("rat=1", "no asset has a configuration value 'rat'", "did you mean 'rate'?"),
        (
            "n=abc",
            "the configuration value n of shop.weekly is a whole number (int), not 'abc'",
            "write it like the declared one: --config n=3",
        ),
        (
            "codes=[1]",
            "the configuration value codes of shop.orders is a JSON list, each item text, "
            "not '[1]'",
            'write it like the declared one: --config codes=\'["a", "b"]\'',
        ),
        (
            "since=soon",
            "the configuration value since of shop.orders is a date, not 'soon'",
            "write it like the declared one: --config since=2025-01-01",
        ),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_before_the_run(
    shop: Servo, value: str, message: str, hint: str
) -> None:
    error = shop.error("run", "*", *DAY, "--config", value, code=2)
    assert (error["message"], error["hint"]) == (message, hint)


def test_a_name_of_other_assets_than_the_selected_ones_is_refused(shop: Servo) -> None:
    error = shop.error("run", "shop.beside", *DAY, "--config", "n=4", code=2)
    assert error["message"] == "no selected asset has a configuration value 'n'"
    assert error["hint"] == "shop.weekly has it: select it too, or leave the value out"


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ('gating="quarantin"', '"strict", "lenient", "quarantine"'),
        ("retry=0", "retry is 0, not a number of attempts"),
        ('timeout="soon"', "'soon' is not a valid timeout"),
        ("config={'x': {1, 2}}", "config['x'] is {1, 2}, of type set"),
        ("checks=[not_null('a', severity='eror')]", '"info", "warning", "error", "critical"'),
    ],
)
def test_validate_says_which_values_are_accepted_and_where(
    shop: Servo, tmp_path: Path, setting: str, problem: str
) -> None:
    text = (
        f"from servo import asset, not_null\n\nNAMESPACE = 'a'\n\n\n@asset({setting})\ndef x():\n"
    )
    (tmp_path / "flow.py").write_text(f"{text}    return []\n")
    done = shop.run("validate", "--project", str(tmp_path))
    output = done.stdout + done.stderr
    assert done.returncode != 0
    assert "flow.py:6" in output and problem in " ".join(output.split())
    assert "$." not in output
