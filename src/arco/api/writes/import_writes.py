"""Imports of what other tools know."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from arco.api.routes import write
from arco.api.writes.run_writes import NoParameters
from arco.api.writing import WriteAnswer, Writing
from arco.imports.commands import Imported
from arco.imports.dbt_artifacts import DbtUpload
from arco.security.permissions import Permission
from servo.contract.keys import check_name


class DbtImportBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    manifest: msgspec.Raw
    """The manifest.json of `dbt compile`."""
    catalog: dict[str, Any] | None = None
    """The catalog.json of `dbt docs generate`: all columns."""
    namespaces: Annotated[
        dict[Annotated[str, Meta(max_length=500)], Annotated[str, Meta(max_length=128)]],
        Meta(max_length=1000),
    ] = {}
    """The namespace of a schema, or of database.schema."""
    dry_run: bool = False


class ImportedBody(msgspec.Struct, frozen=True, kw_only=True):
    dry_run: bool
    imported: Imported


def import_dbt(
    writing: Writing, parameters: NoParameters, body: DbtImportBody
) -> WriteAnswer[ImportedBody]:
    """Import models, sources, seeds and snapshots of a dbt project with their lineage.

    Importing the same files again changes nothing.
    """
    writing.allow_workspace()  # its assets may be in any namespace
    named = {
        schema.lower(): check_name(namespace, "namespace")
        for schema, namespace in body.namespaces.items()
    }
    result = writing.unkeyed.imports.dbt(
        DbtUpload("the manifest", bytes(body.manifest)),
        None
        if body.catalog is None
        else DbtUpload("the catalog", msgspec.json.encode(body.catalog)),
        namespaces=named,
        dry_run=body.dry_run,
    )
    return WriteAnswer(ImportedBody(dry_run=body.dry_run, imported=result), result.generation)


class RemoveImportBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: Annotated[str, Meta(min_length=1, max_length=500)]
    """As the list of imports has it."""


def remove_import(
    writing: Writing, parameters: NoParameters, body: RemoveImportBody
) -> WriteAnswer[ImportedBody]:
    """Remove an import: its lineage is removed, and assets without another source become
    inactive."""
    writing.allow_workspace()
    result = writing.unkeyed.imports.remove(body.source)
    return WriteAnswer(ImportedBody(dry_run=False, imported=result), result.generation)


_EDIT = Permission.ASSETS_EDIT
ROUTES: tuple[Any, ...] = (
    write("POST", "/imports/dbt", _EDIT, import_dbt, max_body="deployment"),
    write("POST", "/imports/remove", _EDIT, remove_import),
)
