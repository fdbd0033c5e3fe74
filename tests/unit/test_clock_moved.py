"""A clock that a file moves, and a store that moves with it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from arco.app import Workspace
from arco.clock import MovedClock, SystemClock
from arco.errors import Invalid
from tests.kit.flows import check_store

DAY = timedelta(days=1)


def moved(file: Path, by: timedelta) -> MovedClock:
    file.write_text(str(by.total_seconds()))
    return MovedClock(file)


def test_log_and_clock_move_together_forward_and_back(tmp_path: Path) -> None:
    clock = moved(tmp_path / "clock", timedelta(0))
    w = Workspace.open(f"file://{tmp_path}/lake", "acme", "prod", clock=clock)
    for n, by in enumerate((timedelta(0), 30 * DAY, 31 * DAY)):
        moved(tmp_path / "clock", by)
        w.commands.catalog.create_namespace(f"n{n}")  # a clock that is alone is not let commit
        difference = w.read.catalog().namespace(f"n{n}").created_at - SystemClock().now() - by
        assert abs(difference) < timedelta(minutes=4)
    assert abs(clock.now() - w.core.store_clock.now()) < timedelta(seconds=2)
    moved(tmp_path / "clock", -DAY)
    w.commands.catalog.create_namespace("later")
    times = [w.read.catalog().namespace(name).created_at for name in ("n2", "later")]
    assert times == sorted(times)  # the log's time never goes back
    check_store(w)


@pytest.mark.parametrize("text", ["", "tomorrow", "1e300", None])
def test_file_that_says_no_number_of_seconds_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "clock").write_text(text)
    with pytest.raises(Invalid, match="clock"):
        MovedClock(tmp_path / "clock")
