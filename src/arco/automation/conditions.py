"""Whether automation should run a partition now, and why, from one snapshot.

It runs if there is a cause, all its inputs are good, and nothing else runs it:

* Cause: a version that it reads was replaced, or is the first one, after the automation was
  declared, and after its last attempt was planned. For `on_missing`: it has no version, and its
  inputs, its key or the end of its period are newer than the declaration.
* Good: each input has data; nothing newer of it failed or is held; and neither the input nor its
  own automated inputs are running or requested.
* Nothing else runs it: no active run has a task for it, no request is pending, and no open backfill
  has it in a chunk to come.

All of this follows from rows: there is no other state about a partition. A decision can only change
with a row, the end of a period, or a tick.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, Literal, NamedTuple, TypeVar

from msgspec import Struct

from arco.automation.asset_graph import AutomatedPartition, Periods, Read
from arco.automation.asset_reads import PlannedWork
from arco.automation.asset_tables import AutomationRow
from arco.automation.changed_rows import AssetPartition
from arco.execution.states import PartitionStatus
from arco.execution.tables import PARTITION_STATUS, PARTITIONS, PartitionRow, PartitionStatusRow
from arco.orchestration.configuration import task_config
from arco.orchestration.input_refs import fingerprint_part
from arco.orchestration.partition_space import Calendar, Names, Point
from arco.orchestration.plan import input_fingerprint
from arco.orchestration.reader import SnapshotLookups
from arco.orchestration.tables import DYNAMIC_KEYS
from arco.state.snapshot import Snapshot
from arco.state.table import Row, Table
from arco.tasks.input_failures import partition_text
from servo.contract.manifest import Input
from servo.errors import Invalid

MANY = 200
"""For more partitions of an asset, reading all of them takes less time."""
SHOWN = 5
"""Maximum of reported things that a partition waits for."""

ActiveTasks = Mapping[str, Mapping[str, Mapping[str, str]]]
"""By asset id and partition: the active runs with a task for it that has not ended."""
PartitionOutcome = Literal["runs", "waits", "idle"]
R = TypeVar("R", bound=Row)


class AutomationVerdict(Struct, frozen=True):
    outcome: PartitionOutcome
    reasons: tuple[str, ...]
    cause: str = ""
    """The cause, in a few words."""
    is_held: bool = False
    """No change of what it waits for leads to it: it waits only for requests and backfills, which
    may end without a run, and, if it has no attempt, for inputs that do not depend on its time."""
    waits_for_work: bool = False
    """A request or a backfill is among what it waits for."""

    @property
    def runs(self) -> bool:
        return self.outcome == "runs"


class ActiveWork(NamedTuple):
    """What is running, or was requested."""

    tasks: ActiveTasks = {}
    planned: PlannedWork = PlannedWork()

    def text(self, place: AssetPartition) -> str:
        """The run, request or backfill for a partition; empty if there is none."""
        runs = self.tasks.get(place[0], {}).get(place[1])
        if runs:
            return f"run {min(runs)} makes it"
        return self.planned.text(place)

    def is_planned(self, place: AssetPartition) -> bool:
        """Whether a partition has no run, and no request of automation."""
        return not (self.tasks.get(place[0], {}).get(place[1]) or self.planned.is_automated(place))

    def asset_ids(self) -> set[str]:
        return {*self.tasks, *self.planned.asset_ids()}


class _ReadVersion(NamedTuple):
    changed: int
    """The position at which it became current."""
    row: PartitionRow
    asset: str
    is_alike: bool

    @property
    def text(self) -> str:
        name = place(self.asset, self.row.partition_key)
        return f"{name} {self.row.materialization_id} of run {self.row.run_id}"


class _Blocker(NamedTuple):
    """Why a partition waits."""

    text: str
    is_alike: bool = False
    """It is about an input that does not depend on the partition's time."""
    is_planned: bool = False
    """It is about a request or a backfill."""


class _Making(NamedTuple):
    """What makes a partition, or will."""

    text: str
    is_planned: bool


class _Inputs(NamedTuple):
    """The inputs of a partition now."""

    versions: list[_ReadVersion]
    fingerprint: str
    missing: list[_Blocker]
    """Inputs without data."""
    places: list[tuple[str, str, bool]]
    """All partitions that it may read or waits for, by asset key, existing or not; and whether they
    do not depend on its time."""


