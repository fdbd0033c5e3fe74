"""Partitions, versions, checks and what is held. No answer lists all partitions of an asset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from arco.api.page_tokens import PageKey
from arco.api.reads.catalog import AssetName, asset_id_of
from arco.api.reads.run_reads import Time
from arco.api.routes import AtParameters, PageParameters, PageWindow, listing, read
from arco.api.row_visibility import RowVisibility
from arco.api.views import View, require_asset
from arco.errors import NotFound
from arco.execution.reader import ExecutionReader
from arco.execution.states import PartitionState, Quality
from arco.execution.tables import MaterializationRow, PartitionRow, QuarantineRow
from arco.orchestration.partition_status import PartitionStatuses, StatusRange, StatusReader
from arco.orchestration.reader import OrchestrationReader
from arco.orchestration.tables import DYNAMIC_KEYS, DynamicKeyRow
from arco.orchestration.world import World
from arco.quality.reader import QualityReader
from arco.quality.tables import CheckResultRow, CheckStatusRow
from arco.security.permissions import Permission
from arco.security.visibility import Visible
from arco.times import parse_time
from servo.contract.manifest import Asset

PartitionKeyText = Annotated[
    str, Meta(max_length=2000, description="A partition key, as in responses.")
]


# -- partitions -------------------------------------------------------------------------------


class PartitionsParameters(AtParameters, frozen=True, kw_only=True):
    asset: AssetName
    partition: Annotated[
        list[Annotated[str, Meta(max_length=2000)]],
        Meta(max_length=20, description="Only these: date=2026-01-01..2026-01-31."),
    ] = []
    state: Annotated[list[PartitionState], Meta(max_length=5)] | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=500, description="Maximum number of ranges.")] = 100
    offset: Annotated[int, Meta(ge=0, le=10_000_000, description="Number of ranges to skip.")] = 0


class StatusCount(msgspec.Struct, frozen=True, kw_only=True):
    state: PartitionState
    quality: Quality
    partitions: int


class PartitionsBody(msgspec.Struct, frozen=True, kw_only=True):
    asset: str
    partitions: int
    """How many there are in the ranges that were asked for: exact."""
    outside: int
    """Partitions with versions that are none of the asset's any more, or not yet."""
    stale_known: bool
    """False: there are too many to tell which of them are STALE; ask for a smaller range."""
    counts: list[StatusCount]
    ranges: list[StatusRange]
    """Neighbours with equal status."""
    next_offset: int | None
    """Of the next ranges; null at the end."""


def get_partitions(
    view: View, visible: Visible, parameters: PartitionsParameters
) -> PartitionsBody:
    """Show the state and quality of an asset's partitions as ranges, also of missing ones."""
    statuses, is_judged = _statuses(view, visible, parameters.asset, parameters.partition)
    no_states = parameters.state is not UNSET and not parameters.state
    states = [] if parameters.state is UNSET else [each.value for each in parameters.state]
    first, last = parameters.offset, parameters.offset + parameters.limit
    ranges = [] if no_states else list(islice(statuses.ranges(states), first, last + 1))
    return PartitionsBody(
        asset=parameters.asset,
        partitions=statuses.partitions,
        outside=statuses.outside,
        stale_known=is_judged,
        counts=[
            StatusCount(state=status.state, quality=status.quality, partitions=count)
            for status, count in statuses.counts().items()
        ],
        ranges=ranges[: parameters.limit],
        next_offset=last if len(ranges) > parameters.limit else None,
    )


def _statuses(
    view: View, visible: Visible, asset: str, texts: Sequence[str] = ()
) -> tuple[PartitionStatuses, bool]:
    """What rows say is worked out once for a generation; what a plan says, each time."""
    require_asset(visible, asset)
    assets = deployed(view)
    if asset not in assets:
        OrchestrationReader(view.snapshot).asset_id(asset)  # or it never was
        raise NotFound(f"{asset} is not deployed")
    reader = StatusReader(view.snapshot, assets, view.now)
    ranges = reader.ranges(asset, texts)
    recorded = view.derived(
        f"partitions of {asset}: {ranges}", lambda: reader.recorded(asset, ranges)
    )
    return reader.judged(asset, recorded.copy())


class PartitionMapParameters(AtParameters, frozen=True, kw_only=True):
    asset: AssetName
    cells: Annotated[int, Meta(ge=1, le=100_000, description="Maximum number of cells.")] = 20_000


class PartitionLookBody(msgspec.Struct, frozen=True, kw_only=True):
    state: PartitionState
    quality: Quality


class PartitionMapBody(msgspec.Struct, frozen=True, kw_only=True):
    asset: str
    partitions: int
    share: int
    """How many partitions a cell stands for; its look is the worst of them."""
    looks: list[PartitionLookBody]
    runs: list[int]
    """Pairs: the number of a look, and how many cells in a row have it."""


