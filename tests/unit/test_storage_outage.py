from __future__ import annotations

import logging

import pytest

from arco.errors import Conflict, Corrupt, Denied, Error, NotFound, Unavailable, Unreadable
from arco.storage.outage import REPEAT_S, Outage, PastOutage
from tests.kit.clocks import SimClock


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(record.levelno, record.getMessage()) for record in caplog.records]


def test_a_failure_is_logged_when_its_kind_changes_and_then_now_and_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = SimClock()
    outage = Outage(clock, "commits", patient=True)
    for path in "abc":
        outage.failed(Denied(f"{path}: Permission denied"))
        clock.sleep(1)
    assert [level for level, _ in logged(caplog)] == [logging.WARNING]
    assert "commits: waiting for the store since" in logged(caplog)[0][1]
    outage.failed(Corrupt("x is damaged"))
    assert logged(caplog)[-1][0] == logging.ERROR
    clock.sleep(REPEAT_S + 1)
    outage.failed(Corrupt("x is damaged"))
    outage.failed(Corrupt("x is damaged"))
    assert len(logged(caplog)) == 3


def test_the_end_of_an_outage_is_logged_and_remembered(caplog: pytest.LogCaptureFixture) -> None:
    clock = SimClock()
    outage = Outage(clock, "commits", patient=True)
    began = clock.now()
    outage.failed(Denied("a: Permission denied"))
    clock.sleep(40)
    outage.failed(Denied("b: Permission denied"))
    assert "Permission denied" in outage.text
    outage.passed()
    assert outage.last == PastOutage(began, clock.now(), "denied", "b: Permission denied")
    assert (outage.began, outage.error, outage.text) == (None, None, "")
    assert "answers again" in logged(caplog)[-1][1]


def test_one_lost_race_is_no_outage(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage(SimClock(), "commits")
    outage.failed(Conflict("taken"))
    outage.passed()
    assert outage.last is None
    assert len(logged(caplog)) == 1


@pytest.mark.parametrize("error", [Denied("x"), Corrupt("x"), NotFound("x")])
def test_what_a_person_must_mend_is_raised_until_the_store_was_reached(error: Error) -> None:
    outage = Outage(SimClock(), "commits")
    assert outage.failed(Unavailable("x")) > 0
    with pytest.raises(type(error)):
        outage.failed(error)
    outage.passed()
    assert outage.failed(error) > 0


def test_a_newer_format_is_raised_at_any_time_unless_the_loop_is_patient() -> None:
    outage = Outage(SimClock(), "commits")
    outage.passed()
    with pytest.raises(Unreadable):
        outage.failed(Unreadable("x"))
    assert Outage(SimClock(), "reports", patient=True).failed(Unreadable("x")) > 0
