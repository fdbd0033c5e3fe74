"""Inputs across projects: the assets that a manifest reads of others, and vice versa.

The inputs of a project's own namespaces are checked without a workspace (`servo.validate`).
Those of other namespaces are checked here, against what is deployed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

import msgspec

from arco.errors import Invalid
from arco.orchestration.deployments import namespace_of
from arco.orchestration.projects import DeploymentReader
from arco.orchestration.reader import Library
from arco.orchestration.tables import PROJECT_NAMESPACES, DeploymentRow
from servo.contract.manifest import Asset, Manifest, keys_read, reference_targets
from servo.suggest import did_you_mean
from servo.validate import Problem, validate_across

SHOWN = 10
ALLOW = "--allow-missing-inputs"


def foreign_reads(manifest: Manifest) -> dict[str, Asset]:
    """By key, what assets of a manifest read that is not in it, and the first that reads it."""
    own = {asset.key for asset in manifest.assets}
    readers: dict[str, Asset] = {}
    for asset in manifest.assets:
        for key in keys_read(asset):
            if key not in own:
                readers.setdefault(key, asset)
    return dict(sorted(readers.items()))


def check_reads(
    reader: DeploymentReader, library: Library, manifest: Manifest, *, allow_missing: bool = False
) -> None:
    """Raise Invalid, with every problem, if inputs from other projects do not fit.

    Inputs that are not deployed may be allowed; cycles and invalid mappings are not.
    """
    missing, misfits = _problems(reader, library, manifest)
    problems = misfits if allow_missing else [*missing, *misfits]
    if problems:
        raise Invalid(
            f"{_count(problems)} with inputs from other projects:\n{_lines(problems)}",
            hint=f"deploy the other project first, or give {ALLOW}"
            if missing and not allow_missing
            else "change these inputs, or first the other project",
        )


def read_problems(reader: DeploymentReader, library: Library, manifest: Manifest) -> list[Problem]:
    """What is wrong with inputs from other projects, as these are deployed."""
    missing, misfits = _problems(reader, library, manifest)
    return [*missing, *misfits]


def _problems(
    reader: DeploymentReader, library: Library, manifest: Manifest
) -> tuple[list[Problem], list[Problem]]:
    """Inputs that are not deployed, and those that do not fit."""
    reads = foreign_reads(manifest)
    if not reads:
        return [], []
    upstream = _Upstream(reader, library, manifest)
    deployed = {key: asset for key in reads if (asset := upstream.asset(key)) is not None}
    missing = [
        _unknown(reader, manifest, key, by) for key, by in reads.items() if key not in deployed
    ]
    around = [*deployed.values(), *upstream.beyond(deployed)]
    return missing, _misfits(manifest.assets, around)


def _misfits(assets: Sequence[Asset], others: Sequence[Asset]) -> list[Problem]:
    """Problems between assets and their inputs, as far as these exist."""
    existing = {asset.key for asset in (*assets, *others)}
    return validate_across([_without_missing(asset, existing) for asset in assets], others)


def _without_missing(asset: Asset, existing: Set[str]) -> Asset:
    """An asset without checks that refer to missing assets."""
    if all(key in existing for key in reference_targets(asset)):
        return asset
    checks = [c for c in asset.checks if c.kind != "references" or c.params["asset"] in existing]
    return msgspec.structs.replace(asset, checks=tuple(checks))


def _count(problems: Sequence[Problem]) -> str:
    return f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"


def _lines(problems: Sequence[Problem]) -> str:
    return "\n".join(str(problem) for problem in problems)


def _unknown(reader: DeploymentReader, manifest: Manifest, key: str, by: Asset) -> Problem:
    deployed = {k: row for k, row in reader.deployed_assets().items() if row.active}
    candidates = (deployed.keys() | {asset.key for asset in manifest.assets}) - {key}
    row = reader.deployed_asset(key)
    message = f"the input {key!r} of {by.key} is not deployed"
    if row is not None:
        message = f"the input {key!r} of {by.key} was removed from the project {row.project}"
    now = [row.asset_key for row in deployed.values() if key in row.previous_keys]
    hint = f"it was renamed to {now[0]!r}" if now else did_you_mean(key, candidates)
    return Problem.at(by.code, message, hint, by.key)


def assets_of_others(
    reader: DeploymentReader, library: Library, project: str
) -> Callable[[str], Asset | None]:
    """Looks up assets of other projects by their keys, as they are deployed."""
    return _Upstream(reader, library, Manifest(project=project)).asset


class _Upstream:
    """The deployed assets of other projects."""

    def __init__(self, reader: DeploymentReader, library: Library, manifest: Manifest) -> None:
        self._reader = reader
        self._library = library
        self._own = {asset.key for asset in manifest.assets}
        self._project = manifest.project
        self._manifests: dict[str, Mapping[str, Asset]] = {}

    def asset(self, key: str) -> Asset | None:
        owner = self._reader.snapshot.get(PROJECT_NAMESPACES, namespace_of(key))
        if owner is None or owner.project == self._project:
            return None
        if owner.project not in self._manifests:
            row = self._reader.current_deployment(owner.project)
            assets = {} if row is None else self._library.assets(row.manifest)
            self._manifests[owner.project] = assets
        return self._manifests[owner.project].get(key)

    def beyond(self, deployed: Mapping[str, Asset]) -> Iterator[Asset]:
        """All that the known ones read, directly or not, up to assets of the project's own."""
        seen = {*deployed, *self._own}
        border = list(deployed.values())
        while border:
            for key in keys_read(border.pop()):
                if key in seen:
                    continue
                seen.add(key)
                if (asset := self.asset(key)) is not None:
                    border.append(asset)
                    yield asset


