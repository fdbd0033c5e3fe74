"""Timeouts and cancellation of checks."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from arco.worker.checks import CheckContext, limits
from arco.worker.failures import Interrupted, TaskTimeout
from servo.check import (
    accepted_values,
    matches,
    unique,
)
from tests.kit.checked_files import ORDERS, Files


def test_a_stop_that_hangs_does_not_keep_the_task(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STOPPED_S", 0.1)
    hangs, released = threading.Event(), threading.Event()

    def hang() -> None:
        hangs.set()
        released.wait()

    with pytest.raises(limits.CheckTimeout), limits.limited(CheckContext(files.store), 0, hang):
        hangs.wait()
        raise ValueError
    released.set()


STUBBORN = 100_000


@pytest.fixture(scope="module")
def stubborn() -> pa.Table:
    # Each text is another one: DuckDB looks at those that are repeated only once.
    return pa.table({"x": range(STUBBORN), "s": [f"{n}{'ab' * 400}" for n in range(STUBBORN)]})


SLOW = r"(?:a|b|ab|[0-9]|ba)*c?(?:a|b|ab|[0-9]){0,900}x?"


def test_a_slow_query_ends_and_the_others_are_answered(files: Files, stubborn: pa.Table) -> None:
    ref = files.put("a.b", *[stubborn] * 4)
    found = files.results(
        ref,
        matches("s", SLOW, timeout=1),
        accepted_values("x", ["1"], name="quick"),
    )
    assert (found[0].status, found[0].message) == ("error", "it took longer than 1s")
    assert found[1].failing == 4 * STUBBORN - 4


@pytest.mark.parametrize("reason", [Interrupted, TaskTimeout])
def test_a_task_that_is_to_stop_stops_in_a_query(
    files: Files, stubborn: pa.Table, reason: type[BaseException]
) -> None:
    ref = files.put("a.b", *[stubborn] * 4)
    stop = threading.Event()
    timer = threading.Timer(0.5, stop.set)
    timer.start()
    with pytest.raises(reason):
        files.results(ref, matches("s", SLOW), reason=lambda: reason() if stop.is_set() else None)
    timer.join()


def test_a_task_that_is_to_stop_begins_nothing(files: Files) -> None:
    with pytest.raises(Interrupted):
        files.results(files.put("a.b", ORDERS), unique("id"), reason=Interrupted)
