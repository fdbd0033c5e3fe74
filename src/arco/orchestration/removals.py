"""Deployments that would remove most of a project are refused, unless that is allowed.

A deployment from a wrong folder, or of code that was not found, looks like one that removes
assets. It is refused if it has no assets, or if it removes more assets than it keeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from arco.errors import Invalid
from arco.orchestration.deploying import DeployedChange
from arco.orchestration.foreign import readers_of
from arco.orchestration.projects import DeploymentReader
from arco.orchestration.reader import Library
from arco.orchestration.tables import DeployedAssetRow
from servo.contract.manifest import Manifest

LISTED = 20
READERS = 5
ALLOW_REMOVALS = "--allow-removals"


class AssetReader(msgspec.Struct, frozen=True):
    """An asset that reads one that would be removed."""

    asset: str
    project: str


class AssetRemoval(msgspec.Struct, frozen=True):
    asset: str
    read_by: tuple[AssetReader, ...] = ()


class RemovalRefused(Invalid):
    """A deployment would remove more than it keeps. Nothing has changed."""

    def __init__(self, message: str, removals: Sequence[AssetRemoval], *, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.removals = tuple(removals)
        self.details = {"removals": msgspec.to_builtins(self.removals)}


def check_removals(
    reader: DeploymentReader,
    library: Library,
    manifest: Manifest,
    change: DeployedChange,
    deployed: Mapping[str, DeployedAssetRow],
) -> None:
    """Raise RemovalRefused if a change has no assets, or removes more assets than it keeps.

    `deployed` are the assets of the project before. Assets that get another name are kept.
    """
    remaining = sum(row.active for row in deployed.values()) - len(change.removed)
    if manifest.assets and len(change.removed) <= remaining:
        return
    removals = removals_of(reader, library, manifest.project, change.removed)
    foreign = any(each.project != manifest.project for r in removals for each in r.read_by)
    raise RemovalRefused(
        "\n".join(
            [_summary(manifest, len(removals), remaining), *_lines(removals, manifest.project)]
        ),
        removals,
        hint=_hint(len(removals), foreign),
    )


def removals_of(
    reader: DeploymentReader, library: Library, project: str, keys: Iterable[str]
) -> list[AssetRemoval]:
    """Assets of a project that leave it, with what reads them, in all projects."""
    by_key: dict[str, list[AssetReader]] = {key: [] for key in sorted(keys)}
    for row in reader.projects() if by_key else ():
        for asset, read in readers_of(reader, library, row.project, by_key.keys()):
            for key in read:
                by_key[key].append(AssetReader(asset, row.project))
    return [
        AssetRemoval(
            key, tuple(sorted(readers, key=lambda each: (each.project != project, each.asset)))
        )
        for key, readers in by_key.items()
    ]


def _summary(manifest: Manifest, removed: int, remaining: int) -> str:
    if not manifest.assets and not removed:
        return f"this deployment of the project {manifest.project} has no assets"
    if not manifest.assets:
        return (
            f"this deployment has no assets; it would remove all {removed} of the project "
            f"{manifest.project}:"
        )
    return (
        f"this deployment would remove {removed} of {removed + remaining} assets of the project "
        f"{manifest.project}, more than it keeps:"
    )


def _lines(removals: Sequence[AssetRemoval], project: str) -> list[str]:
    lines = [_line(each, project) for each in removals[:LISTED]]
    if len(removals) > LISTED:
        lines.append(f"and {len(removals) - LISTED} more")
    return lines


def _line(removal: AssetRemoval, project: str) -> str:
    if not removal.read_by:
        return removal.asset
    names = [
        each.asset if each.project == project else f"{each.asset} (project {each.project})"
        for each in removal.read_by
    ]
    more = f" and {len(names) - READERS} more" if len(names) > READERS else ""
    return f"{removal.asset}, read by {', '.join(names[:READERS])}{more}"


def _hint(removed: int, foreign: bool) -> str:
    check = "check the project's folder (--project) and [project] modules in arco.toml"
    if not removed:
        return f"{check}; or give {ALLOW_REMOVALS}"
    also = " and --allow-missing-inputs, as other projects read them" if foreign else ""
    return f"{check}; to remove these assets, give {ALLOW_REMOVALS}{also}. Their data stays"
