"""Garbage collection of data: deletes what no kept generation and no run can read.

The collector keeps what a reader may still read. A reader opens a generation that is kept (above
the floor, or pinned) and reads what is current there; a rollback makes such a generation the head
again, with its runs and its undecided quarantine. So, in this order:

    1. raise the floor          nobody may open what lies below it from now on
    2. read the pins, then the head again
                                see pins.py for why in this order
    3. read the witnesses       generations that together show what every kept one needs
    4. decide                   which versions expire: `expirable`, a pure function
    5. append                   `VersionsExpired`, which the fold refuses for current versions
    6. delete                   files of expired versions, then leftovers

After a crash between 5 and 6, expired versions still have files; the next gc deletes them. Their
rows stay as history.

**Witnesses.** Along the log a version is written, becomes current, and stops being current, once;
its row has the times. So the head shows which versions were current since the floor: those that
are, and those that stopped being so after the floor's time. Only a rollback or a rebuild changes
rows without events; then the generation before it shows the earlier rows. A pinned generation below
the floor shows what is current in it.

**Runs.** What the plan of an active run names, and what its tasks have written, is kept; and so are
versions that were current while an attempt is in flight, which compares with them. Leftovers of a
partition that an active run still writes are kept: an attempt may have written and committed files,
and not reported yet.

**Lists of inputs** belong to a run, and say what its versions were made from. They are deleted with
the last version of the run that a witness has and that has files.

**Leftovers** are folders that no witness has: of attempts that lost, failed or were killed. They
are deleted once all of their files are older than the age gate.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec
import pyarrow as pa

from arco.errors import Contended, Refused, Unavailable
from arco.execution.events import Version
from arco.execution.expiry import (
    FOLDER,
    EndedRuns,
    ExpiredVersion,
    KeepFor,
    RunLookups,
    RunNeeds,
    VersionInfo,
    current_in,
    expirable,
    needed,
)
from arco.execution.states import VersionStatus
from arco.execution.tables import EXPIRATIONS, MATERIALIZATIONS, PARTITIONS
from arco.log.cleanup import delete_quietly
from arco.log.head import Head
from arco.log.manifest import Thinned
from arco.state.core import Core
from arco.state.gc import LEASE, LEASE_TTL, next_floor
from arco.state.pins import Pins
from arco.state.replay import ReportProgress, silent
from arco.state.snapshot import Snapshot
from arco.storage import paths
from arco.storage.port import ObjectMeta

DATA = "data/"
PLANS = "plans/"
BATCH = 500
"""Versions in one event."""


class DeletableFile(msgspec.Struct, frozen=True):
    path: str
    bytes: int
    why: str
    asset: str = ""


class DataGcReport(msgspec.Struct, frozen=True):
    dry_run: bool
    floor: int
    head: int
    expired: list[ExpiredVersion]
    deletable: list[DeletableFile]
    failed: int
    """Deletes that failed, and versions that could not be expired."""

    @property
    def bytes(self) -> int:
        return sum(d.bytes for d in self.deletable)


class _Witnessed(msgspec.Struct, frozen=True):
    """What all witnesses show."""

    versions: list[VersionInfo]
    """Of the head."""
    folders: frozenset[str]
    """Folders of all versions of all witnesses."""
    folders_by_run: frozenset[tuple[str, str]]
    """The same folders, each with the run that wrote it."""
    needed: frozenset[str]
    runs: RunNeeds
    since: datetime

    def stays(self, version: VersionInfo) -> bool:
        if version.materialization_id in self.needed or version.superseded_at is None:
            return True
        if (
            version.status == VersionStatus.LATE
            and version.path.rpartition("/")[0] in self.runs.folders
        ):
            return True  # the run's next attempt finds its marker, and adopts it
        return version.superseded_at >= self.since


class DataCollector:
    def __init__(
        self,
        core: Core,
        pins: Pins,
        runs: RunLookups,
        expire: Callable[[str, Sequence[Version]], object],
    ) -> None:
        self._manifests = core.manifests
        self._store = core.store
        self._files = core.files
        self._pins = pins
        self._store_clock = core.store_clock
        self._leases = core.leases
        self._runs = runs
        self._expire = expire

    def collect(
        self,
        keep: KeepFor | None = None,
        *,
        dry_run: bool = True,
        progress: ReportProgress = silent,
    ) -> DataGcReport:
        if dry_run:
            return self._collect(keep or KeepFor(), True, progress)
        # The lease of the other GC: both raise the floor.
        with self._leases.hold(LEASE, LEASE_TTL) as hold:
            if hold is None:
                raise Contended("another gc is running", hint="try again when it has ended")
            return self._collect(keep or KeepFor(), False, hold.keeping(progress))

    def _collect(self, keep: KeepFor, dry_run: bool, progress: ReportProgress) -> DataGcReport:
        # A dry run decides nothing, and must write nothing.
        now = self._store_clock.estimate() if dry_run else self._store_clock.measure()
        head = self._manifests.head()
        if head.generation == 0:
            return DataGcReport(dry_run, 0, 0, [], [], 0)
        floor = next_floor(self._manifests, head, keep.generations, now)
        if not dry_run:
            self._manifests.raise_floor(floor)
        pinned = {pin.generation for pin in self._pins.active(now)}
        head = self._manifests.head()
        snapshot = Snapshot(self._manifests, self._files, head)
        # Generations before a rewrite are read: the rows of the head say nothing about them.
        rewritten_at = snapshot.head.manifest.rewritten_at
        pinned |= {n for n in floor.thinned_numbers() if n < rewritten_at}
        thinned = [t for t in floor.thinned if t.generation >= rewritten_at]
        witnessed = self._witnesses(snapshot, floor.generation, pinned, thinned, progress)
        retention = self._runs.retention(snapshot)
        expired = sorted(expirable(witnessed.versions, retention, witnessed.stays, now), key=_order)
        failed = 0
        if not dry_run:
            recorded = self._record_expired(expired, progress)
            failed, expired = len(expired) - len(recorded), recorded
        window = max(keep.generations.generations, self._manifests.age_gate)
        longest = max(keep.logs, keep.plans, keep.markers, window)
        ended = self._runs.ended(snapshot, now - longest)
        deletable = list(self._sweepable(witnessed, expired, keep, ended, now, progress))
        if not dry_run:
            failed += self._sweep(deletable, progress)
        return DataGcReport(dry_run, floor.generation, head.generation, expired, deletable, failed)

    # -- witnesses -------------------------------------------------------------------------

    def _witnesses(
        self,
        snapshot: Snapshot,
        floor: int,
        pinned: set[int],
        thinned: Sequence[Thinned],
        progress: ReportProgress,
    ) -> _Witnessed:
        lowest = self._manifests.read(floor)
        since = lowest.manifest.log_time
        above = self._before_rewrites(floor, snapshot.head)
        generations = sorted({floor, *above, *pinned} - {snapshot.generation})
        versions = _versions(snapshot)
        runs = self._runs.needs(snapshot)
        needed_ids = needed(versions, _current(snapshot), since) | current_in(versions, thinned)
        folders = {(version.path, version.run_id) for version in versions}
        for done, generation in enumerate(generations, 1):
            head = self._manifests.find(generation)
            if head is None:
                continue  # pinned by a restored or mistaken pin: it cannot be opened
            older = Snapshot(self._manifests, self._files, head)
            rows = _versions(older)
            needed_ids |= needed(rows, _current(older), since if generation >= floor else None)
            folders |= {(version.path, version.run_id) for version in rows}
            runs = runs.also(self._runs.needs(older))
            progress("reading kept generations", done, len(generations))
        if runs.since is not None:
            since = min(since, runs.since)
        return _Witnessed(
            versions,
            frozenset(path for path, _ in folders),
            frozenset(folders),
            frozenset(needed_ids | runs.versions),
            runs,
            since,
        )

    def _before_rewrites(self, floor: int, newest: Head) -> set[int]:
        """The generations right before rollbacks and rebuilds: each names the one before it."""
        before: set[int] = set()
        at = newest
        while at.manifest.rewritten_at > floor:
            before.add(at.manifest.rewritten_at - 1)
            at = self._manifests.read(at.manifest.rewritten_at - 1)
        return before

    # -- expiring ---------------------------------------------------------------------------

    def _record_expired(
        self, versions: Sequence[ExpiredVersion], progress: ReportProgress
    ) -> list[ExpiredVersion]:
        """Append that versions are expired. The result: those for which this succeeded."""
        expired: list[ExpiredVersion] = []
        done = 0
        for asset_id, group in itertools.groupby(versions, lambda version: version.asset_id):
            of_asset = list(group)
            for start in range(0, len(of_asset), BATCH):
                part = of_asset[start : start + BATCH]
                done += len(part)
                if self._try_expire(asset_id, part):
                    expired += part
                progress("expiring versions", done, len(versions))
        return expired

    def _try_expire(self, asset_id: str, part: Sequence[ExpiredVersion]) -> bool:
        try:
            self._expire(asset_id, [Version(g.materialization_id, g.reason) for g in part])
            return True
        except (Refused, Unavailable):
            return False  # one became current, or the outcome is unknown: the next gc decides

    # -- files -----------------------------------------------------------------------------

    def _sweepable(
        self,
        witnessed: _Witnessed,
        expired: Sequence[ExpiredVersion],
        keep: KeepFor,
        ended: EndedRuns,
        now: datetime,
        progress: ReportProgress,
    ) -> Iterator[DeletableFile]:
        expired_paths = {version.path for version in expired}
        expired_paths |= {
            version.path
            for version in witnessed.versions
            if version.status == VersionStatus.EXPIRED and not witnessed.stays(version)
        }
        window = max(keep.generations.generations, self._manifests.age_gate)
        for key, objects in itertools.groupby(self._listed(DATA, progress), _belongs_to):
            if match := FOLDER.fullmatch(key):
                limit = now - self._manifests.age_gate
                yield from _folder(match, list(objects), witnessed, expired_paths, limit)
        of_runs = (
            (paths.COMMITS, "commit marker", max(keep.markers, window)),
            (paths.LOGS, "log", keep.logs),
        )
        for prefix, why, age in of_runs:
            for meta in self._listed(prefix, progress):
                run = meta.path.removeprefix(prefix).partition("/")[0]
                if _is_over(ended.runs.get(run), run in witnessed.runs.runs, meta, now - age):
                    yield DeletableFile(meta.path, meta.size, why)
        for meta in self._listed(PLANS, progress):
            plan = meta.path.removeprefix(PLANS).removesuffix(".json")
            limit = now - max(keep.plans, window)
            if _is_over(ended.plans.get(plan), plan in witnessed.runs.plans, meta, limit):
                yield DeletableFile(meta.path, meta.size, "plan")
        needed_runs = {
            run for path, run in witnessed.folders_by_run if path not in expired_paths
        } | witnessed.runs.runs
        for meta in self._listed(paths.INPUTS, progress):
            run = meta.path.removeprefix(paths.INPUTS).partition("/")[0]
            if _is_over(
                ended.runs.get(run), run in needed_runs, meta, now - max(keep.plans, window)
            ):
                yield DeletableFile(meta.path, meta.size, "list of inputs")

    def _listed(self, prefix: str, progress: ReportProgress) -> Iterator[ObjectMeta]:
        for number, meta in enumerate(self._store.list(prefix)):
            if number % 1000 == 0:
                progress(f"listing {prefix}", number, number)
            yield meta

    def _sweep(self, deletable: Sequence[DeletableFile], progress: ReportProgress) -> int:
        failed = 0
        for start in range(0, len(deletable), 256):
            part = deletable[start : start + 256]
            failed += delete_quietly(self._store, [d.path for d in part])
            progress("deleting", start + len(part), len(deletable))
        return failed


def _order(version: ExpiredVersion) -> tuple[str, str, str, int, str]:
    asset = (version.asset, version.asset_id, version.partition)
    return (*asset, version.version, version.materialization_id)


def _belongs_to(meta: ObjectMeta) -> str:
    """The version's folder that an object lies in, or the object itself."""
    match = FOLDER.match(meta.path)
    return meta.path if match is None else match[0]


