"""Imports: the changes since the previous import, in parts, and one command.

The changes are computed from a snapshot. A name may be taken, or an asset dropped, before the
command is folded; then the names are compared again, and the remaining changes are imported.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, structs

from arco.catalog.tables import ASSET_NAMES, ASSETS, COLUMNS
from arco.errors import Conflict, Invalid, Refused
from arco.imports.dbt_artifacts import (
    DbtCatalog,
    DbtFile,
    DbtManifest,
    read_catalog,
    read_manifest,
)
from arco.imports.dbt_assets import DbtAssets, ExistingAsset
from arco.imports.dbt_names import NamedNodes, keys_of
from arco.imports.events import ImportCreated, ImportedAsset, ImportInstalled, ImportPart
from arco.imports.fold import packed
from arco.imports.reader import ImportReader
from arco.imports.tables import ImportedNodeRow
from arco.log.envelope import MAX_EVENT_BYTES
from arco.state.core import Core
from arco.state.replay import ReportProgress, silent
from arco.state.snapshot import Generation, Snapshot
from arco.state.staging import Staging
from arco.state.tier1 import Tier1
from arco.state.writer import LogWriter

ASSETS_AT_ONCE: Final = 1_000
"""Maximum of assets in one part."""
NODES_AT_ONCE: Final = 5_000
PART_BYTES: Final = MAX_EVENT_BYTES * 3 // 4
_ATTEMPTS: Final = 5
_with = structs.replace


class Imported(Struct, frozen=True, kw_only=True):
    """What an import changes, or would change."""

    source: str
    generation: int
    """The generation that has it; of a dry run, the one that it read."""
    nodes: int
    """How many assets the source has."""
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    """`old -> new`."""
    normalised: dict[str, str] = {}
    """Keys that differ from the name of their relation, by the relation."""
    refused: dict[str, str] = {}
    """Nodes that cannot be assets, and why."""
    notes: tuple[str, ...] = ()

    @property
    def changes(self) -> int:
        return len(self.added) + len(self.changed) + len(self.removed) + len(self.moved)


class _Change(Struct, frozen=True, kw_only=True):
    assets: Sequence[ImportedAsset] = ()
    removed: Sequence[str] = ()
    """Nodes."""
    summary: Imported


class ImportCommands:
    def __init__(self, core: Core, writer: LogWriter, tier1: Tier1, actor: str = "") -> None:
        self._core = core
        self._tier1 = tier1
        self._staging = Staging(writer, actor, "importing")
        self._actor = actor

    def dbt(
        self,
        manifest: DbtFile,
        catalog: DbtFile | None = None,
        *,
        namespaces: Mapping[str, str] | None = None,
        dry_run: bool = False,
        progress: ReportProgress = silent,
    ) -> Imported:
        """Import a dbt project; write nothing if nothing changed.

        `namespaces` are by schema, or by database and schema. Raises Invalid for files that are
        not those of dbt, and for relations that would be one asset; nothing has changed then.
        """
        project = read_manifest(manifest)
        columns = None if catalog is None else read_catalog(catalog, project)
        named = keys_of(project.data_nodes(), namespaces or {})
        source = f"dbt/{project.project()}"

        def change(snapshot: Snapshot) -> _Change:
            return _DbtImport(snapshot, source, self._core.ids, project, columns, named).change()

        event = ImportCreated(
            source=source,
            import_id="",
            parts=0,
            nodes=0,
            tool_version=project.metadata.dbt_version,
            generated_at=project.metadata.generated_at,
        )
        return self._import(event, change, dry_run, progress)

    def remove(self, source: str) -> Imported:
        """Remove everything that was imported from a source."""
        ImportReader(self._core.snapshot()).named(source)

        def change(snapshot: Snapshot) -> _Change:
            nodes = ImportReader(snapshot).nodes(source)
            summary = Imported(
                source=source,
                generation=snapshot.generation,
                nodes=0,
                removed=tuple(sorted(row.asset_key for row in nodes.values())),
            )
            return _Change(removed=sorted(nodes), summary=summary)

        event = ImportCreated(source=source, import_id="", parts=0, nodes=0)
        return self._import(event, change, dry_run=False, progress=silent)

    def _import(
        self,
        event: ImportCreated,
        change_of: Callable[[Snapshot], _Change],
        dry_run: bool,
        progress: ReportProgress,
    ) -> Imported:
        first: Imported | None = None
        for _ in range(_ATTEMPTS):
            snapshot = self._core.snapshot()
            change = change_of(snapshot)
            first = first or change.summary
            if dry_run or not (change.assets or change.removed):
                return _with(first, generation=snapshot.generation)
            try:
                after = self._create(event, change, snapshot, progress)
            except Refused as error:
                if error.code not in ("import_moved", "import_incomplete"):
                    raise
                continue  # another import came before: this one is compared with that
            if _has_its_names(after, change.assets):
                return _with(first, generation=after.generation)
        raise Conflict(
            f"{event.source}: too many concurrent changes of the same assets",
            hint="import it again",
        )

    def _create(
        self, event: ImportCreated, change: _Change, snapshot: Snapshot, progress: ReportProgress
    ) -> Snapshot:
        current = ImportReader(snapshot).current(event.source)
        import_id = self._core.ids()
        part = ImportPart(source=event.source, import_id=import_id, number=0)
        parts = [_with(each, number=number) for number, each in enumerate(_parts(change, part))]
        self._staging.put(parts, snapshot.generation, progress)
        created = _with(
            event,
            import_id=import_id,
            parent="" if current is None else current.import_id,
            parts=len(parts),
            nodes=change.summary.nodes,
        )
        installed = ImportInstalled(source=event.source, import_id=import_id)
        done = self._tier1.execute(created, actor=self._actor, along=[installed])
        return self._core.snapshot(Generation(done.generation))


def _has_its_names(after: Snapshot, assets: Iterable[ImportedAsset]) -> bool:
    """Whether no name was taken between the snapshot and the commit."""
    names = AssetNames(after)
    return all(names.holder(asset.key) == asset.asset_id for asset in assets)


class AssetNames:
    """Ids of assets by key, at one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._of_namespace = functools.cache(
            lambda namespace: {
                row.name: row.asset_id for row in snapshot.rows(ASSET_NAMES, namespace)
            }
        )

    def holder(self, key: str) -> str:
        namespace, _, name = key.partition(".")
        return self._of_namespace(namespace).get(name, "")


