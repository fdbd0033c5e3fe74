"""Namespaces, assets, governance and edges of lineage. Absent fields stay as they are."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from arco.api.reads.catalog import AssetName, Name
from arco.api.routes import NoBody, Parameters, write
from arco.api.views import require_asset, require_namespace
from arco.api.writes.run_writes import NoParameters
from arco.api.writing import WriteAnswer, Writing
from arco.catalog.events import Column
from arco.catalog.governance_events import GovernedValue, ValueRef
from arco.catalog.governance_reader import GovernanceReader, SubjectView
from arco.catalog.reader import CatalogReader
from arco.catalog.subjects import CatalogSubject
from arco.errors import Invalid
from arco.lineage.reader import Node
from arco.security.permissions import Permission
from arco.state.tier1 import Acknowledged
from servo.contract.keys import AssetKey

Text = Annotated[str, Meta(max_length=20_000)]
Owners = Annotated[tuple[Annotated[str, Meta(max_length=500)], ...], Meta(max_length=200)]
Pairs = Annotated[dict[str, Annotated[str, Meta(max_length=5_000)]], Meta(max_length=200)]


class DetailsBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Absent fields do not change; lists and maps are replaced as a whole."""

    description: Text | None = None
    owners: Owners | None = None
    tags: Pairs | None = None
    properties: Pairs | None = None

    def changes(self) -> dict[str, Any]:
        fields = msgspec.structs.asdict(self)
        return {name: value for name, value in fields.items() if value is not None}


class ChangedBody(msgspec.Struct, frozen=True, kw_only=True):
    subject: str
    row_version: int | None
    replayed: bool
    """Whether this request was carried out before, under the same key."""


class NamespaceWriteParameters(Parameters, frozen=True, kw_only=True):
    namespace: Name


class AssetWriteParameters(Parameters, frozen=True, kw_only=True):
    asset: AssetName


# -- namespaces -------------------------------------------------------------------------------


class NamespaceCreateBody(DetailsBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    namespace: Name

    def changes(self) -> dict[str, Any]:
        fields = super().changes()
        fields.pop("namespace", None)
        return fields


def create_namespace(
    writing: Writing, parameters: NoParameters, body: NamespaceCreateBody
) -> WriteAnswer[ChangedBody]:
    """Create a namespace."""
    require_namespace(writing.visible, body.namespace)
    writing.allow(body.namespace)
    done = writing.commands.catalog.create_namespace(body.namespace, **body.changes())
    return _namespace_after(writing, body.namespace, done)


def update_namespace(
    writing: Writing, parameters: NamespaceWriteParameters, body: DetailsBody
) -> WriteAnswer[ChangedBody]:
    """Change the values of a namespace set by people."""
    writing.allow(parameters.namespace)
    done = writing.commands.catalog.update_namespace(
        parameters.namespace, expected_version=writing.if_match, **something(body.changes())
    )
    return _namespace_after(writing, parameters.namespace, done)


def drop_namespace(
    writing: Writing, parameters: NamespaceWriteParameters, body: NoBody
) -> WriteAnswer[ChangedBody]:
    """Drop a namespace that has no assets."""
    writing.allow(parameters.namespace)
    done = writing.commands.catalog.drop_namespace(parameters.namespace)
    return _dropped(parameters.namespace, done)


def _namespace_after(
    writing: Writing, namespace: str, outcome: Acknowledged
) -> WriteAnswer[ChangedBody]:
    version = CatalogReader(writing.fresh().snapshot).namespace_version(namespace)
    body = ChangedBody(subject=namespace, row_version=version, replayed=outcome.replayed)
    return WriteAnswer(body, outcome.generation, f"/namespaces/{namespace}", version)


def _dropped(subject: str, outcome: Acknowledged) -> WriteAnswer[ChangedBody]:
    body = ChangedBody(subject=subject, row_version=None, replayed=outcome.replayed)
    return WriteAnswer(body, outcome.generation)


def something(changes: dict[str, Any]) -> dict[str, Any]:
    if not changes:
        raise Invalid("nothing to change", hint="give at least one field")
    return changes


# -- assets -----------------------------------------------------------------------------------


class DataDetailsBody(DetailsBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: Annotated[str, Meta(max_length=128)] | None = None
    format: Annotated[str, Meta(max_length=128)] | None = None
    location: Annotated[str, Meta(max_length=2000)] | None = None


class AssetColumn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=1000)]
    type: Annotated[str, Meta(min_length=1, max_length=10_000)]
    nullable: bool = True
    description: Text = ""
    pii: Annotated[str, Meta(max_length=128)] = ""
    sensitivity: Annotated[str, Meta(max_length=128)] = ""


