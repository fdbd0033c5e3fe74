"""The catalog's names for the ids in lineage."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter

from arco.catalog import tables
from arco.catalog.schema_tables import COLUMN_RENAMES, ColumnRenameRow
from arco.execution.tables import MATERIALIZATIONS
from arco.lineage.reader import LineageReader
from arco.orchestration.projects import DeploymentReader
from arco.state.snapshot import Snapshot

NEWEST = 20
"""Maximum of partitions, from the last, whose input versions are read."""


class CatalogNames:
    """Of one snapshot. What was looked up is remembered."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._row = functools.cache(lambda id: snapshot.get(tables.ASSET_IDENTITIES, id))
        self._columns = functools.cache(self._read_columns)
        self.id = functools.cache(self._read_id)

    def _read_id(self, key: str) -> str:
        namespace, _, name = key.partition(".")
        row = self._snapshot.get(tables.ASSET_NAMES, namespace, name)
        return key if row is None else row.asset_id

    def key(self, id: str) -> str:
        row = self._row(id)
        return id if row is None else f"{row.namespace}.{row.name}"

    def former_keys(self, id: str) -> Sequence[str]:
        row = self._row(id)
        return () if row is None else row.keys

    def has_renames(self, id: str) -> bool:
        return bool(self._columns(id)[0])

    def column(self, id: str, name: str, at: datetime | None) -> str:
        """The column with this name then: renamed later, with the name now, or with it before."""
        renames, names = self._columns(id)
        former = [row for row in renames if row.old_name == name]
        later = next((row for row in former if at is not None and self._renamed_at(row) > at), None)
        if later is None and (name in names.values() or not former):
            return name
        rename = later or former[-1]
        return names.get(rename.column_id, rename.new_name)

    def column_names(self, id: str, name: str) -> Sequence[str]:
        renames, names = self._columns(id)
        ids = {column_id for column_id, each in names.items() if each == name}
        others = [
            n for row in renames if row.column_id in ids for n in (row.old_name, row.new_name)
        ]
        return tuple(dict.fromkeys((name, *others)))

    def made_at(self, id: str, versions: Sequence[str]) -> datetime | None:
        rows = [self._snapshot.get(MATERIALIZATIONS, id, version) for version in versions[-NEWEST:]]
        return max((row.created_at for row in rows if row is not None), default=None)

    def _renamed_at(self, row: ColumnRenameRow) -> datetime:
        """When data first had the new name; in the future for a rename that waits for an output."""
        if row.in_data_at is not None:
            return row.in_data_at
        column = self._snapshot.get(tables.COLUMNS, row.asset_id, row.column_id)
        is_waiting = not row.changed_in_version and column is not None and column.actual_type
        return datetime.max if is_waiting else row.renamed_at

    def _read_columns(self, id: str) -> tuple[Sequence[ColumnRenameRow], dict[str, str]]:
        """The renames of an asset's columns, the oldest first, and its columns by their ids."""
        renames = self._snapshot.rows(COLUMN_RENAMES, id)
        if not renames:
            return (), {}
        names = {row.column_id: row.name for row in self._snapshot.rows(tables.COLUMNS, id)}
        ordered = sorted(renames, key=attrgetter("renamed_at", "number"))
        return sorted(ordered, key=self._renamed_at), names


def asset_id_of(snapshot: Snapshot, key: str) -> str:
    """Of an asset that the catalog has, deployed or not. Raises NotFound with a suggestion."""
    id = CatalogNames(snapshot).id(key)
    return DeploymentReader(snapshot).asset_id(key) if id == key else id


def lineage_reader(snapshot: Snapshot) -> LineageReader:
    """Lineage at one generation, with the names that assets and columns had then."""
    return LineageReader(snapshot, CatalogNames(snapshot))
