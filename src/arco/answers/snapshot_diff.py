"""What changed between two generations: assets, partitions, schemas and lineage.

It reads the files that one generation has and the other has not (`state/diff.py`): the cost depends
on the changes, not on the size of the catalog.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, Literal

from msgspec import Struct

from arco.answers.asset_states import ASSET_STATES, AssetStateRow
from arco.answers.observations import columns_by_name
from arco.catalog.tables import ASSETS, COLUMNS, AssetRow
from arco.execution.tables import MATERIALIZATIONS, PARTITIONS, SCHEMAS, PartitionRow
from arco.lineage.tables import COLUMNS as COLUMN_EDGES
from arco.lineage.tables import EDGES
from arco.orchestration.tables import DEPLOYED_ASSETS
from arco.state.days import get_of_day
from arco.state.diff import RowDiff, diff_table
from arco.state.snapshot import Snapshot
from servo.contract.task import ColumnInfo

UNIMPORTANT: Final = frozenset({"updated_at", "updated_by", "previous_names"})


class AssetDifference(Struct, frozen=True, kw_only=True):
    asset: str
    changes: dict[str, list[Any]]
    """By field, what it was and what it is. `code`: the fingerprint of what it does."""


class PartitionDifference(Struct, frozen=True, kw_only=True):
    asset: str
    partition: str
    materialization_id: str
    previous: str | None = None
    """The version that was current."""
    version: int
    rows: int
    rows_before: int | None = None
    run_id: str


class ColumnDifference(Struct, frozen=True, kw_only=True):
    asset: str
    column: str
    source: Literal["declared", "output"]
    """Of the declaration, or of the newest output."""
    change: Literal["added", "removed", "type", "nullable"]
    before: str | None = None
    after: str | None = None


class EdgeDifference(Struct, frozen=True, kw_only=True, order=True):
    change: Literal["added", "removed"]
    source: str
    target: str
    kind: str = "data"
    """`data` between assets; between columns how one influences the other."""


class SnapshotDiff(Struct, frozen=True, kw_only=True):
    from_snapshot: int
    to_snapshot: int
    from_time: datetime
    to_time: datetime
    added_assets: tuple[str, ...]
    removed_assets: tuple[str, ...]
    modified_assets: tuple[AssetDifference, ...]
    added_partitions: tuple[PartitionDifference, ...]
    removed_partitions: tuple[PartitionDifference, ...]
    modified_partitions: tuple[PartitionDifference, ...]
    schema_changes: tuple[ColumnDifference, ...]
    lineage_changes: tuple[EdgeDifference, ...]

    @property
    def same(self) -> bool:
        return not any(getattr(self, name) for name in self.__struct_fields__[4:])


def snapshot_diff(before: Snapshot, after: Snapshot) -> SnapshotDiff:
    difference = _Difference(before, after)
    added, removed, modified = difference.assets()
    new, missing, others = difference.partitions()
    return SnapshotDiff(
        from_snapshot=before.generation,
        to_snapshot=after.generation,
        from_time=before.published_at,
        to_time=after.published_at,
        added_assets=tuple(sorted(added)),
        removed_assets=tuple(sorted(removed)),
        modified_assets=tuple(sorted(modified, key=lambda each: each.asset)),
        added_partitions=_sorted(new),
        removed_partitions=_sorted(missing),
        modified_partitions=_sorted(others),
        schema_changes=tuple(
            sorted(difference.schemas(), key=lambda each: (each.asset, each.source, each.column))
        ),
        lineage_changes=tuple(sorted(difference.lineage())),
    )


def _sorted(partitions: list[PartitionDifference]) -> tuple[PartitionDifference, ...]:
    return tuple(sorted(partitions, key=lambda each: (each.asset, each.partition)))


class _Difference:
    def __init__(self, before: Snapshot, after: Snapshot) -> None:
        self._before = before
        self._after = after
        self._names: dict[str, str] = {}

    def _name(self, asset_id: str) -> str:
        if asset_id not in self._names:
            row = self._after.get(ASSETS, asset_id) or self._before.get(ASSETS, asset_id)
            self._names[asset_id] = asset_id if row is None else _key(row)
        return self._names[asset_id]

    def _diff(self, table: Any) -> RowDiff:
        return diff_table(self._before, self._after, table)

    # -- assets -----------------------------------------------------------------------------

    def assets(self) -> tuple[list[str], list[str], list[AssetDifference]]:
        rows = self._diff(ASSETS)
        added = [_key(rows.after[key][1]) for key in rows.added if _active(rows.after[key][1])]
        removed = [
            _key(rows.before[key][1]) for key in rows.removed if _active(rows.before[key][1])
        ]
        changes: dict[str, dict[str, list[Any]]] = {}
        for key in rows.changed:
            old, new = rows.before[key][1], rows.after[key][1]
            if _active(old) != _active(new):
                (added if _active(new) else removed).append(_key(new))
            else:
                changes[_key(new)] = _fields(old, new)
        for asset, code in self._code():
            if asset not in added:
                changes.setdefault(asset, {})["code"] = code
        modified = [
            AssetDifference(asset=name, changes=each) for name, each in changes.items() if each
        ]
        return added, removed, modified

    def _code(self) -> Iterator[tuple[str, list[Any]]]:
        rows = self._diff(DEPLOYED_ASSETS)
        for key in rows.changed:
            old: Any = rows.before[key][1]
            new: Any = rows.after[key][1]
            if old.transform != new.transform and new.active:
                yield new.asset_key, [old.transform, new.transform]

    # -- partitions -------------------------------------------------------------------------

    def partitions(
        self,
    ) -> tuple[list[PartitionDifference], list[PartitionDifference], list[PartitionDifference]]:
        rows = self._diff(PARTITIONS)
        return (
            [self._partition(rows.after[key][1], None) for key in rows.added],
            [self._partition(rows.before[key][1], None) for key in rows.removed],
            [
                self._partition(rows.after[key][1], rows.before[key][1])
                for key in rows.changed
                if _version(rows.after[key][1]) != _version(rows.before[key][1])
            ],
        )

    def _partition(self, row: Any, old: Any) -> PartitionDifference:
        return PartitionDifference(
            asset=self._name(row.asset_id),
            partition=row.partition_key,
            materialization_id=row.materialization_id,
            previous=None if old is None else old.materialization_id,
            version=row.version,
            rows=row.rows,
            rows_before=None if old is None else old.rows,
            run_id=row.run_id,
        )

    # -- schemas ----------------------------------------------------------------------------

    def schemas(self) -> Iterator[ColumnDifference]:
        yield from self._declared()
        rows = self._diff(ASSET_STATES)
        for key in rows.changed:
            old, new = rows.before[key][1], rows.after[key][1]
            assert isinstance(old, AssetStateRow)
            assert isinstance(new, AssetStateRow)
            if old.last_schema_hash and old.last_schema_hash != new.last_schema_hash:
                before = _columns(self._before, old)
                yield from _of_outputs(self._name(new.asset_id), before, _columns(self._after, new))

    def _declared(self) -> Iterator[ColumnDifference]:
        rows = self._diff(COLUMNS)
        for change, keys, source in (
            ("added", rows.added, rows.after),
            ("removed", rows.removed, rows.before),
        ):
            for key in keys:
                row: Any = source[key][1]
                yield ColumnDifference(
                    asset=self._name(row.asset_id),
                    column=row.name,
                    source="declared",
                    change="added" if change == "added" else "removed",
                    before=row.type if change == "removed" else None,
                    after=row.type if change == "added" else None,
                )
        for key in rows.changed:
            old: Any = rows.before[key][1]
            new: Any = rows.after[key][1]
            if old.type != new.type:
                yield ColumnDifference(
                    asset=self._name(new.asset_id),
                    column=new.name,
                    source="declared",
                    change="type",
                    before=old.type,
                    after=new.type,
                )

    # -- lineage ----------------------------------------------------------------------------

    def lineage(self) -> Iterator[EdgeDifference]:
        for rows in (self._diff(EDGES), self._diff(COLUMN_EDGES)):
            yield from (self._edge("added", rows.after[key][1]) for key in rows.added)
            yield from (self._edge("removed", rows.before[key][1]) for key in rows.removed)

    def _edge(self, change: Literal["added", "removed"], row: Any) -> EdgeDifference:
        source, target = self._name(row.source), self._name(row.target)
        if not hasattr(row, "source_column"):
            return EdgeDifference(change=change, source=source, target=target)
        return EdgeDifference(
            change=change,
            source=f"{source}.{row.source_column}",
            target=f"{target}.{row.target_column}" if row.target_column else target,
            kind=row.kind,
        )


def _key(row: Any) -> str:
    return f"{row.namespace}.{row.name}"


def _active(row: Any) -> bool:
    assert isinstance(row, AssetRow)
    return row.active


def _version(row: Any) -> str:
    assert isinstance(row, PartitionRow)
    return row.materialization_id


def _fields(old: Any, new: Any) -> dict[str, list[Any]]:
    return {
        name: [getattr(old, name), getattr(new, name)]
        for name in new.__struct_fields__
        if name not in UNIMPORTANT and getattr(old, name) != getattr(new, name)
    }


def _columns(snapshot: Snapshot, state: AssetStateRow) -> dict[str, ColumnInfo]:
    """Of the newest version of an asset."""
    key = state.asset_id, state.last_materialization_id
    version = snapshot.get(MATERIALIZATIONS, *key)
    if version is None:
        return {}
    row = get_of_day(snapshot, SCHEMAS, key, version.created_at.date())
    return {} if row is None else columns_by_name(row.columns)


def _of_outputs(
    asset: str, before: dict[str, ColumnInfo], after: dict[str, ColumnInfo]
) -> Iterator[ColumnDifference]:
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        change: Literal["added", "removed", "type", "nullable"]
        if old is None:
            change = "added"
        elif new is None:
            change = "removed"
        elif old.type != new.type:
            change = "type"
        elif old.nullable != new.nullable:
            change = "nullable"
        else:
            continue
        yield ColumnDifference(
            asset=asset,
            column=name,
            source="output",
            change=change,
            before=None if old is None else _type(old),
            after=None if new is None else _type(new),
        )


def _type(column: ColumnInfo) -> str:
    return column.type if column.nullable else f"{column.type} not null"
