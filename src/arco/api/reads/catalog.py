"""Namespaces, assets, columns, schemas and search."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from arco.api.page_tokens import PageKey
from arco.api.routes import AtParameters, PageParameters, PageWindow, listing, read
from arco.api.views import View, require_asset, require_namespace
from arco.catalog.governance_reader import GovernanceReader, SubjectView
from arco.catalog.reader import CatalogReader
from arco.catalog.schema_reader import SchemaReader
from arco.catalog.schema_tables import SchemaVersionRow
from arco.catalog.tables import (
    ASSET_NAMES,
    ASSETS,
    NAMESPACES,
    AssetRow,
    AssetStatsRow,
    ColumnRow,
    NamespaceRow,
)
from arco.columns.compatibility import SchemaChange
from arco.columns.schema_columns import SchemaColumn
from arco.search.reader import SearchHit, SearchReader
from arco.security.permissions import Permission
from arco.security.visibility import Visible
from servo.contract.keys import AssetKey

AssetName = Annotated[str, Meta(max_length=257, description="The asset: namespace.name.")]
Name = Annotated[str, Meta(max_length=128)]


class NamespaceParameters(AtParameters, frozen=True, kw_only=True):
    namespace: Name


class AssetParameters(AtParameters, frozen=True, kw_only=True):
    asset: AssetName


class NamespaceBody(NamespaceRow, frozen=True, kw_only=True):
    row_version: int


def list_namespaces(
    view: View, visible: Visible, parameters: PageParameters, window: PageWindow
) -> Iterator[tuple[PageKey, NamespaceRow]]:
    """List namespaces by name."""
    for row in sorted(view.snapshot.all(NAMESPACES), key=lambda row: row.namespace):
        after = window.after is None or (row.namespace,) > window.after
        if visible.sees(row.namespace) and after:
            yield (row.namespace,), row


def get_namespace(view: View, visible: Visible, parameters: NamespaceParameters) -> NamespaceBody:
    """Show a namespace."""
    require_namespace(visible, parameters.namespace)
    reader = CatalogReader(view.snapshot)
    row = reader.namespace(parameters.namespace)
    version = reader.namespace_version(parameters.namespace)
    return NamespaceBody(**msgspec.structs.asdict(row), row_version=version)


# -- assets -----------------------------------------------------------------------------------


class AssetListParameters(PageParameters, frozen=True, kw_only=True):
    namespace: Annotated[Name, Meta(description="Only assets of this namespace.")] = ""


class AssetBody(AssetRow, frozen=True, kw_only=True):
    row_version: int
    """What If-Match of a change is compared with."""
    columns: list[ColumnRow]
    stats: AssetStatsRow | None


class SortedAssetNames:
    """The keys of all assets in their order, with their ids: made once for a generation."""

    def __init__(self, view: View) -> None:
        names = view.snapshot.scan(ASSET_NAMES).select(["namespace", "name", "asset_id"])
        rows = sorted(zip(*(column.to_pylist() for column in names.columns), strict=True))
        self.keys = [(namespace, name) for namespace, name, _ in rows]
        self.ids = [asset_id for _, _, asset_id in rows]
        self.namespaces: dict[str, tuple[int, int]] = {}
        for place, (namespace, _) in enumerate(self.keys):
            start, _ = self.namespaces.get(namespace, (place, place))
            self.namespaces[namespace] = (start, place + 1)

    def after(self, visible: Visible, namespace: str, key: PageKey | None) -> Iterator[int]:
        """The places of visible assets; hidden namespaces are skipped."""
        first = 0 if key is None else bisect_right(self.keys, key)
        for name, (start, end) in self.namespaces.items():
            if end > first and namespace in ("", name) and visible.sees(name):
                yield from range(max(start, first), end)


def asset_names(view: View) -> SortedAssetNames:
    return view.derived("asset names", lambda: SortedAssetNames(view))


def list_assets(
    view: View, visible: Visible, parameters: AssetListParameters, window: PageWindow
) -> Iterator[tuple[PageKey, AssetRow]]:
    """List assets by namespace and name."""
    if parameters.namespace:
        require_namespace(visible, parameters.namespace)
    names = asset_names(view)
    places = names.after(visible, parameters.namespace, window.after)
    chosen = [place for place, _ in zip(places, range(window.limit), strict=False)]
    rows = view.snapshot.get_many(ASSETS, [(names.ids[place],) for place in chosen])
    for place in chosen:
        if (row := rows.get((names.ids[place],))) is not None:
            yield names.keys[place], row


def get_asset(view: View, visible: Visible, parameters: AssetParameters) -> AssetBody:
    """Show an asset, with its columns and newest observation."""
    require_asset(visible, parameters.asset)
    details = CatalogReader(view.snapshot).asset(AssetKey.parse(parameters.asset))
    return AssetBody(
        **msgspec.structs.asdict(details.row),
        row_version=details.version,
        columns=details.columns,
        stats=details.stats,
    )


class GovernanceBody(msgspec.Struct, frozen=True, kw_only=True):
    row_version: int
    governance: SubjectView


def get_asset_governance(
    view: View, visible: Visible, parameters: AssetParameters
) -> GovernanceBody:
    """Show the values of an asset by source, who set them, and which are in effect."""
    require_asset(visible, parameters.asset)
    AssetKey.parse(parameters.asset)
    subject = GovernanceReader(view.snapshot).view(parameters.asset)
    return GovernanceBody(row_version=subject.version, governance=subject)


class AssetColumnsParameters(PageParameters, frozen=True, kw_only=True):
    asset: AssetName


def list_asset_columns(
    view: View, visible: Visible, parameters: AssetColumnsParameters, window: PageWindow
) -> Iterator[tuple[PageKey, ColumnRow]]:
    """List the columns that an asset has or had: those in use first, in their order."""
    asset_id = asset_id_of(view, visible, parameters.asset)
    for row in SchemaReader(view.snapshot).columns(asset_id):
        key = (row.status == "Inactive", row.ordinal, row.name, row.column_id)
        if window.after is None or key > window.after:
            yield key, row


class SchemaVersionBody(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    schema_hash: str
    source: Literal["output", "declaration"]
    """What it was first seen in."""
    current: bool
    declared: bool
    columns: tuple[SchemaColumn, ...]
    changes: tuple[SchemaChange, ...]
    """Since the version before."""
    run_id: str
    materialization_id: str
    registered_at: datetime
    registered_by: str


def list_asset_schemas(
    view: View, visible: Visible, parameters: AssetColumnsParameters, window: PageWindow
) -> Iterator[tuple[PageKey, SchemaVersionBody]]:
    """List the versions of an asset's schema, the newest first."""
    asset_id = asset_id_of(view, visible, parameters.asset)
    reader = SchemaReader(view.snapshot)
    registry = reader.registry(asset_id)
    if registry is None or not registry.versions:
        return
    for row in reader.schema(asset_id, parameters.asset).versions:
        if window.after is None or (-row.version,) > window.after:
            yield (-row.version,), _schema_version(row)


