"""From a project's folder to its manifest and artifact."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from pathlib import Path
from typing import NamedTuple

from arco.app import Workspace
from arco.catalog.schema_reader import SchemaReader
from arco.cli import render
from arco.cli.session import Session
from arco.config import resolve_channels, resolve_modules, resolve_project
from arco.errors import Denied, Invalid, NotFound, Unavailable
from arco.notifications.channels import channel_problems
from arco.orchestration.foreign import assets_of_others
from arco.orchestration.governance_notes import governance_notes
from arco.spark.query_rules import ColumnLookups, SqlFindings, check_sql, check_sql_of, has_sql
from arco.worker.artifact import digest
from arco.worker.packing import PackedFile, large_files, likely_secrets, pack, packed_files
from servo.contract.manifest import Manifest, Notification
from servo.discover import build_manifest, discover, refuse
from servo.project import Problem, Project

SHOWN = 5


class Package(NamedTuple):
    manifest: Manifest
    artifact: bytes
    files: tuple[PackedFile, ...]
    notes: tuple[Problem, ...]

    def warnings(self) -> list[str]:
        """Warnings before a deployment."""
        return [*map(str, self.notes), *_file_warnings(self.files)]


def discovered(folder: Path) -> Project:
    return discover(folder, resolve_modules(folder.resolve()))


def packaged(session: Session, folder: Path, workspace: Workspace | None) -> Package:
    """What a folder holds. Invalid, with all problems, if it has any.

    A store inside the project's folder is not packed.
    """
    project = discovered(folder)
    artifact = pack(folder, without=_store_folders(session))
    name = resolve_project(folder.resolve())
    manifest = build_manifest(project, digest(artifact), name=name)
    findings = sql_findings(manifest, workspace)
    channels = unknown_channels(manifest.notifications, folder)
    refuse(sorted([*findings.problems, *channels]))
    notes = (*project.notes, *findings.notes, *governance_findings(manifest, workspace))
    return Package(manifest, artifact, packed_files(artifact), notes)


def unknown_channels(rules: Iterable[Notification], folder: Path) -> list[Problem]:
    """Rules that name channels which no `arco.toml` has. Raises Invalid for a bad channel."""
    return list(channel_problems(rules, resolve_channels(folder.resolve())))


def sql_findings(manifest: Manifest, workspace: Workspace | None) -> SqlFindings:
    """Problems in a project's SQL, with the columns of inputs in a workspace."""
    lookups = None if workspace is None else _lookups(workspace, manifest.project)
    return check_sql(manifest.assets, lookups)


def governance_findings(manifest: Manifest, workspace: Workspace | None) -> list[Problem]:
    """Deprecated inputs, and terms that the glossary does not have."""
    return governance_notes(manifest, None if workspace is None else workspace.read.snapshot())


def planned_sql(workspace: Workspace, keys: Set[str]) -> list[Problem]:
    """Certain and possible problems in the SQL of deployed assets."""
    reader = workspace.read.orchestration()
    problems: list[Problem] = []
    for row in reader.projects():
        current = reader.current_deployment(row.project)
        if current is None:
            continue
        outline = workspace.library.outline(current.manifest)
        planned = [a.key for a in outline.assets if a.key in keys and has_sql(a)]
        if planned:
            assets = workspace.library.assets(current.manifest)
            findings = check_sql_of(planned, assets, _lookups(workspace, row.project))
            problems += [*findings.problems, *findings.notes]
    return problems


def _lookups(workspace: Workspace, project: str) -> ColumnLookups:
    reader = workspace.read.orchestration()
    schemas = SchemaReader(reader.snapshot)
    execution = workspace.read.execution()

    def materialized(key: str) -> list[str]:
        row = reader.deployed_asset(key)
        if row is None:
            return []
        registry = schemas.registry(row.asset_id)
        if registry is None or not registry.current:  # of a workspace from before the registry
            return [each.name for each in execution.columns(row.asset_id)]
        version = schemas.version(row.asset_id, registry.current)
        return [] if version is None else [each.name for each in version.decoded_columns()]

    return ColumnLookups(assets_of_others(reader, workspace.library, project), materialized)


def workspace_if_there(session: Session) -> Workspace | None:
    """The workspace to compare with, if one is configured and can be reached."""
    try:
        workspace = session.open()
        workspace.read.snapshot()
        return workspace
    except (Invalid, NotFound, Unavailable, Denied):
        return None


def _store_folders(session: Session) -> list[Path]:
    try:
        directory = session.config().directory
    except Invalid:  # no store is configured
        return []
    return [] if directory is None else [directory]


def _file_warnings(files: Sequence[PackedFile]) -> list[str]:
    warnings = []
    if secrets := likely_secrets(files):
        names = _listed([file.path for file in secrets])
        warnings.append(f"packed, although the name suggests a secret: {names}")
    if large := large_files(files):
        names = _listed([f"{file.path} ({render.size(file.bytes)})" for file in large])
        warnings.append(f"packed, although large: {names}")
    if warnings:
        warnings[-1] += "; name files that tasks do not need in .servoignore"
    return warnings


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
