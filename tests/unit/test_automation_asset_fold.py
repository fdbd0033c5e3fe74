"""The fold of the automation of assets: of several proposals one counts."""

from __future__ import annotations

from datetime import datetime

import pytest

from arco.automation.asset_events import AutomationAdvanced, AutomationRequest
from arco.automation.asset_tables import AutomationState
from arco.errors import NotFound
from arco.orchestration.run_requests import check_run_key
from servo.errors import Invalid
from tests.kit.automation import DIAMOND, Mill, declared, project, source
from tests.kit.flows import commit_all

UNTIL = datetime(2026, 1, 5, 8)


def proposal(step: int, *assets: str, position: int = 10) -> AutomationAdvanced:
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
    assert asked(mill, proposal(1, "m.bottom", position=11)) == [
        ("materialization:0.0", both),
        ("materialization:1.0", ["m.bottom"]),
    ]


def test_a_late_proposal_does_not_move_the_cursor_back() -> None:
    mill = Mill(DIAMOND, orchestrators=0)
    asked(mill, proposal(0, position=20))
    assert len(asked(mill, proposal(1, position=12))) == 1


def test_a_proposal_leaves_out_what_was_paused_or_removed_since() -> None:
    mill = Mill(DIAMOND, orchestrators=0)
    mill.w.commands.asset_automation.pause("left", reason="the source is down")
    assert asked(mill, proposal(0)) == [("materialization:0.0", ["m.right"])]
    mill.deploy(project(source("raw"), declared("right", "raw")))
    assert asked(mill, proposal(1, position=30)) == [("materialization:0.0", ["m.right"])]


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
