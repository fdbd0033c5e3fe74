"""What SQL and governance say about a project's code, compared with what is in a workspace."""

from __future__ import annotations

from collections.abc import Set

from arco.app import Workspace
from arco.catalog.schema_reader import SchemaReader
from arco.orchestration.foreign import assets_of_others
from arco.orchestration.governance_notes import governance_notes
from arco.spark.query_rules import ColumnLookups, SqlFindings, check_sql, check_sql_of, has_sql
from servo.contract.manifest import Manifest
from servo.project import Problem


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
