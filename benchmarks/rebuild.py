"""Seconds per event of a rebuild on Spark, for a log of 2,000,000 and of 200,000 events.

The session is started, and has folded the smaller log, before anything is measured.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from arco.app import Workspace, chain
from arco.spark.rebuild import SparkRebuildEngine
from arco.spark.session import open_session
from benchmarks.workload import (
    arguments,
    asset_ids,
    drain,
    folder,
    observations,
    open_workspace,
    progress,
    report,
    timed,
)

BATCH = 5_000


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    small, large = (2_000, 20_000) if given.quick else (200_000, 2_000_000)
    rounds = 1 if given.quick else given.rounds
    with folder(given.dir) as at:
        workspaces = {events: fill(at / str(events), events) for events in (small, large)}
        engine = SparkRebuildEngine(chain, open_session())
        measure(engine, workspaces[small], small)
        taken: dict[int, list[float]] = {small: [], large: []}
        for _ in range(rounds):
            for events, workspace in workspaces.items():
                taken[events].append(measure(engine, workspace, events))
    each = {events: statistics.median(found) for events, found in taken.items()}
    report(
        {
            "per_event_2m_over_200k": round(each[large] / each[small], 3),
            "us_per_event_small": round(each[small] * 1e6, 2),
            "us_per_event_large": round(each[large] * 1e6, 2),
            "events": [small, large],
        }
    )


def fill(at: Path, events: int) -> Workspace:
    """A workspace with a log of so many events, over a tenth as many keys."""
    workspace = open_workspace(at)
    ids = asset_ids(events // 10)
    for start in range(0, events, BATCH):
        workspace.ledger.append(observations(ids, min(BATCH, events - start), start))
        if start % (10 * BATCH) == 0:
            drain(workspace)
    drain(workspace)
    workspace.upkeep.merger.merge(everything=True)
    progress(f"a log of {events:,} events")
    return workspace


def measure(engine: SparkRebuildEngine, workspace: Workspace, events: int) -> float:
    """Seconds per event; the result is checked against the live state, too."""
    seconds, rebuilt = timed(workspace.upkeep.rebuild, engine, publish=False)
    assert rebuilt.same and rebuilt.events == events, rebuilt
    progress(f"{events:,} events: {seconds / events * 1e6:.1f} µs each")
    return seconds / events


if __name__ == "__main__":
    main()
