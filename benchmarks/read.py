"""What a look-up costs: warm, as the table grows; and cold, in bytes.

- warm: one row by its key, on 1,000,000 rows and on 10,000, from the same snapshot.
- cold: everything that is read to find one row when nothing is known yet: the
  hint, the root manifest, the domains' manifests, a footer, a row group.
"""

from __future__ import annotations

import random
import statistics
import sys
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from arco.catalog.tables import ASSET_STATS
from arco.state.snapshot import Snapshot
from benchmarks.workload import (
    arguments,
    asset_ids,
    counted,
    fill,
    folder,
    open_workspace,
    progress,
    report,
    timed,
)

LOOKUPS = 200


def look_up(snapshot: Snapshot, keys: list[str]) -> None:
    for key in keys:
        assert snapshot.get(ASSET_STATS, key) is not None


def warm(
    snapshots: dict[int, Snapshot], ids: dict[int, list[str]], rounds: int
) -> dict[int, float]:
    """Microseconds for one look-up, by the size of the table."""
    rng = random.Random(4)
    times: dict[int, list[float]] = {size: [] for size in snapshots}
    for size, snapshot in snapshots.items():
        look_up(snapshot, ids[size][:: max(1, size // 20_000)])
    for _ in range(rounds):
        for size, snapshot in snapshots.items():
            keys = rng.choices(ids[size], k=LOOKUPS)
            times[size].append(timed(look_up, snapshot, keys)[0] / LOOKUPS)
    return {size: statistics.median(found) * 1e6 for size, found in times.items()}


def cold(at: Path, keys: list[str]) -> tuple[float, float]:
    """Bytes and requests for one row, by a workspace that has read nothing yet."""
    amounts, requests = [], []
    for key in keys:
        workspace, meter = counted(at)
        assert workspace.read.snapshot().get(ASSET_STATS, key) is not None
        amounts.append(meter.bytes)
        requests.append(meter.requests)
    return statistics.median(amounts), statistics.median(requests)


def measure(at: Path, small: int, large: int, rounds: int) -> dict[str, object]:
    ids = {size: asset_ids(size, seed=size) for size in (small, large)}
    snapshots = {}
    for size in ids:
        workspace = open_workspace(at / f"rows-{size}")
        fill(workspace, ids[size])
        snapshots[size] = workspace.read.snapshot()
    found = warm(snapshots, ids, rounds)
    amount, requests = cold(at / f"rows-{large}", random.Random(5).choices(ids[large], k=21))
    table = sum(ref.bytes for ref in snapshots[large].manifest(ASSET_STATS).files())
    progress(
        f"warm: {found[small]:.1f} us on {small:,} rows, {found[large]:.1f} us on {large:,}; "
        f"cold: {amount:,.0f} of {table:,} bytes in {requests:.0f} requests"
    )
    return {
        "lookup_1m_over_10k": round(found[large] / found[small], 3),
        "cold_bytes_fraction": round(amount / table, 5),
        "lookup_us_10k": round(found[small], 1),
        "lookup_us_1m": round(found[large], 1),
        "cold_bytes": round(amount),
        "cold_requests": round(requests),
        "table_bytes": table,
    }


def main() -> None:
    args = arguments(__doc__).parse_args()
    large, rounds = (50_000, 10) if args.quick else (1_000_000, 100)
    with folder(args.dir) as at:
        report(measure(at, 10_000, large, rounds))


if __name__ == "__main__":
    main()
