"""`automation=` of assets: what is declared, and what is refused."""

from __future__ import annotations

import pytest

from servo import asset, eager, on_cron, on_missing, sql_asset
from servo.contract.manifest import AutomationSpec
from servo.errors import Error
from tests.kit.validation import make, said


def up(orders: object) -> None: ...


def test_automation_is_part_of_the_manifest() -> None:
    spec = on_cron("0 6 * * 1-5", timezone="Europe/Berlin")
    assert spec == AutomationSpec(kind="on_cron", cron="0 6 * * 1-5", timezone="Europe/Berlin")
    definition = sql_asset(
        "total", 'SELECT * FROM {{ ref("a.raw") }}', namespace="a", automation=eager()
    )
    assert definition.settings["automation"] == AutomationSpec(kind="eager")


def test_an_impossible_cron_is_refused_where_it_stands() -> None:
    with pytest.raises(Error, match="on_cron: cron '0 6 30 2 \\*' never fires"):
        on_cron("0 6 30 2 *")
    with pytest.raises(Error, match="on_cron: cron is 6, not a str"):
        on_cron(6)  # type: ignore[arg-type]


def test_anything_else_is_refused_with_what_to_write() -> None:
    with pytest.raises(Error, match="automation is 'eager', not an AutomationSpec") as caught:
        asset(namespace="a", automation="eager")(up)  # type: ignore[call-overload]
    assert "write eager()" in str(caught.value)


def test_an_unknown_zone_and_an_asset_that_reads_nothing_are_problems() -> None:
    assert said([make("a.x", automation=on_cron("0 6 * * *", timezone="Berlin"))]) == [
        "a.x has automation=on_cron(…) and has no inputs: it would never run "
        "(give it an input, or use on_missing() or a schedule)",
        "the time zone 'Berlin' is unknown (write it like \"Europe/Berlin\")",
    ]
    assert said([make("a.x", automation=eager())]) == [
        "a.x has automation=eager() and has no inputs: it would never run "
        "(give it an input, or use on_missing() or a schedule)"
    ]
    assert said([make("a.x", automation=on_missing())]) == []
