"""From a manifest to the events that deploy it.

A deployment says what changed since the one before it: assets that are new, have other code or
another definition, or another name, and the keys of those that left. A small change is one command.
A large one is split into parts, which are committed one batch after the other, without effect; the
command after them makes all of them take effect at once. If the process ends before, nothing has
changed.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from arco.catalog.tables import ASSET_NAMES
from arco.errors import Invalid
from arco.log.envelope import MAX_EVENT_BYTES
from arco.orchestration.declarations import (
    AcceptedBreak,
    DeclarationChanges,
    DeployedDeclaration,
    declaration_id,
    speaks_of_contracts,
)
from arco.orchestration.deployments import inputs_fingerprint, namespace_of, owner_text, packed
from arco.orchestration.events import (
    DeployedAsset,
    DeploymentCreated,
    DeploymentPart,
)
from arco.orchestration.projects import DeploymentReader
from arco.orchestration.tables import (
    PROJECT_NAMESPACES,
    DeployedAssetRow,
    DeploymentRow,
    ProjectNamespaceRow,
)
from servo.contract.manifest import (
    SOURCE_CHARS,
    Asset,
    ColumnDef,
    DynamicDimension,
    Manifest,
)

INLINE_BYTES = MAX_EVENT_BYTES // 2
"""A change with up to this size of JSON has no parts: it is in the command itself."""
PIECE_BYTES = MAX_EVENT_BYTES // 2
"""Of an asset's JSON; the columns of a larger one are in several pieces."""
RAW_BYTES = 4 * MAX_EVENT_BYTES
PART_BYTES = MAX_EVENT_BYTES * 3 // 4
"""Of what is packed in a part, which was up to RAW_BYTES; one that is larger is divided."""
NAMES_BYTES = MAX_EVENT_BYTES // 4
"""Of the keys and ids in a part, which are not packed."""

replace = msgspec.structs.replace
_sorted = msgspec.json.Encoder(order="sorted")


class DeployedChange(NamedTuple):
    """What a manifest changes in a project."""

    assets: list[DeployedAsset]
    removed: list[str]
    reads: list[str]
    """Keys of assets of other projects that its own read."""
    reshaped: Sequence[str] = ()
    """Keys of assets with other partitions or columns, which others may read."""
    declared: DeclarationChanges = DeclarationChanges()
    accepted: Sequence[AcceptedBreak] = ()
    """Schema changes that may break readers."""


class AssetIds:
    """The rows and ids of the assets of a manifest; new ids for new assets."""

    def __init__(self, reader: DeploymentReader, manifest: Manifest, new: Callable[[str], str]):
        self._reader = reader
        self._new = new
        self.deployed = reader.deployed_assets(manifest.project)
        staying = frozenset(asset.key for asset in manifest.assets)
        self._leaving = frozenset(
            asset.renamed_from
            for asset in manifest.assets
            if asset.renamed_from in self.deployed and asset.key not in self.deployed
        )
        """Keys that assets leave with this deployment: another asset may get them."""
        self._formerly: dict[str, DeployedAssetRow] = {}
        """Removed assets, by names that they had before the last: a rollback restores them."""
        for row in self.deployed.values():
            if row.asset_key not in staying:
                for key in row.previous_keys:
                    self._formerly.setdefault(key, row)
        self._left_behind = functools.cache(self._read_left_behind)
        self._in_catalog = functools.cache(self._read_catalog)

    def row(self, asset: Asset) -> tuple[DeployedAssetRow | None, str]:
        """The row that an asset has, and the name that it leaves, if it is another one."""
        own = None if asset.key in self._leaving else self._row(asset.key)
        if own is not None:
            return own, ""
        old = self._row(asset.renamed_from) or self._formerly.get(asset.key)
        return (None, "") if old is None else (old, old.asset_key)

    def _row(self, key: str) -> DeployedAssetRow | None:
        """The project's own, or one that has left another project."""
        return self.deployed.get(key) or self._left_behind(namespace_of(key)).get(key)

    def _read_left_behind(self, namespace: str) -> dict[str, DeployedAssetRow]:
        owner = self._reader.snapshot.get(PROJECT_NAMESPACES, namespace)
        if owner is None or owner.assets:
            return {}
        return self._reader.deployed_assets(owner.project)

    def of(self, asset: Asset, row: DeployedAssetRow | None) -> str:
        if row is not None:
            return row.asset_id
        namespace, _, name = asset.key.partition(".")
        asset_id = None if asset.key in self._leaving else self._in_catalog(namespace).get(name)
        return asset_id or self._new(asset.key)

    def _read_catalog(self, namespace: str) -> dict[str, str]:
        """Ids by name: an asset may be in the catalog before code declares it."""
        rows = self._reader.snapshot.rows(ASSET_NAMES, namespace)
        return {row.name: row.asset_id for row in rows}


