"""Columns of assets, and terms of the glossary. Absent fields stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from arco.api.reads.glossary_reads import TermName
from arco.api.routes import NoBody, Parameters, write
from arco.api.writes.catalog import (
    AssetColumn,
    AssetWriteParameters,
    ChangedBody,
    Owners,
    Pairs,
    Text,
    asset_after,
    something,
)
from arco.api.writes.run_writes import NoParameters, ReasonText
from arco.api.writing import WriteAnswer, Writing
from arco.catalog.events import Column
from arco.catalog.governance_reader import GovernanceReader
from arco.catalog.reader import CatalogReader
from arco.catalog.schema_reader import SchemaReader
from arco.catalog.tables import COLUMNS
from arco.security.permissions import Permission
from arco.state.tier1 import Acknowledged
from servo.contract.keys import AssetKey

ColumnText = Annotated[str, Meta(min_length=1, max_length=1000)]


def add_column(
    writing: Writing, parameters: AssetWriteParameters, body: AssetColumn
) -> WriteAnswer[ChangedBody]:
    """Add a column to an asset."""
    key = str(AssetKey.parse(parameters.asset))
    writing.allow_asset(key)
    column = Column(**msgspec.structs.asdict(body))
    return asset_after(writing, key, writing.commands.catalog.add_column(key, column))


class ColumnUpdateBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An empty text withdraws the value set by people."""

    column: ColumnText
    name: ColumnText | None = None
    """The new name, of a column that neither code declares nor data has."""
    type: Annotated[str, Meta(min_length=1, max_length=10_000)] | None = None
    nullable: bool | None = None
    description: Text | None = None
    pii: Annotated[str, Meta(max_length=128)] | None = None
    sensitivity: Annotated[str, Meta(max_length=128)] | None = None


def update_column(
    writing: Writing, parameters: AssetWriteParameters, body: ColumnUpdateBody
) -> WriteAnswer[ChangedBody]:
    """Change the values of a column set by people, including its classification."""
    key = str(AssetKey.parse(parameters.asset))
    writing.allow_asset(key)
    fields = msgspec.structs.asdict(body)
    column = fields.pop("column")
    changes = {name: value for name, value in fields.items() if value is not None}
    done = writing.commands.catalog.update_column(
        key, column, expected_version=writing.if_match, **something(changes)
    )
    return _column_after(writing, key, (body.name or column,), done)


def _column_after(
    writing: Writing, key: str, names: Sequence[str], done: Acknowledged
) -> WriteAnswer[ChangedBody]:
    """The answer with the version of the column that has the first of these names."""
    snapshot = writing.fresh().snapshot
    asset_id = CatalogReader(snapshot).asset_id(AssetKey.parse(key))
    columns = {row.name: row for row in reversed(SchemaReader(snapshot).columns(asset_id))}
    column = next(columns[name] for name in names if name in columns)
    version, _ = snapshot.versioned(COLUMNS, (asset_id, column.column_id))
    body = ChangedBody(subject=f"{key}.{column.name}", row_version=version, replayed=done.replayed)
    return WriteAnswer(body, done.generation, f"/assets/{key}", version)


class ColumnRenameBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    column: ColumnText
    new_name: ColumnText
    reason: ReasonText = ""
    """With it the rename is accepted as one that may break readers."""


def rename_column(
    writing: Writing, parameters: AssetWriteParameters, body: ColumnRenameBody
) -> WriteAnswer[ChangedBody]:
    """Rename a column; its id, history and description stay."""
    key = str(AssetKey.parse(parameters.asset))
    writing.allow_asset(key)
    done = writing.commands.catalog.rename_column(
        key,
        body.column,
        body.new_name,
        reason=body.reason,
        expected_version=writing.if_match,
    )
    # Until an output has the new name, the column has the old one.
    return _column_after(writing, key, (body.new_name, body.column), done)


class ColumnDropBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    column: ColumnText


def drop_column(
    writing: Writing, parameters: AssetWriteParameters, body: ColumnDropBody
) -> WriteAnswer[ChangedBody]:
    """Drop a column from an asset that no code declares."""
    key = str(AssetKey.parse(parameters.asset))
    writing.allow_asset(key)
    done = writing.commands.catalog.drop_column(key, body.column, expected_version=writing.if_match)
    return asset_after(writing, key, done)


# -- terms ------------------------------------------------------------------------------------


class TermDetailsBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Owners and links are replaced as a whole."""

    description: Text | None = None
    owners: Owners | None = None
    links: Pairs | None = None


class TermCreateBody(TermDetailsBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    term: TermName


class TermWriteParameters(Parameters, frozen=True, kw_only=True):
    term: TermName


def create_term(
    writing: Writing, parameters: NoParameters, body: TermCreateBody
) -> WriteAnswer[ChangedBody]:
    """Create a term of the glossary."""
    writing.allow_workspace()  # a term belongs to no namespace
    done = writing.commands.governance.create_term(
        body.term, description=body.description, owners=body.owners, links=body.links
    )
    return _term_after(writing, body.term, done)


def update_term(
    writing: Writing, parameters: TermWriteParameters, body: TermDetailsBody
) -> WriteAnswer[ChangedBody]:
    """Change a term of the glossary."""
    writing.allow_workspace()
    fields = msgspec.structs.asdict(body)
    something({name: value for name, value in fields.items() if value is not None})
    done = writing.commands.governance.update_term(
        parameters.term, expected_version=writing.if_match, **fields
    )
    return _term_after(writing, parameters.term, done)


def _term_after(writing: Writing, term: str, outcome: Acknowledged) -> WriteAnswer[ChangedBody]:
    version, _ = GovernanceReader(writing.fresh().snapshot).term(term)
    body = ChangedBody(subject=term, row_version=version, replayed=outcome.replayed)
    return WriteAnswer(body, outcome.generation, f"/terms/{term}", version)


class TermDropParameters(TermWriteParameters, frozen=True, kw_only=True):
    force: Annotated[
        bool, Meta(description="Drop the term even if it is used; existing references stay.")
    ] = False


def drop_term(
    writing: Writing, parameters: TermDropParameters, body: NoBody
) -> WriteAnswer[ChangedBody]:
    """Drop a term. Refused while something uses it."""
    writing.allow_workspace()
    done = writing.commands.governance.drop_term(
        parameters.term, force=parameters.force, expected_version=writing.if_match
    )
    answer = ChangedBody(subject=parameters.term, row_version=None, replayed=done.replayed)
    return WriteAnswer(answer, done.generation)


_EDIT = Permission.ASSETS_EDIT
ROUTES: tuple[Any, ...] = (
    write("POST", "/assets/{asset}/columns", _EDIT, add_column, status=201),
    write("PATCH", "/assets/{asset}/columns", _EDIT, update_column, takes_if_match=True),
    write("POST", "/assets/{asset}/columns/rename", _EDIT, rename_column, takes_if_match=True),
    write("POST", "/assets/{asset}/columns/drop", _EDIT, drop_column, takes_if_match=True),
    write("POST", "/terms", _EDIT, create_term, status=201),
    write("PATCH", "/terms/{term}", _EDIT, update_term, takes_if_match=True),
    write("DELETE", "/terms/{term}", Permission.ASSETS_DELETE, drop_term, takes_if_match=True),
)
