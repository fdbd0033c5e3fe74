"""A durable append against the least that any durable write costs.

An append of ten events goes through the ledger to a local disk: ids, envelopes,
JSON, a file that appears whole, its directory synced. Its peer creates a file
with the same bytes and syncs it, with and without a sync of the directory.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from arco.storage import paths
from benchmarks.workload import (
    arguments,
    asset_ids,
    folder,
    ms,
    observations,
    open_workspace,
    progress,
    report,
    timed,
)

EVENTS = 10


def create(path: str, raw: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(fd, raw)
    os.fsync(fd)
    os.close(fd)


def create_and_sync_directory(path: str, raw: bytes) -> None:
    create(path, raw)
    fd = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)  # noqa: PTH120
    os.fsync(fd)
    os.close(fd)


def measure(at: Path, rounds: int) -> dict[str, object]:
    workspace = open_workspace(at / "store")
    bare = at / "bare"
    bare.mkdir()
    ids = asset_ids(1_000)
    appends, creates, synced = [], [], []
    size = 0
    for number in range(rounds):
        events = observations(ids, EVENTS, number)
        seconds, receipt = timed(workspace.ledger.append, events)
        appends.append(seconds)
        raw = workspace.store.get(paths.inbox(receipt.batch)).data
        creates.append(timed(create, f"{bare}/{number}.json", raw)[0])
        synced.append(timed(create_and_sync_directory, f"{bare}/{number}-synced.json", raw)[0])
        size = len(raw)
    warm_up = rounds // 10
    append, bare_create, synced_create = (ms(s[warm_up:]) for s in (appends, creates, synced))
    progress(
        f"append {append} ms, fsync'd create {bare_create} ms, with its directory "
        f"{synced_create} ms ({size:,} bytes)"
    )
    return {
        "append_over_fsync_create": round(append / bare_create, 3),
        "append_over_fsync_create_and_directory": round(append / synced_create, 3),
        "append_ms": append,
        "fsync_create_ms": bare_create,
        "fsync_create_and_directory_ms": synced_create,
        "batch_bytes": size,
    }


def main() -> None:
    args = arguments(__doc__).parse_args()
    with folder(args.dir) as at:
        report(measure(at, 100 if args.quick else 1_000))


if __name__ == "__main__":
    main()
