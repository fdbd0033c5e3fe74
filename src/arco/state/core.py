"""What everything that works on one workspace needs. Built once, in `arco.app`."""

from __future__ import annotations

from dataclasses import dataclass

from arco.log.core import LogCore
from arco.log.head import Head
from arco.state.parquet import Files
from arco.state.snapshot import At, Snapshot
from arco.storage.lease import Leases


@dataclass(frozen=True, kw_only=True)
class Core(LogCore):
    files: Files
    leases: Leases
    snapshots: type[Snapshot] = Snapshot
    """How generations are read."""

    def snapshot(self, at: At | None = None) -> Snapshot:
        return self.snapshots.open(self.manifests, self.files, at)

    def snapshot_of(self, head: Head) -> Snapshot:
        return self.snapshots(self.manifests, self.files, head)