def place(asset: str, partition: str) -> str:
    text = partition_text(partition)
    return f"{asset}[{text}]" if text else asset


class Conditions:
    """The conditions of all automation, at one snapshot."""

    def __init__(
        self,
        snapshot: Snapshot,
        periods: Periods,
        rows: Mapping[str, AutomationRow],
        active: ActiveWork,
        seen_by: Callable[[str], int | None],
    ) -> None:
        """`seen_by` returns the position that a run was planned from; None if unknown."""
        self._snapshot = snapshot
        self._periods = periods
        self._graph = periods.graph
        self._rows = rows
        self._active = active
        self._seen_by = functools.cache(seen_by)
        self._lookups = SnapshotLookups(snapshot)
        self._current = functools.cache(self._partitions_of)
        self._status = functools.cache(self._statuses_of)
        self._below: set[str] = set()
        """Assets that read, directly or not, something that is running or was requested."""
        self._calm: set[tuple[str, str]] = set()
        """Partitions without running inputs, directly or not."""
        for asset_id in active.asset_ids():
            if asset_id in self._graph.keys:
                self._add_below(self._graph.keys[asset_id])
        self._requested: set[AssetPartition] = set()
        """What this round requests."""

    def _partitions_of(self, key: str) -> _SingleRows[PartitionRow]:
        return _SingleRows(self._snapshot, PARTITIONS, self._graph.ids[key])

    def _statuses_of(self, key: str) -> _SingleRows[PartitionStatusRow]:
        return _SingleRows(self._snapshot, PARTITION_STATUS, self._graph.ids[key])

    # -- the verdict ---------------------------------------------------------------------

    def verdict(self, node: AutomatedPartition) -> AutomationVerdict:
        row = self._rows.get(node.asset)
        if row is None or not row.is_active:
            return _idle(
                "it has no automation" if row is None else f"its automation is {row.state}"
            )
        partition = self._periods.space(node.asset).text(node.point)
        if not self._periods.has_ended(node.asset, node.point):
            return _waits("its period is not over, or it has no such partition")
        try:
            inputs = self._inputs(node)
        except Invalid as error:
            return _waits(f"it cannot be planned: {error.message}")
        current = self._current(node.asset).get(partition)
        if current is not None and row.when == "on_missing":
            return _idle(f"it was made: version {current[1].materialization_id}")
        if current is not None and current[1].fingerprint == inputs.fingerprint:
            return _idle("it is up to date")
        cause, lacking = self._cause(row, node, partition, inputs)
        blockers = inputs.missing or (cause and list(self._blockers(node, partition, inputs)))
        if blockers:
            is_new = self._status(node.asset).get(partition) is None
            is_held = bool(cause) and all(
                each.is_planned or (is_new and each.is_alike) for each in blockers
            )
            reasons = _shortened([each.text for each in blockers])
            planned = any(each.is_planned for each in blockers)
            return AutomationVerdict("waits", reasons, cause, is_held, planned)
        if not cause:
            return _idle(lacking)
        return AutomationVerdict("runs", (f"{cause}, and all that it reads is good",), cause)

    # -- inputs --------------------------------------------------------------------------

    def _inputs(self, node: AutomatedPartition) -> _Inputs:
        asset = self._graph.assets[node.asset]
        inputs = _Inputs([], "", [], [])
        parts: list[tuple[str, str, list[str]]] = []
        for each in asset.inputs:
            if each.asset in self._graph.assets:
                ids = self._read(node, each, inputs)
                if each.parameter:
                    parts.append((each.parameter, each.asset, fingerprint_part(ids)))
            elif each.parameter:
                inputs.missing.append(_Blocker(f"it reads {each.asset}, which is not deployed"))
        partition = self._periods.space(node.asset).text(node.point)
        fingerprint = input_fingerprint(asset, partition, task_config(asset, {}), parts)
        return inputs._replace(fingerprint=fingerprint)

    def _read(self, node: AutomatedPartition, input: Input, inputs: _Inputs) -> list[str]:
        """Add what an input of a partition is. The ids of its versions."""
        if input.is_pinned:
            return self._read_pinned(node, input, inputs)
        space, current = self._periods.space(input.asset), self._current(input.asset)
        texts = [space.text(point) for point in self._points(node, input)]
        is_alike = self._periods.is_alike(Read(node.asset, input))
        inputs.places.extend((input.asset, text, is_alike) for text in texts)
        if not input.parameter:
            return []
        versions = [
            _ReadVersion(entry[0], entry[1], input.asset, is_alike)
            for text in texts
            if (entry := current.get(text)) is not None
        ]
        inputs.versions.extend(versions)
        if not versions and input.asset != node.asset:
            name = place(input.asset, texts[-1] if texts else "")
            text = f"it reads {name}, which has no data yet"
            inputs.missing.append(_Blocker(text, is_alike))
        return [version.row.materialization_id for version in versions]

    def _read_pinned(self, node: AutomatedPartition, input: Input, inputs: _Inputs) -> list[str]:
        """Pinned versions: they are never new, and never waited for."""
        versions = self._lookups.pinned(self._graph.ids[input.asset], input)
        texts = self._periods.pinned_partitions(node, input, versions)
        ids = [versions[text].materialization_id for text in texts if text in versions]
        if not ids:
            text = f"it reads a version of {input.asset} that is not there, or is held or expired"
            inputs.missing.append(_Blocker(text))
        return ids

    def _points(self, node: AutomatedPartition, input: Input) -> list[Point]:
        resolver = self._periods.resolver(Read(node.asset, input))
        points = resolver.resolve(resolver.relevant(node.point))
        return [point for point in points if self._periods.space(input.asset).has(point)]

    # -- causes --------------------------------------------------------------------------

    def _cause(
        self, row: AutomationRow, node: AutomatedPartition, partition: str, inputs: _Inputs
    ) -> tuple[str, str]:
        """The cause; or none, with the reason."""
        status = self._status(node.asset).get(partition)
        last = None if status is None else status[1]
        newer = [
            version
            for version in inputs.versions
            if version.changed > row.since and not (version.is_alike and last is None)
        ]
        for version in sorted(newer, key=lambda each: each.changed, reverse=True):
            if last is None or self._is_news(version, last):
                return f"{version.text} is new", ""
        if row.when == "on_missing" and last is None:
            return self._missing_cause(row, node)
        if last is not None and last.status == PartitionStatus.FAILED:
            run = last.last_run_id
            return "", f"it failed in run {run}, and nothing that it reads was replaced since"
        if last is not None and last.status not in (PartitionStatus.GOOD, PartitionStatus.WARNED):
            return (
                "",
                f"its newest output is {last.status}, and nothing it reads was replaced since",
            )
        return "", "nothing that it reads was replaced since its automation was declared or resumed"

    def _is_news(self, version: _ReadVersion, last: PartitionStatusRow) -> bool:
        """Whether the last attempt of a partition cannot have read a version."""
        if version.row.run_id == last.last_run_id:
            return False
        if version.changed > last.position:
            return True
        seen = self._seen_by(last.last_run_id)
        return seen is not None and version.changed > seen

    def _missing_cause(self, row: AutomationRow, node: AutomatedPartition) -> tuple[str, str]:
        """The cause of a partition without an attempt: it could not run before the declaration."""
        space = self._periods.space(node.asset)
        calendars = [
            (keys, value)
            for keys, value in zip(space.dimensions, node.point, strict=True)
            if isinstance(keys, Calendar)
        ]
        if not calendars:
            return "it was never made", ""
        if any(keys.end_of(keys.number(value)) > row.since_at for keys, value in calendars):
            return "its period is over, and it was never made", ""
        for keys, value in zip(space.dimensions, node.point, strict=True):
            if isinstance(keys, Names) and keys.keys:
                key = self._snapshot.get(DYNAMIC_KEYS, keys.keys, str(value))
                if key is not None and key.added_at > row.since_at:
                    return f"{value} was added to {keys.keys}, and it was never made", ""
        return "", "it could have been made before its automation was declared: use a backfill"

    # -- blockers ------------------------------------------------------------------------

    def _blockers(
        self, node: AutomatedPartition, partition: str, inputs: _Inputs
    ) -> Iterator[_Blocker]:
        making = self._making(node.asset, partition)
        if making:
            yield _Blocker(making.text, is_planned=making.is_planned)
        for key, text, is_alike in inputs.places:
            status = self._status(key).get(text)
            if status is not None and status[1].status in _NOT_GOOD:
                yield _Blocker(_not_good(place(key, text), status[1]), is_alike)
            making = self._making(key, text) or self._rising(key, text)
            if making and (key, text) != (node.asset, partition):
                name = place(key, text)
                yield _Blocker(f"it reads {name}: {making.text}", is_alike, making.is_planned)

    def _making(self, key: str, partition: str) -> _Making | None:
        place = self._graph.ids[key], partition
        if place in self._requested:
            return _Making("it is asked for now", False)
        text = self._active.text(place)
        return _Making(text, self._active.is_planned(place)) if text else None

    def _rising(self, key: str, partition: str) -> _Making | None:
        """The running inputs of an automated partition, directly or not.

        Only through assets downstream of active work, so the cost depends on that.
        """
        waiting, visited = [(key, partition)], set[tuple[str, str]]()
        while waiting:
            each = waiting.pop()
            if each in visited or each in self._calm or each[0] not in self._below:
                continue
            visited.add(each)
            for upstream in self._inputs_of(*each):
                if making := self._making(*upstream):
                    text = f"it is made from {place(*upstream)}, which is being made"
                    return making._replace(text=text)
                waiting.append(upstream)
        self._calm |= visited
        return None

    def _inputs_of(self, key: str, partition: str) -> list[tuple[str, str]]:
        """The inputs of a partition, if it is automated."""
        row, point = self._rows.get(key), self._periods.space(key).point(partition)
        if row is None or not row.is_active or row.when != "eager" or point is None:
            return []
        try:
            return [
                (each.asset, self._periods.space(each.asset).text(upstream))
                for each in self._graph.assets[key].inputs
                if each.asset in self._graph.assets and each.asset != key and not each.is_pinned
                for upstream in self._points(AutomatedPartition(key, point), each)
            ]
        except Invalid:
            return []

    def request(self, node: AutomatedPartition) -> None:
        """Record that a partition is requested. Its downstream partitions are evaluated later."""
        partition = self._periods.space(node.asset).text(node.point)
        self._requested.add((self._graph.ids[node.asset], partition))
        self._add_below(node.asset)

    def _add_below(self, key: str) -> None:
        waiting = [key]
        while waiting:
            for read in self._graph.readers.get(waiting.pop(), ()):
                if read.reader not in self._below:
                    self._below.add(read.reader)
                    waiting.append(read.reader)