def change_of(manifest: Manifest, ids: AssetIds, reads: Iterable[str]) -> DeployedChange:
    """The changes of a manifest since the current deployment."""
    changed: list[DeployedAsset] = []
    left: set[str] = set()
    for asset in manifest.assets:
        row, old_key = ids.row(asset)
        definition = _definition(asset)
        same = row is not None and row.active and row.project == manifest.project and not old_key
        if row is not None and same and row.definition == definition:
            slim = _slim(asset, row.asset_id, definition)
            if (row.transform, row.shape, row.inputs, row.key_sets) != (
                slim.transform,
                slim.shape,
                inputs_fingerprint(slim),
                slim.key_sets,
            ):
                changed.append(slim)
            continue
        slim = _slim(asset, ids.of(asset, row), definition)
        left.add(old_key)
        changed.append(
            replace(
                slim,
                renamed_from=old_key,
                description=asset.description,
                owners=asset.owners,
                tags=asset.tags,
                columns=asset.columns,
                sla=asset.sla,
                terms=asset.terms,
                links=asset.links,
                deprecated=asset.deprecated,
                kind=asset.kind,
                code=_code(asset),
            )
        )
    remaining = left.union(asset.key for asset in manifest.assets)
    removed = [key for key, row in ids.deployed.items() if row.active and key not in remaining]
    return DeployedChange(changed, removed, sorted(reads))


def _slim(asset: Asset, asset_id: str, definition: str) -> DeployedAsset:
    return DeployedAsset(
        key=asset.key,
        asset_id=asset_id,
        transform=asset.transform,
        definition=definition,
        shape=_shape(asset),
        inputs=tuple([(each.asset, each.parameter) for each in asset.inputs]),
        key_sets={
            each.name: each.keys for each in asset.partitions if isinstance(each, DynamicDimension)
        },
    )


def _definition(asset: Asset) -> str:
    """Fingerprint of what the catalog shows of an asset; its manifest is canonical already."""
    fields = (asset.description, asset.owners, asset.tags, asset.columns)
    code = _code(asset)
    rest = (asset.sla, asset.terms, asset.links, asset.deprecated, asset.kind if code else "", code)
    return _fingerprint((*fields, *rest) if any(rest) else fields)


def _code(asset: Asset) -> str:
    return (asset.sql or asset.source)[:SOURCE_CHARS]


def _shape(asset: Asset) -> str:
    return _fingerprint(asset.partitions) if asset.partitions else ""


def _fingerprint(value: object) -> str:
    return hashlib.sha256(_sorted.encode(value)).hexdigest()[:16]


def check_namespaces(reader: DeploymentReader, manifest: Manifest) -> None:
    """Raise Invalid if an asset is in a namespace of another project."""
    first: dict[str, Asset] = {}
    for asset in manifest.assets:
        first.setdefault(namespace_of(asset.key), asset)
    for namespace, asset in sorted(first.items()):
        owner = reader.snapshot.get(PROJECT_NAMESPACES, namespace)
        if owner is not None and owner.project != manifest.project and owner.assets:
            raise _not_yours(reader, owner, manifest.project, asset)


def _not_yours(
    reader: DeploymentReader, owner: ProjectNamespaceRow, project: str, asset: Asset
) -> Invalid:
    row = reader.deployed_asset(asset.key)
    held = f"{asset.key} is deployed by the project {owner.project}: " if row and row.active else ""
    return Invalid(
        f"{held}{owner_text(owner)}, and {asset.key} of the project {project} is in it "
        f"({asset.code.file}:{asset.code.line})",
        hint=f"use another namespace; or, to move it here, first deploy {owner.project} without "
        f"its {owner.assets} assets in {owner.namespace}: they keep their ids and data",
    )


# -- parts --------------------------------------------------------------------------------


def size_of(change: DeployedChange) -> int:
    """The size of a change's JSON."""
    lists = (change.removed, change.reads, change.declared.removed)
    named = sum(len(key) + 3 for keys in lists for key in keys)
    return named + len(msgspec.json.encode((change.assets, change.declared.changed)))


def parts_of(change: DeployedChange, of: DeploymentPart) -> list[DeploymentPart]:
    """A change in pieces, each well below the limit of an event's size.

    `of` has the fields that all of them share.
    """
    groups = [part for group in _groups(change.assets) for part in _packed(group, of)]
    groups += [replace(of, removed=keys) for keys in _keys_in_parts(change.removed)]
    groups += [replace(of, reads=keys) for keys in _keys_in_parts(change.reads)]
    groups += [
        replace(of, removed_declarations=ids, has_contracts=speaks_of_contracts((), ids))
        for ids in _keys_in_parts(change.declared.removed)
    ]
    groups += _packed_declarations(change.declared.changed, of)
    return [replace(part, number=number) for number, part in enumerate(groups)]


