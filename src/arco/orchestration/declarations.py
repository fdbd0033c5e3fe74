"""What a deployment declares besides its assets. Each declaration has a kind and a name.

A deployment carries those that are new or differ, and the ids (`kind/name`) of those that left. The
table `declarations` has what a project declares now. Other domains are informed by the two facts of
each kind.

To add a kind: a struct in `DeployedDeclaration`, a line in `declarations_of`, and its facts in
`FACTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from arco.catalog.contract_events import ContractDeclared, ContractUndeclared
from arco.catalog.governance_events import (
    NamespaceDeclared,
    NamespaceStatement,
    NamespaceUndeclared,
)
from arco.log.envelope import Payload
from servo.contract import canonical
from servo.contract.manifest import (
    AutomationKind,
    Catchup,
    Code,
    ContractStatement,
    Dimension,
    Manifest,
    NotificationEvent,
    Overlap,
    Schedule,
    SecretRef,
    Sensor,
    SensorKind,
)


class PlainSchedule(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """As it was in events before there were other declarations: without its kind."""

    name: str
    cron: str
    timezone: str = "UTC"
    selection: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    config: dict[str, str | int | bool | None] = {}
    catchup: Catchup = "latest"
    catchup_limit: int = 0
    overlap: Overlap = "allow"
    refresh_sources: bool = False


class DeployedSchedule(PlainSchedule, frozen=True, tag_field="kind", tag="schedule"):
    pass


class DeclarationStruct(
    Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="kind"
):
    """A declaration in an event; its tag is its kind."""


class DeployedAutomation(DeclarationStruct, frozen=True, kw_only=True, tag="automation"):
    name: str
    """The asset's key."""
    when: AutomationKind
    cron: str = ""
    timezone: str = "UTC"


class DeployedFreshness(DeclarationStruct, frozen=True, kw_only=True, tag="freshness"):
    name: str
    """The asset's key."""
    max_age_s: int
    cron: str = ""
    timezone: str = "UTC"
    request_run: bool = False
    partitions: tuple[Dimension, ...] = ()
    upstream: tuple[str, ...] = ()
    """Keys of the assets that it reads."""


class DeployedNotification(DeclarationStruct, frozen=True, kw_only=True, tag="notification"):
    name: str
    on: tuple[NotificationEvent, ...]
    to: tuple[str, ...]
    select: tuple[str, ...] = ()
    interval_s: int = 60
    run_cost: int = 0
    day_cost: int = 0


class DeployedSensor(DeclarationStruct, frozen=True, kw_only=True, tag="sensor"):
    name: str
    type: SensorKind = "polling"
    selection: tuple[str, ...] = ()
    interval_s: int = 60
    timeout_s: int = 60
    has_function: bool = True
    module: str = ""
    variable: str = ""
    """The name that the module has it by."""
    root: str = ""
    """Where imports begin in the artifact."""
    transform: str = ""
    """So that a change of its code is a change of it."""
    secrets: dict[str, SecretRef] = {}
    url: str = ""
    pattern: str = ""
    existing: bool = False
    asset: str = ""
    workspace: str = ""
    secret: SecretRef | None = None
    """Of a webhook: what signs messages that come over HTTP."""


class DeployedNamespace(NamespaceStatement, frozen=True, tag_field="kind", tag="namespace"):
    pass


class DeployedContract(ContractStatement, frozen=True, tag_field="kind", tag="contract"):
    pass


DeployedDeclaration: TypeAlias = (
    DeployedSchedule
    | DeployedAutomation
    | DeployedFreshness
    | DeployedNotification
    | DeployedSensor
    | DeployedNamespace
    | DeployedContract
)


class AcceptedBreak(Struct, frozen=True, kw_only=True, gc=False):
    """A column whose changes may break its readers, and why that is accepted."""

    asset: str
    asset_id: str
    column: str
    reason: str


class DeclaredFact(Payload, frozen=True, kw_only=True):
    """Derived: a deployment declares something that is new, or differs from what there was."""

    project: str
    deployment_id: str
    asset_id: str = ""
    """Of the asset with the declaration's name, if it is about one."""
    declaration: Struct


class RemovedFact(Payload, frozen=True, kw_only=True):
    """Derived: a deployment does not declare something any more."""

    project: str
    deployment_id: str
    name: str
    asset_id: str = ""
    """Of the asset that had this name, if it is about one."""


