"""Reading deployments and runs at one generation."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from arco.catalog.reader import CodeDeclaration
from arco.errors import Corrupt, NotFound
from arco.execution.pinned_versions import numbered_versions, version_by_id, versions_as_of
from arco.execution.reader import ExecutionReader
from arco.execution.states import HELD
from arco.execution.tables import PARTITIONS, MaterializationRow, PartitionRow
from arco.orchestration.limit_tables import DISPATCH_CONTROL, LIMITS, WORKSPACE, DeclaredLimits
from arco.orchestration.limit_usage import RunUse
from arco.orchestration.newest_rows import first_rows, following
from arco.orchestration.newest_rows import in_states as only_in_states
from arco.orchestration.plan import CurrentVersion, Plan, decode_plan
from arco.orchestration.projects import DeploymentReader
from arco.orchestration.run_list import RunListReader
from arco.orchestration.states import IN_FLIGHT, RUN_ACTIVE, RequestState
from arco.orchestration.tables import (
    DYNAMIC_KEYS,
    RUN_KEYS,
    RUN_REQUESTS,
    RUNS,
    TASKS,
    RunRequestRow,
    RunRow,
    TaskRow,
)
from arco.state.days import newest_first
from arco.state.snapshot import AsOfRow, Snapshot
from arco.storage import paths
from arco.storage.port import Store
from servo.contract.manifest import (
    Asset,
    AssetsByKey,
    Input,
    Manifest,
    decode_manifest,
    decode_outline,
)
from servo.contract.ulid import is_ulid

MIN_CHARS = 4
"""Minimum length of the beginning of an id that names a run."""


class OrchestrationReader(RunListReader):
    def limits(self) -> DeclaredLimits:
        control = self.snapshot.get(DISPATCH_CONTROL, WORKSPACE)
        return DeclaredLimits.of(self.snapshot.all(LIMITS), control)

    def run_use(self, now: datetime) -> RunUse:
        """Runs that are active, and those that were started today."""
        return RunUse.of(self.snapshot.hot(RUNS), now)

    def tasks_in_flight(self) -> list[TaskRow]:
        """Of all runs."""
        active = [run for run in self.snapshot.hot(RUNS) if run.state in RUN_ACTIVE]
        tasks = (task for run in active for task in self.snapshot.rows(TASKS, run.run_id))
        return [task for task in tasks if task.state in IN_FLIGHT]

    def run(self, run_id: str) -> RunRow:
        row = self.snapshot.get(RUNS, run_id)
        if row is None:
            raise NotFound(f"there is no run {run_id}", hint="see `servo runs list`")
        return row

    def find_run(self, text: str) -> RunRow:
        """A run by its id, or by the beginning of it where that is enough."""
        return self.snapshot.get(RUNS, text) or self._beginning_with(text)

    def find_active_run(self, text: str) -> RunRow:
        """The same, where an active run goes before those that have ended.

        Active runs are not in history: what this costs does not grow with it.
        """
        return self.snapshot.get(RUNS, text) or self._beginning_with(
            text, lambda row: row.state in RUN_ACTIVE
        )

    def _beginning_with(
        self, text: str, preferred: Callable[[RunRow], bool] = lambda row: False
    ) -> RunRow:
        """Of history only files are opened whose range of ids has this beginning."""
        start, runs = text.upper(), list[RunRow]()
        if len(start) >= MIN_CHARS:
            for rows, _ in newest_first(self.snapshot, RUNS, between=(start, f"{start}~")):
                named = rows.filter(pc.starts_with(rows.column("run_id"), start))
                runs += RUNS.rows_of(named)
                if len(first := [row for row in runs if preferred(row)]) == 1:
                    return first[0]
        if len(runs) == 1:
            return runs[0]
        if not runs:
            raise NotFound(
                f"{text!r} is not the id of a run",
                hint="give an id or its first characters; see `servo runs list`",
            )
        hint = f"give more characters: {', '.join(sorted(row.run_id for row in runs)[:5])}"
        raise NotFound(f"{text!r} names {len(runs):,} runs", hint=hint)

    def tasks(self, run_id: str) -> list[TaskRow]:
        """The tasks of a run in the plan's order."""
        return sorted(self.snapshot.rows(TASKS, run_id), key=lambda row: row.index)

    def run_request(self, key: str) -> RunRequestRow:
        """By its key, or by the id of its run or the beginning of that, if it is recent."""
        row = self.snapshot.get(RUN_REQUESTS, key)
        if row is None and len(key) >= MIN_CHARS and key.isalnum():
            of_runs = self.snapshot.hot(RUN_REQUESTS)
            chosen = [each for each in of_runs if each.run_id.startswith(key.upper())]
            row = chosen[0] if len(chosen) == 1 else None
        if row is None:
            raise NotFound(f"there is no request {key}", hint="see `servo requests list`")
        return row

    def run_requests(
        self,
        *,
        limit: int,
        in_states: Collection[str] = (),
        after: tuple[datetime, str] | None = None,
        matches: Callable[[RunRequestRow], bool] | None = None,
        choose: Callable[[pa.Table], pa.Table] = lambda rows: rows,
    ) -> tuple[list[RunRequestRow], bool]:
        """The newest requests that match, and whether there are no others. They are those that
        follow the request with this time and key, `after`. `choose` leaves out many that do not
        match at once."""
        chosen: list[RunRequestRow] = []
        for rows, rest_before in newest_first(self.snapshot, RUN_REQUESTS):
            rows = choose(only_in_states(rows, in_states))
            rows = following(rows, after, "requested_at", "request_key")
            newest = [("requested_at", "descending"), ("request_key", "descending")]
            if matches is None:
                chosen += first_rows(RUN_REQUESTS, rows, newest, limit + 1)
            else:
                matching = filter(matches, RUN_REQUESTS.rows_of(rows.sort_by(newest)))
                chosen += islice(matching, limit + 1)
            chosen.sort(key=lambda row: (row.requested_at, row.request_key), reverse=True)
            if rest_before is None or set(in_states) == {RequestState.PENDING}:
                break
            if len(chosen) >= limit and chosen[limit - 1].requested_at >= rest_before:
                return chosen[:limit], False
        return chosen[:limit], len(chosen) <= limit

    def request_of_run(self, run_id: str) -> RunRequestRow | None:
        """The recent request that was to become the run with this id, or the beginning of it."""
        start = run_id.upper()
        if len(start) < MIN_CHARS:
            return None
        rows = self.snapshot.hot(RUN_REQUESTS)
        matching = [row for row in rows if row.run_id.startswith(start)]
        return matching[0] if len(matching) == 1 else None

    def is_key_used(self, run_key: str) -> bool:
        """Whether a run or a request has the key, as far as folds know: history is not read."""
        versioned = self.snapshot.versioned
        _, run = versioned(RUN_KEYS, (run_key,), history=False)
        _, request = versioned(RUN_REQUESTS, (run_key,), history=False)
        return run is not None or request is not None

    def run_of_key(self, run_key: str) -> str | None:
        row = self.snapshot.get(RUN_KEYS, run_key)
        return None if row is None else row.run_id or None


