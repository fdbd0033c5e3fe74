"""Terms of the glossary, what is said of a namespace, asset or column, and schemas' differences.

Terms belong to no namespace: who sees anything of the workspace sees them. Where they are used is
shown as far as the caller sees it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from arco.api.page_tokens import PageKey
from arco.api.reads.catalog import AssetName, GovernanceBody, asset_id_of
from arco.api.routes import AtParameters, PageParameters, PageWindow, listing, read
from arco.api.views import View, require_asset, require_namespace
from arco.catalog.governance_reader import GovernanceReader
from arco.catalog.governance_tables import TermRow
from arco.catalog.schema_diff import schema_difference
from arco.catalog.schema_reader import SchemaReader
from arco.catalog.schema_tables import AcceptedBreakRow, ColumnRenameRow
from arco.catalog.subjects import CatalogSubject
from arco.columns.compatibility import SchemaChange, broken_modes
from arco.security.permissions import Permission
from arco.security.visibility import Visible

TermName = Annotated[str, Meta(min_length=1, max_length=128, description="The term.")]


def list_terms(
    view: View, visible: Visible, parameters: PageParameters, window: PageWindow
) -> Iterator[tuple[PageKey, TermRow]]:
    """List the terms of the glossary."""
    for row in GovernanceReader(view.snapshot).terms():
        if window.after is None or (row.term,) > window.after:
            yield (row.term,), row


class TermParameters(AtParameters, frozen=True, kw_only=True):
    term: TermName


class TermBody(msgspec.Struct, frozen=True, kw_only=True):
    row_version: int
    term: TermRow
    used_by: list[str]
    """Namespaces, assets and columns that the caller sees."""


def get_term(view: View, visible: Visible, parameters: TermParameters) -> TermBody:
    """Show a term, and where it is used."""
    term = GovernanceReader(view.snapshot).term_view(parameters.term)
    used = [each for each in term.used_by if visible.sees(each.partition(".")[0])]
    return TermBody(row_version=term.version, term=term.row, used_by=used)


class SubjectParameters(AtParameters, frozen=True, kw_only=True):
    subject: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=1500,
            description="A namespace, an asset or a column: sales, sales.orders, "
            "sales.orders.email.",
        ),
    ]


def get_governance(view: View, visible: Visible, parameters: SubjectParameters) -> GovernanceBody:
    """Show the values of a namespace, an asset or a column, by source."""
    subject = CatalogSubject.parse(parameters.subject)
    if subject.kind == "namespace":
        require_namespace(visible, subject.namespace)
    else:
        require_asset(visible, str(subject.key))
    statements = GovernanceReader(view.snapshot).view(parameters.subject)
    return GovernanceBody(row_version=statements.version, governance=statements)


# -- schemas ----------------------------------------------------------------------------------


class SchemaParameters(AtParameters, frozen=True, kw_only=True):
    asset: AssetName


class SchemaBody(msgspec.Struct, frozen=True, kw_only=True):
    asset: str
    current: int
    """The version that the newest good output has; 0 before the first."""
    declared: int
    """The version that code declares; 0 if it declares no columns."""
    versions: int
    renames: list[ColumnRenameRow]
    accepted_breaks: list[AcceptedBreakRow]


def get_asset_schema(view: View, visible: Visible, parameters: SchemaParameters) -> SchemaBody:
    """Show the current and declared schema of an asset, renamed columns and accepted breaks."""
    asset_id = asset_id_of(view, visible, parameters.asset)
    schema = SchemaReader(view.snapshot).schema(asset_id, parameters.asset)
    return SchemaBody(
        asset=parameters.asset,
        current=schema.registry.current,
        declared=schema.registry.declared,
        versions=schema.registry.versions,
        renames=schema.renames,
        accepted_breaks=schema.accepted,
    )


SchemaVersionText = Annotated[
    str, Meta(max_length=16, description="A number, `current` or `declared`.")
]


class SchemaDiffParameters(AtParameters, frozen=True, kw_only=True):
    asset: AssetName
    before: SchemaVersionText = ""
    """Empty: the one before `after`."""
    after: SchemaVersionText = ""
    """Empty: the newest."""


class SchemaChangeBody(msgspec.Struct, frozen=True, kw_only=True):
    change: SchemaChange
    text: str
    breaks: list[str]
    """`backward`, `forward`, both or none."""


class SchemaDiffBody(msgspec.Struct, frozen=True, kw_only=True):
    asset: str
    before: int
    after: int
    changes: list[SchemaChangeBody]


def diff_asset_schema(
    view: View, visible: Visible, parameters: SchemaDiffParameters
) -> SchemaDiffBody:
    """Compare two versions of an asset's schema, and mark changes that may break readers."""
    asset_id = asset_id_of(view, visible, parameters.asset)
    schema = SchemaReader(view.snapshot).schema(asset_id, parameters.asset)
    difference = schema_difference(schema, parameters.asset, parameters.before, parameters.after)
    return SchemaDiffBody(
        asset=parameters.asset,
        before=difference.before.version,
        after=difference.after.version,
        changes=[
            SchemaChangeBody(change=each, text=str(each), breaks=broken_modes(each))
            for each in difference.changes
        ],
    )


_READ = Permission.ASSETS_READ
ROUTES: tuple[Any, ...] = (
    listing("/terms", _READ, list_terms),
    read("/terms/{term}", _READ, get_term),
    read("/governance", _READ, get_governance),
    read("/assets/{asset}/schema", _READ, get_asset_schema),
    read("/assets/{asset}/schema/diff", _READ, diff_asset_schema),
)
