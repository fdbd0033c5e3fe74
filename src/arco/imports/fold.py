"""The fold of imports, with one key for each source.

An import is in the log as deployments are (`orchestration.deployments`):

    ImportPart, ImportPart, ...    each kept as a row, without effect
    ImportCreated                  decides: are all parts there, has another import come before?
    ImportInstalled                nodes change, catalog and lineage are told, parts are forgotten

The last two are one batch, so that one commit shows all of it.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Sequence
from datetime import timedelta

import msgspec

from arco.catalog.events import AssetImported, AssetImportEnded, AssetMoved
from arco.imports.events import ImportCreated, ImportedAsset, ImportInstalled, ImportPart
from arco.imports.tables import (
    IMPORT_PARTS,
    IMPORTED_NODES,
    IMPORTS,
    ImportedNodeRow,
    ImportPartRow,
    ImportRow,
)
from arco.lineage.events import LineageImported
from arco.state.copied_rows import row_from
from arco.state.fold import Change, Delete, Emit, Fact, On, Put, Rows, Stage, by
from arco.state.system import applied, refused

ABANDONED = timedelta(days=1)
"""Parts of an import that has not been created by then are forgotten."""
_assets = msgspec.json.Decoder(tuple[ImportedAsset, ...])


def packed(assets: Sequence[ImportedAsset]) -> str:
    return base64.b64encode(zlib.compress(msgspec.json.encode(assets), 3)).decode()


def unpacked(text: str) -> tuple[ImportedAsset, ...]:
    return _assets.decode(zlib.decompress(base64.b64decode(text))) if text else ()


def _keep_part(rows: Rows, fact: Fact, e: ImportPart) -> Iterator[Change]:
    unpacked(e.packed)  # a part that raises here counts as missing
    if e.number == 0:
        for part in rows.scan(IMPORT_PARTS, e.source):
            if part.received_at < fact.received_at - ABANDONED:
                yield Delete(IMPORT_PARTS, IMPORT_PARTS.key_of(part))
    if rows.get(IMPORT_PARTS, e.source, e.import_id, e.number) is None:
        yield Put(IMPORT_PARTS, row_from(ImportPartRow, e, received_at=fact.received_at))


def _create(rows: Rows, fact: Fact, e: ImportCreated) -> Iterator[Change]:
    current = rows.get(IMPORTS, e.source)
    parts = [part.number for part in _parts(rows, e.source, e.import_id)]
    if e.parent != ("" if current is None else current.import_id):
        yield refused(
            fact, "import_moved", f"{e.source} was imported in the meantime; import it again"
        )
        return
    if parts != list(range(e.parts)):
        message = f"{len(parts)} of {e.parts} parts are in the log; import it again"
        yield refused(fact, "import_incomplete", message)
        return
    row = row_from(
        ImportRow,
        e,
        number=1 if current is None else current.number + 1,
        imported_at=fact.received_at,
        imported_by=fact.actor,
    )
    yield Put(IMPORTS, row)
    yield applied(fact)


def _parts(rows: Rows, source: str, import_id: str) -> list[ImportPartRow]:
    return [part for part in rows.scan(IMPORT_PARTS, source) if part.import_id == import_id]


def _install(rows: Rows, fact: Fact, e: ImportInstalled) -> Iterator[Change]:
    """Names are released before any is taken: an asset may take a name that another one leaves."""
    current = rows.get(IMPORTS, e.source)
    parts = _parts(rows, e.source, e.import_id)
    if current is None or current.import_id != e.import_id:
        return
    for node in [node for part in parts for node in part.removed]:
        if (row := rows.get(IMPORTED_NODES, e.source, node)) is not None:
            yield Delete(IMPORTED_NODES, (e.source, node))
            yield Emit(AssetImportEnded(asset_id=row.asset_id, source=e.source))
            yield Emit(LineageImported(asset_id=row.asset_id))
    assets = [asset for part in parts for asset in unpacked(part.packed)]
    for asset in assets:
        if asset.moved_from:
            namespace, _, name = asset.moved_from.partition(".")
            yield Emit(AssetMoved(asset_id=asset.asset_id, namespace=namespace, name=name))
    for asset in assets:
        row = row_from(ImportedNodeRow, asset, source=e.source, asset_key=asset.key)
        yield Put(IMPORTED_NODES, row)
        yield from _emit_asset(e.source, asset)
    for part in rows.scan(IMPORT_PARTS, e.source):
        yield Delete(IMPORT_PARTS, IMPORT_PARTS.key_of(part))


def _emit_asset(source: str, asset: ImportedAsset) -> Iterator[Emit]:
    namespace, _, name = asset.key.partition(".")
    yield Emit(
        AssetImported(
            asset_id=asset.asset_id,
            namespace=namespace,
            name=name,
            source=source,
            kind=asset.kind,
            description=asset.description,
            owners=asset.owners,
            tags=asset.tags,
            columns=asset.columns,
        )
    )
    yield Emit(LineageImported(asset_id=asset.asset_id, inputs=asset.inputs, lineage=asset.lineage))


_by_source = by("source")
STAGE = Stage(
    "imports",
    (IMPORTS, IMPORT_PARTS, IMPORTED_NODES),
    (
        On(ImportPart, _by_source, _keep_part),
        On(ImportCreated, _by_source, _create),
        On(ImportInstalled, _by_source, _install),
    ),
)
