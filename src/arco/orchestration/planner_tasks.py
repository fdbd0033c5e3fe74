"""Tasks of a plan: what they read, whether they run, and their numbers.

Assets are drafted in an order where each comes after those it reads. A drafted task
has a provisional number; when all are there, they are sorted by stage, asset and
partition, and renumbered.

A task is reused if nothing that it reads or waits for runs in this plan, and the
fingerprint of its inputs is that of its current version. It runs otherwise. A
dependency without data is in `depends_on` and not among the task's `inputs`: it is no
part of the fingerprint, but a task runs again after one that does.

An asset may read its own past, by a window that ends before the partition itself. Its
partitions are then drafted in the order of time, and the first may find nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from arco.orchestration.mapping import Resolver, mappings
from arco.orchestration.partitions import Names, Point, Space
from arco.orchestration.plan import (
    Current,
    Known,
    PlannedInput,
    PlannedTask,
    PlanRequest,
    input_fingerprint,
)
from servo.contract.identity import task_id
from servo.contract.keys import AssetId
from servo.contract.manifest import Asset, Input, Window
from servo.contract.task import MaterializationRef
from servo.errors import Invalid
from servo.suggest import did_you_mean

SHOWN = 10
UP_TO_DATE = "up to date: reused"


class Draft:
    """The partitions of one asset that are in the plan."""

    def __init__(self, asset: Asset, asset_id: str, space: Space, points: Sequence[Point]) -> None:
        self.asset = asset
        self.asset_id = asset_id
        self.space = space
        self.points = points
        self.numbers: dict[Point, int] = {}


@dataclass(slots=True)
class Found:
    """What one input of a task is, here and now."""

    tasks: Sequence[int] = ()
    """Provisional numbers."""
    refs: tuple[MaterializationRef, ...] = ()
    stage: int = 0
    """The least stage of a task that reads this."""
    runs: str = ""
    """The asset, if one of the tasks runs."""
    ids: Sequence[str] = ()
    """Of all that is read, unless something of it runs."""
    final: tuple[int, ...] = ()
    planned: PlannedInput | None = None


@dataclass(slots=True)
class _Task:
    draft: Draft
    point: Point
    task_id: str
    partition: str
    stage: int
    found: Sequence[tuple[Input, Found]]
    fingerprint: str
    materialization_id: str
    """Empty for a task that runs."""
    reason: str


@dataclass(slots=True)
class _Source:
    """An asset that others read: what of it is planned, and what exists."""

    asset: str
    space: Space
    numbers: Mapping[Point, int]
    current: Mapping[str, Current]
    _refs: dict[Point, MaterializationRef | None] = field(default_factory=dict)

    def ref(self, point: Point) -> MaterializationRef | None:
        if point not in self._refs:
            text = self.space.text(point)
            self._refs[point] = _ref(text, self.current.get(text))
        return self._refs[point]

    def existing(self) -> Iterable[Point]:
        made = (self.space.point(text) for text in self.current)
        return {*self.numbers, *(point for point in made if point is not None)}


class Drafting:
    """A plan in the making."""

    def __init__(
        self,
        assets: Mapping[str, Asset],
        request: PlanRequest,
        known: Known,
        space: Callable[[str], Space],
    ) -> None:
        self._assets = assets
        self._request = request
        self._known = known
        self._space = space
        self._drafts: dict[str, Draft] = {}
        self._redo = frozenset(request.redo)
        self._sources: dict[str, _Source] = {}
        self._tasks: list[_Task | None] = []
        self._missing: list[tuple[str, str, str]] = []

    def add(self, draft: Draft, term: str) -> None:
        """The tasks of an asset that `term` selected; those that it reads were added."""
        key = draft.asset.key
        first = len(self._tasks)
        draft.numbers = {point: first + at for at, point in enumerate(draft.points)}
        self._drafts[key] = draft
        self._tasks += [None] * len(draft.points)
        why = "selected" if term in (key, key.partition(".")[2]) else f"selected by {term}"
        reads = [_Reads(self, draft, each) for each in draft.asset.inputs]
        current = self._known.current(draft.asset_id)
        for point in _in_order(draft, reads):
            self._tasks[draft.numbers[point]] = self._task(draft, point, reads, current, why)

    def tasks(self) -> tuple[PlannedTask, ...]:
        """All of them, in order; Invalid if an input of one is missing."""
        if self._missing:
            raise _missing_inputs(self._missing)
        drafted = [task for task in self._tasks if task is not None]
        rank = {key: at for at, key in enumerate(sorted(self._drafts))}
        place = [(task.stage, rank[task.draft.asset.key], at) for at, task in enumerate(drafted)]
        order = [at for _, _, at in sorted(place)]
        final = [0] * len(order)
        for number, at in enumerate(order):
            final[at] = number
        return tuple([_planned(drafted[at], final) for at in order])

    def _task(
        self,
        draft: Draft,
        point: Point,
        reads: Sequence[_Reads],
        current: Mapping[str, Current],
        why: str,
    ) -> _Task:
        key = draft.space.key(point)
        partition = str(key)
        found = [(read.input, read.find(point)) for read in reads]
        fingerprint = self._fingerprint(draft.asset, partition, found)
        # The code's version is the fingerprint of what the asset does.
        id = task_id(AssetId(draft.asset_id), key, draft.asset.transform)
        if id in self._redo:
            reused, reason = "", "asked for again"
        else:
            reused, reason = self._decide(found, fingerprint, current.get(partition))
        return _Task(
            draft=draft,
            point=point,
            task_id=id,
            partition=partition,
            stage=max([each.stage for _, each in found], default=0),
            found=found,
            fingerprint=fingerprint,
            materialization_id=reused,
            reason=f"{why}; {reason}",
        )

    def _fingerprint(
        self, asset: Asset, partition: str, found: Sequence[tuple[Input, Found]]
    ) -> str:
        read = [(each, what) for each, what in found if each.parameter]
        if any(what.runs for _, what in read):
            return ""
        inputs = [(each.parameter, each.asset, what.ids) for each, what in read]
        return input_fingerprint(asset, partition, self._request.config, inputs)

    def _decide(
        self, found: Sequence[tuple[Input, Found]], fingerprint: str, current: Current | None
    ) -> tuple[str, str]:
        """The version to reuse, or nothing; and why."""
        if self._request.force:
            return "", "forced"
        if current is None:
            return "", "never materialized"
        runs = next((what.runs for _, what in found if what.runs), "")
        if runs:
            return "", f"upstream {runs} runs in this plan"
        if fingerprint != current.fingerprint:
            return "", "code, configuration or inputs changed since its last materialization"
        return current.materialization_id, UP_TO_DATE

    # -- what is read ---------------------------------------------------------------------

    def source(self, reader: str, key: str) -> _Source:
        if key not in self._sources:
            if key not in self._assets:
                raise Invalid(
                    f"{reader} reads {key}, which is not in the manifest",
                    hint=did_you_mean(key, self._assets) or "declare it, or remove the input",
                )
            draft = self._drafts.get(key)
            current = self._known.current(self._known.asset_id(key))
            numbers = draft.numbers if draft else {}
            self._sources[key] = _Source(key, self._space(key), numbers, current)
        return self._sources[key]

    def found(self, source: _Source, points: Sequence[Point], *, read: bool) -> Found:
        """These points of an input: tasks of the plan and, if it is read, what exists."""
        numbers = source.numbers
        tasks = [numbers[point] for point in points if point in numbers]
        refs: tuple[MaterializationRef, ...] = ()
        if read and len(tasks) < len(points):
            outside = (source.ref(point) for point in points if point not in numbers)
            refs = tuple([ref for ref in outside if ref is not None])
        return self._with_state(Found(tasks=tasks, refs=refs), source.asset)

    def _with_state(self, found: Found, asset: str) -> Found:
        ids = [ref.materialization_id for ref in found.refs]
        for number in found.tasks:
            task = self._tasks[number]
            assert task is not None, "an asset is added after those that it reads"
            found.stage = max(found.stage, task.stage + 1)
            ids.append(task.materialization_id)
            if not task.materialization_id:
                found.runs = asset
        found.ids = ids
        return found

    def miss(self, reader: str, asset: str, problem: str) -> None:
        self._missing.append((reader, asset, problem))


class _Reads:
    """One input of a drafted asset. What it finds is kept, and shared between tasks."""

    def __init__(self, drafting: Drafting, draft: Draft, each: Input) -> None:
        self.input = each
        self.itself = each.asset == draft.asset.key
        self.past = _past(draft, each) if self.itself else None
        self._drafting = drafting
        self._reader = draft.asset.key
        self._source = drafting.source(draft.asset.key, each.asset)
        self._resolver = Resolver(
            draft.asset.key, each, draft.space, self._source.space, self._source.existing
        )
        self._found: dict[Point, Found] = {}

    def find(self, point: Point) -> Found:
        relevant = self._resolver.relevant(point)
        found = self._found.get(relevant)
        if found is None:
            points = self._resolver.resolve(relevant)
            read = bool(self.input.parameter)
            found = self._drafting.found(self._source, points, read=read)
            self._found[relevant] = found
            if read and not found.tasks and not found.refs and not self.itself:
                self._miss(points)
        return found

    def _miss(self, points: Sequence[Point]) -> None:
        """Nothing was found: of a window it is enough to name the last one."""
        name, space = self._source.asset, self._source.space
        if not points:
            problem = f"any partition of {name}"
        else:
            text = space.text(points[-1])
            outside = "" if space.has(points[-1]) else ", which it does not have"
            problem = f"{name} {text}{outside}" if text else name
        self._drafting.miss(self._reader, name, problem)


def _ref(text: str, current: Current | None) -> MaterializationRef | None:
    if current is None:
        return None
    return MaterializationRef(
        partition=text,
        materialization_id=current.materialization_id,
        path=current.path,
        rows=current.rows,
        bytes=current.bytes,
    )


def _past(draft: Draft, each: Input) -> int:
    """The dimension by which an asset reads its own past."""
    rules = mappings(draft.asset.key, each, draft.space, draft.space)
    for at, rule in enumerate(rules):
        if isinstance(rule, Window) and rule.end < 0:
            return at
    key = draft.asset.key
    raise Invalid(
        f"an asset reads itself in a circle: {key} -> {key}",
        hint="let it read its past, with a window that ends at -1 or before",
    )


def _in_order(draft: Draft, reads: Sequence[_Reads]) -> Sequence[Point]:
    past = {read.past for read in reads if read.past is not None}
    if not past:
        return draft.points
    if len(past) > 1:
        raise Invalid(
            f"{draft.asset.key} reads its own past along two dimensions", hint="use one of them"
        )
    at = past.pop()
    return sorted(draft.points, key=lambda point: point[at])


def _missing_inputs(missing: Sequence[tuple[str, str, str]]) -> Invalid:
    lines = sorted({f"{problem} (read by {reader})" for reader, _, problem in missing})
    shown = "; ".join(lines[:SHOWN])
    more = f"; and {len(lines) - SHOWN:,} more" if len(lines) > SHOWN else ""
    reader = min(reader for reader, _, _ in missing)
    return Invalid(
        f"neither in the plan nor materialized: {shown}{more}",
        hint=f"add + to the selection, as in +{reader}, or materialize them first",
    )


# -- the final form -----------------------------------------------------------------------


def _planned(task: _Task, final: Sequence[int]) -> PlannedTask:
    draft = task.draft
    for each, found in task.found:
        if found.planned is None:
            found.final = tuple(sorted([final[number] for number in found.tasks]))
            found.planned = PlannedInput(
                asset=each.asset,
                parameter=each.parameter,
                tasks=found.final,
                materializations=found.refs,
            )
    return PlannedTask(
        task_id=task.task_id,
        asset=draft.asset.key,
        asset_id=draft.asset_id,
        partition=task.partition,
        action="reuse" if task.materialization_id else "run",
        reason=task.reason,
        stage=task.stage,
        depends_on=_union([found.final for _, found in task.found]),
        inputs=tuple([f.planned for each, f in task.found if each.parameter and f.planned]),
        fingerprint=task.fingerprint,
        materialization_id=task.materialization_id,
        tenant=_tenant(draft.space, task.point),
    )


def _union(parts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    some = [part for part in parts if part]
    if len(some) <= 1:
        return some[0] if some else ()
    return tuple(sorted(set().union(*some)))


def _tenant(space: Space, point: Point) -> str:
    for keys, value in zip(space.dimensions, point, strict=True):
        if isinstance(keys, Names) and keys.tenant:
            return str(value)
    return ""
