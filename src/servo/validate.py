"""Everything that is wrong with a project, at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from servo.contract.manifest import Asset, Contract, Namespace
from servo.declare import Declared, declare, declare_notification, declare_schedule, declare_sensor
from servo.project import Problem as Problem
from servo.project import Project
from servo.rules.checks import checks_name_columns
from servo.rules.columns import (
    columns_are_named_once,
    lineage_leads_somewhere,
    renamed_columns_leave_their_names,
)
from servo.rules.contracts import contracts_are_sound
from servo.rules.governance import governance_is_sound, namespaces_are_sound
from servo.rules.graph import inputs_exist, no_cycles
from servo.rules.mappings import mappings_fit
from servo.rules.names import keys_are_unique, names_are_valid, not_too_many, renames_are_free
from servo.rules.notifications import notifications_are_sound
from servo.rules.partitions import partitions_are_sound
from servo.rules.policies import freshness_is_sound
from servo.rules.resources import resources_are_sound
from servo.rules.timing import automation_is_sound, schedules_are_sound, sensors_are_sound

Rule: TypeAlias = Callable[[Sequence[Asset]], Iterable[Problem]]

RULES: Final[tuple[Rule, ...]] = (
    not_too_many,
    names_are_valid,
    keys_are_unique,
    renames_are_free,
    inputs_exist,
    no_cycles,
    partitions_are_sound,
    mappings_fit,
    columns_are_named_once,
    renamed_columns_leave_their_names,
    lineage_leads_somewhere,
    checks_name_columns,
    resources_are_sound,
    automation_is_sound,
    freshness_is_sound,
    governance_is_sound,
)


ACROSS: Final[tuple[Rule, ...]] = (no_cycles, mappings_fit, checks_name_columns)
"""The rules that look at what an asset reads."""


def validate(project: Project) -> list[Problem]:
    """All problems, those of importing included, in the order of files and lines."""
    declared = [declare(definition, project) for definition in project.assets]
    problems = {*project.problems, *_asset_problems(declared), *_timing_problems(project, declared)}
    problems.update(_notification_problems(project, declared))
    assets = [asset for asset, _ in declared]
    problems.update(namespaces_are_sound(namespaces_of(project), assets))
    return sorted(problems.union(contracts_are_sound(contracts_of(project), assets)))


def namespaces_of(project: Project) -> tuple[Namespace, ...]:
    """What a project says of namespaces, by name."""
    described = [
        msgspec.structs.replace(each.wire, code=project.code(each)) for each in project.namespaces
    ]
    return tuple(sorted(described, key=lambda each: each.name))


def contracts_of(project: Project) -> tuple[Contract, ...]:
    """What a project promises, by the keys of assets. A name alone is of the only such asset."""
    keys = project.keys_by_name()
    contracts = [
        msgspec.structs.replace(
            each.wire, name=keys.get(each.name, each.name), code=project.code(each)
        )
        for each in project.contracts
    ]
    return tuple(sorted(contracts, key=lambda each: each.name))


def validate_across(assets: Sequence[Asset], foreign: Sequence[Asset]) -> list[Problem]:
    """Problems of assets with those of other projects that they read, directly or not."""
    own = {asset.key for asset in assets}
    problems = {problem for rule in ACROSS for problem in rule([*assets, *foreign])}
    return sorted(p for p in problems if p.asset in own or p.message.startswith("cycle"))


def _asset_problems(declared: Sequence[Declared]) -> Iterator[Problem]:
    for asset, flaws in declared:
        for flaw in flaws:
            yield Problem.at(asset.code, flaw.message, flaw.hint, asset.key)
    assets = [asset for asset, _ in declared]
    for rule in RULES:
        yield from rule(assets)


def _timing_problems(project: Project, declared: Sequence[Declared]) -> Iterator[Problem]:
    assets = [asset for asset, _ in declared]
    sensors = [declare_sensor(each, project) for each in project.sensors]
    for sensor, flaws in sensors:
        yield from (Problem.at(sensor.code, flaw.message, flaw.hint) for flaw in flaws)
    yield from sensors_are_sound([sensor for sensor, _ in sensors], assets)
    schedules = [declare_schedule(each, project) for each in project.schedules]
    yield from schedules_are_sound(schedules, assets)


def _notification_problems(project: Project, declared: Sequence[Declared]) -> Iterator[Problem]:
    rules = [declare_notification(each, project) for each in project.notifications]
    for rule, flaws in rules:
        yield from (Problem.at(rule.code, flaw.message, flaw.hint) for flaw in flaws)
    defaults = {each.name: each for each in namespaces_of(project)}
    assets = [_with_defaults(asset, defaults) for asset, _ in declared]
    yield from notifications_are_sound([rule for rule, _ in rules], assets)


def _with_defaults(asset: Asset, namespaces: Mapping[str, Namespace]) -> Asset:
    """An asset with the owners and tags that it has from its namespace."""
    namespace = namespaces.get(asset.key.partition(".")[0])
    if namespace is None:
        return asset
    owners, tags = asset.owners or namespace.owners, {**namespace.tags, **asset.tags}
    return msgspec.structs.replace(asset, owners=owners, tags=tags)
