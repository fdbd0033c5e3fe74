"""A backfill of half a million partitions: nothing of it grows with their number."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from datetime import datetime, timedelta

import msgspec

from arco.automation.backfill_commands import BackfillDraft
from arco.automation.backfill_states import BackfillState
from arco.automation.tables import BACKFILL_PROGRESS
from arco.orchestration.plan import PlanRequest
from arco.storage import paths
from tests.kit.backfills import BackfillTown
from tests.kit.depth import scaled

S = BackfillState
HOURS = """
from servo import asset, hourly

@asset(namespace='city', partitions=hourly('hour', start='1968-01-01T00:00'))
def hours() -> None: ...
"""
ALL = "hour=1968-01-01T00..2025-12-31T23"
MEMORY = 16 << 20


def draft() -> BackfillDraft:
    return BackfillDraft(request=PlanRequest(selection=("city.hours",), partitions=(ALL,)))


def logged(town: BackfillTown) -> int:
    """The bytes of the log."""
    folders = (paths.INBOX, paths.SEGMENTS)
    return sum(meta.size for folder in folders for meta in town.store.list(folder))


def test_a_backfill_of_half_a_million_partitions_is_one_small_row() -> None:
    town = BackfillTown(HOURS)
    commands = town.fresh().commands.backfills
    before = logged(town)
    tracemalloc.start()
    preview = commands.preview(draft())
    id = commands.create(draft()).row.backfill_id
    commands.pause(id)
    commands.resume(id)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MEMORY
    assert (preview.partitions, preview.chunks) == (508_440, 5_085)
    assert preview.sample[-1].partitions == ("hour=2025-12-30T08:00..2025-12-31T23:00",)
    assert logged(town) - before < 64 << 10
    row = town.backfill(id).row
    assert (row.total_partitions, row.chunks, row.state) == (508_440, 5_085, S.RUNNING)
    assert len(msgspec.json.encode(row)) < 2_000


def test_half_a_million_partitions_go_on_where_they_stopped() -> None:
    town = BackfillTown(HOURS)
    id = town.fresh().commands.backfills.create(draft()).row.backfill_id
    town.serve()
    town.crowd.until(lambda: town.backfill(id).completed >= 300)
    town.fresh().commands.backfills.pause(id)
    town.settle()
    asked = town.backfill(id).row.asked
    town.crowd.orchestrators.clear()  # whoever knew of it is gone
    town.crowd.orchestrator()
    town.fresh().commands.backfills.resume(id)
    town.crowd.until(lambda: town.backfill(id).row.asked > asked)
    town.fresh().commands.backfills.cancel(id)
    town.crowd.until(lambda: not town.backfill(id).active_runs)
    entry = town.backfill(id)
    assert set(town.tasks.ran.values()) == {1}
    assert len(town.chunks(id)) == entry.row.asked < 20
    assert entry.completed <= len(town.tasks.ran) < 2_000  # results of cancelled tasks do not count
    assert entry.completed + entry.cancelled + entry.pending == 508_440


def test_a_large_backfill_runs_each_partition_once_through_pause_death_and_retry() -> None:
    partitions = scaled(600, 20_000)
    town = BackfillTown(HOURS)
    last = datetime(1968, 1, 1) + timedelta(hours=partitions - 1)
    town.tasks.bad = {"-03T07:00:00.000000Z", "-17T19:00:00.000000Z"}
    before = logged(town)
    hours = f"hour=1968-01-01T00..{last:%Y-%m-%dT%H}"
    id = town.create(hours, selection="city.hours", chunk_size=100, max_concurrent_runs=2)
    town.serve()
    commands, largest = town.fresh().commands.backfills, 0

    def has(completed: int) -> bool:
        nonlocal largest
        boards = [process.board for process in town.crowd.orchestrators]
        largest = max(largest, *(sum(map(len, board.tasks.values())) for board in boards))
        town.fresh().upkeep.merger.merge()  # as beside a real orchestrator
        return town.backfill(id).completed >= completed

    town.crowd.until(lambda: has(partitions // 4), steps=partitions)
    commands.pause(id)
    town.settle()
    town.crowd.orchestrators.clear()  # whoever knew of it is gone
    town.crowd.orchestrator()
    commands.resume(id)
    town.crowd.until(
        lambda: has(0) and town.backfill(id).row.state == S.FAILED, steps=10 * partitions
    )
    failed = town.backfill(id).failed
    assert failed > 0 and failed + len(town.tasks.ran) == partitions
    town.tasks.bad = set()
    commands.retry(id)
    town.until_state(id, S.SUCCEEDED)
    assert Counter(town.tasks.ran.values()) == {1: partitions}
    assert town.counts(id) == {"completed": partitions}
    assert largest <= 200, "of two runs at a time"
    assert (logged(town) - before) / partitions < 6_000
    kept = (town.backfill(id).row, town.fresh().read.snapshot().get(BACKFILL_PROGRESS, id))
    assert len(msgspec.json.encode(kept)) < 3_000
    others = (paths.SEGMENTS, paths.STATE, paths.MANIFESTS)
    sizes = {m.path: m.size for m in town.store.list("") if not m.path.startswith(others)}
    assert max(sizes.values()) < 256 << 10, "an object that holds more than a chunk"
