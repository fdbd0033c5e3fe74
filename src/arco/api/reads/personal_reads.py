"""Where personal data is, and how it got there.

What flows from assets that the caller does not see is left out; that a column is personal is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from arco.api.page_tokens import PageKey
from arco.api.reads.catalog import AssetName, asset_id_of
from arco.api.reads.lineage import ColumnName, LinkBody, LinkEnd, link_body
from arco.api.routes import AtParameters, PageParameters, PageWindow, listing, read
from arco.api.views import View, require_namespace
from arco.lineage.reader import Link, Node
from arco.orchestration.personal_data import PersonalColumn, PersonalDataReader
from arco.orchestration.personal_suggestions import SuggestedColumn, suggested_columns
from arco.security.permissions import Permission
from arco.security.visibility import Visible


class PersonalListParameters(PageParameters, frozen=True, kw_only=True):
    namespace: Annotated[str, Meta(max_length=128, description="Only of this namespace.")] = ""


def list_personal_columns(
    view: View, visible: Visible, parameters: PersonalListParameters, window: PageWindow
) -> Iterator[tuple[PageKey, PersonalColumn]]:
    """List columns with personal or sensitive data, declared or inherited."""
    if parameters.namespace:
        require_namespace(visible, parameters.namespace)
    reader = PersonalDataReader(view.snapshot)
    for each in view.derived("personal", reader.everything):
        key = (each.asset, each.column)
        if window.after is not None and key <= window.after:
            continue
        in_namespace = parameters.namespace in ("", each.asset.partition(".")[0])
        if in_namespace and visible.sees_asset(each.asset):
            yield key, each


class PersonalColumnParameters(AtParameters, frozen=True, kw_only=True):
    asset: AssetName
    column: Annotated[ColumnName, Meta(min_length=1)]


class OwnClassBody(msgspec.Struct, frozen=True, kw_only=True):
    pii: str
    sensitivity: str


class PersonalWay(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    """Of personal data; `sensitivity` for the level."""
    links: list[LinkBody]
    """From the column that says it to this one."""


class StoppedBody(msgspec.Struct, frozen=True, kw_only=True):
    link: LinkBody
    reason: str


class PersonalExplanation(msgspec.Struct, frozen=True, kw_only=True):
    asset: str
    column: str
    pii: list[str]
    sensitivity: str
    own: OwnClassBody
    """What is said of the column itself; empty where nothing is."""
    ways: list[PersonalWay]
    stopped: list[StoppedBody]
    """Where personal data on the way to it ended."""
    unknown_sources: list[LinkEnd]
    """Columns on the way, or itself, whose sources among the inputs are unknown."""


def explain_personal_column(
    view: View, visible: Visible, parameters: PersonalColumnParameters
) -> PersonalExplanation:
    """Show why a column is personal, or why it is not."""
    asset_id_of(view, visible, parameters.asset)
    reader = PersonalDataReader(view.snapshot)
    explanation = reader.explain(parameters.asset, parameters.column)

    def is_seen(link: Link) -> bool:
        return all(visible.sees_asset(end.asset) for end in (link.source, link.target))

    def end(node: Node) -> LinkEnd:
        return LinkEnd(asset=node.asset, column=node.column)

    return PersonalExplanation(
        asset=explanation.node.asset,
        column=explanation.node.column,
        pii=sorted(explanation.label.pii),
        sensitivity=explanation.label.sensitivity,
        own=OwnClassBody(pii=explanation.own.pii, sensitivity=explanation.own.sensitivity),
        ways=[
            PersonalWay(kind=kind, links=[link_body(link) for link in path if is_seen(link)])
            for kind, path in explanation.paths.items()
        ],
        stopped=[
            StoppedBody(link=link_body(each.link), reason=each.reason)
            for each in explanation.stopped
            if is_seen(each.link)
        ],
        unknown_sources=[
            end(node) for node in explanation.unknown if visible.sees_asset(node.asset)
        ],
    )


class SuggestParameters(AtParameters, frozen=True, kw_only=True):
    asset: AssetName
    samples: Annotated[
        bool, Meta(description="Also read values of the newest version; they are not shown.")
    ] = False


class SuggestionsBody(msgspec.Struct, frozen=True, kw_only=True):
    asset: str
    suggestions: list[SuggestedColumn]


def suggest_personal_columns(
    view: View, visible: Visible, parameters: SuggestParameters
) -> SuggestionsBody:
    """Suggest columns of an asset that may contain personal data. Changes nothing."""
    asset_id_of(view, visible, parameters.asset)
    store = view.store if parameters.samples else None
    columns = suggested_columns(view.snapshot, parameters.asset, store)
    return SuggestionsBody(asset=parameters.asset, suggestions=list(columns))


_READ = Permission.ASSETS_READ
ROUTES: tuple[Any, ...] = (
    listing("/personal-columns", _READ, list_personal_columns),
    read("/assets/{asset}/personal", _READ, explain_personal_column),
    read(
        "/assets/{asset}/personal/suggestions",
        Permission.DATA_READ,
        suggest_personal_columns,
        live=True,
    ),
)
