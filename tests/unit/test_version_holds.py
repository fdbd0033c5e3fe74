"""Versions that people quarantine and release, one fact at a time."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.execution.events import (
    QuarantineDecided,
    RecordedVersion,
    Version,
    VersionQuarantined,
    VersionsExpired,
)
from arco.execution.states import HoldStatus, PartitionStatus, VersionStatus
from arco.execution.tables import PARTITIONS, SUPERSEDED_KEPT_HOT, MaterializationRow
from tests.kit.depth import examples
from tests.unit.test_execution_fold import Log, good, held


def recorded(row: MaterializationRow) -> RecordedVersion:
    return RecordedVersion(
        **{name: getattr(row, name) for name in RecordedVersion.__struct_fields__}
    )


def quarantined(log: Log, id: str, previous: str = "", reason: str = "bad") -> VersionQuarantined:
    """What somebody gives who looks now."""
    return VersionQuarantined(
        asset_id="A",
        asset="sales.orders",
        version=recorded(log.version(id)),
        previous=recorded(log.version(previous)) if previous else None,
        partition_version=log.rows.version(PARTITIONS, "A", "p"),
        reason=reason,
    )


def released(id: str, approved: bool = True) -> QuarantineDecided:
    return QuarantineDecided(asset_id="A", materialization_id=id, approved=approved, reason="fine")


def current(log: Log) -> tuple[str, int, int] | None:
    row = log.current()
    return None if row is None else (row.materialization_id, row.version, row.versions)


@pytest.fixture
def log() -> Log:
    log = Log()
    for id in ("M1", "M2", "M3"):
        log.add(good(id))
    return log


def test_the_version_before_a_quarantined_one_is_current_again(log: Log) -> None:
    assert log.add(quarantined(log, "M3", "M2")) == "applied"

    assert current(log) == ("M2", 2, 3)
    assert log.version("M2").superseded_at is None
    bad = log.version("M3")
    assert (bad.status, bad.version, bad.reason) == (VersionStatus.QUARANTINED, 3, "bad")
    hold = log.held("M3")
    assert (hold.status, hold.held_by, hold.reason) == (HoldStatus.QUARANTINED, "ana", "bad")
    status = log.status()
    assert (status.status, status.current) == (PartitionStatus.QUARANTINED, "M2")
    assert log.became_current == ["M1", "M2", "M3", "M2"]


def test_a_released_version_keeps_its_number_and_is_current_if_it_is_the_newest(log: Log) -> None:
    log.add(quarantined(log, "M3", "M2"))
    assert log.add(released("M3")) == "applied"
    assert current(log) == ("M3", 3, 3)
    assert log.status().status == PartitionStatus.GOOD
    log.add(quarantined(log, "M3", "M2"))
    log.add(good("M4"))
    assert current(log) == ("M4", 4, 4)
    log.add(released("M3"))
    assert current(log) == ("M4", 4, 4)
    assert (log.version("M3").status, log.version("M3").version) == (VersionStatus.GOOD, 3)


def test_quarantine_twice_changes_nothing(log: Log) -> None:
    command = quarantined(log, "M3", "M2")
    log.add(command)
    before = log.state()
    assert log.add(msgspec.structs.replace(command, reason="another")) == "applied"
    assert log.state() == before


def test_a_newer_output_stays_current_whatever_the_command_saw(log: Log) -> None:
    command = quarantined(log, "M3", "M2")
    log.add(good("M4"))
    assert log.add(command) == "applied"
    assert current(log) == ("M4", 4, 4)
    assert log.version("M3").status == VersionStatus.QUARANTINED


def test_a_command_that_saw_another_state_of_the_current_version_is_refused(log: Log) -> None:
    of_both = [quarantined(log, "M3", "M2"), quarantined(log, "M2", "M1")]
    assert [log.add(command) for command in of_both] == ["applied", "partition_changed"]
    assert current(log) == ("M2", 2, 3)
    # The other order: what is to be current again is in quarantine.
    other = Log()
    for id in ("M1", "M2", "M3"):
        other.add(good(id))
    of_both = [quarantined(other, "M2", "M1"), quarantined(other, "M3", "M2")]
    assert [other.add(command) for command in of_both] == ["applied", "partition_changed"]
    assert other.add(quarantined(other, "M3", "M1")) == "applied"
    assert current(other) == ("M1", 1, 3)


def test_without_a_version_before_it_the_partition_has_none_and_numbers_go_on() -> None:
    log = Log()
    log.add(good("M1"))
    log.add(quarantined(log, "M1"))
    assert current(log) is None
    assert (log.status().current, log.status().good_at) == ("", None)
    log.add(held("M2"))
    log.add(good("M3"))
    assert current(log) == ("M3", 2, 2)


def test_versions_that_have_left_for_history_come_back(log: Log) -> None:
    old, older = log.version("M2"), log.version("M1")
    command = quarantined(log, "M3", "M2")
    log.wait(2 * SUPERSEDED_KEPT_HOT)
    assert log.add(command) == "applied"
    assert current(log) == ("M2", 2, 3)
    assert log.version("M2") == msgspec.structs.replace(old, superseded_at=None)
    command = VersionQuarantined(asset_id="A", asset="sales.orders", version=recorded(older))
    assert log.add(command) == "applied"
    assert log.version("M1").status == VersionStatus.QUARANTINED
    assert current(log) == ("M2", 2, 3)


def test_an_expired_version_is_neither_quarantined_nor_current_again(log: Log) -> None:
    late = quarantined(log, "M2", "M1")
    command = quarantined(log, "M3", "M2")
    log.add(VersionsExpired(asset_id="A", versions=(Version("M2"),)))
    assert log.add(late) == "version_not_good"
    assert log.add(command) == "partition_changed"
    assert current(log) == ("M3", 3, 3)


def test_a_rejected_version_is_not_current_again(log: Log) -> None:
    log.add(quarantined(log, "M3", "M2"))
    assert log.add(released("M3", approved=False)) == "applied"
    assert log.version("M3").status == VersionStatus.REJECTED
    assert log.add(released("M3")) == "decided_already"
    assert current(log) == ("M2", 2, 3)


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["output", "look", "look", "send", "release", "reject"]),
        st.integers(0, 9),
    ),
    max_size=40,
)


@given(OPERATIONS)
@settings(max_examples=examples(60))
def test_the_newest_good_version_is_current_whenever_commands_arrive(
    operations: list[tuple[str, int]],
) -> None:
    """Commands may be decided long after whoever gave them looked."""
    log = Log()
    ids: list[str] = []
    commands: list[VersionQuarantined] = []
    for what, number in operations:
        if what == "output":
            ids.append(f"M{len(ids)}")
            log.add(good(ids[-1]))
        elif what == "look" and ids:
            chosen = log.version(ids[number % len(ids)])
            older = (log.version(id) for id in ids)
            before = [row for row in older if is_good(row) and row.position < chosen.position]
            previous = max(before, key=lambda row: row.position, default=None)
            id = "" if previous is None else previous.materialization_id
            commands.append(quarantined(log, chosen.materialization_id, id))
        elif what == "send" and commands:
            code = log.add(commands.pop(number % len(commands)))
            assert code in ("applied", "partition_changed", "version_not_good")
        elif what in ("release", "reject") and ids:
            log.add(released(ids[number % len(ids)], what == "release"))
        rows = [log.version(id) for id in ids]
        newest = max(filter(is_good, rows), key=lambda row: row.position, default=None)
        row = log.current()
        assert (row and row.materialization_id) == (newest and newest.materialization_id)
        assert [version.version for version in rows] == list(range(1, len(ids) + 1))
        assert row is None or row.versions == len(ids)


def is_good(row: MaterializationRow) -> bool:
    return row.status == VersionStatus.GOOD