def as_of_run(run_id: str) -> AsOfRow[RunRow]:
    """The first generation at which a run is terminal."""
    return AsOfRow(RUNS, (run_id,), lambda row: row.finished_at is not None, f"run {run_id} ends")


class SnapshotLookups:
    """The planner's lookups in one snapshot."""

    def __init__(self, snapshot: Snapshot, *, chunk_until: datetime | None = None) -> None:
        """`chunk_until` is for a chunk of a large request: of dynamic dimensions only the keys
        that were added until then count, and only versions that are asked for are looked up."""
        self._snapshot = snapshot
        self._chunk_until = chunk_until
        self.asset_id = functools.cache(DeploymentReader(snapshot).asset_id)
        self.held = functools.cache(self._held)
        self._current: dict[str, AssetVersions] = {}
        self._pinned: dict[tuple[str, str, str], Mapping[str, CurrentVersion]] = {}

    def current(self, asset_id: str) -> Mapping[str, CurrentVersion]:
        versions = self._versions(asset_id)
        return versions if self._chunk_until else versions.all

    def expect(self, asset_id: str, partitions: Iterable[str]) -> None:
        if self._chunk_until:
            self._versions(asset_id).look_up(partitions)

    def _versions(self, asset_id: str) -> AssetVersions:
        if asset_id not in self._current:
            self._current[asset_id] = AssetVersions(self._snapshot, asset_id)
        return self._current[asset_id]

    def pinned(self, asset_id: str, input: Input) -> Mapping[str, CurrentVersion]:
        """Looked up once for all equal inputs."""
        key = asset_id, input.version, input.as_of
        if key not in self._pinned:
            rows = pinned_versions(self._snapshot, asset_id, input)
            self._pinned[key] = {name: _version(row) for name, row in rows.items()}
        return self._pinned[key]

    def _held(self, asset_id: str) -> Mapping[str, str]:
        rows = sorted(ExecutionReader(self._snapshot).holds(asset_id), key=lambda row: row.held_at)
        return {
            row.partition_key: f"servo quarantine {'release' if row.held_by else 'approve'} "
            f"{row.materialization_id}"
            for row in rows
            if row.status in HELD
        }

    def dynamic_keys(self, name: str) -> list[str]:
        rows, until = self._snapshot.rows(DYNAMIC_KEYS, name), self._chunk_until
        return [row.key for row in rows if until is None or row.added_at <= until]