class AssetCreateBody(DataDetailsBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    asset: AssetName
    columns: Annotated[tuple[AssetColumn, ...], Meta(max_length=5_000)] = ()

    def changes(self) -> dict[str, Any]:
        fields = super().changes()
        for name in ("asset", "columns"):
            fields.pop(name, None)
        return fields


def create_asset(
    writing: Writing, parameters: NoParameters, body: AssetCreateBody
) -> WriteAnswer[ChangedBody]:
    """Create an asset that no code declares, in a namespace that exists."""
    AssetKey.parse(body.asset)
    writing.allow_asset(body.asset)
    columns = [Column(**msgspec.structs.asdict(column)) for column in body.columns]
    done = writing.commands.catalog.create_asset(body.asset, columns=columns, **body.changes())
    return asset_after(writing, body.asset, done)


def update_asset(
    writing: Writing, parameters: AssetWriteParameters, body: DataDetailsBody
) -> WriteAnswer[ChangedBody]:
    """Change the values of an asset set by people."""
    AssetKey.parse(parameters.asset)
    writing.allow_asset(parameters.asset)
    done = writing.commands.catalog.update_asset(
        parameters.asset, expected_version=writing.if_match, **something(body.changes())
    )
    return asset_after(writing, parameters.asset, done)


class RenameBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    new_name: Name


def rename_asset(
    writing: Writing, parameters: AssetWriteParameters, body: RenameBody
) -> WriteAnswer[ChangedBody]:
    """Rename an asset in its namespace. Its id, versions and history stay."""
    key = AssetKey.parse(parameters.asset)
    writing.allow_asset(parameters.asset)
    done = writing.commands.catalog.rename_asset(key, body.new_name)
    return asset_after(writing, f"{key.namespace}.{body.new_name}", done)


def drop_asset(
    writing: Writing, parameters: AssetWriteParameters, body: NoBody
) -> WriteAnswer[ChangedBody]:
    """Drop an asset from the catalog. Its data files stay where they are."""
    AssetKey.parse(parameters.asset)
    writing.allow_asset(parameters.asset)
    done = writing.commands.catalog.drop_asset(parameters.asset)
    return _dropped(parameters.asset, done)


def asset_after(writing: Writing, asset: str, outcome: Acknowledged) -> WriteAnswer[ChangedBody]:
    reader = CatalogReader(writing.fresh().snapshot)
    version = reader.asset(AssetKey.parse(asset)).version
    body = ChangedBody(subject=asset, row_version=version, replayed=outcome.replayed)
    return WriteAnswer(body, outcome.generation, f"/assets/{asset}", version)


# -- governance -------------------------------------------------------------------------------


class GovernBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Values to set and to withdraw. Other values, and those in code, do not change."""

    subject: Annotated[str, Meta(min_length=1, max_length=1500)]
    """A namespace, an asset, or a column: `sales`, `sales.orders`, `sales.orders.email`."""
    set: Annotated[tuple[GovernedValue, ...], Meta(max_length=200)] = ()
    withdraw: Annotated[tuple[ValueRef, ...], Meta(max_length=200)] = ()


class GovernedBody(msgspec.Struct, frozen=True, kw_only=True):
    row_version: int
    replayed: bool
    governance: SubjectView


def govern(
    writing: Writing, parameters: NoParameters, body: GovernBody
) -> WriteAnswer[GovernedBody]:
    """Set and withdraw values of a namespace, an asset or a column, as a person."""
    subject = CatalogSubject.parse(body.subject)
    if subject.kind == "namespace":
        writing.allow(subject.namespace)
    else:
        writing.allow_asset(str(subject.key))
    outcome = writing.commands.governance.change(
        body.subject, set=body.set, withdraw=body.withdraw, expected_version=writing.if_match
    )
    view = GovernanceReader(writing.fresh().snapshot).view(body.subject)
    answer = GovernedBody(row_version=view.version, replayed=outcome.replayed, governance=view)
    return WriteAnswer(answer, outcome.generation, version=view.version)


# -- edges of lineage -------------------------------------------------------------------------


class EdgeEnd(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    asset: AssetName
    column: Annotated[str, Meta(max_length=1000)] = ""


class EdgeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: EdgeEnd
    target: EdgeEnd
    kind: Literal["identity", "transformation", "aggregation"] = "transformation"
    masked: bool = False
    owner: Annotated[str, Meta(max_length=500)] = ""
    description: Text = ""


class EdgeRefBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: EdgeEnd
    target: EdgeEnd


class EdgeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    replayed: bool


def _ends(writing: Writing, body: EdgeBody | EdgeRefBody) -> tuple[Node, Node]:
    """Both ends are seen, and the one that changes is the caller's to change."""
    require_asset(writing.visible, body.source.asset)
    writing.allow_asset(body.target.asset)
    source, target = body.source, body.target
    return Node(source.asset, source.column), Node(target.asset, target.column)


def add_edge(writing: Writing, parameters: NoParameters, body: EdgeBody) -> WriteAnswer[EdgeAnswer]:
    """Add a lineage edge between assets or columns that Arco cannot detect."""
    source, target = _ends(writing, body)
    outcome = writing.commands.lineage.add(
        source,
        target,
        kind=body.kind,
        masked=body.masked,
        owner=body.owner,
        description=body.description,
    )
    return WriteAnswer(EdgeAnswer(replayed=outcome.replayed), outcome.generation)


def remove_edge(
    writing: Writing, parameters: NoParameters, body: EdgeRefBody
) -> WriteAnswer[EdgeAnswer]:
    """Remove a manual lineage edge."""
    source, target = _ends(writing, body)
    done = writing.commands.lineage.remove(source, target)
    return WriteAnswer(EdgeAnswer(replayed=done.replayed), done.generation)


_EDIT, _DELETE = Permission.ASSETS_EDIT, Permission.ASSETS_DELETE
ROUTES: tuple[Any, ...] = (
    write("POST", "/namespaces", _EDIT, create_namespace, status=201),
    write("PATCH", "/namespaces/{namespace}", _EDIT, update_namespace, takes_if_match=True),
    write("DELETE", "/namespaces/{namespace}", _DELETE, drop_namespace),
    write("POST", "/assets", _EDIT, create_asset, status=201),
    write("PATCH", "/assets/{asset}", _EDIT, update_asset, takes_if_match=True),
    write("POST", "/assets/{asset}/rename", _EDIT, rename_asset),
    write("DELETE", "/assets/{asset}", _DELETE, drop_asset),
    write("POST", "/governance", _EDIT, govern, takes_if_match=True),
    write("POST", "/lineage/edges", _EDIT, add_edge),
    write("POST", "/lineage/edges/remove", _EDIT, remove_edge),
)
