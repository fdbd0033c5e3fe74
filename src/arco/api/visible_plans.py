"""Plans and project manifests without the assets of hidden namespaces."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from arco.api.row_visibility import RowVisibility
from arco.orchestration.plan import PlannedInput, PlannedTask, PlanSpec, numbers, spans
from servo.contract.manifest import Asset, Manifest

replace = msgspec.structs.replace


def visible_spec(spec: PlanSpec, visibility: RowVisibility) -> PlanSpec:
    """The plan with visible tasks and inputs only, renumbered.

    The selection is removed unless all tasks are visible.
    """
    if visibility.everything:
        return spec
    tasks = {old: new for new, old in enumerate(_places(spec.tasks, visibility))}
    inputs = {old: new for new, old in enumerate(_places(spec.inputs, visibility))}
    request = spec.request
    if len(tasks) < len(spec.tasks):
        request = replace(request, selection=(), exclude=(), partitions=(), redo=())
    return replace(
        spec,
        request=replace(request, deployments=()),
        manifests={
            name: digest for name, digest in spec.manifests.items() if visibility.namespace(name)
        },
        tasks=tuple([_task(spec.tasks[old], tasks, inputs) for old in tasks]),
        inputs=tuple([_input(spec.inputs[old], tasks) for old in inputs]),
        references={key: id for key, id in spec.references.items() if visibility.asset(key)},
        versions={key: refs for key, refs in spec.versions.items() if visibility.asset(key)},
    )


def _places(items: Sequence[PlannedTask | PlannedInput], visibility: RowVisibility) -> list[int]:
    return [place for place, each in enumerate(items) if visibility.asset(each.asset)]


def _task(task: PlannedTask, tasks: dict[int, int], inputs: dict[int, int]) -> PlannedTask:
    return replace(
        task,
        depends_on=tuple([tasks[old] for old in task.depends_on if old in tasks]),
        inputs=tuple([inputs[old] for old in task.inputs if old in inputs]),
    )


def _input(planned: PlannedInput, tasks: dict[int, int]) -> PlannedInput:
    return replace(planned, tasks=spans(tasks[old] for old in numbers(planned.tasks)))


def visible_manifest(manifest: Manifest, visibility: RowVisibility) -> Manifest | None:
    """The declarations of visible namespaces; None if there are none.

    Schedules, sensors and notifications belong to the project: they are visible if all of it is.
    """
    if visibility.everything:
        return manifest
    assets = tuple(
        [_asset(asset, visibility) for asset in manifest.assets if visibility.asset(asset.key)]
    )
    if not assets:
        return None
    is_whole = len(assets) == len(manifest.assets) and visibility.project(manifest.project)
    return replace(
        manifest,
        artifact=manifest.artifact if is_whole else "",
        assets=assets,
        schedules=manifest.schedules if is_whole else (),
        sensors=manifest.sensors if is_whole else (),
        notifications=manifest.notifications if is_whole else (),
        namespaces=tuple([each for each in manifest.namespaces if visibility.namespace(each.name)]),
        contracts=tuple([each for each in manifest.contracts if visibility.asset(each.name)]),
    )


def _asset(asset: Asset, visibility: RowVisibility) -> Asset:
    checks = [
        check
        for check in asset.checks
        if check.kind != "references" or visibility.asset(str(check.params["asset"]))
    ]
    inputs = [each for each in asset.inputs if visibility.asset(each.asset)]
    renamed_from = asset.renamed_from if visibility.named_asset(asset.renamed_from) else ""
    return replace(asset, inputs=tuple(inputs), checks=tuple(checks), renamed_from=renamed_from)