def _idle(reason: str) -> AutomationVerdict:
    return AutomationVerdict("idle", (reason,))


def _waits(reason: str) -> AutomationVerdict:
    return AutomationVerdict("waits", (reason,))


def _shortened(reasons: Sequence[str]) -> tuple[str, ...]:
    more = (f"and {len(reasons) - SHOWN:,} more",) if len(reasons) > SHOWN else ()
    return (*reasons[:SHOWN], *more)


_NOT_GOOD = frozenset(
    {PartitionStatus.FAILED, PartitionStatus.QUARANTINED, PartitionStatus.BLOCKED}
)


def _not_good(name: str, status: PartitionStatusRow) -> str:
    if status.status == PartitionStatus.FAILED:
        return f"it reads {name}, which failed in run {status.last_run_id}"
    return f"it reads {name}, of which a newer output is {status.status}"


class _SingleRows(Generic[R]):
    """Rows of an asset's partitions, looked up one by one; if there are many, all together."""

    def __init__(self, snapshot: Snapshot, table: Table[R], asset_id: str) -> None:
        self._snapshot = snapshot
        self._table = table
        self._asset_id = asset_id
        self._rows: dict[str, tuple[int, R] | None] = {}

    def get(self, partition: str) -> tuple[int, R] | None:
        if "_all" in self.__dict__ or len(self._rows) > MANY:
            return self._all.get(partition)
        if partition not in self._rows:
            key = self._asset_id, partition
            version, row = self._snapshot.versioned(self._table, key, history=False)
            self._rows[partition] = None if row is None else (version, row)
        return self._rows[partition]

    @functools.cached_property
    def _all(self) -> dict[str, tuple[int, R]]:
        rows = self._snapshot.rows_versioned(self._table, (self._asset_id,), history=False)
        return {key[1]: (version, row) for key, (version, row) in rows.items() if row is not None}
