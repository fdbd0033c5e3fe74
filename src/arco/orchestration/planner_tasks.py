"""Tasks of a plan: their inputs, whether they run, and their numbers.

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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from arco.orchestration import plan
from arco.orchestration.configuration import task_config
from arco.orchestration.input_refs import fingerprint_part
from arco.orchestration.mapping import Resolver, mappings
from arco.orchestration.partition_ranges import without_keys
from arco.orchestration.partition_space import Names, Point, Space
from arco.tasks.input_failures import partition_text
from servo.contract.identity import task_id
from servo.contract.keys import AssetId
from servo.contract.manifest import Asset, Input, TimeDimension, Window
from servo.contract.task import MaterializationRef
from servo.errors import Invalid
from servo.suggest import did_you_mean

SHOWN = 3
UP_TO_DATE = "up to date: reused"
CHANGED = "code, configuration or inputs changed since its last materialization"
"""Which of them: see `plan_changes`."""


class Draft:
    """The partitions of one asset that are in the plan."""

    def __init__(self, asset: Asset, asset_id: str, space: Space, points: Sequence[Point]) -> None:
        self.asset = asset
        self.asset_id = asset_id
        self.space = space
        self.points = points
        self.numbers: dict[Point, int] = {}


class ResolvedInput:
    """One input of tasks: the tasks and versions that it reads."""

    def __init__(self, asset: str, source: str = "") -> None:
        self._asset = asset
        self.source = source or asset
        """Which versions of the asset are read: all that are not pinned have its key."""
        self.tasks: list[int] = []
        """To wait for; provisional numbers."""
        self.running: list[int] = []
        """Those of them that run, and whose outputs are read."""
        self.points: list[Point] = []
        """What exists already, and is read as it is now."""
        self.ids: list[str] = []
        """Of the versions there."""
        self.stage = 0
        """The least stage of a task that reads this."""
        self.final: tuple[int, ...] | None = None
        """The numbers of the tasks in the plan, once these are given."""
        self.number = -1
        """Of the planned input."""

    @property
    def runs(self) -> str:
        """The asset, if one of the tasks runs."""
        return self._asset if self.running else ""

    @cached_property
    def part(self) -> Sequence[str]:
        """The part of its versions in fingerprints, unless a task of it runs."""
        return fingerprint_part(self.ids)


class Drafted(NamedTuple):
    """What a plan has, in its final form."""

    tasks: tuple[plan.PlannedTask, ...]
    inputs: tuple[plan.PlannedInput, ...]
    versions: dict[str, tuple[MaterializationRef, ...]]


@dataclass(slots=True)
class _Task:
    draft: Draft
    point: Point
    task_id: str
    partition: str
    stage: int
    inputs: Sequence[tuple[Input, ResolvedInput]]
    fingerprint: str
    materialization_id: str
    """Empty for a task that runs."""
    reason: str


@dataclass(slots=True)
class _ReadAsset:
    """An asset that others read: its planned tasks and existing versions."""

    asset: str
    name: str
    """The asset, and which versions of it where they are pinned."""
    space: Space
    numbers: Mapping[Point, int]
    current: Mapping[str, plan.CurrentVersion]
    _refs: dict[Point, MaterializationRef | None] = field(default_factory=dict)

    def ref(self, point: Point) -> MaterializationRef | None:
        if point not in self._refs:
            text = self.space.text(point)
            self._refs[point] = _ref(text, self.current.get(text))
        return self._refs[point]

    def existing(self) -> Iterable[Point]:
        points = (self.space.point(text) for text in self.current)
        return {*self.numbers, *(point for point in points if point is not None)}


class Drafting:
    """Drafts a plan."""

    def __init__(
        self,
        assets: Mapping[str, Asset],
        request: plan.PlanRequest,
        lookups: plan.PlannerLookups,
        space: Callable[[str], Space],
    ) -> None:
        self._assets = assets
        self._request = request
        self._lookups = lookups
        self._space = space
        self._drafts: dict[str, Draft] = {}
        self._redo = frozenset(request.redo)
        self._sources: dict[str, _ReadAsset] = {}
        self._tasks: list[_Task | None] = []
        self._edges = 0
        self._missing: list[tuple[str, str, str]] = []
        self._missing_pins = False
        self._releases: list[str] = []

    def add(self, draft: Draft, term: str) -> None:
        """The tasks of an asset that `term` selected; those that it reads were added."""
        key = draft.asset.key
        first = len(self._tasks)
        draft.numbers = {point: first + at for at, point in enumerate(draft.points)}
        self._drafts[key] = draft
        self._tasks += [None] * len(draft.points)
        why = "selected" if term in (key, key.partition(".")[2]) else f"selected by {term}"
        reads = [_Reads(self, draft, each) for each in draft.asset.inputs]
        current = self._lookups.current(draft.asset_id)
        self._lookups.expect(draft.asset_id, map(draft.space.text, draft.points))
        for read in reads:
            read.expect(draft.points)
        for point in _in_order(draft, reads):
            self._tasks[draft.numbers[point]] = self._task(draft, point, reads, current, why)

    def to_run(self) -> Iterator[Point]:
        """The points of tasks that are not up to date."""
        for task in self._tasks:
            if task is not None and not task.materialization_id:
                yield task.point

    def finished(self) -> Drafted:
        """All tasks, in order; Invalid if an input of one is missing."""
        if self._missing:
            spaces = [self._space(asset) for _, asset, _ in self._missing]
            hint = without_keys(d for space in spaces for d in space.dimensions)
            if self._missing_pins:
                hint = "name another version; see `servo partitions history` and `quarantine list`"
            elif self._releases:
                hint = f"release what is good: `{self._releases[0]}`; or make new versions of it"
            raise _missing_inputs(self._missing, hint)
        drafted = [task for task in self._tasks if task is not None]
        rank = {key: at for at, key in enumerate(sorted(self._drafts))}
        place = [(task.stage, rank[task.draft.asset.key], at) for at, task in enumerate(drafted)]
        order = [at for _, _, at in sorted(place)]
        final = [0] * len(order)
        for number, at in enumerate(order):
            final[at] = number
        final_form = _FinalForm(self._sources, final)
        tasks = tuple([final_form.planned(drafted[at]) for at in order])
        return Drafted(tasks, final_form.inputs, final_form.versions)

    def _task(
        self,
        draft: Draft,
        point: Point,
        reads: Sequence[_Reads],
        current: Mapping[str, plan.CurrentVersion],
        why: str,
    ) -> _Task:
        key = draft.space.key(point)
        partition = str(key)
        inputs = [(read.input, read.find(point)) for read in reads]
        self._count_edges([each.tasks for _, each in inputs])
        fingerprint = self._fingerprint(draft.asset, partition, inputs)
        # The code's version is the fingerprint of what the asset does.
        id = task_id(AssetId(draft.asset_id), key, draft.asset.transform)
        if id in self._redo:
            reused, reason = "", "asked for again"
        else:
            reused, reason = self._decide(draft, inputs, fingerprint, current.get(partition))
        return _Task(
            draft=draft,
            point=point,
            task_id=id,
            partition=partition,
            stage=max([each.stage for _, each in inputs], default=0),
            inputs=inputs,
            fingerprint=fingerprint,
            materialization_id=reused,
            reason=f"{why}; {reason}",
        )

    def _count_edges(self, upstream: Sequence[Sequence[int]]) -> None:
        """Count dependencies before creating them: wide windows and all_upstream multiply."""
        self._edges += sum([len(tasks) for tasks in upstream])
        if self._edges > plan.MAX_EDGES_PER_RUN:
            raise Invalid(
                f"the plan would have more than {plan.MAX_EDGES_PER_RUN:,} dependencies "
                "between tasks",
                hint="run fewer partitions; wide windows and all_upstream multiply dependencies",
            )

    def _fingerprint(
        self, asset: Asset, partition: str, resolved: Sequence[tuple[Input, ResolvedInput]]
    ) -> str:
        read = [(each, what) for each, what in resolved if each.parameter]
        if any(what.runs for _, what in read):
            return ""
        inputs = [(each.parameter, each.asset, what.part) for each, what in read]
        config = task_config(asset, self._request.config)
        return plan.input_fingerprint(asset, partition, config, inputs)

    def _decide(
        self,
        draft: Draft,
        inputs: Sequence[tuple[Input, ResolvedInput]],
        fingerprint: str,
        current: plan.CurrentVersion | None,
    ) -> tuple[str, str]:
        """The version to reuse, or nothing; and why."""
        if self._request.force:
            return "", "forced"
        if current is None:
            return "", "never materialized"
        if self._request.refresh_sources and _is_source(draft.asset):
            return "", "reads no asset: what it is made from may have changed"
        runs = next((what.runs for _, what in inputs if what.runs), "")
        if runs:
            return "", f"upstream {runs} runs in this plan"
        if not current.fingerprint:
            return "", "files of its current version are missing or damaged"
        if fingerprint != current.fingerprint:
            return "", CHANGED
        return current.materialization_id, UP_TO_DATE

    # -- inputs ---------------------------------------------------------------------------

    def source(self, reader: str, input: Input) -> _ReadAsset:
        key, name = input.asset, _source_name(input)
        if name not in self._sources:
            if key not in self._assets:
                raise Invalid(
                    f"{reader} reads {key}, which is not deployed",
                    hint=did_you_mean(key, self._assets) or "deploy it, or remove the input",
                )
            asset_id = self._lookups.asset_id(key)
            if input.is_pinned:
                # Versions that this plan replaces are not read.
                current, numbers = self._lookups.pinned(asset_id, input), {}
            else:
                draft = self._drafts.get(key)
                current = self._lookups.current(asset_id)
                numbers = draft.numbers if draft else {}
            self._sources[name] = _ReadAsset(key, name, self._space(key), numbers, current)
        return self._sources[name]

    def resolve(self, source: _ReadAsset, points: Sequence[Point], *, read: bool) -> ResolvedInput:
        """These points of an input: tasks of the plan and, if it is read, what exists."""
        numbers = source.numbers
        resolved = ResolvedInput(source.asset, source.name)
        for point in points:
            number = numbers.get(point)
            if number is not None:
                task = self._tasks[number]
                assert task is not None, "an asset is added after those that it reads"
                resolved.tasks.append(number)
                resolved.stage = max(resolved.stage, task.stage + 1)
                if not task.materialization_id:
                    resolved.running.append(number)
                    continue
            if read and (ref := source.ref(point)) is not None:
                resolved.points.append(point)
                resolved.ids.append(ref.materialization_id)
        return resolved

    def expect(self, asset: str, partitions: Iterable[str]) -> None:
        self._lookups.expect(self._lookups.asset_id(asset), partitions)

    def miss(self, reader: str, asset: str, problem: str, *, pinned: bool) -> None:
        self._missing.append((reader, asset, problem))
        self._missing_pins |= pinned

    def is_held(self, source: _ReadAsset, points: Sequence[Point]) -> bool:
        """Whether all versions of these partitions, or of all, are in quarantine."""
        held = self._lookups.held(self._lookups.asset_id(source.asset))
        texts = list(map(source.space.text, points)) or list(held)
        releases = [held[text] for text in texts if text in held]
        self._releases += releases
        return bool(releases)


def _is_source(asset: Asset) -> bool:
    has_period = any(isinstance(dimension, TimeDimension) for dimension in asset.partitions)
    return not has_period and not any(each.parameter for each in asset.inputs)


class _Reads:
    """One input of a drafted asset. Its results are cached, and shared between tasks."""

    def __init__(self, drafting: Drafting, draft: Draft, input: Input) -> None:
        self.input = input
        self.itself = input.asset == draft.asset.key
        self.past = _past(draft, input) if self.itself else None
        self._drafting = drafting
        self._reader = draft.asset.key
        self._source = drafting.source(draft.asset.key, input)
        self._resolver = Resolver(
            draft.asset.key, input, draft.space, self._source.space, self._source.existing
        )
        self._resolved: dict[Point, ResolvedInput] = {}

    def expect(self, points: Iterable[Point]) -> None:
        """Look up everything that tasks of these points read, together."""
        if self.input.parameter and not self.input.is_pinned:
            source, resolver = self._source, self._resolver
            relevant = {resolver.relevant(point) for point in points}
            texts = (
                source.space.text(point)
                for each in relevant
                for point in resolver.resolve(each)
                if point not in source.numbers
            )
            self._drafting.expect(source.asset, texts)

    def find(self, point: Point) -> ResolvedInput:
        relevant = self._resolver.relevant(point)
        resolved = self._resolved.get(relevant)
        if resolved is None:
            points = self._resolver.resolve(relevant)
            read = bool(self.input.parameter)
            resolved = self._drafting.resolve(self._source, points, read=read)
            self._resolved[relevant] = resolved
            if read and not resolved.tasks and not resolved.points and not self.itself:
                self._miss(points)
        return resolved

    def _miss(self, points: Sequence[Point]) -> None:
        """The error of a missing input; of a window it names the first and the last partition."""
        name, space = self._source.asset, self._source.space
        if self.input.is_pinned:
            key = partition_text(space.text(points[-1])) if points else ""
            problem = f"{_pin_text(self.input)} of {name}{f'[{key}]' if key else ''}, which is "
            problem += "not there: it never was good, or is held, or expired"
        elif self._drafting.is_held(self._source, points):
            key = partition_text(space.text(points[-1])) if len(points) == 1 else ""
            problem = f"{name}[{key}]" if key else name
            problem += ", of which there is no good version: it is in quarantine"
        elif not points:
            problem = f"{name}, which has no data yet"
        elif len(points) > 1:
            first, last = (partition_text(space.text(points[at])) for at in (0, -1))
            problem = f"{name}[{first}] to [{last}], which have no data yet"
        else:
            text = partition_text(space.text(points[-1]))
            lacks = "has no data yet" if space.has(points[-1]) else f"{name} does not have"
            problem = (f"{name}[{text}]" if text else name) + f", which {lacks}"
        self._drafting.miss(self._reader, name, problem, pinned=self.input.is_pinned)


def _source_name(input: Input) -> str:
    return f"{input.asset}@{_pin_text(input)}" if input.is_pinned else input.asset


def _pin_text(input: Input) -> str:
    return f"version {input.version}" if input.version else f"the version as of {input.as_of}"


def _ref(text: str, current: plan.CurrentVersion | None) -> MaterializationRef | None:
    if current is None:
        return None
    return MaterializationRef(
        partition=text,
        materialization_id=current.materialization_id,
        path=current.path,
        rows=current.rows,
        bytes=current.bytes,
    )


def _past(draft: Draft, input: Input) -> int:
    """The dimension by which an asset reads its own past."""
    rules = mappings(draft.asset.key, input, draft.space, draft.space)
    for at, rule in enumerate(rules):
        if isinstance(rule, Window) and rule.end < 0:
            return at
    key = draft.asset.key
    raise Invalid(
        f"an asset reads itself: {key} -> {key}",
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


def _missing_inputs(missing: Sequence[tuple[str, str, str]], hint: str) -> Invalid:
    lines = sorted({f"{reader} reads {problem}" for reader, _, problem in missing})
    listed = "; ".join(lines[:SHOWN])
    more = f"; and {len(lines) - SHOWN:,} more" if len(lines) > SHOWN else ""
    reader = min(reader for reader, _, _ in missing)
    return Invalid(
        f"inputs are missing and not part of this plan: {listed}{more}",
        hint=hint or f"add + to the selection, as in +{reader}, or run these inputs first",
    )


# -- the final form -----------------------------------------------------------------------


class _FinalForm:
    """Numbers inputs, in the order of the tasks that read them, and the versions in them."""

    def __init__(self, sources: Mapping[str, _ReadAsset], final: Sequence[int]) -> None:
        self._sources = sources
        self._final = final
        self._read: list[tuple[Input, ResolvedInput]] = []

    def planned(self, task: _Task) -> plan.PlannedTask:
        draft = task.draft
        for each, resolved in task.inputs:
            if resolved.final is None:
                resolved.final = tuple(sorted([self._final[number] for number in resolved.tasks]))
                if each.parameter:
                    resolved.number = len(self._read)
                    self._read.append((each, resolved))
        return plan.PlannedTask(
            task_id=task.task_id,
            asset=draft.asset.key,
            asset_id=draft.asset_id,
            partition=task.partition,
            action="reuse" if task.materialization_id else "run",
            reason=task.reason,
            stage=task.stage,
            depends_on=_union([resolved.final or () for _, resolved in task.inputs]),
            inputs=tuple([resolved.number for each, resolved in task.inputs if each.parameter]),
            fingerprint=task.fingerprint,
            materialization_id=task.materialization_id,
            tenant=_tenant(draft.space, task.point),
        )

    @property
    def inputs(self) -> tuple[plan.PlannedInput, ...]:
        places: dict[str, dict[Point, int]] = {}
        counts: dict[str, int] = {}
        for source, points in self._points.items():
            asset = self._sources[source].asset
            first = counts.get(asset, 0)
            places[source] = {point: first + at for at, point in enumerate(points)}
            counts[asset] = first + len(points)
        return tuple(
            [
                plan.PlannedInput(
                    asset=each.asset,
                    parameter=each.parameter,
                    tasks=plan.spans(sorted([self._final[number] for number in resolved.running])),
                    versions=plan.spans(
                        sorted([places[resolved.source][point] for point in resolved.points])
                    ),
                )
                for each, resolved in self._read
            ]
        )

    @property
    def versions(self) -> dict[str, tuple[MaterializationRef, ...]]:
        versions: dict[str, tuple[MaterializationRef, ...]] = {}
        for name, points in self._points.items():
            source = self._sources[name]
            refs = tuple([ref for point in points if (ref := source.ref(point))])
            versions[source.asset] = (*versions.get(source.asset, ()), *refs)
        return versions

    @cached_property
    def _points(self) -> Mapping[str, Sequence[Point]]:
        """Of each asset, and of each choice of its versions, the points that somebody reads."""
        used: dict[str, set[Point]] = {}
        for _, resolved in self._read:
            if resolved.points:
                used.setdefault(resolved.source, set()).update(resolved.points)
        return {source: sorted(points) for source, points in sorted(used.items())}


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
