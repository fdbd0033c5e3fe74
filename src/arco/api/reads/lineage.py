"""Lineage: where assets and columns come from, what uses them, what a change reaches.

Of what the caller does not see only the number is said.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from arco.api.reads.catalog import AssetName, asset_id_of
from arco.api.routes import AtParameters, read
from arco.api.views import View
from arco.lineage.reader import Impact, Link, Node
from arco.orchestration.asset_columns import check_column
from arco.orchestration.catalog_names import lineage_reader
from arco.security.permissions import Permission
from arco.security.visibility import Visible

ColumnName = Annotated[str, Meta(max_length=1000, description="A column of the asset.")]
MAX_LINKS = 5_000


class LineageParameters(AtParameters, frozen=True, kw_only=True):
    asset: AssetName
    column: Annotated[ColumnName, Meta(description="A column; empty: the asset.")] = ""
    depth: Annotated[int, Meta(ge=1, le=100, description="Maximum number of steps.")] = 10


class LinkEnd(msgspec.Struct, frozen=True, kw_only=True):
    asset: str
    column: str


class LinkBody(msgspec.Struct, frozen=True, kw_only=True):
    distance: int
    source: LinkEnd
    target: LinkEnd
    kind: str
    direct: bool
    masked: bool
    method: str
    confidence: str


class LineageBody(msgspec.Struct, frozen=True, kw_only=True):
    asset: str
    column: str
    links: list[LinkBody]
    hidden: int
    """How many assets and columns among these the caller does not see."""
    truncated: bool
    """There are more links; ask for fewer steps."""


def get_upstream(view: View, visible: Visible, parameters: LineageParameters) -> LineageBody:
    """Show where an asset or one of its columns comes from."""
    _check(view, visible, parameters)
    reader = lineage_reader(view.snapshot)
    links = reader.upstream(parameters.asset, parameters.column, depth=parameters.depth)
    return _body(visible, parameters, links)


def get_downstream(view: View, visible: Visible, parameters: LineageParameters) -> LineageBody:
    """Show what uses an asset or one of its columns."""
    _check(view, visible, parameters)
    reader = lineage_reader(view.snapshot)
    links = reader.downstream(parameters.asset, parameters.column, depth=parameters.depth)
    return _body(visible, parameters, links)


def _check(view: View, visible: Visible, parameters: LineageParameters) -> None:
    asset_id_of(view, visible, parameters.asset)
    if parameters.column:
        check_column(view.snapshot, parameters.asset, parameters.column)


def _body(visible: Visible, parameters: LineageParameters, links: list[Link]) -> LineageBody:
    ends = {end for link in links for end in (link.source, link.target)}
    visible_links = [
        link for link in links if _sees(visible, link.source) and _sees(visible, link.target)
    ]
    return LineageBody(
        asset=parameters.asset,
        column=parameters.column,
        links=[link_body(link) for link in visible_links[:MAX_LINKS]],
        hidden=sum(not _sees(visible, end) for end in ends),
        truncated=len(visible_links) > MAX_LINKS,
    )


def _sees(visible: Visible, node: Node) -> bool:
    return visible.sees_asset(node.asset)


def link_body(link: Link) -> LinkBody:
    return LinkBody(
        distance=link.distance,
        source=LinkEnd(asset=link.source.asset, column=link.source.column),
        target=LinkEnd(asset=link.target.asset, column=link.target.column),
        kind=link.kind,
        direct=link.direct,
        masked=link.masked,
        method=link.method,
        confidence=link.confidence,
    )


class ImpactParameters(AtParameters, frozen=True, kw_only=True):
    asset: AssetName
    column: ColumnName
    depth: Annotated[int, Meta(ge=1, le=100, description="Maximum number of steps.")] = 32


class ImpactEntry(msgspec.Struct, frozen=True, kw_only=True):
    distance: int
    asset: str
    column: str
    """Empty: it selects rows."""
    direct: bool
    masked: bool


class ImpactBody(msgspec.Struct, frozen=True, kw_only=True):
    asset: str
    column: str
    impact: list[ImpactEntry]
    hidden: int
    truncated: bool


def get_impact(view: View, visible: Visible, parameters: ImpactParameters) -> ImpactBody:
    """Show everything that depends on a column, the nearest first."""
    asset_id_of(view, visible, parameters.asset)
    check_column(view.snapshot, parameters.asset, parameters.column)
    reader = lineage_reader(view.snapshot)
    reached = reader.impact(parameters.asset, parameters.column, depth=parameters.depth)
    visible_impacts = [each for each in reached if _sees(visible, each.node)]
    return ImpactBody(
        asset=parameters.asset,
        column=parameters.column,
        impact=[_impact(each) for each in visible_impacts[:MAX_LINKS]],
        hidden=len(reached) - len(visible_impacts),
        truncated=len(visible_impacts) > MAX_LINKS,
    )


def _impact(impact: Impact) -> ImpactEntry:
    return ImpactEntry(
        distance=impact.distance,
        asset=impact.node.asset,
        column=impact.node.column,
        direct=impact.direct,
        masked=impact.masked,
    )


_READ = Permission.ASSETS_READ
ROUTES: tuple[Any, ...] = (
    read("/assets/{asset}/upstream", _READ, get_upstream),
    read("/assets/{asset}/downstream", _READ, get_downstream),
    read("/assets/{asset}/impact", _READ, get_impact),
)
