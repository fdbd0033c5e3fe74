"""Plans, as data.

A plan has a *spec*, which follows from the request, the manifest and the snapshot
alone (no clock, no random id), and a header, which is about this one plan. The
spec's fingerprint is the same wherever it is made. Plans are stored whole under
`plans/`; events carry only what the fold needs.

Tasks share what they read. Each version is in a spec once, and so is each input that is the
same for several tasks; an input has its versions and its tasks as *spans*, flat pairs of the
first number and the one after the last.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Literal, Protocol

import msgspec
from msgspec import Struct

from servo.contract import canonical
from servo.contract.canonical import fingerprint
from servo.contract.config_values import WireValue
from servo.contract.manifest import Asset, Input
from servo.contract.task import MaterializationRef

MAX_TASKS_PER_RUN = 200_000
MAX_EDGES_PER_RUN = 2_000_000
"""Dependencies between the tasks of a run: each becomes a row."""

Spans = tuple[int, ...]


class Axis(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A dimension along which many partitions are cut into chunks (`chunks.py`)."""

    name: str
    spans: Spans = ()
    """The numbers of its keys. Empty for a dynamic dimension: its keys come and go."""
    size: int = 0
    """Number of keys in one block."""
    blocks: int = 1
    keys: int = 0
    """How many keys there are in all."""