class _DbtImport:
    """A dbt project, compared with what a snapshot has of it."""

    def __init__(
        self,
        snapshot: Snapshot,
        source: str,
        ids: Callable[[], str],
        project: DbtManifest,
        catalog: DbtCatalog | None,
        named: NamedNodes,
    ) -> None:
        self._snapshot = snapshot
        self._source = source
        self._new_id = ids
        self._project = project
        self._nodes = project.data_nodes()
        self._catalog = catalog
        self._named = named
        self._rows = ImportReader(snapshot).nodes(source)
        self._names = AssetNames(snapshot)
        self._leaving = {row.asset_key for id, row in self._rows.items() if self._moves(id, row)}
        """Keys that assets of this import leave."""
        self._notes: list[str] = []

    def _moves(self, id: str, row: ImportedNodeRow) -> bool:
        return self._named.keys.get(id, row.asset_key) != row.asset_key

    def change(self) -> _Change:
        keys = self._named.keys
        row_of = {keys[id]: row for id, row in self._rows.items() if id in keys}
        by_key = {key: self._existing(key, row_of.get(key)) for key in set(keys.values())}
        existing = {id: by_key[key] for id, key in keys.items()}
        for id in keys:
            self._check_owner(id, existing[id])
        assets = DbtAssets(self._project, self._catalog, keys, existing)
        same = {
            id: row.fingerprint
            for id, row in self._rows.items()
            if id in keys and self._is_intact(row, existing[id])
        }
        changed = list(assets.changed(same))
        nodes = assets.nodes()
        staying = {id for id in nodes if id in self._rows}
        replaced = [id for id in staying if self._rows[id].asset_id != existing[id].asset_id]
        removed = sorted(self._rows.keys() - staying)
        return _Change(
            assets=changed,
            removed=[*removed, *sorted(replaced)],
            summary=self._summary(changed, removed, len(nodes)),
        )

    def _existing(self, key: str, row: ImportedNodeRow | None) -> ExistingAsset:
        """The asset that has the key, the asset that moves to it, or a new one."""
        holder = "" if key in self._leaving else self._names.holder(key)
        if row is not None and row.asset_key != key and not holder:
            asset = self._snapshot.get(ASSETS, row.asset_id)
            is_holder = self._names.holder(row.asset_key) == row.asset_id
            if asset is not None and is_holder and not asset.project:
                return ExistingAsset(row.asset_id, moved_from=row.asset_key)
        asset = self._snapshot.get(ASSETS, holder) if holder else None
        if asset is None:
            return ExistingAsset(self._new_id())
        by_code = bool(asset.project) and asset.active
        columns = self._snapshot.rows(COLUMNS, holder) if by_code else []
        return ExistingAsset(
            holder,
            is_made_by_code=by_code,
            columns=[row.name for row in columns if row.actual_type],
            imported_from=asset.imported_from if asset.imported_from != self._source else "",
        )

    def _check_owner(self, id: str, existing: ExistingAsset) -> None:
        key, node = self._named.keys[id], self._nodes[id]
        if node.resource_type == "source":
            return
        if existing.imported_from:
            raise Invalid(
                f"{id} is the asset {key}, which {existing.imported_from} has imported",
                hint="map its schema to another namespace with --namespace-map, or end that import "
                f"with `servo lineage remove-import {existing.imported_from}`",
            )
        if existing.is_made_by_code:
            self._notes.append(f"{key} is made by code: what dbt makes it of is not imported")

    def _is_intact(self, row: ImportedNodeRow, existing: ExistingAsset) -> bool:
        """Whether the asset did not change since the import: not dropped, no code removed."""
        asset = self._snapshot.get(ASSETS, row.asset_id)
        return (
            row.asset_id == existing.asset_id
            and asset is not None
            and asset.active
            and asset.imported_from == self._source
        )

    def _summary(
        self, changed: Sequence[ImportedAsset], removed: Sequence[str], nodes: int
    ) -> Imported:
        models = [node for node in self._project.nodes.values() if node.is_data]
        missing = sum(
            not node.compiled_code
            for node in models
            if node.resource_type in ("model", "snapshot") and (node.language or "sql") == "sql"
        )
        if missing:
            self._notes.append(
                f"{missing:,} models have no compiled SQL, and so no column lineage: "
                "run `dbt compile`"
            )
        moved = [asset for asset in changed if asset.moved_from]
        others = [asset for asset in changed if not asset.moved_from]
        return Imported(
            source=self._source,
            generation=self._snapshot.generation,
            nodes=nodes,
            added=tuple(sorted(a.key for a in others if a.node not in self._rows)),
            changed=tuple(sorted(a.key for a in others if a.node in self._rows)),
            removed=tuple(sorted(self._rows[id].asset_key for id in removed)),
            moved=tuple(sorted(f"{a.moved_from} -> {a.key}" for a in moved)),
            normalised=self._named.normalised,
            refused=self._named.refused,
            notes=tuple(self._notes),
        )


def _parts(change: _Change, of: ImportPart) -> Iterator[ImportPart]:
    """A change in pieces, each well below the limit of an event's size."""
    for at in range(0, len(change.assets), ASSETS_AT_ONCE):
        yield from _packed(change.assets[at : at + ASSETS_AT_ONCE], of)
    for at in range(0, len(change.removed), NODES_AT_ONCE):
        yield _with(of, removed=tuple(change.removed[at : at + NODES_AT_ONCE]))


def _packed(assets: Sequence[ImportedAsset], of: ImportPart) -> Iterator[ImportPart]:
    text = packed(assets)
    if len(text) <= PART_BYTES:
        yield _with(of, packed=text)
    elif len(assets) > 1:
        half = len(assets) // 2
        yield from _packed(assets[:half], of)
        yield from _packed(assets[half:], of)
    else:
        raise Invalid(
            f"{assets[0].node} has {len(assets[0].columns):,} columns, and more lineage than an "
            "event can have",
            hint="exclude the model from the manifest",
        )