def _groups(assets: Iterable[DeployedAsset]) -> Iterator[list[DeployedAsset]]:
    """Pieces of assets that may go into one part."""
    group: list[DeployedAsset] = []
    raw = names = 0
    for asset in assets:
        for piece, size in _pieces(asset):
            named = len(asset.key) + len(asset.asset_id) + len(asset.renamed_from) + 10
            if group and (raw + size > RAW_BYTES or names + named > NAMES_BYTES):
                yield group
                group, raw, names = [], 0, 0
            group.append(piece)
            raw += size
            names += named
    if group:
        yield group


def _packed(pieces: list[DeployedAsset], of: DeploymentPart) -> Iterator[DeploymentPart]:
    """The part that has these pieces; two or more, if they do not become small enough."""
    text = packed(pieces)
    if len(text) > PART_BYTES and len(pieces) > 1:
        half = len(pieces) // 2
        yield from _packed(pieces[:half], of)
        yield from _packed(pieces[half:], of)
        return
    named = [piece for piece in pieces if not piece.continued]
    yield replace(
        of,
        asset_keys=tuple([piece.key for piece in named]),
        asset_ids=tuple([piece.asset_id for piece in named]),
        renamed_from=tuple([piece.renamed_from for piece in named]),
        packed=text,
    )


def _packed_declarations(
    declarations: Sequence[DeployedDeclaration], of: DeploymentPart
) -> Iterator[DeploymentPart]:
    text = packed(declarations)
    if len(text) > PART_BYTES and len(declarations) > 1:
        half = len(declarations) // 2
        yield from _packed_declarations(declarations[:half], of)
        yield from _packed_declarations(declarations[half:], of)
    elif declarations:
        newer = speaks_of_contracts(declarations, ())
        yield replace(of, declarations=text, has_contracts=newer)


def _keys_in_parts(keys: Iterable[str]) -> Iterator[tuple[str, ...]]:
    part: list[str] = []
    size = 0
    for key in keys:
        if part and size + len(key) + 3 > PART_BYTES:
            yield tuple(part)
            part, size = [], 0
        part.append(key)
        size += len(key) + 3
    if part:
        yield tuple(part)


def _pieces(asset: DeployedAsset) -> Iterator[tuple[DeployedAsset, int]]:
    """An asset with the size of its JSON; one with very many columns in several."""
    size = len(msgspec.json.encode(asset)) + 1
    if size <= PIECE_BYTES:
        yield asset, size
        return
    rest = DeployedAsset(key=asset.key, asset_id=asset.asset_id, continued=True)
    piece = replace(asset, columns=())
    size = len(msgspec.json.encode(piece)) + 1
    columns: list[ColumnDef] = []
    for column in asset.columns:
        more = len(msgspec.json.encode(column)) + 1
        if columns and size + more > PIECE_BYTES:
            yield replace(piece, columns=tuple(columns)), size
            piece, columns, size = rest, [], len(msgspec.json.encode(rest)) + 1
        columns.append(column)
        size += more
    yield replace(piece, columns=tuple(columns)), size


# -- results ------------------------------------------------------------------------------


class Deployed(msgspec.Struct, frozen=True):
    deployment_id: str
    number: int
    generation: int
    changed: bool
    """False: the current deployment is the same already, and nothing happened."""
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    renamed: tuple[str, ...] = ()
    project: str = ""
    changed_assets: int = 0
    """How many were there before under their names, and have other code or another definition."""
    declared: tuple[str, ...] = ()
    """`schedule/nightly`, `sensor/landing`, …: what is new or differs."""
    no_longer_declared: tuple[str, ...] = ()
    accepted_breaks: tuple[str, ...] = ()
    """Columns whose schema changes may break readers."""


def deployed(
    event: DeploymentCreated,
    change: DeployedChange,
    current: DeploymentRow | None,
    before: Mapping[str, DeployedAssetRow],
    generation: int,
) -> Deployed:
    renamed = {a.renamed_from: a.key for a in change.assets if a.renamed_from}
    active = {key for key, row in before.items() if row.active}
    stated = {asset.key for asset in change.assets}.union(change.reshaped) - set(renamed.values())
    new = stated - active
    return Deployed(
        deployment_id=event.deployment_id,
        number=1 if current is None else current.number + 1,
        generation=generation,
        changed=True,
        added=tuple(sorted(new)),
        removed=tuple(sorted(change.removed)),
        renamed=tuple(f"{old} -> {new}" for old, new in sorted(renamed.items())),
        project=event.project,
        changed_assets=len(stated & active),
        declared=tuple(sorted(map(declaration_id, change.declared.changed))),
        no_longer_declared=tuple(change.declared.removed),
        accepted_breaks=tuple(f"{each.asset}.{each.column}" for each in change.accepted),
    )
