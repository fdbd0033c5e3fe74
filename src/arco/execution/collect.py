"""Collecting data: what no kept generation and no run can read goes. A dry run unless told.

What a reader may still reach decides. A reader opens a generation that is kept (above the
floor, or pinned) and reads what is current there; a rollback makes such a generation the
head again, with its runs and its undecided quarantine. So, in this order:

    1. raise the floor          nobody may open what lies below it from now on
    2. read the pins, then the head again
                                see pins.py for why in this order
    3. look at the witnesses    generations that together show what every kept one needs
    4. decide                   which versions are given up: `give_up`, a pure function
    5. say so                   `VersionsExpired`, which the fold refuses for what is current
    6. delete                   files of versions that are given up, then leftovers

Between 5 and 6 a crash leaves rows that are EXPIRED and have files; the next time deletes
them. The rows stay: they are the history of what was there.

**Witnesses.** Along the log a version is made, becomes current, and stops being current,
once; its row says when. So the head shows which versions were current since the floor:
those that are, and those that stopped being so after the floor's time. Only a rollback or a
rebuild takes rows back; then the generation before it shows what was. A pinned generation
below the floor shows what is current in it.

**Runs.** Whatever the plan of an active run names, and what its tasks have made, stays; and
so does what was current while an attempt is in flight, which reads it to compare with. No
leftovers go from a partition that an active run still works on: an attempt of it may have
written files, and even committed them, and not reported yet.

**Leftovers** are folders that no witness knows: of attempts that lost, failed or were
killed. They go once all of their files are older than the age gate.
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
from arco.execution.expiry import FOLDER, Ended, GivenUp, Kept, Made, Needs, Runs, give_up, needed
from arco.execution.tables import MATERIALIZATIONS, PARTITIONS
from arco.log.head import Manifests
from arco.log.publish import delete_quietly
from arco.state.gc import LEASE, LEASE_TTL, wanted_floor
from arco.state.parquet import Files
from arco.state.pins import Pins
from arco.state.replay import Progress, silent
from arco.state.snapshot import Snapshot
from arco.storage.lease import Leases
from arco.storage.parallel import each
from arco.storage.port import ObjectMeta
from arco.storage.store_clock import StoreClock

DATA = "data/"
LOGS = "logs/"
PLANS = "plans/"
BATCH = 500
"""Versions in one event."""

TAKES_ROWS_BACK = ("rollback", "rebuild")
_MARKER = re.compile(r"data/([^/]+)/([^/]+)/[^/]+/_commits/([^/.]+)\.[^/]+\.json")


class Doomed(msgspec.Struct, frozen=True):
    path: str
    bytes: int
    why: str
    asset: str = ""


class DataGcReport(msgspec.Struct, frozen=True):
    dry_run: bool
    floor: int
    head: int
    given_up: list[GivenUp]
    doomed: list[Doomed]
    failed: int
    """Deletes, and versions that could not be given up."""

    @property
    def bytes(self) -> int:
        return sum(d.bytes for d in self.doomed)


class _Seen(msgspec.Struct, frozen=True):
    """What the witnesses show, together."""

    versions: list[Made]
    """Of the head."""
    known: frozenset[str]
    """Folders of all versions of all witnesses."""
    needed: frozenset[str]
    runs: Needs
    since: datetime

    def stays(self, made: Made) -> bool:
        if made.materialization_id in self.needed or made.superseded_at is None:
            return True
        if made.status == "LATE" and made.path.rpartition("/")[0] in self.runs.folders:
            return True  # the run's next attempt finds its marker, and adopts it
        return made.superseded_at >= self.since


class DataCollector:
    def __init__(
        self,
        manifests: Manifests,
        files: Files,
        pins: Pins,
        store_clock: StoreClock,
        leases: Leases,
        runs: Runs,
        expire: Callable[[str, Sequence[Version]], object],
    ) -> None:
        self._manifests = manifests
        self._store = manifests.store
        self._files = files
        self._pins = pins
        self._store_clock = store_clock
        self._leases = leases
        self._runs = runs
        self._expire = expire

    def collect(
        self, kept: Kept | None = None, *, dry_run: bool = True, progress: Progress = silent
    ) -> DataGcReport:
        if dry_run:
            return self._collect(kept or Kept(), True, progress)
        # The lease of the other GC: both raise the floor.
        with self._leases.hold(LEASE, LEASE_TTL) as hold:
            if hold is None:
                raise Contended("another gc is under way", hint="try again when it has ended")
            return self._collect(kept or Kept(), False, hold.keeping(progress))

    def _collect(self, kept: Kept, dry_run: bool, progress: Progress) -> DataGcReport:
        # A dry run decides nothing, and must write nothing.
        now = self._store_clock.estimate() if dry_run else self._store_clock.measure()
        head = self._manifests.head()
        if head.generation == 0:
            return DataGcReport(dry_run, 0, 0, [], [], 0)
        floor = wanted_floor(self._manifests, head, kept.generations, now)
        if not dry_run:
            self._manifests.raise_floor(floor)
        pinned = {pin.generation for pin in self._pins.active(now)}
        head = self._manifests.head()
        snapshot = Snapshot(self._manifests, self._files, head)
        seen = self._look(snapshot, floor, pinned, progress)
        retention = self._runs.retention(snapshot)
        given_up = sorted(give_up(seen.versions, retention, seen.stays, now), key=_in_order)
        failed = 0
        if not dry_run:
            told = self._give_up(given_up, progress)
            failed, given_up = len(given_up) - len(told), told
        ended = self._runs.ended(snapshot)
        doomed = list(self._sweepable(seen, given_up, kept, ended, now, progress))
        if not dry_run:
            failed += self._sweep(doomed, progress)
        return DataGcReport(dry_run, floor, head.generation, given_up, doomed, failed)

    # -- witnesses -------------------------------------------------------------------------

    def _look(self, snapshot: Snapshot, floor: int, pinned: set[int], progress: Progress) -> _Seen:
        lowest = self._manifests.read(floor)
        since = lowest.manifest.log_time
        above = self._before_rows_were_taken_back(floor, snapshot.generation, progress)
        wanted = sorted({floor, *above, *pinned} - {snapshot.generation})
        versions = _versions(snapshot)
        runs = self._runs.needs(snapshot)
        found = needed(versions, _current(snapshot), since)
        known = {made.path for made in versions}
        for done, generation in enumerate(wanted, 1):
            head = self._manifests.find(generation)
            if head is None:
                continue  # pinned by a restored or mistaken pin: nobody can open it
            older = Snapshot(self._manifests, self._files, head)
            rows = _versions(older)
            found |= needed(rows, _current(older), since if generation >= floor else None)
            known |= {made.path for made in rows}
            runs = runs.also(self._runs.needs(older))
            progress("reading kept generations", done, len(wanted))
        if runs.since is not None:
            since = min(since, runs.since)
        return _Seen(versions, frozenset(known), frozenset(found | runs.versions), runs, since)

    def _before_rows_were_taken_back(self, floor: int, newest: int, progress: Progress) -> set[int]:
        found: set[int] = set()
        for start in range(floor + 1, newest + 1, 256):
            part = range(start, min(start + 256, newest + 1))
            heads = each(self._store, self._manifests.find, part)
            found |= {
                head.generation - 1
                for head in heads
                if head is not None and head.manifest.kind in TAKES_ROWS_BACK
            }
            progress("looking through kept generations", part[-1] - floor, newest - floor)
        return found

    # -- giving up -------------------------------------------------------------------------

    def _give_up(self, given_up: Sequence[GivenUp], progress: Progress) -> list[GivenUp]:
        """Those that the log says are given up."""
        told: list[GivenUp] = []
        done = 0
        for asset_id, those in itertools.groupby(given_up, lambda g: g.asset_id):
            mine = list(those)
            for start in range(0, len(mine), BATCH):
                part = mine[start : start + BATCH]
                done += len(part)
                if self._told(asset_id, part):
                    told += part
                progress("giving up versions", done, len(given_up))
        return told

    def _told(self, asset_id: str, part: Sequence[GivenUp]) -> bool:
        try:
            self._expire(asset_id, [Version(g.materialization_id, g.reason) for g in part])
            return True
        except (Refused, Unavailable):
            return False  # one became current, or nobody can say: the next time decides anew

    # -- files -----------------------------------------------------------------------------

    def _sweepable(
        self,
        seen: _Seen,
        given_up: Sequence[GivenUp],
        kept: Kept,
        ended: Ended,
        now: datetime,
        progress: Progress,
    ) -> Iterator[Doomed]:
        going = {given.path for given in given_up}
        going |= {m.path for m in seen.versions if m.status == "EXPIRED" and not seen.stays(m)}
        window = max(kept.generations.generations, self._manifests.age_gate)
        for key, objects in itertools.groupby(self._listed(DATA, progress), _belongs_to):
            if _MARKER.fullmatch(key):
                yield from _marker(next(objects), seen, ended, now - max(kept.markers, window))
            elif found := FOLDER.fullmatch(key):
                limit = now - self._manifests.age_gate
                yield from _folder(found, list(objects), seen, going, limit)
        for meta in self._listed(LOGS, progress):
            run = meta.path.removeprefix(LOGS).partition("/")[0]
            if _is_over(ended.runs.get(run), run in seen.runs.runs, meta, now - kept.logs):
                yield Doomed(meta.path, meta.size, "log")
        for meta in self._listed(PLANS, progress):
            plan = meta.path.removeprefix(PLANS).removesuffix(".json")
            limit = now - max(kept.plans, window)
            if _is_over(ended.plans.get(plan), plan in seen.runs.plans, meta, limit):
                yield Doomed(meta.path, meta.size, "plan")

    def _listed(self, prefix: str, progress: Progress) -> Iterator[ObjectMeta]:
        for number, meta in enumerate(self._store.list(prefix)):
            if number % 1000 == 0:
                progress(f"looking through {prefix}", number, number)
            yield meta

    def _sweep(self, doomed: Sequence[Doomed], progress: Progress) -> int:
        failed = 0
        for start in range(0, len(doomed), 256):
            part = doomed[start : start + 256]
            failed += delete_quietly(self._store, [d.path for d in part])
            progress("deleting", start + len(part), len(doomed))
        return failed


def _in_order(given: GivenUp) -> tuple[str, str, str, int, str]:
    asset = (given.asset, given.asset_id, given.partition)
    return (*asset, given.version, given.materialization_id)


def _belongs_to(meta: ObjectMeta) -> str:
    """The version's folder that an object lies in, or the object itself."""
    found = FOLDER.match(meta.path)
    return meta.path if found is None else found[0]