def _schema_version(row: SchemaVersionRow) -> SchemaVersionBody:
    return SchemaVersionBody(
        version=row.version,
        schema_hash=row.schema_hash,
        source=row.source,
        current=row.current,
        declared=row.declared,
        columns=row.decoded_columns(),
        changes=row.decoded_changes(),
        run_id=row.run_id,
        materialization_id=row.materialization_id,
        registered_at=row.registered_at,
        registered_by=row.registered_by,
    )


def asset_id_of(view: View, visible: Visible, asset: str) -> str:
    require_asset(visible, asset)
    return CatalogReader(view.snapshot).asset_id(AssetKey.parse(asset))


# -- search -----------------------------------------------------------------------------------


class SearchParameters(AtParameters, frozen=True, kw_only=True):
    q: Annotated[str, Meta(min_length=1, max_length=1000, description="Words and filters.")]
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


class SearchBody(msgspec.Struct, frozen=True, kw_only=True):
    query: str
    total: int
    """How many assets match, of those that the caller sees."""
    hits: list[SearchHit]
    corrected: dict[str, list[str]]


def search(view: View, visible: Visible, parameters: SearchParameters) -> SearchBody:
    """Find assets by their names, columns, owners, tags, descriptions and code, the best first."""
    seen = visible.namespaces
    name = "search" if seen is None else f"search:{','.join(sorted(seen))}"
    reader = view.derived(name, lambda: SearchReader(view.snapshot, seen))
    result = reader.search(parameters.q, limit=parameters.limit)
    return SearchBody(
        query=result.query, total=result.total, hits=result.hits, corrected=result.corrected
    )


_READ = Permission.ASSETS_READ
ROUTES: tuple[Any, ...] = (
    listing("/namespaces", _READ, list_namespaces),
    read("/namespaces/{namespace}", _READ, get_namespace),
    listing("/assets", _READ, list_assets),
    read("/assets/{asset}", _READ, get_asset),
    read("/assets/{asset}/governance", _READ, get_asset_governance),
    listing("/assets/{asset}/columns", _READ, list_asset_columns),
    listing("/assets/{asset}/schemas", _READ, list_asset_schemas),
    read("/search", _READ, search),
)
