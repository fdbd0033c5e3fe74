"""The fold of the automation of assets: of several proposals one counts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import replace

from arco.automation.asset_events import AutomationAdvanced, AutomationRequest
from arco.automation.asset_tables import AutomationState
from arco.errors import NotFound
from arco.orchestration.run_requests import check_run_key
from servo.errors import Invalid
from tests.kit.automation import DIAMOND, Mill, declared, project, source
from tests.kit.flows import commit_all

UNTIL = datetime(2026, 1, 5, 8)


def proposal(step: int, *assets: str, position: int = 1) -> AutomationAdvanced:
    request = AutomationRequest(assets=assets or ("m.left", "m.right"), cause="because")
    return AutomationAdvanced(step=step, position=position, until=UNTIL, requests=(request,))


def asked(mill: Mill, *proposals: AutomationAdvanced) -> list[tuple[str, list[str]]]:
    mill.w.ledger.append(list(proposals))
    commit_all(mill.w)
    rows, _ = mill.fresh().read.orchestration().run_requests(limit=100)
    return sorted((row.request_key, row.selection) for row in rows)


def test_of_two_proposals_with_one_number_the_first_counts() -> None:
    mill = Mill(DIAMOND, orchestrators=0)
    both = ["m.left", "m.right"]
    assert asked(mill, proposal(0), proposal(0, "m.bottom")) == [("materialization:0.0", both)]
    assert asked(mill, proposal(0), proposal(7)) == [("materialization:0.0", both)]
    assert asked(mill, proposal(1, "m.bottom", position=2)) == [
        ("materialization:0.0", both),
        ("materialization:1.0", ["m.bottom"]),
    ]


def test_of_a_proposal_in_several_events_none_counts_after_another_came_between() -> None:
    mill = Mill(DIAMOND, orchestrators=0)
    parts = [
        replace(proposal(part, name, position=2), proposal="A", part=part, has_more=part < 2)
        for part, name in enumerate(["m.left", "m.right", "m.bottom"])
    ]
    other = replace(proposal(0), proposal="B")
    assert asked(mill, other, *parts) == [("materialization:0.0", ["m.left", "m.right"])]
    more = replace(proposal(1), proposal="B", part=1)
    assert len(asked(mill, more)) == 2
    parts = [replace(each, step=each.step + 2) for each in parts]
    assert [key for key, _ in asked(mill, *parts)][2:] == [
        "materialization:2.0",
        "materialization:3.0",
        "materialization:4.0",
    ]


@pytest.mark.parametrize(
    "ahead",
    [{"position": 1_000}, {"ticked_position": 1_000}, {"until": datetime(2026, 1, 5, 8, 10)}],
)
def test_a_proposal_from_ahead_of_the_log_does_not_count(ahead: dict[str, Any]) -> None:
    mill = Mill(DIAMOND, orchestrators=0)
    assert asked(mill, replace(proposal(0), **ahead)) == []
    assert len(asked(mill, proposal(0))) == 1


def test_a_late_proposal_does_not_move_the_cursor_back() -> None:
    mill = Mill(DIAMOND, orchestrators=0)
    asked(mill, proposal(0, position=2))
    assert len(asked(mill, proposal(1, position=1))) == 1


def test_a_proposal_leaves_out_what_was_paused_or_removed_since() -> None:
    mill = Mill(DIAMOND, orchestrators=0)
    mill.w.commands.asset_automation.pause("left", reason="the source is down")
    assert asked(mill, proposal(0)) == [("materialization:0.0", ["m.right"])]
    mill.deploy(project(source("raw"), declared("right", "raw")))
    assert asked(mill, proposal(1, position=2)) == [("materialization:0.0", ["m.right"])]


def test_a_pause_survives_deployments_and_a_resumed_asset_forgets_what_came_meanwhile() -> None:
    text = project(source("raw"), declared("total", "raw", automation="eager()"))
    mill = Mill(text)
    commands = mill.w.commands.asset_automation
    commands.pause("m.total")
    mill.deploy(project(source("raw"), declared("total", "raw", automation="on_missing()")))
    mill.deploy(text)
    row = mill.fresh().read.automation().automation("m.total")
    assert (row.state, row.when) == (AutomationState.PAUSED, "eager")
    mill.run("m.raw")
    mill.fresh().commands.asset_automation.resume("m.total")
    mill.settle()
    assert mill.made() == {}
    mill.run("m.raw")
    assert mill.made() == {"total": 1}


def test_a_resumed_asset_may_catch_up_what_came_meanwhile() -> None:
    mill = Mill(project(source("raw"), declared("total", "raw", automation="eager()")))
    mill.w.commands.asset_automation.pause("m.total")
    mill.run("m.raw")
    assert mill.made() == {}
    mill.fresh().commands.asset_automation.resume("m.total", catchup="all")
    mill.settle()
    assert mill.made() == {"total": 1}


def test_an_asset_without_automation_cannot_be_paused() -> None:
    mill = Mill(DIAMOND, orchestrators=0)
    with pytest.raises(NotFound, match=r"no asset 'm\.raw' has automation"):
        mill.w.commands.asset_automation.pause("m.raw")
    with pytest.raises(Invalid, match="are those of requests by materialization"):
        check_run_key("materialization:0.0")