def get_partition_map(
    view: View, visible: Visible, parameters: PartitionMapParameters
) -> PartitionMapBody:
    """Show all partitions of an asset as a compact map, in their order."""
    statuses, _ = _statuses(view, visible, parameters.asset)
    cells = statuses.cells(parameters.cells)
    return PartitionMapBody(
        asset=parameters.asset,
        partitions=statuses.partitions,
        share=cells.share,
        looks=[
            PartitionLookBody(state=status.state, quality=status.quality)
            for status in cells.statuses
        ],
        runs=cells.runs,
    )


class PartitionPlaceParameters(AtParameters, frozen=True, kw_only=True):
    asset: AssetName
    place: Annotated[int, Meta(ge=0, le=100_000_000, description="0 for the first partition.")]


class PartitionPlaceBody(msgspec.Struct, frozen=True, kw_only=True):
    place: int
    partition: str
    """The key of the partition at this place."""
    range: StatusRange
    """Its neighbours with equal status."""
    range_place: int
    """Where they begin."""


def get_partition_at(
    view: View, visible: Visible, parameters: PartitionPlaceParameters
) -> PartitionPlaceBody:
    """Show the partition at a place of the map, and its neighbours with equal status."""
    statuses, _ = _statuses(view, visible, parameters.asset)
    place = parameters.place
    if place >= statuses.partitions:
        raise NotFound(
            f"{parameters.asset} has no partition {place:,}",
            hint=f"places are from 0 to {statuses.partitions - 1:,}",
        )
    start, around = statuses.range_at(place)
    return PartitionPlaceBody(
        place=place, partition=statuses.key(place), range=around, range_place=start
    )


def deployed(view: View) -> dict[str, Asset]:
    """The assets of all current deployments, by key."""

    def read_world() -> dict[str, Asset]:
        world = World.of(OrchestrationReader(view.snapshot), view.library)
        return {each.key: each for each in world.manifest.assets}

    return view.derived("deployed", read_world)


class VersionListParameters(PageParameters, frozen=True, kw_only=True):
    asset: AssetName
    partition: PartitionKeyText | UnsetType = UNSET


def list_versions(
    view: View, visible: Visible, parameters: VersionListParameters, window: PageWindow
) -> Iterator[tuple[PageKey, MaterializationRow]]:
    """List the versions of an asset's partitions, good or not, the newest first."""
    asset_id = asset_id_of(view, visible, parameters.asset)
    after: Any = window.after
    rows = ExecutionReader(view.snapshot).versions(
        asset_id,
        partition=None if parameters.partition is UNSET else parameters.partition,
        matches=lambda row: after is None or (row.created_at, row.materialization_id) < after,
        limit=window.limit,
    )
    for row in rows:
        yield (row.created_at, row.materialization_id), row


class VersionParameters(AtParameters, frozen=True, kw_only=True):
    asset: AssetName
    materialization_id: Annotated[str, Meta(min_length=1, max_length=64)]


def get_version(view: View, visible: Visible, parameters: VersionParameters) -> MaterializationRow:
    """Show a version of an asset's partition."""
    asset_id = asset_id_of(view, visible, parameters.asset)
    row = ExecutionReader(view.snapshot).materialization(asset_id, parameters.materialization_id)
    if row is None:
        raise NotFound(f"{parameters.asset} has no version {parameters.materialization_id}")
    return row


class DynamicKeyParameters(PageParameters, frozen=True, kw_only=True):
    keys: Annotated[str, Meta(max_length=128, description="The name of a set of dynamic keys.")]


def list_dynamic_keys(
    view: View, visible: Visible, parameters: DynamicKeyParameters, window: PageWindow
) -> Iterator[tuple[PageKey, DynamicKeyRow]]:
    """List the keys of a dynamic dimension."""
    if not visible.all and not RowVisibility(view, visible).key_set(parameters.keys):
        return
    for row in view.snapshot.rows(DYNAMIC_KEYS, parameters.keys):
        if window.after is None or (row.key,) > window.after:
            yield (row.key,), row


# -- checks -----------------------------------------------------------------------------------


class CheckListParameters(PageParameters, frozen=True, kw_only=True):
    asset: AssetName
    partition: PartitionKeyText | UnsetType = UNSET
    failing: Annotated[bool, Meta(description="Only checks that did not pass.")] = False


def list_checks(
    view: View, visible: Visible, parameters: CheckListParameters, window: PageWindow
) -> Iterator[tuple[PageKey, CheckStatusRow]]:
    """List the newest result of each check for each partition of an asset."""
    asset_id = asset_id_of(view, visible, parameters.asset)
    partition = None if parameters.partition is UNSET else parameters.partition
    for row in QualityReader(view.snapshot).status(asset_id, partition):
        key = (row.partition_key, row.check_id)
        if parameters.failing and row.status == "passed":
            continue
        if window.after is None or key > window.after:
            yield key, row