def check_readers(reader: DeploymentReader, project: str, leaving: Iterable[str]) -> None:
    """Raise Invalid if another project reads a removed asset."""
    removed = set(leaving)
    if not removed:
        return
    problems = [
        f"{key} (project {row.project})"
        for row in reader.projects()
        if row.project != project
        for key in row.reads
        if key in removed
    ]
    if problems:
        more = f" and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise Invalid(
            f"other projects read what this deployment removes or renames: "
            f"{', '.join(problems[:SHOWN])}{more}",
            hint=f"change and deploy the readers first, or give {ALLOW}",
        )


def reshaped(
    reader: DeploymentReader, library: Library, manifest: Manifest, changed: Set[str]
) -> dict[str, Asset]:
    """By key, assets with other partitions or columns than before: readers may not fit them.

    Those that are new are among them if other projects read them already. `changed` has the
    keys of all whose code or definition is another.
    """
    current = reader.current_deployment(manifest.project)
    before = _Before(library, current)
    others = [row for row in reader.projects() if row.project != manifest.project]
    read = {key for row in others for key in row.reads}
    return {
        asset.key: asset
        for asset in manifest.assets
        if (
            before.differs(asset, asset.key in changed)
            if asset.key in before.partitions
            else asset.key in read
        )
    }


class _Before:
    """What a project's current deployment has. Columns are decoded of few assets."""

    def __init__(self, library: Library, current: DeploymentRow | None) -> None:
        digest = None if current is None else current.manifest
        outline = () if digest is None else library.outline(digest).assets
        self.partitions = {asset.key: asset.partitions for asset in outline}
        self._assets = {} if digest is None else library.assets(digest)

    def differs(self, asset: Asset, changed: bool) -> bool:
        if asset.partitions != self.partitions[asset.key]:
            return True
        return changed and _column_names(asset) != _column_names(self._assets[asset.key])


def _column_names(asset: Asset) -> set[str]:
    return {column.name for column in asset.columns}


def check_fit(
    reader: DeploymentReader, library: Library, manifest: Manifest, shapes: Mapping[str, Asset]
) -> None:
    """Raise Invalid if assets of other projects cannot read the assets that changed their shape."""
    own = {asset.key: asset for asset in manifest.assets}
    upstream = _Upstream(reader, library, manifest)
    problems: list[Problem] = []
    for row in reader.projects():
        if row.project == manifest.project or shapes.keys().isdisjoint(row.reads):
            continue
        readers = list(_readers(reader, library, row.project, shapes.keys()))
        keys = {key for asset in readers for key in keys_read(asset)}
        keys -= {asset.key for asset in readers}
        around = [a for key in sorted(keys) if (a := own.get(key) or upstream.asset(key))]
        problems += _misfits(readers, around)
    if problems:
        raise Invalid(
            f"{_count(problems)} with assets of other projects that read what this deployment "
            f"changes:\n{_lines(problems)}",
            hint="first deploy the readers with a mapping that fits both, or without the input",
        )


def _readers(
    reader: DeploymentReader, library: Library, project: str, keys: Set[str]
) -> Iterator[Asset]:
    """The assets of a project that read one of these."""
    current = reader.current_deployment(project)
    for key, _ in readers_of(reader, library, project, keys):
        assert current is not None  # or nothing would read them
        yield library.assets(current.manifest)[key]


def readers_of(
    reader: DeploymentReader, library: Library, project: str, keys: Set[str]
) -> Iterator[tuple[str, Set[str]]]:
    """Keys of the assets of a project that read some of these, and which of these."""
    current = reader.current_deployment(project)
    if current is not None:
        for outline in library.outline(current.manifest).assets:
            if read := keys & set(keys_read(outline)) - {outline.key}:
                yield outline.key, read