class Chunk(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of the parts that a large request is cut into."""

    axes: tuple[Axis, ...]
    """The outermost first."""
    number: int = 0
    newest_first: bool = False
    retries: tuple[str, ...] = ()
    """Requests that this repeats, the newest first: what the run of one left is done again."""


class PlanRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to build."""

    selection: tuple[str, ...]
    """`a.b`, `+a.b`, `a.b+`, `tag:k=v`, `tag:k`, `group:g`, `namespace.*`, `*`."""
    exclude: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    """`date=2025-01-01..2025-01-31`, `region=eu`, `date=2025-01-01,2025-01-05`, …"""
    force: bool = False
    """Also run tasks that are up to date."""
    refresh_sources: bool = False
    """Also run tasks that read no asset and have no period: it is unknown whether they are up to
    date."""
    redo: tuple[str, ...] = ()
    """Tasks (by id) to run even if they are up to date."""
    config: dict[str, str | int | bool | None] = {}
    """By name, values in place of those that assets declare; text is read as the declared type."""
    max_tasks: int = 10_000
    chunk: Chunk | None = None
    """Only this part of the partitions."""
    deployments: tuple[str, ...] = ()
    """Plan with these, as `project/id`, and not with those that are current."""


def normalised(request: PlanRequest) -> PlanRequest:
    """The same request in one spelling: terms are sets, so they are sorted, each once."""
    return msgspec.structs.replace(
        request,
        selection=_sorted_set(request.selection),
        exclude=_sorted_set(request.exclude),
        partitions=tuple(sorted(set(request.partitions))),  # blanks may belong to a key
        redo=_sorted_set(request.redo),
    )


def _sorted_set(terms: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({term.strip() for term in terms}))


class CurrentVersion(Struct, frozen=True, kw_only=True):
    """The current good version of a partition."""

    materialization_id: str
    path: str
    fingerprint: str
    rows: int = 0
    bytes: int = 0


class PlannerLookups(Protocol):
    """What the planner looks up: one snapshot's answers."""

    def asset_id(self, key: str) -> str:
        """The id of a deployed asset."""

    def current(self, asset_id: str) -> Mapping[str, CurrentVersion]:
        """Every partition of an asset that has a good version, by the key's text."""

    def expect(self, asset_id: str, partitions: Iterable[str]) -> None:
        """A hint that these partitions of an asset will be read: they may be looked up together."""

    def pinned(self, asset_id: str, input: Input) -> Mapping[str, CurrentVersion]:
        """The versions that an input names, in place of current ones, by the key's text."""

    def held(self, asset_id: str) -> Mapping[str, str]:
        """Partitions of which a version is in quarantine, by the key's text: the command that
        makes the newest one current."""

    def dynamic_keys(self, name: str) -> list[str]:
        """The keys of a dynamic dimension's set, sorted."""


def spans(ascending: Iterable[int]) -> Spans:
    """Numbers as spans."""
    merged: list[int] = []
    for number in ascending:
        if merged and merged[-1] == number:
            merged[-1] = number + 1
        else:
            merged += (number, number + 1)
    return tuple(merged)


def numbers(of: Spans) -> Iterator[int]:
    """The numbers of spans, ascending."""
    for first, stop in zip(of[::2], of[1::2], strict=True):
        yield from range(first, stop)


class PlannedInput(Struct, frozen=True, kw_only=True, omit_defaults=True):
    asset: str
    parameter: str = ""
    tasks: Spans = ()
    """Tasks of this plan that run, and whose outputs are read."""
    versions: Spans = ()
    """What exists already, and is read as it is now, up-to-date tasks of this plan included:
    of the asset's versions in the spec."""


class PlannedTask(Struct, frozen=True, kw_only=True, omit_defaults=True):
    task_id: str
    asset: str
    asset_id: str
    partition: str = ""
    action: Literal["run", "reuse"] = "run"
    reason: str = ""
    """Why it is in the plan, and why it runs or not: a sentence for people."""
    stage: int = 0
    """0 for roots; otherwise one more than the greatest stage it depends on."""
    depends_on: tuple[int, ...] = ()
    """Indexes of the tasks it waits for, ascending; always smaller than its own."""
    inputs: tuple[int, ...] = ()
    """Numbers of the spec's inputs."""
    fingerprint: str = ""
    """Of its inputs, where all are known now; empty where an upstream runs first."""
    materialization_id: str = ""
    """Of a reused task: what is current already."""
    tenant: str = ""
    """The value of its tenant dimension."""


class PlanSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    manifest: str
    """SHA-256 of the manifest."""
    manifests: dict[str, str] = {}
    """By namespace, the manifests of other projects that have tasks or inputs in this plan."""
    request: PlanRequest
    tasks: tuple[PlannedTask, ...]
    """In order: by stage, then asset key, then partition key."""
    references: dict[str, str] = {}
    """By key, the asset ids of what checks look values up in. A key may be renamed, removed or
    given to another asset while the run is active; the id is what the plan meant."""
    inputs: tuple[PlannedInput, ...] = ()
    """Each that is the same for several tasks once, in the order of the first that reads it."""
    versions: dict[str, tuple[MaterializationRef, ...]] = {}
    """By asset key: what exists already and is read, in the order of partitions; after current
    versions those that inputs name."""

    def inputs_of(self, task: PlannedTask) -> list[PlannedInput]:
        return [self.inputs[number] for number in task.inputs]

    def tasks_of(self, planned: PlannedInput) -> list[PlannedTask]:
        return [self.tasks[number] for number in numbers(planned.tasks)]

    def versions_of(self, planned: PlannedInput) -> list[MaterializationRef]:
        versions = self.versions.get(planned.asset, ())
        return [versions[number] for number in numbers(planned.versions)]

    def manifest_of(self, asset_key: str) -> str:
        """SHA-256 of the manifest that has an asset."""
        return self.manifests.get(asset_key.partition(".")[0], self.manifest)


class Plan(Struct, frozen=True, kw_only=True):
    plan_id: str
    run_id: str
    deployment_id: str
    created_at: datetime
    created_by: str
    fingerprint: str
    spec: PlanSpec
    until: datetime | None = None
    """Periods that end later did not exist for it; None: when it was created."""
    position: int = 0
    """The position of the snapshot that it was planned from; 0 if unknown."""


_plans = msgspec.json.Decoder(Plan)


def encode_plan(plan: Plan) -> bytes:
    return msgspec.json.encode(plan)


def decode_plan(data: bytes) -> Plan:
    return _plans.decode(data)


def spec_fingerprint(spec: PlanSpec) -> str:
    return fingerprint(spec)


def input_fingerprint(
    asset: Asset,
    partition: str,
    config: Mapping[str, WireValue],
    inputs: Iterable[tuple[str, str, Iterable[str]]],
) -> str:
    """The fingerprint of a task: its code, partition, configuration and inputs.

    `config` is that of the asset's tasks; `inputs` are (parameter, asset key, the
    `fingerprint_part` of the versions). Computed when planning and, for inputs made in the same
    run, when dispatching; both must agree.
    """
    parts = {
        "kind": "input",
        "asset": asset.key,
        "transform": asset.transform,
        "partition": partition,
        "config": config,
        "inputs": sorted([p, key, *part] for p, key, part in inputs),
    }
    return hashlib.sha256(canonical.encode(parts)).hexdigest()
