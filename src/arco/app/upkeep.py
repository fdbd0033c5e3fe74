"""Upkeep of a workspace: checks, garbage collection, rebuilds, backups, merges."""

from __future__ import annotations

import threading
from typing import Any

from arco.execution.collect import DataCollector, DataGcReport
from arco.execution.commands import ExecutionCommands
from arco.execution.data_check import DataReport, Depth, check_data
from arco.execution.expiry import KeepFor
from arco.lineage.tables import BY_NAMES
from arco.log.head import Head
from arco.orchestration.in_use import runs_of
from arco.orchestration.reader import Library
from arco.state.backup import CopyReport, back_up, restore
from arco.state.compactor import Compactor
from arco.state.core import Core
from arco.state.fold import Chain
from arco.state.fsck import Checker, FsckReport
from arco.state.gc import Collector, GcReport, GenerationRetention
from arco.state.merge import Merger
from arco.state.merge_loop import MergeLoop
from arco.state.pins import Pins
from arco.state.rebuild import EmbeddedRebuildEngine, Rebuild, RebuildEngine, Rebuilder
from arco.state.replay import ReportProgress, silent
from arco.state.rollback import Rollback
from arco.state.system import all_tables
from arco.state.writer import LogWriter
from arco.storage.port import Store
from arco.storage.scoped import ScopedStore


class Upkeep:
    def __init__(
        self,
        core: Core,
        writer: LogWriter,
        chain: Chain,
        library: Library,
        execution: ExecutionCommands,
    ) -> None:
        self._core = core
        self._writer = writer
        self._chain = chain
        self._library = library
        self._execution = execution
        self._tables = all_tables(chain)
        self.merger = Merger(core, writer.publisher, self._tables)

    @property
    def pins(self) -> Pins:
        return Pins(self._core)

    def fsck(self, *, deep: bool = True, progress: ReportProgress = silent) -> FsckReport:
        return Checker(self._core.manifests, self._tables, deep=deep, progress=progress).check()

    def check_data(
        self, depth: Depth, *, record: bool = False, progress: ReportProgress = silent
    ) -> DataReport:
        """Whether the files of current versions exist and are intact; `record` appends damages."""
        report = check_data(self._core.store, self._core.snapshot(), depth, progress)
        if record:
            for asset_id, versions in report.damaged.items():
                self._execution.record_damage(asset_id, versions)
        return report

    def gc(
        self,
        retention: GenerationRetention | None = None,
        *,
        dry_run: bool = True,
        progress: ReportProgress = silent,
    ) -> GcReport:
        collector = Collector(self._core, self.pins)
        report = collector.collect(retention, dry_run=dry_run, progress=progress)
        self._sweep(dry_run=dry_run)
        return report

    def collect_data(
        self,
        keep: KeepFor | None = None,
        *,
        dry_run: bool = True,
        progress: ReportProgress = silent,
    ) -> DataGcReport:
        """Expire versions, and delete files that cannot be read any more."""
        if not dry_run:
            self._writer.drain()  # so that no run is still in the inbox
        runs = runs_of(self._library)
        collector = DataCollector(self._core, self.pins, runs, self._execution.expire)
        report = collector.collect(keep, dry_run=dry_run, progress=progress)
        self._sweep(dry_run=dry_run)
        return report

    def _sweep(self, *, dry_run: bool) -> None:
        """Remove what unfinished writes have left behind."""
        store = self._core.store
        if not dry_run and isinstance(store, ScopedStore):
            store.sweep(self._core.manifests.age_gate)

    def rebuild(
        self,
        engine: RebuildEngine | None = None,
        *,
        publish: bool = True,
        progress: ReportProgress = silent,
    ) -> Rebuild:
        """Fold the log again; the embedded engine unless another is given."""
        return Rebuilder(self._core, self._writer.publisher, [BY_NAMES]).rebuild(
            self._core.snapshot(),
            engine or EmbeddedRebuildEngine(self._core, self._chain),
            publish=publish,
            progress=progress,
        )

    def backup(
        self, target: Store, *, data: bool = False, progress: ReportProgress = silent
    ) -> CopyReport:
        """Commit what waits in the inbox, and copy the head to a store of the same scope.

        With `data`, what assets have written is copied too.
        """
        self._writer.drain()
        return back_up(self._core, self.pins, target, data=data, progress=progress)

    def restore(
        self, backup: Store, *, generation: int | None = None, progress: ReportProgress = silent
    ) -> CopyReport:
        """Fill this workspace, which must be empty, from a backup and all that it has."""
        return restore(backup, self._core, generation=generation, progress=progress)

    def rollback(self, generation: int, *, reason: str, actor: str = "") -> Head:
        """Publish the state of an older generation as a new one."""
        rollback = Rollback(self._core, self._writer.publisher, self.pins)
        return rollback.roll_back(generation, reason=reason, actor=actor)

    def compactor(self, stop: threading.Event, **settings: Any) -> Compactor:
        return Compactor(self._core.clock, self._writer, self.merger, stop, **settings)

    def merge_loop(self) -> MergeLoop:
        return MergeLoop(self._core.clock, self.merger)