def _folder(
    match: re.Match[str],
    objects: Sequence[ObjectMeta],
    witnessed: _Witnessed,
    expired_paths: set[str],
    limit: datetime,
) -> Iterator[DeletableFile]:
    folder = match[0].rstrip("/")
    if folder in expired_paths:
        why = "version"
    elif (
        folder in witnessed.folders
        or match[4] in witnessed.needed
        or match[1] in witnessed.runs.folders
    ):
        return
    elif all(meta.last_modified < limit for meta in objects):
        why = "leftover"
    else:
        return
    for meta in objects:
        yield DeletableFile(meta.path, meta.size, why, f"{match[2]}.{match[3]}")


def _is_over(ended: datetime | None, active: bool, meta: ObjectMeta, limit: datetime) -> bool:
    """Whether a run's object is too old. If the run is unknown, its own age counts."""
    if active or meta.last_modified >= limit:
        return False
    return ended is None or ended < limit


def _versions(snapshot: Snapshot) -> list[VersionInfo]:
    """All versions of a generation, without their schemas."""
    table = snapshot.scan(MATERIALIZATIONS)
    columns = {name: _column(table, name) for name in VersionInfo._fields}
    columns["status"] = list(map(VersionStatus, columns["status"]))
    expired = set(snapshot.scan(EXPIRATIONS).column("materialization_id").to_pylist())
    return [
        version._replace(status=VersionStatus.EXPIRED)
        if version.materialization_id in expired
        else version
        for version in (VersionInfo(*values) for values in zip(*columns.values(), strict=True))
    ]


def _column(table: pa.Table, name: str) -> list[Any]:
    if name in table.column_names:
        return table.column(name).to_pylist()  # type: ignore[no-any-return]
    return [
        VersionInfo._field_defaults[name]
    ] * table.num_rows  # from before there was such a column


def _current(snapshot: Snapshot) -> list[str]:
    ids: list[str] = snapshot.scan(PARTITIONS).column("materialization_id").to_pylist()
    return ids