class CheckResultParameters(PageParameters, frozen=True, kw_only=True):
    asset: AssetName
    check: Annotated[str, Meta(max_length=1000, description="The check's name or id.")] = ""
    partition: PartitionKeyText | UnsetType = UNSET
    since: Time = "30d"


def list_check_results(
    view: View, visible: Visible, parameters: CheckResultParameters, window: PageWindow
) -> Iterator[tuple[PageKey, CheckResultRow]]:
    """List the results of an asset's checks, the newest first, with samples of failing rows."""
    asset_id = asset_id_of(view, visible, parameters.asset)
    after: Any = window.after

    def matches(row: CheckResultRow) -> bool:
        named = parameters.check in ("", row.check_name, row.check_id)
        in_partition = parameters.partition is UNSET or row.partition_key == parameters.partition
        return named and in_partition and (after is None or _result_key(row) < after)

    since = parse_time(parameters.since, view.snapshot.published_at)
    rows = QualityReader(view.snapshot).results(
        asset_id, matches=matches, limit=window.limit, since=since
    )
    for row in rows:
        yield _result_key(row), row


def _result_key(row: CheckResultRow) -> PageKey:
    return row.evaluated_at, row.asset_id, row.attempt_id, row.check_id


# -- quarantine -------------------------------------------------------------------------------


class QuarantineListParameters(PageParameters, frozen=True, kw_only=True):
    asset: Annotated[AssetName, Meta(description="Only outputs of this asset.")] = ""
    decided: Annotated[bool, Meta(description="Include approved and rejected ones.")] = False
    since: Annotated[Time, Meta(description="With decided: only decisions since this time.")] = ""


def list_held_outputs(
    view: View, visible: Visible, parameters: QuarantineListParameters, window: PageWindow
) -> Iterator[tuple[PageKey, QuarantineRow]]:
    """List outputs that are held, the newest first."""
    if parameters.asset:
        require_asset(visible, parameters.asset)
    since = parse_time(parameters.since, view.snapshot.published_at) if parameters.since else None
    after: Any = window.after
    rows = ExecutionReader(view.snapshot).quarantine(
        decided=parameters.decided, asset_key=parameters.asset, since=since
    )
    for row in rows:
        key = (row.held_at, row.materialization_id)
        if visible.sees_asset(row.asset_key) and (after is None or key < after):
            yield key, row


class HeldParameters(AtParameters, frozen=True, kw_only=True):
    materialization_id: Annotated[str, Meta(min_length=1, max_length=64)]


class HeldBody(msgspec.Struct, frozen=True, kw_only=True):
    output: QuarantineRow
    version: int
    checks: list[CheckResultRow]
    """Those that did not pass first."""
    current: PartitionRow | None
    """What readers of the partition get meanwhile."""


def get_held_output(view: View, visible: Visible, parameters: HeldParameters) -> HeldBody:
    """Show a held output and the results of its checks."""
    row = require_held(view, visible, parameters.materialization_id)
    reader = ExecutionReader(view.snapshot)
    version = reader.materialization(row.asset_id, row.materialization_id)
    checks: list[CheckResultRow] = []
    if version is not None:
        checks = QualityReader(view.snapshot).of_attempt(row.asset_id, version.attempt_id)
    return HeldBody(
        output=row,
        version=0 if version is None else version.version,
        checks=sorted(checks, key=lambda each: (each.status == "passed", each.check_id)),
        current=reader.partition(row.asset_id, row.partition_key),
    )


def require_held(view: View, visible: Visible, materialization_id: str) -> QuarantineRow:
    def read() -> dict[str, QuarantineRow]:
        rows = ExecutionReader(view.snapshot).quarantine(decided=True)
        return {row.materialization_id: row for row in rows}

    row = view.derived("held outputs", read).get(materialization_id)
    if row is None or not visible.sees_asset(row.asset_key):
        raise NotFound(f"there is no held output {materialization_id}")
    return row


_READ = Permission.ASSETS_READ
ROUTES: tuple[Any, ...] = (
    read("/assets/{asset}/partitions", _READ, get_partitions, live=True),
    read("/assets/{asset}/partition-map", _READ, get_partition_map, live=True),
    read("/assets/{asset}/partition-map/{place}", _READ, get_partition_at, live=True),
    listing("/assets/{asset}/versions", _READ, list_versions),
    read("/assets/{asset}/versions/{materialization_id}", _READ, get_version),
    listing("/partition-keys/{keys}", _READ, list_dynamic_keys),
    listing("/assets/{asset}/checks", _READ, list_checks),
    listing("/assets/{asset}/check-results", _READ, list_check_results),
    listing("/quarantine", _READ, list_held_outputs),
    read("/quarantine/{materialization_id}", _READ, get_held_output),
)
