"""Small projects for the planner, and a world that remembers what was made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from arco.orchestration.configuration import task_config
from arco.orchestration.input_refs import fingerprint_part
from arco.orchestration.plan import (
    CurrentVersion,
    PlannedTask,
    PlanRequest,
    PlanSpec,
    input_fingerprint,
)
from arco.orchestration.planner import plan
from servo.contract import ulid
from servo.contract.manifest import (
    Asset,
    Code,
    Dimension,
    DynamicDimension,
    Every,
    Identity,
    Input,
    Manifest,
    StaticDimension,
    TenantDimension,
    TimeDimension,
)
from servo.contract.manifest import Mapping as DimensionMapping

UNTIL = datetime(2025, 1, 11)
DIGEST = "d" * 64


def time(
    every: Every = "day",
    start: str = "2025-01-01",
    end: str | None = None,
    *,
    name: str = "date",
    timezone: str = "UTC",
) -> TimeDimension:
    return TimeDimension(name=name, every=every, start=start, end=end, timezone=timezone)


DAYS = time()
REGIONS = StaticDimension(name="region", values=("us", "eu"))
TENANTS = TenantDimension(name="tenant", values=("acme", "zeta"))
CUSTOMERS = DynamicDimension(name="customer", keys="customers")


def reads(
    asset: str,
    mapping: DimensionMapping = Identity(),
    *,
    parameter: str = "x",
    **dimensions: DimensionMapping,
) -> Input:
    return Input(asset=asset, parameter=parameter, mapping=mapping, dimensions=dimensions)


def asset(key: str, *parts: Dimension | Input, **more: Any) -> Asset:
    namespace, _, name = key.partition(".")
    dimensions = [part for part in parts if not isinstance(part, Input)]
    return Asset(
        key=key,
        code=Code(module=namespace, name=name),
        partitions=tuple(sorted(dimensions, key=lambda dimension: dimension.name)),
        inputs=tuple(part for part in parts if isinstance(part, Input)),
        **{"transform": f"code of {key}", **more},
    )


def manifest(*assets: Asset) -> Manifest:
    return Manifest(assets=assets)


def asset_id(key: str) -> str:
    """The same for a key wherever it is deployed."""
    return ulid.encode(int.from_bytes(key.encode()[-15:], "big"))


class World:
    """What is materialized, and the keys of dynamic dimensions."""

    def __init__(self, **dynamic: list[str]) -> None:
        self._dynamic = dynamic
        self._current: dict[str, dict[str, CurrentVersion]] = {}
        self._pinned: dict[tuple[str, str], Mapping[str, CurrentVersion]] = {}
        self._held: dict[str, dict[str, str]] = {}
        self._made = 0

    def asset_id(self, key: str) -> str:
        return asset_id(key)

    def current(self, asset_id: str) -> Mapping[str, CurrentVersion]:
        return self._current.get(asset_id, {})

    def expect(self, asset_id: str, partitions: Iterable[str]) -> None:
        pass

    def pinned(self, asset_id: str, each: Input) -> Mapping[str, CurrentVersion]:
        """What was current when the pin was set."""
        return self._pinned.get((asset_id, each.version or each.as_of), {})

    def pin(self, key: str, pin: str) -> None:
        """From now on, inputs with this version or time read what is current now."""
        self._pinned[asset_id(key), pin] = dict(self._current.get(asset_id(key), {}))

    def held(self, asset_id: str) -> Mapping[str, str]:
        return self._held.get(asset_id, {})

    def hold(self, key: str, partition: str = "") -> None:
        """Put the current version into quarantine; there is none before it."""
        version = self._current[asset_id(key)].pop(partition)
        command = f"servo quarantine release {version.materialization_id}"
        self._held.setdefault(asset_id(key), {})[partition] = command

    def dynamic_keys(self, name: str) -> list[str]:
        return sorted(self._dynamic.get(name, []))

    def make(self, key: str, *partitions: str, fingerprint: str = "made") -> None:
        """A new good version of each partition, by its key's text."""
        for partition in partitions or ("",):
            self._made += 1
            self._current.setdefault(asset_id(key), {})[partition] = CurrentVersion(
                materialization_id=ulid.encode((1 << 100) + self._made),
                path=f"data/{key}/{partition}/{self._made}",
                fingerprint=fingerprint,
            )

    def forget(self, key: str, partition: str) -> None:
        del self._current[asset_id(key)][partition]

    def run(self, project: Manifest, spec: PlanSpec) -> None:
        """All tasks succeed, in the plan's order, as a dispatcher would have them."""
        for task in spec.tasks:
            if task.action == "reuse":
                continue
            declared = project.asset(task.asset)
            assert declared is not None
            fingerprint = input_fingerprint(
                declared,
                task.partition,
                task_config(declared, spec.request.config),
                self._inputs(spec, spec.inputs_of(task)),
            )
            assert task.fingerprint in ("", fingerprint)
            self.make(task.asset, task.partition, fingerprint=fingerprint)

    def _inputs(self, spec: PlanSpec, inputs: Any) -> list[tuple[str, str, list[str]]]:
        return [
            (
                each.parameter,
                each.asset,
                fingerprint_part(
                    [ref.materialization_id for ref in spec.versions_of(each)]
                    + [self._version(upstream) for upstream in spec.tasks_of(each)]
                ),
            )
            for each in inputs
        ]

    def _version(self, task: PlannedTask) -> str:
        return self._current[task.asset_id][task.partition].materialization_id


def planned(
    project: Manifest,
    *selection: str,
    world: World | None = None,
    until: datetime = UNTIL,
    **request: Any,
) -> PlanSpec:
    wanted = PlanRequest(selection=selection, **request)
    return plan(project, DIGEST, wanted, world or World(), until=until)


def names(spec: PlanSpec) -> list[str]:
    """Each task as `asset partition`, in the plan's order."""
    return [f"{task.asset} {task.partition}".strip() for task in spec.tasks]


def read_by(spec: PlanSpec, name: str) -> dict[str, list[str]]:
    """What a task reads, by parameter: tasks as `+partition`, what exists as `partition`."""
    task = spec.tasks[names(spec).index(name)]
    return {
        each.parameter: [f"+{upstream.partition}" for upstream in spec.tasks_of(each)]
        + [ref.partition for ref in spec.versions_of(each)]
        for each in spec.inputs_of(task)
    }
