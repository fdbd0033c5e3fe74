"""`servo admin fsck --data` over very many partitions, on a store that answers slowly."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import structs

from arco.app import Workspace
from arco.execution import data_check
from arco.execution.data_check import PORTION
from arco.execution.events import OutputAccepted
from arco.storage.port import Mode
from tests.kit.clocks import SimClock
from tests.kit.depth import scaled
from tests.kit.derived import derived_workspace
from tests.kit.latency import LatencyStore, round_trips
from tests.kit.workspace import make_workspace
from tests.size.test_partitions import accepted, commit

MANY = scaled(1_000, 100_000)
LATENCY_S = scaled(5, 50) / 1000
BATCH = 5_000


def file_of(rows: int) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"x": list(range(rows))}), sink, write_page_checksum=True)
    data: bytes = sink.getvalue().to_pybytes()
    return data


ROWS = 6_000
GOOD = file_of(ROWS)


def outputs(first: int, last: int) -> Iterator[OutputAccepted]:
    for number in range(first, last):
        event = accepted("large", number, "1")
        version = structs.replace(
            event.materialization,
            rows=ROWS,
            bytes=len(GOOD),
            files=("part-0.parquet",),
            path=path_of(number),
        )
        yield structs.replace(event, materialization=version)


def path_of(number: int) -> str:
    return f"data/ns/large/{number}/m"


def filled(count: int) -> Workspace:
    w = derived_workspace(clock=SimClock())
    for first in range(0, count, BATCH):
        commit(w, outputs(first, min(first + BATCH, count)))
    w.upkeep.merger.merge(everything=True)
    for number in range(count):
        w.store.put(f"{path_of(number)}/part-0.parquet", GOOD)
    return w


@pytest.fixture(scope="module")
def large() -> Workspace:
    return filled(MANY)


def test_versions_are_looked_at_in_parallel_with_progress(large: Workspace) -> None:
    slow = LatencyStore(large.store, LATENCY_S)
    seen: list[tuple[str, int, int]] = []
    w = make_workspace(slow, 2, clock=large.clock)
    report = w.upkeep.check_data("footers", progress=lambda *step: seen.append(step))
    assert (report.versions, report.files, report.findings) == (MANY, MANY, [])
    assert seen[-1] == ("data", MANY, MANY)
    assert len(seen) >= MANY // PORTION
    # A listing and a footer for each version, and little else: the rows are read in large pieces.
    assert slow.count("list", "data/") == slow.count("get", "data/") == MANY
    assert len(slow.calls) < 2.2 * MANY
    assert round_trips(slow.calls) < len(slow.calls) / 8
    assert slow.size("get", "data/") < MANY * 33_000


def test_large_files_are_read_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_check, "LARGE_BYTES", 0)
    some = filled(100)
    slow = LatencyStore(some.store, 0.001)
    w = make_workspace(slow, 2, clock=some.clock)
    assert w.upkeep.check_data("whole").findings == []
    whole = [call for call in slow.calls if call.op == "get" and call.size == len(GOOD)]
    assert round_trips(whole) == len(whole) == 100


def test_what_is_lost_and_damaged_among_many_is_named(large: Workspace) -> None:
    lost, shorter, flipped = 7, MANY // 2, MANY - 1
    damaged = bytearray(GOOD)
    damaged[len(GOOD) // 3] ^= 1
    large.store.delete(f"{path_of(lost)}/part-0.parquet")
    large.store.put(f"{path_of(shorter)}/part-0.parquet", file_of(ROWS - 1), Mode.OVERWRITE)
    large.store.put(f"{path_of(flipped)}/part-0.parquet", bytes(damaged), Mode.OVERWRITE)
    try:
        report = large.upkeep.check_data("whole")
        assert {each.path for each in report.findings} == {
            path_of(number) for number in (lost, shorter, flipped)
        }
        assert all("is damaged" in each.message for each in report.findings)
        assert len(report.damaged["large"]) == 3
    finally:
        for number in (lost, shorter, flipped):
            large.store.put(f"{path_of(number)}/part-0.parquet", GOOD, Mode.OVERWRITE)