class AssetVersions(Mapping[str, CurrentVersion]):
    """Current versions of an asset, looked up when needed.

    The cost of a few does not depend on how many there are. Iterating reads all at once.
    """

    def __init__(self, snapshot: Snapshot, asset_id: str) -> None:
        self._snapshot = snapshot
        self._asset_id = asset_id
        self._looked_up: dict[str, CurrentVersion | None] = {}

    @functools.cached_property
    def all(self) -> dict[str, CurrentVersion]:
        rows = self._snapshot.rows(PARTITIONS, self._asset_id)
        return {row.partition_key: _version(row) for row in rows}

    def look_up(self, partitions: Iterable[str]) -> None:
        """Look up these at once, each file once for all of them."""
        if "all" in self.__dict__:
            return
        fresh = [key for key in partitions if key not in self._looked_up]
        rows = self._snapshot.get_many(PARTITIONS, [(self._asset_id, key) for key in fresh])
        for key in fresh:
            row = rows.get((self._asset_id, key))
            self._looked_up[key] = None if row is None else _version(row)

    def __getitem__(self, key: str) -> CurrentVersion:
        if "all" in self.__dict__:
            return self.all[key]
        if key not in self._looked_up:
            self.look_up((key,))
        version = self._looked_up[key]
        if version is None:
            raise KeyError(key)
        return version

    def __iter__(self) -> Iterator[str]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)


def pinned_versions(
    snapshot: Snapshot, asset_id: str, input: Input
) -> dict[str, MaterializationRow]:
    """The good versions that an input names, by partition key."""
    if input.as_of:
        return versions_as_of(snapshot, asset_id, datetime.fromisoformat(input.as_of))
    if input.version.isdecimal() and not is_ulid(input.version):
        return numbered_versions(snapshot, asset_id, int(input.version))
    return version_by_id(snapshot, asset_id, input.version)


def _version(row: PartitionRow | MaterializationRow) -> CurrentVersion:
    return CurrentVersion(
        materialization_id=row.materialization_id,
        path=row.path,
        fingerprint=row.fingerprint,
        rows=row.rows,
        bytes=row.bytes,
    )


class Library:
    """Manifests and plans from the store. They never change, so they are kept."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.manifest = functools.lru_cache(maxsize=4)(self._manifest)
        self.outline = functools.lru_cache(maxsize=64)(self._outline)
        self.assets = functools.lru_cache(maxsize=16)(self._assets)
        self.plan = functools.lru_cache(maxsize=8)(self._plan)

    def _manifest(self, digest: str) -> Manifest:
        return decode_manifest(self._encoded(digest))

    def _outline(self, digest: str) -> Manifest:
        """A manifest whose assets have no columns."""
        return decode_outline(self._encoded(digest))

    def _assets(self, digest: str) -> Mapping[str, Asset]:
        """The assets of a manifest by their keys, decoded one by one."""
        return AssetsByKey(self._encoded(digest))

    def declaration(self, snapshot: Snapshot, key: str) -> CodeDeclaration | None:
        """The declaration of a deployed asset; None if no project has it."""
        reader = DeploymentReader(snapshot)
        row = reader.deployed_asset(key)
        if row is None or not row.active:
            return None
        current = reader.current_deployment(row.project)
        asset = None if current is None else self.assets(current.manifest).get(key)
        if asset is None:
            return CodeDeclaration(row.project, frozenset())
        return CodeDeclaration(
            row.project,
            frozenset(column.name for column in asset.columns),
            frozenset(dimension.name for dimension in asset.partitions),
        )

    def _encoded(self, digest: str) -> bytes:
        raw = self._store.get(paths.manifest(digest)).data
        if hashlib.sha256(raw).hexdigest() != digest:
            raise Corrupt(f"{paths.manifest(digest)} does not have the digest in its name")
        return raw

    def _plan(self, plan_id: str) -> Plan:
        return decode_plan(self._store.get(paths.plan(plan_id)).data)