class ScheduleDeclared(DeclaredFact, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "orchestration.schedule_declared"
    declaration: PlainSchedule


class ScheduleRemoved(RemovedFact, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "orchestration.schedule_removed"


class AutomationDeclared(DeclaredFact, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "orchestration.automation_declared"
    declaration: DeployedAutomation


class AutomationRemoved(RemovedFact, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "orchestration.automation_removed"


class FreshnessDeclared(DeclaredFact, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "orchestration.freshness_declared"
    declaration: DeployedFreshness


class FreshnessRemoved(RemovedFact, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "orchestration.freshness_removed"


class NotificationDeclared(DeclaredFact, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "orchestration.notification_declared"
    declaration: DeployedNotification


class NotificationRemoved(RemovedFact, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "orchestration.notification_removed"


class SensorDeclared(DeclaredFact, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "orchestration.sensor_declared"
    declaration: DeployedSensor


class SensorRemoved(RemovedFact, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "orchestration.sensor_removed"


class Facts(NamedTuple):
    declared: Callable[..., Payload]
    removed: Callable[..., Payload]


FACTS: dict[str, Facts] = {
    "schedule": Facts(ScheduleDeclared, ScheduleRemoved),
    "automation": Facts(AutomationDeclared, AutomationRemoved),
    "freshness": Facts(FreshnessDeclared, FreshnessRemoved),
    "notification": Facts(NotificationDeclared, NotificationRemoved),
    "sensor": Facts(SensorDeclared, SensorRemoved),
    "namespace": Facts(NamespaceDeclared, NamespaceUndeclared),
    "contract": Facts(ContractDeclared, ContractUndeclared),
}
"""Of each kind."""


class DeclarationChanges(NamedTuple):
    changed: Sequence[DeployedDeclaration] = ()
    removed: Sequence[str] = ()
    """Ids."""


def kind_of(declaration: DeployedDeclaration) -> str:
    return str(declaration.__struct_config__.tag)


def declaration_id(declaration: DeployedDeclaration) -> str:
    return f"{kind_of(declaration)}/{declaration.name}"


def speaks_of_contracts(
    declarations: Iterable[DeployedDeclaration], removed: Iterable[str]
) -> bool:
    """Whether programs from before there were contracts cannot read them."""
    return any(each.startswith("contract/") for each in removed) or any(
        isinstance(each, DeployedContract)
        or (isinstance(each, DeployedNotification) and "contract_breach" in each.on)
        for each in declarations
    )


def declaration_changes(manifest: Manifest, declared: Mapping[str, str]) -> DeclarationChanges:
    """What differs from `declared`: the fingerprints of what the project has, by id."""
    new = {declaration_id(each): each for each in declarations_of(manifest)}
    changed = [new[key] for key in new if declared.get(key) != canonical.fingerprint(new[key])]
    return DeclarationChanges(changed, sorted(declared.keys() - new.keys()))


def declarations_of(manifest: Manifest) -> list[DeployedDeclaration]:
    return [
        *(_deployed_schedule(schedule) for schedule in manifest.schedules),
        *_deployed_automations(manifest),
        *_deployed_freshness(manifest),
        *(
            DeployedNotification(**_shared(rule, DeployedNotification))
            for rule in manifest.notifications
        ),
        *(deployed_sensor(sensor, manifest.root) for sensor in manifest.sensors),
        *(DeployedNamespace(**_shared(each, DeployedNamespace)) for each in manifest.namespaces),
        *(DeployedContract(**_shared(each, DeployedContract)) for each in manifest.contracts),
    ]


def _deployed_freshness(manifest: Manifest) -> Iterator[DeployedFreshness]:
    """Of an asset itself, or else what its contract promises."""
    promised = {each.name: each.freshness for each in manifest.contracts}
    for asset in manifest.assets:
        freshness = asset.freshness or promised.get(asset.key)
        if freshness is not None:
            yield DeployedFreshness(
                name=asset.key,
                partitions=asset.partitions,
                upstream=tuple(sorted({each.asset for each in asset.inputs})),
                **msgspec.structs.asdict(freshness),
            )


def deployed_sensor(sensor: Sensor, root: str) -> DeployedSensor:
    code = sensor.code if sensor.has_function else Code(module="", name="")
    return DeployedSensor(
        type=sensor.kind,
        module=code.module,
        variable=code.name,
        root=root if sensor.has_function else "",
        **_shared(sensor, DeployedSensor),
    )


def _deployed_automations(manifest: Manifest) -> Iterator[DeployedAutomation]:
    for asset in manifest.assets:
        spec = asset.automation
        if spec is not None:
            yield DeployedAutomation(
                name=asset.key, when=spec.kind, cron=spec.cron, timezone=spec.timezone
            )


def _deployed_schedule(schedule: Schedule) -> DeployedSchedule:
    ranges = (schedule.partitions,) if schedule.partitions else ()
    return DeployedSchedule(**_shared(schedule, DeployedSchedule) | {"partitions": ranges})


def _shared(declared: Struct, target: type[Struct]) -> dict[str, Any]:
    """What a declaration in the manifest has under the same name in its event."""
    values = msgspec.structs.asdict(declared)
    return {name: values[name] for name in target.__struct_fields__ if name in values}