def _folder(
    found: re.Match[str],
    objects: Sequence[ObjectMeta],
    seen: _Seen,
    going: set[str],
    limit: datetime,
) -> Iterator[Doomed]:
    folder = found[0].rstrip("/")
    if folder in going:
        why = "version"
    elif folder in seen.known or found[4] in seen.needed or found[1] in seen.runs.folders:
        return
    elif all(meta.last_modified < limit for meta in objects):
        why = "leftover"
    else:
        return
    for meta in objects:
        yield Doomed(meta.path, meta.size, why, f"{found[2]}.{found[3]}")


def _marker(meta: ObjectMeta, seen: _Seen, ended: Ended, limit: datetime) -> Iterator[Doomed]:
    found = _MARKER.fullmatch(meta.path)
    assert found is not None
    run = found[3]
    if _is_over(ended.runs.get(run), run in seen.runs.runs, meta, limit):
        yield Doomed(meta.path, meta.size, "commit marker", f"{found[1]}.{found[2]}")


def _is_over(ended: datetime | None, active: bool, meta: ObjectMeta, limit: datetime) -> bool:
    """Whether a run's object is too old. Nobody knows some runs: then its own age counts."""
    if active or meta.last_modified >= limit:
        return False
    return ended is None or ended < limit


def _versions(snapshot: Snapshot) -> list[Made]:
    """All versions of a generation. Their schemas, which are most of it, are left alone."""
    table = snapshot.scan(MATERIALIZATIONS)
    columns = [_column(table, name) for name in Made._fields]
    return [Made(*values) for values in zip(*columns, strict=True)]


def _column(table: pa.Table, name: str) -> list[Any]:
    if name in table.column_names:
        return table.column(name).to_pylist()  # type: ignore[no-any-return]
    return [Made._field_defaults[name]] * table.num_rows  # from before there was such a column


def _current(snapshot: Snapshot) -> list[str]:
    found: list[str] = snapshot.scan(PARTITIONS).column("materialization_id").to_pylist()
    return found
