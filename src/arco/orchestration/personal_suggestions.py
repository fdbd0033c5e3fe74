"""Suggests columns that are not classified and seem to be personal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from arco.columns.recognizers import suggestions
from arco.execution.reader import ExecutionReader
from arco.orchestration.asset_columns import columns_of
from arco.orchestration.catalog_names import CatalogNames
from arco.orchestration.personal_data import PersonalDataReader
from arco.state.snapshot import Snapshot
from arco.storage.port import Store

ROWS = 1_000
"""Maximum of values of a column that are examined."""


class SuggestedColumn(Struct, frozen=True):
    """A suggestion. It has no effect on the column."""

    asset: str
    column: str
    pii: str
    score: float
    reason: str
    recognizer: str


def suggested_columns(
    snapshot: Snapshot, asset: str, store: Store | None = None
) -> Iterator[SuggestedColumn]:
    """For each column of an asset the best suggestion, if there is one.

    With a `store`, values of the newest version are examined too; they are never shown.
    """
    columns = columns_of(snapshot, asset)
    reader = PersonalDataReader(snapshot)
    id = CatalogNames(snapshot).id(asset)
    labels, classified = reader.columns(asset), reader.classified(id)
    is_open = [c for c in columns if c.name not in classified and not _is_personal(labels, c.name)]
    samples = {} if store is None else _samples(snapshot, store, id, [c.name for c in is_open])
    for column in is_open:
        for best in suggestions(column.name, column.type, samples.get(column.name, ()))[:1]:
            yield SuggestedColumn(
                asset, column.name, best.kind, best.score, best.reason, best.recognizer
            )


def _is_personal(labels: Mapping[str, object], column: str) -> bool:
    return bool(getattr(labels.get(column), "pii", ()))


def _samples(
    snapshot: Snapshot, store: Store, asset_id: str, columns: Sequence[str]
) -> dict[str, list[object]]:
    """The first values in the first file of the newest version."""
    partitions = ExecutionReader(snapshot).partitions(asset_id)
    newest = max(partitions, key=lambda row: row.position, default=None)
    if newest is None or not columns:
        return {}
    files = (meta.path for meta in store.list(f"{newest.path}/") if meta.path.endswith(".parquet"))
    path = next(files, "")
    if not path:
        return {}
    file = pq.ParquetFile(pa.BufferReader(store.get(path).data))
    present = [name for name in columns if name in file.schema_arrow.names]
    batch = next(file.iter_batches(batch_size=ROWS, columns=present), None)
    return {} if batch is None else {name: batch.column(name).to_pylist() for name in present}
