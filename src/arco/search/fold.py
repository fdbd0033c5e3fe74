"""The fold of search: documents and failing partitions, derived by the commit that changes them.

There is no separate index that could be inconsistent. The stages of the catalog and of outputs are
*watched*: every change of an asset, its columns or its code emits a fact with the asset's new
document. The cost depends on the assets that changed.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

from arco.catalog.fold import ASSETS_STAGE
from arco.catalog.tables import ASSET_CODE, ASSETS, COLUMNS, AssetCodeRow, AssetRow, ColumnRow
from arco.execution.fold import OUTPUTS
from arco.execution.states import GOOD_PARTITIONS, PartitionStatus
from arco.execution.tables import PARTITION_STATUS
from arco.log.envelope import Payload
from arco.search.tables import DOCUMENTS, FAILING, DocumentRow, FailingRow, joined
from arco.state.fold import Change, Delete, Emit, Fact, On, Put, Rows, Stage, by
from arco.state.table import Key, Row, Table
from servo.contract.task import NOT_PERSONAL

Derive = Callable[[Rows, Sequence[Change]], Iterable[Emit]]


class DocumentChanged(Payload, frozen=True, kw_only=True):
    """Derived: an asset has other texts than before, or is new."""

    TYPE: ClassVar[str] = "search.document_changed"
    namespace: str
    document: DocumentRow


class DocumentLeft(Payload, frozen=True, kw_only=True):
    """Derived: an asset is not in this namespace any more."""

    TYPE: ClassVar[str] = "search.document_left"
    namespace: str
    asset_id: str


class PartitionFails(Payload, frozen=True, kw_only=True):
    """Derived: the last attempt to make a partition has no good output."""

    TYPE: ClassVar[str] = "search.partition_fails"
    asset_id: str
    partition_key: str
    status: PartitionStatus
    run_id: str


class PartitionRecovers(Payload, frozen=True, kw_only=True):
    """Derived: a partition that was failing has a good output."""

    TYPE: ClassVar[str] = "search.partition_recovers"
    asset_id: str
    partition_key: str


def watched(stage: Stage, tables: Sequence[Table[Any]], derive: Derive) -> Stage:
    """A stage that also emits the facts that `derive` returns for changes of some tables."""
    watched_tables = frozenset(tables)

    def watching(on: On[Any]) -> On[Any]:
        of_event = on.fold

        def fold(rows: Rows, fact: Fact, payload: Any) -> Sequence[Change]:
            changes = of_event(rows, fact, payload)
            if not isinstance(changes, list):
                changes = list(changes)
            for change in changes:
                if not isinstance(change, Emit) and change.table in watched_tables:
                    return [*changes, *derive(rows, changes)]
            return changes

        return On(on.payload, on.key, fold)

    return Stage(stage.name, stage.tables, map(watching, stage.on.values()))


# -- documents ----------------------------------------------------------------------------

DESCRIBED = (ASSETS, COLUMNS, ASSET_CODE)
"""The tables that a document is made of."""


def _documents(rows: Rows, changes: Sequence[Change]) -> Iterator[Emit]:
    changed = _changed(changes, DESCRIBED)
    for asset_id in dict.fromkeys(key[0] for _, key in changed):
        before = rows.get(ASSETS, asset_id)
        asset = changed.get((ASSETS, (asset_id,)), before)
        if before is not None and (asset is None or asset.namespace != before.namespace):
            yield Emit(DocumentLeft(namespace=before.namespace, asset_id=asset_id))
        if asset is not None:
            columns = {
                (COLUMNS, (asset_id, row.column_id)): row for row in rows.scan(COLUMNS, asset_id)
            }
            columns |= {at: row for at, row in changed.items() if at[0] is COLUMNS}
            alive = [row for row in columns.values() if row is not None]
            code_at = (ASSET_CODE, (asset_id,))
            code = changed[code_at] if code_at in changed else rows.get(ASSET_CODE, asset_id)
            document = document_of(asset, alive, code)
            yield Emit(DocumentChanged(namespace=asset.namespace, document=document))


def _changed(
    changes: Iterable[Change], tables: Sequence[Table[Any]]
) -> dict[tuple[Table[Any], Key], Any]:
    """The rows of some tables after the changes; None for those deleted."""
    changed: dict[tuple[Table[Any], Key], Row | None] = {}
    for change in changes:
        match change:
            case Put(table, row) if table in tables:
                changed[table, table.key_of(row)] = row
            case Delete(table, key) if table in tables:
                changed[table, key] = None
    return changed


def document_of(
    asset: AssetRow, columns: Iterable[ColumnRow], code: AssetCodeRow | None
) -> DocumentRow:
    active = (column for column in columns if column.status == "Active")
    ordered = sorted(active, key=lambda column: column.ordinal)
    terms = [*asset.terms, *(term for column in ordered for term in column.terms)]
    return DocumentRow(
        namespace=asset.namespace,
        asset_id=asset.asset_id,
        name=asset.name,
        kinds=joined([asset.kind, "" if code is None else code.kind]),
        columns=_text(column.name for column in ordered),
        owners=_text(asset.owners),
        tags=_text(f"{key}={value}" if value else key for key, value in asset.tags.items()),
        terms=_text(dict.fromkeys(terms)),
        previous_names=joined(asset.previous_names),
        description=_text([asset.description]),
        column_descriptions=_text(column.description for column in ordered),
        code="" if code is None else _text([code.code]),
        pii=_text(column.name for column in ordered if column.pii not in ("", NOT_PERSONAL)),
        active=asset.active,
    )


def _text(entries: Iterable[str]) -> str:
    """Normalised: equal letters have equal bytes."""
    return unicodedata.normalize("NFC", joined(entries))


def _write(rows: Rows, fact: Fact, e: DocumentChanged) -> Iterator[Change]:
    yield Put(DOCUMENTS, e.document)


def _leave(rows: Rows, fact: Fact, e: DocumentLeft) -> Iterator[Change]:
    yield Delete(DOCUMENTS, (e.namespace, e.asset_id))


# -- failing partitions -------------------------------------------------------------------


def _failures(rows: Rows, changes: Sequence[Change]) -> Iterator[Emit]:
    for (_, key), row in _changed(changes, (PARTITION_STATUS,)).items():
        asset_id, partition_key = key
        before = rows.get(PARTITION_STATUS, asset_id, partition_key)
        if row is not None and row.status not in GOOD_PARTITIONS:
            if before is None or before.status != row.status:
                yield Emit(
                    PartitionFails(
                        asset_id=asset_id,
                        partition_key=partition_key,
                        status=row.status,
                        run_id=row.last_run_id,
                    )
                )
        elif before is not None and before.status not in GOOD_PARTITIONS:
            yield Emit(PartitionRecovers(asset_id=asset_id, partition_key=partition_key))


def _fail(rows: Rows, fact: Fact, e: PartitionFails) -> Iterator[Change]:
    row = FailingRow(e.asset_id, e.partition_key, e.status, e.run_id, fact.received_at)
    yield Put(FAILING, row)


def _recover(rows: Rows, fact: Fact, e: PartitionRecovers) -> Iterator[Change]:
    yield Delete(FAILING, (e.asset_id, e.partition_key))


WATCHED = {
    OUTPUTS: watched(OUTPUTS, (PARTITION_STATUS,), _failures),
    ASSETS_STAGE: watched(ASSETS_STAGE, DESCRIBED, _documents),
}
"""Stages of other domains, as the chain has them."""
STAGES = (
    Stage(
        "documents",
        (DOCUMENTS,),
        (
            On(DocumentChanged, by("namespace"), _write),
            On(DocumentLeft, by("namespace"), _leave),
        ),
    ),
    Stage(
        "failing",
        (FAILING,),
        (
            On(PartitionFails, by("asset_id"), _fail),
            On(PartitionRecovers, by("asset_id"), _recover),
        ),
    ),
)
