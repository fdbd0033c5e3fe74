"""What becomes of outputs, one fact at a time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from arco.execution.events import (
    CostIncurred,
    HoldEnded,
    OutputAccepted,
    OutputHeld,
    OutputMissed,
    OutputRejected,
    PartitionMaterialized,
    QuarantineDecided,
    Version,
    VersionsDamaged,
    VersionsExpired,
)
from arco.execution.fold import OUTPUTS
from arco.execution.states import HELD, HoldStatus, PartitionStatus, VersionStatus
from arco.execution.tables import (
    EXPIRATIONS,
    MATERIALIZATIONS,
    PARTITION_STATUS,
    PARTITIONS,
    QUARANTINE,
    SUPERSEDED_KEPT_HOT,
    TASK_COSTS,
    ExpirationRow,
    MaterializationRow,
    PartitionRow,
    PartitionStatusRow,
    QuarantineRow,
    TaskCostRow,
)
from arco.log.envelope import Payload
from arco.state.fold import Fact, FoldFailure, NoRows, Rows, fold_stage
from arco.state.system import Decided
from servo.contract.task import Cost, ErrorInfo, Materialization, Usage

START = datetime(2026, 1, 1)
HOUR = timedelta(hours=1)


class Log:
    """Facts, an hour apart, and the rows that they mean."""

    def __init__(self) -> None:
        self.rows = Rows(NoRows())
        self.position = 0
        self.waited = timedelta()
        self.became_current: list[str] = []
        self.ended: list[HoldEnded] = []
        """What was said to those who wait for decisions."""

    @property
    def now(self) -> datetime:
        """When the last fact came."""
        return START + self.position * HOUR + self.waited

    def wait(self, time: timedelta) -> None:
        self.waited += time

    def add(self, payload: Payload) -> str:
        """Fold a fact. What was decided: empty for a fact, else `applied` or why not."""
        return self.report(payload)

    def report(self, *payloads: Payload) -> str:
        """Fold what one report says."""
        self.position += 1
        return [self._fold(payload) for payload in payloads][-1]

    def _fold(self, payload: Payload) -> str:
        fact = Fact(self.position, self.now, f"E{self.position}", "", "ana", payload)
        failures: list[FoldFailure] = []
        derived = fold_stage(OUTPUTS, self.rows, [fact], failures)
        assert failures == []
        self.ended += [f.payload for f in derived if isinstance(f.payload, HoldEnded)]
        self.became_current += [
            f.payload.materialization_id
            for f in derived
            if isinstance(f.payload, PartitionMaterialized)
        ]
        said = [f.payload for f in derived if isinstance(f.payload, Decided)]
        assert len(said) <= 1
        return next((s.code or s.status for s in said if isinstance(s, Decided)), "")

    def version(self, id: str) -> MaterializationRow:
        row = self.rows.get(MATERIALIZATIONS, "A", id)
        assert row is not None
        return row

    def current(self, partition: str = "p") -> PartitionRow | None:
        return self.rows.get(PARTITIONS, "A", partition)

    def status(self, partition: str = "p") -> PartitionStatusRow:
        row = self.rows.get(PARTITION_STATUS, "A", partition)
        assert row is not None
        return row

    def held(self, id: str) -> QuarantineRow:
        row = self.rows.get(QUARANTINE, "A", id)
        assert row is not None
        return row

    def state(self) -> dict[Any, Any]:
        return {table: dict(rows) for table, rows in self.rows.changes.items()}


def made(id: str, partition: str = "p") -> Materialization:
    return Materialization(
        materialization_id=id,
        asset="sales.orders",
        asset_id="A",
        partition=partition,
        run_id="R",
        task_id="T",
        attempt_id="a1",
        path=f"data/sales/orders/{partition}/{id}",
        files=("part-00000.parquet",),
        rows=3,
        bytes=30,
        schema_hash="h",
        fingerprint="f",
        metadata={"n": 1},
    )


def good(id: str, partition: str = "p", warnings: int = 0) -> OutputAccepted:
    return OutputAccepted(materialization=made(id, partition), warnings=warnings)


def held(id: str, status: HoldStatus = HoldStatus.QUARANTINED, partition: str = "p") -> OutputHeld:
    return OutputHeld(materialization=made(id, partition), status=status, reason="2 bad rows")


def late(id: str) -> OutputRejected:
    return OutputRejected(materialization=made(id), reason="too late")


def missed() -> OutputMissed:
    error = ErrorInfo(category="user_code", code="x.y", message="m" * 900)
    return OutputMissed(asset_id="A", partition="p", run_id="R2", error=error)


def decided(id: str, approved: bool, reason: str = "") -> QuarantineDecided:
    return QuarantineDecided(asset_id="A", materialization_id=id, approved=approved, reason=reason)


def expired(*ids: str) -> VersionsExpired:
    return VersionsExpired(asset_id="A", versions=tuple(Version(id, "old") for id in ids))


@pytest.fixture
def log() -> Log:
    return Log()


# -- accepted -------------------------------------------------------------------------------


def test_an_accepted_output_is_current_and_kept_whole(log: Log) -> None:
    log.add(good("m1"))
    assert log.version("m1") == MaterializationRow(
        asset_id="A",
        materialization_id="m1",
        partition_key="p",
        status=VersionStatus.GOOD,
        reason="",
        version=1,
        run_id="R",
        task_id="T",
        attempt_id="a1",
        path="data/sales/orders/p/m1",
        files=1,
        rows=3,
        bytes=30,
        schema_hash="h",
        fingerprint="f",
        metadata={"n": "1"},
        created_at=log.now,
        position=1,
    )
    assert log.current() == PartitionRow(
        asset_id="A",
        partition_key="p",
        materialization_id="m1",
        path="data/sales/orders/p/m1",
        fingerprint="f",
        version=1,
        run_id="R",
        rows=3,
        bytes=30,
        schema_hash="h",
        updated_at=log.now,
        position=1,
        versions=1,
    )
    status = log.status()
    assert (status.status, status.current, status.last) == ("GOOD", "m1", "m1")
    assert (status.good_at, status.warnings, status.message) == (log.now, 0, "")


def test_the_next_one_supersedes_it(log: Log) -> None:
    log.add(good("m1"))
    log.add(good("m2"))
    log.add(good("q1", "q"))
    assert [log.version(id).version for id in ("m1", "m2", "q1")] == [1, 2, 1]
    assert log.version("m1").superseded_at == START + 2 * HOUR
    assert log.version("m2").superseded_at is None
    current = log.current()
    assert current is not None and current.materialization_id == "m2"


@pytest.mark.parametrize(("warnings", "message"), [(1, "1 check failed"), (2, "2 checks failed")])
def test_checks_that_were_let_through_are_warnings(log: Log, warnings: int, message: str) -> None:
    log.add(good("m1", warnings=warnings))
    status = log.status()
    assert (status.status, status.warnings) == ("WARNED", warnings)
    assert status.message == message


@pytest.mark.parametrize(
    ("approved", "status", "message"), [(True, "GOOD", "approved"), (False, "REJECTED", "rejected")]
)
def test_a_task_that_failed_by_its_checks_is_forgiven_with_its_output(
    log: Log, approved: bool, status: str, message: str
) -> None:
    log.report(held("m1"), missed())
    assert (log.status().status, log.status().last, log.status().error_code) == (
        "FAILED",
        "m1",
        "x.y",
    )
    log.add(decided("m1", approved))
    found = log.status()
    assert (found.status, found.message, found.error_code) == (status, message, "")


def test_a_task_that_made_nothing_stays_failed_whatever_is_decided_of_before(log: Log) -> None:
    log.add(held("m1"))
    log.add(missed())
    log.add(decided("m1", True))
    assert (log.status().status, log.status().current) == ("FAILED", "m1")


@pytest.mark.parametrize("again", [good("m1"), held("m1"), late("m1")])
def test_what_is_known_of_an_output_stays_whatever_comes_again(log: Log, again: Payload) -> None:
    log.add(good("m1"))
    before = log.state()
    log.add(again)
    assert log.state() == before


# -- late -----------------------------------------------------------------------------------


def test_a_late_output_is_recorded_and_changes_nothing_else(log: Log) -> None:
    log.add(good("m1"))
    before = log.state()
    log.add(late("m2"))
    row = log.version("m2")
    assert (row.status, row.version, row.reason) == ("LATE", 0, "too late")
    assert row.superseded_at == log.now
    del log.rows.changes[MATERIALIZATIONS]["A", "m2"]
    assert log.state() == before


def test_a_late_output_that_another_attempt_adopts_is_good(log: Log) -> None:
    log.add(late("m1"))
    log.add(good("m1"))
    row = log.version("m1")
    assert (row.status, row.version, row.position, row.superseded_at) == ("GOOD", 1, 2, None)
    current = log.current()
    assert current is not None and current.materialization_id == "m1"


def test_a_late_output_that_another_attempt_adopts_can_be_held_back(log: Log) -> None:
    log.add(late("m1"))
    log.add(held("m1"))
    assert (log.version("m1").status, log.version("m1").superseded_at) == ("QUARANTINED", None)
    assert log.held("m1").status == "QUARANTINED"
    assert log.add(decided("m1", True)) == "applied"


def test_what_becomes_current_is_derived_and_what_is_held_back_only_once_it_is_approved(
    log: Log,
) -> None:
    log.add(good("m1"))
    log.add(good("m1"))
    log.add(held("m2"))
    log.add(held("m3"))
    assert log.became_current == ["m1"]
    log.add(decided("m3", True))
    log.add(decided("m2", True))
    assert log.became_current == ["m1", "m3"]


def test_a_status_has_a_state_and_a_quality(log: Log) -> None:
    def look() -> tuple[str, str]:
        return str(log.status().state), str(log.status().quality)

    log.add(held("m1"))
    assert look() == ("MISSING", "QUARANTINED")
    log.add(decided("m1", False))
    assert look() == ("MISSING", "REJECTED")
    log.add(good("m2", warnings=1))
    assert look() == ("MATERIALIZED", "WARNED")
    log.add(good("m3"))
    assert look() == ("MATERIALIZED", "PASSED")
    log.add(held("m4"))
    assert look() == ("MATERIALIZED", "QUARANTINED")
    log.add(decided("m4", True))
    assert look() == ("MATERIALIZED", "PASSED")
    log.report(held("m5", HoldStatus.BLOCKED), missed())
    assert look() == ("FAILED", "BLOCKED")
    log.add(missed())
    assert look() == ("FAILED", "UNKNOWN")
    error = ErrorInfo(category="input", code="checks.input", message="no rows")
    log.add(OutputMissed(asset_id="A", partition="p", run_id="R2", error=error))
    assert look() == ("FAILED", "FAILED")


# -- held back ------------------------------------------------------------------------------


@pytest.mark.parametrize("status", sorted(HELD))
def test_an_output_that_is_held_back_is_never_current(log: Log, status: HoldStatus) -> None:
    log.add(good("m1"))
    log.add(held("m2", status))
    current = log.current()
    assert current is not None and (current.materialization_id, current.versions) == ("m1", 1)
    assert log.version("m1").superseded_at is None
    assert (log.version("m2").status, log.version("m2").version) == (VersionStatus(status), 0)
    assert log.held("m2") == QuarantineRow(
        asset_id="A",
        materialization_id="m2",
        asset_key="sales.orders",
        partition_key="p",
        status=status,
        reason="2 bad rows",
        run_id="R",
        rows=3,
        bytes=30,
        path="data/sales/orders/p/m2",
        held_at=log.now,
        decided_at=None,
        decided_by="",
        decision="",
    )
    shown = log.status()
    assert (shown.status, shown.current, shown.last) == (PartitionStatus(status), "m1", "m2")
    assert (shown.good_at, shown.message) == (START + HOUR, "2 bad rows")


def test_a_partition_with_nothing_but_a_held_output_has_no_current_version(log: Log) -> None:
    log.add(held("m1"))
    assert log.current() is None
    assert (log.status().current, log.status().good_at) == ("", None)


def test_a_failure_leaves_what_is_current(log: Log) -> None:
    log.add(good("m1"))
    log.add(missed())
    status = log.status()
    assert (status.status, status.current, status.last) == ("FAILED", "m1", "")
    assert (status.error_code, status.last_run_id, status.good_at) == ("x.y", "R2", START + HOUR)
    assert status.message == "m" * 500
    current = log.current()
    assert current is not None and current.materialization_id == "m1"


# -- decisions ------------------------------------------------------------------------------


def test_an_approved_output_becomes_current(log: Log) -> None:
    log.add(good("m1"))
    log.add(held("m2"))
    made_at = log.now
    assert log.add(decided("m2", True, "it is true")) == "applied"
    row = log.held("m2")
    assert (row.status, row.decided_by, row.decision) == ("APPROVED", "ana", "it is true")
    assert row.decided_at == log.now
    assert (log.version("m2").status, log.version("m2").version) == ("GOOD", 2)
    assert log.version("m1").superseded_at == log.now
    current = log.current()
    assert current is not None
    assert (current.materialization_id, current.version, current.versions) == ("m2", 2, 2)
    assert (current.position, current.updated_at) == (2, log.now)
    status = log.status()
    assert (status.status, status.current, status.good_at) == ("GOOD", "m2", made_at)


def test_an_approved_output_is_not_current_if_something_newer_is(log: Log) -> None:
    log.add(held("m1"))
    log.add(good("m2"))
    before = log.status()
    assert log.add(decided("m1", True)) == "applied"
    row = log.version("m1")
    assert (row.status, row.version, row.superseded_at) == ("GOOD", 2, log.now)
    current = log.current()
    assert current is not None
    assert (current.materialization_id, current.version, current.versions) == ("m2", 1, 2)
    assert log.version("m2").superseded_at is None
    assert log.status() == before
    log.add(good("m3"))
    assert log.version("m3").version == 3
    assert log.version("m1").superseded_at == START + 3 * HOUR


def test_the_newer_of_two_approved_ones_is_current_whichever_is_approved_first(log: Log) -> None:
    log.add(held("m1"))
    log.add(held("m2"))
    log.add(decided("m2", True))
    log.add(decided("m1", True))
    current = log.current()
    assert current is not None and (current.materialization_id, current.versions) == ("m2", 2)
    assert (log.version("m2").version, log.version("m1").version) == (1, 2)


def test_a_status_names_what_an_approval_made_current_also_after_a_failure(log: Log) -> None:
    log.add(held("m1"))
    made_at = log.now
    log.add(missed())
    log.add(decided("m1", True))
    status = log.status()
    assert (status.status, status.current, status.good_at) == ("FAILED", "m1", made_at)
    log.add(missed())
    assert (log.status().current, log.status().good_at) == ("m1", made_at)


def test_a_rejected_output_never_becomes_current(log: Log) -> None:
    log.add(held("m1"))
    assert log.add(decided("m1", False, "no")) == "applied"
    assert (log.held("m1").status, log.held("m1").decision) == ("REJECTED", "no")
    assert (log.version("m1").status, log.version("m1").superseded_at) == ("REJECTED", log.now)
    assert log.current() is None
    log.add(good("m1"))
    assert log.current() is None


@pytest.mark.parametrize(("reason", "message"), [("no", "no"), ("", "rejected")])
def test_the_status_says_that_the_last_output_was_rejected(
    log: Log, reason: str, message: str
) -> None:
    log.add(good("m1"))
    log.add(held("m2"))
    log.add(decided("m2", False, reason))
    status = log.status()
    assert (status.status, status.message) == ("REJECTED", message)
    assert (status.current, status.last, status.good_at) == ("m1", "m2", START + HOUR)


def test_rejecting_an_older_output_leaves_the_status_of_a_newer_one(log: Log) -> None:
    log.add(held("m1"))
    log.add(good("m2"))
    before = log.status()
    log.add(decided("m1", False))
    assert log.status() == before


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("second", [True, False])
def test_nobody_decides_twice(log: Log, first: bool, second: bool) -> None:
    log.add(held("m1"))
    log.add(decided("m1", first))
    before = log.state()
    assert log.add(decided("m1", second)) == "decided_already"
    assert log.state() == before
    assert log.ended == [
        HoldEnded(
            asset_id="A", asset="sales.orders", materialization_id="m1", approved=first, position=1
        )
    ]


@pytest.mark.parametrize("id", ["m1", "unheard_of"])
def test_what_is_not_held_back_cannot_be_decided(log: Log, id: str) -> None:
    log.add(good("m1"))
    before = log.state()
    assert log.add(decided(id, True)) == "not_held"
    assert log.state() == before


# -- expiry ---------------------------------------------------------------------------------


def test_versions_that_are_given_up_keep_their_rows(log: Log) -> None:
    log.add(good("m1"))
    log.add(late("m2"))
    log.add(good("m3"))
    superseded = log.now
    assert log.add(expired("m1", "m2", "unheard_of")) == "applied"
    one, two = log.version("m1"), log.version("m2")
    assert (one.status, one.version, two.status, two.version) == ("GOOD", 1, "LATE", 0)
    assert (one.superseded_at, two.superseded_at) == (superseded, START + 2 * HOUR)
    assert log.rows.get(EXPIRATIONS, "A", "m1") == ExpirationRow("A", "m1", "old", log.now)
    assert log.rows.get(EXPIRATIONS, "A", "m2") == ExpirationRow("A", "m2", "old", log.now)
    before = log.state()
    assert log.add(expired("m1")) == "applied"
    assert log.state() == before


def test_a_version_whose_row_has_left_can_be_given_up_and_does_not_come_back(log: Log) -> None:
    log.add(good("m1"))
    log.add(good("m2"))
    log.wait(SUPERSEDED_KEPT_HOT)
    log.add(good("m3"))
    assert log.rows.get(MATERIALIZATIONS, "A", "m1") is None
    assert log.add(expired("m1")) == "applied"
    log.add(good("m1"))
    assert log.rows.get(MATERIALIZATIONS, "A", "m1") is None
    current = log.current()
    assert current is not None and (current.materialization_id, current.versions) == ("m3", 3)


def test_what_is_current_is_not_given_up_nor_anything_along_with_it(log: Log) -> None:
    log.add(good("m1"))
    log.add(good("m2"))
    before = log.state()
    assert log.add(expired("m1", "m2")) == "version_is_current"
    assert log.state() == before


def test_what_nobody_has_decided_about_is_not_given_up(log: Log) -> None:
    log.add(held("m1"))
    assert log.add(expired("m1")) == "version_is_held"
    assert log.add(decided("m1", True)) == "applied"


def test_what_was_given_up_never_comes_back(log: Log) -> None:
    log.add(held("m1"))
    log.add(decided("m1", False))
    log.add(late("m2"))
    log.add(expired("m1", "m2"))
    before = log.state()
    for again in (good("m1"), held("m1"), good("m2"), held("m2"), late("m2")):
        log.add(again)
    assert log.add(decided("m1", True)) == "decided_already"
    assert log.state() == before


# -- costs ----------------------------------------------------------------------------------


def incurred(attempt: str, **usage: int) -> CostIncurred:
    return CostIncurred(
        asset_id="A",
        asset="sales.orders",
        partition="p",
        run_id="R",
        task_id="T",
        attempt=1,
        attempt_id=attempt,
        outcome="failed",
        usage=Usage(**usage),
        cost=Cost(cpu=1, memory=2, storage=3, prices="abc"),
    )


def test_an_attempt_costs_once(log: Log) -> None:
    log.add(incurred("a1", wall_ms=5, cpu_ms=4, executor_cpu_ms=7, bytes_read=9))
    first = log.now
    log.add(incurred("a1", wall_ms=99))
    log.add(incurred("a2"))
    assert log.rows.get(TASK_COSTS, "A", "a1") == TaskCostRow(
        asset_id="A",
        attempt_id="a1",
        asset_key="sales.orders",
        partition_key="p",
        run_id="R",
        task_id="T",
        attempt=1,
        outcome="failed",
        wall_ms=5,
        cpu_ms=4,
        executor_cpu_ms=7,
        executor_run_ms=0,
        peak_memory_kib=0,
        bytes_read=9,
        bytes_written=0,
        shuffle_bytes=0,
        spilled_bytes=0,
        currency="USD",
        cpu_cost=1,
        memory_cost=2,
        storage_cost=3,
        total_cost=6,
        prices="abc",
        finished_at=first,
    )
    assert len(log.rows.changes[TASK_COSTS]) == 2


def test_events_survive_their_encoding() -> None:
    for payload in (decided("m1", True, "why"), expired("m1", "m2")):
        raw = msgspec.json.encode(payload)
        assert msgspec.json.decode(raw, type=type(payload)) == payload


# -- damaged --------------------------------------------------------------------------------


def test_a_current_version_that_is_damaged_is_up_to_date_for_no_plan(log: Log) -> None:
    def current() -> tuple[str, str]:
        row = log.current()
        assert row is not None
        return row.materialization_id, row.fingerprint

    log.add(good("m1"))
    log.add(good("m2"))
    log.add(VersionsDamaged(asset_id="A", versions=(Version("m1", "lost"), Version("m9", "lost"))))
    assert current() == ("m2", "f")
    log.add(VersionsDamaged(asset_id="A", versions=(Version("m2", "lost"),)))
    assert current() == ("m2", "")
    log.add(good("m3"))
    assert current() == ("m3", "f")
