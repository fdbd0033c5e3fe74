"""The fold of deployments: the current manifest of each project, and the ids of its assets.

All projects of a workspace are folded under one key, because a deployment is decided against the
other projects.

A large deployment is in the log as

    DeploymentPart, DeploymentPart, ...    each kept as a row, without effect
    DeploymentCreated                      decides: are all parts there, is every name free?
    DeploymentInstalled                    the rows of all assets change, and parts are forgotten

The last two are one batch, so one commit shows both. The command decides by the keys and ids beside
the parts, and changes little, so that checking it beforehand is cheap. Parts may come twice, in any
order, or not at all. Parts of a deployment that was not created, or lost a race, are deleted by the
next deployment of the project, or after a day. A small deployment is one command that has its
assets in it.

A namespace belongs to the project that first deployed an asset in it, as long as that project has
an active asset there. After that, the next project that deploys into it takes it, with its
remaining assets.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

import msgspec
from msgspec import Struct

from arco.catalog.events import (
    AssetDeclared,
    AssetLeft,
    AssetMoved,
    AssetReshaped,
    AssetReturned,
    Column,
)
from arco.catalog.governance import encode_sla
from arco.catalog.schema_events import BreakAccepted
from arco.errors import Invalid
from arco.lineage.events import DeclaredInput, InputsDeclared
from arco.orchestration.declarations import (
    FACTS,
    DeployedContract,
    DeployedDeclaration,
    Facts,
    PlainSchedule,
    ScheduleDeclared,
    ScheduleRemoved,
    kind_of,
)
from arco.orchestration.derived import KeySetsDeclared
from arco.orchestration.events import (
    DeployedAsset,
    DeploymentCreated,
    DeploymentInstalled,
    DeploymentPart,
)
from arco.orchestration.tables import (
    DECLARATIONS,
    DEPLOYED_ASSETS,
    DEPLOYMENT_PARTS,
    DEPLOYMENTS,
    LAST_DEPLOYMENT,
    PROJECT_NAMESPACES,
    PROJECTS,
    DeclarationRow,
    DeployedAssetRow,
    DeploymentPartRow,
    DeploymentRow,
    LastDeploymentRow,
    ProjectNamespaceRow,
    ProjectRow,
)
from arco.state.copied_rows import row_from
from arco.state.fold import Change, Delete, Emit, Fact, On, Put, Rows, Stage, always
from arco.state.system import applied, refused
from servo.contract import canonical

ABANDONED = timedelta(days=1)
"""Parts of a deployment that has not been created by then are forgotten."""
NEWEST = "newest"

replace = msgspec.structs.replace
_assets = msgspec.json.Decoder(tuple[DeployedAsset, ...])
_schedules = msgspec.json.Decoder(tuple[PlainSchedule, ...])
_declarations = msgspec.json.Decoder(tuple[DeployedDeclaration, ...])


def namespace_of(key: str) -> str:
    return key.partition(".")[0]


# -- parts --------------------------------------------------------------------------------


def _keep_part(rows: Rows, fact: Fact, e: DeploymentPart) -> Iterator[Change]:
    if e.parent != _current(rows, e.project):
        return
    if rows.get(DEPLOYMENT_PARTS, e.project, e.deployment_id, e.number) is not None:
        return
    _check_part(e)
    if e.number == 0:
        for part in rows.scan(DEPLOYMENT_PARTS, e.project):
            if part.received_at < fact.received_at - ABANDONED:
                yield _forget(part)
    part = row_from(DeploymentPartRow, e, received_at=fact.received_at)
    yield Put(DEPLOYMENT_PARTS, part)


def _check_part(e: DeploymentPart) -> None:
    """Raise Invalid for a part that could not be installed: it then counts as missing.

    Later it would be too late to refuse the command.
    """
    named = [asset for asset in unpacked(e.packed) if not asset.continued]
    _schedules.decode(_inflated(e.schedules))
    _declarations.decode(_inflated(e.declarations))
    for each in e.removed_declarations:
        _facts(each)
    described = list(zip(e.asset_keys, e.asset_ids, e.renamed_from, strict=True))
    if [(asset.key, asset.asset_id, asset.renamed_from) for asset in named] != described:
        raise Invalid(f"part {e.number} of deployment {e.deployment_id} has other assets in it")


def _forget(part: DeploymentPartRow) -> Delete:
    return Delete(DEPLOYMENT_PARTS, (part.project, part.deployment_id, part.number))


def _parts(rows: Rows, project: str, deployment_id: str) -> list[DeploymentPartRow]:
    parts = rows.scan(DEPLOYMENT_PARTS, project)
    return [part for part in parts if part.deployment_id == deployment_id]


def packed(assets: Sequence[Struct]) -> str:
    return base64.b64encode(zlib.compress(msgspec.json.encode(assets), 3)).decode()


def unpacked(text: str) -> tuple[DeployedAsset, ...]:
    return _assets.decode(_inflated(text))


def _inflated(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text)) if text else b"[]"


def joined(assets: Iterable[DeployedAsset]) -> Iterator[DeployedAsset]:
    """Assets whose columns are in several pieces, in one."""
    asset: DeployedAsset | None = None
    more: list[DeployedAsset] = []

    def whole(first: DeployedAsset) -> DeployedAsset:
        pieces = [first, *more]
        columns = tuple([column for piece in pieces for column in piece.columns])
        return replace(first, columns=columns) if more else first

    for piece in assets:
        if piece.continued:
            more.append(piece)
            continue
        if asset is not None:
            yield whole(asset)
        asset, more = piece, []
    if asset is not None:
        yield whole(asset)


# -- the decision -------------------------------------------------------------------------


class _Named(NamedTuple):
    """The id and the key of an asset."""

    key: str
    asset_id: str
    renamed_from: str


class _Refusal(NamedTuple):
    code: str
    message: str


def _create(rows: Rows, fact: Fact, e: DeploymentCreated) -> Iterator[Change]:
    project = rows.get(PROJECTS, e.project)
    parts = _parts(rows, e.project, e.deployment_id) if e.parts else []
    named = [_Named(asset.key, asset.asset_id, asset.renamed_from) for asset in e.assets]
    for part in parts:
        named += map(_Named, part.asset_keys, part.asset_ids, part.renamed_from)
    removed = _removed(rows, e, parts)
    refusal = (
        _moved(rows, e)
        or _incomplete(e, parts)
        or _clash(rows, e, named)
        or _foreign_namespace(rows, e, named)
        or _miscounted(rows, e, named, removed)
    )
    if refusal is not None:
        yield refused(fact, *refusal)
        return
    number = 1 if project is None else project.number + 1
    reads = [*e.reads, *(key for part in parts for key in part.reads)]
    total = len(e.assets) if e.total is None else e.total
    yield Put(DEPLOYMENTS, _deployment(fact, e, number, total))
    yield Put(PROJECTS, ProjectRow(e.project, e.deployment_id, number, reads))
    yield Put(LAST_DEPLOYMENT, LastDeploymentRow(NEWEST, e.deployment_id))
    for each in e.accepted:  # before there are other versions of schemas
        yield Emit(
            BreakAccepted(
                asset_id=each.asset_id,
                column=each.column,
                reason=each.reason,
                deployment_id=e.deployment_id,
            )
        )
    if not parts:
        yield from _install(rows, e, e.assets, removed)
        yield from _emit_schedules(e, e.changed_schedules, e.removed_schedules)
        yield from _declare(rows, e, e.declarations, e.removed_declarations, e.assets)
    yield applied(fact)


def _current(rows: Rows, project: str) -> str:
    row = rows.get(PROJECTS, project)
    return "" if row is None else row.deployment_id


def _removed(rows: Rows, e: DeploymentCreated, parts: Sequence[DeploymentPartRow]) -> list[str]:
    """The removed keys. Version 1 does not list them: they are not named any more."""
    if e.total is not None:
        return [*e.removed, *(key for part in parts for key in part.removed)]
    before = [_Moves(rows, e.project).before(asset) for asset in e.assets]
    remaining = {asset.key for asset in e.assets} | {
        row.asset_key for row in before if row is not None
    }
    deployed = rows.scan(DEPLOYED_ASSETS, e.project)
    return [row.asset_key for row in deployed if row.active and row.asset_key not in remaining]


def _moved(rows: Rows, e: DeploymentCreated) -> _Refusal | None:
    current = _current(rows, e.project)
    newest = rows.get(LAST_DEPLOYMENT, NEWEST)
    if e.parent != current:
        return _Refusal(
            "deployment_moved", f"deployment {current} was created in the meantime; deploy again"
        )
    if e.based_on and newest is not None and newest.deployment_id != e.based_on:
        return _Refusal(
            "deployment_moved",
            f"deployment {newest.deployment_id} of another project was created in "
            "the meantime; deploy again",
        )
    return None


def _incomplete(e: DeploymentCreated, parts: Sequence[DeploymentPartRow]) -> _Refusal | None:
    if [part.number for part in parts] == list(range(e.parts)):
        return None
    return _Refusal(
        "deployment_incomplete", f"{len(parts)} of {e.parts} parts are in the log; deploy again"
    )


def _clash(rows: Rows, e: DeploymentCreated, named: Sequence[_Named]) -> _Refusal | None:
    """Two assets with one key or one id: their data would be confused."""
    leaving = {asset.renamed_from for asset in named}
    seen: dict[str, str] = {}
    for asset in named:
        row = rows.get(DEPLOYED_ASSETS, e.project, asset.key)
        if (
            row is not None
            and row.active
            and row.asset_id != asset.asset_id
            and asset.key not in leaving
        ):
            return _Refusal("asset_id_changed", f"{asset.key} already has another id")
        other = seen.setdefault(asset.asset_id, asset.key)
        if other != asset.key:
            return _Refusal(
                "asset_id_taken",
                f"{other} and {asset.key} have the same id; rename in one deployment, "
                "and reuse the old name in the next",
            )
    return None


def _foreign_namespace(
    rows: Rows, e: DeploymentCreated, named: Iterable[_Named]
) -> _Refusal | None:
    for namespace in dict.fromkeys(namespace_of(asset.key) for asset in named):
        owner = rows.get(PROJECT_NAMESPACES, namespace)
        if owner is not None and owner.project != e.project and owner.assets:
            return _Refusal("namespace_taken", owner_text(owner))
    return None


def owner_text(owner: ProjectNamespaceRow) -> str:
    return f"the namespace {owner.namespace} belongs to the project {owner.project}"


def _miscounted(
    rows: Rows, e: DeploymentCreated, named: Sequence[_Named], removed: Sequence[str]
) -> _Refusal | None:
    """Whether the project would not have as many assets as its manifest."""
    if e.total is None:
        return None
    parent = rows.get(DEPLOYMENTS, e.project, e.parent)
    active = 0 if parent is None else parent.assets
    moves = _Moves(rows, e.project)
    new = sum(not _is_active(moves.before(asset), e.project) for asset in named)
    after = active + new - len(removed)
    if after == e.total:
        return None
    return _Refusal("deployment_incomplete", f"it has {e.total} assets, and {after} are described")


def _is_active(row: DeployedAssetRow | None, project: str) -> bool:
    return row is not None and row.active and row.project == project


def _deployment(fact: Fact, e: DeploymentCreated, number: int, total: int) -> DeploymentRow:
    return row_from(
        DeploymentRow,
        e,
        number=number,
        assets=total,
        created_at=fact.received_at,
        created_by=fact.actor,
    )


# -- taking effect ------------------------------------------------------------------------


class _Moves:
    """Rows of deployed assets, under their keys before a deployment of `project`."""

    def __init__(self, rows: Rows, project: str) -> None:
        self._rows = rows
        self._project = project

    def before(self, asset: _Named | DeployedAsset) -> DeployedAssetRow | None:
        """The row that an asset has, under this name or the one that it leaves."""
        for key in (asset.renamed_from, asset.key):
            row = self._row(key) if key else None
            if row is not None and row.asset_id == asset.asset_id:
                return row
        return None

    def _row(self, key: str) -> DeployedAssetRow | None:
        """Its own, or one that another project has left behind."""
        own = self._rows.get(DEPLOYED_ASSETS, self._project, key)
        if own is not None:
            return own
        owner = self._rows.get(PROJECT_NAMESPACES, namespace_of(key))
        if owner is None or owner.project == self._project:
            return None
        row = self._rows.get(DEPLOYED_ASSETS, owner.project, key)
        return None if row is None or row.active else row


def _install_parts(rows: Rows, fact: Fact, e: DeploymentInstalled) -> Iterator[Change]:
    parts = _parts(rows, e.project, e.deployment_id)
    if not parts or _current(rows, e.project) != e.deployment_id:
        return
    pieces = (asset for part in parts for asset in unpacked(part.packed))
    removed = [key for part in parts for key in part.removed]
    assets = list(joined(pieces))
    yield from _install(rows, e, assets, removed)
    declarations: list[DeployedDeclaration] = []
    for part in parts:
        schedules = _schedules.decode(_inflated(part.schedules))
        yield from _emit_schedules(e, schedules, part.removed_schedules)
        declarations += _declarations.decode(_inflated(part.declarations))
    left = [each for part in parts for each in part.removed_declarations]
    yield from _declare(rows, e, declarations, left, assets)


def _install(
    rows: Rows,
    e: DeploymentCreated | DeploymentInstalled,
    assets: Sequence[DeployedAsset],
    removed: Sequence[str],
) -> Iterator[Change]:
    """Names are released before any is taken: an asset may take a name that another one leaves."""
    moves = _Moves(rows, e.project)
    before = {asset.key: moves.before(asset) for asset in assets}
    held = [rows.get(DEPLOYED_ASSETS, e.project, key) for key in removed]
    removed_rows = [row for row in held if row is not None and row.active]
    yield from _give_up(e.project, before)
    yield from _take_namespaces(rows, e.project, before, removed_rows)
    ids = {asset.key: asset.asset_id for asset in assets}
    for asset in assets:
        old = before[asset.key]
        row = _deployed(e.project, asset, old, e.deployment_id)
        yield Put(DEPLOYED_ASSETS, row)
        yield from _emit_asset(e, asset, old)
        if asset.inputs is not None and (old is None or old.inputs != row.inputs):
            yield Emit(_inputs(asset, lambda key: ids.get(key) or _deployed_id(rows, key)))
    for row in removed_rows:
        yield Put(DEPLOYED_ASSETS, replace(row, active=False, deployment_id=e.parent))
        yield Emit(AssetLeft(asset_id=row.asset_id))
    for part in rows.scan(DEPLOYMENT_PARTS, e.project):
        yield _forget(part)


def _inputs(asset: DeployedAsset, id_of: Callable[[str], str]) -> InputsDeclared:
    """For lineage: what code reads, by the ids of assets."""
    inputs = [DeclaredInput(id_of(key), parameter, key) for key, parameter in asset.inputs or ()]
    return InputsDeclared(asset_id=asset.asset_id, inputs=tuple(sorted(set(inputs))))


def _deployed_id(rows: Rows, key: str) -> str:
    """The id of an asset that this deployment does not change; its key if nobody has it."""
    owner = rows.get(PROJECT_NAMESPACES, namespace_of(key))
    row = None if owner is None else rows.get(DEPLOYED_ASSETS, owner.project, key)
    return key if row is None else row.asset_id


def inputs_fingerprint(asset: DeployedAsset) -> str:
    """The fingerprint of the inputs in code; empty if they are not recorded."""
    if asset.inputs is None:
        return ""
    return hashlib.sha256(msgspec.json.encode(asset.inputs)).hexdigest()[:16]


def _emit_schedules(
    e: DeploymentCreated | DeploymentInstalled,
    changed: Iterable[PlainSchedule],
    removed: Iterable[str],
) -> Iterator[Change]:
    """Schedules of deployments from before there were other declarations."""
    project, deployment_id = e.project, e.deployment_id
    for each in changed:
        yield Emit(ScheduleDeclared(project=project, deployment_id=deployment_id, declaration=each))
    for name in removed:
        yield Emit(ScheduleRemoved(project=project, deployment_id=deployment_id, name=name))


def _declare(
    rows: Rows,
    e: DeploymentCreated | DeploymentInstalled,
    changed: Iterable[DeployedDeclaration],
    removed: Iterable[str],
    assets: Sequence[DeployedAsset],
) -> Iterator[Change]:
    """`assets` are those that this deployment changes: their rows are still as they were."""
    project, deployment_id = e.project, e.deployment_id
    ids = {asset.key: asset.asset_id for asset in assets}
    changed = list(changed)
    promised = {each.name for each in changed if isinstance(each, DeployedContract)}
    moved = {asset.renamed_from for asset in assets if asset.key in promised}

    def deployed_id(name: str) -> str:
        row = rows.get(DEPLOYED_ASSETS, project, name)
        return "" if row is None else row.asset_id

    for each in removed:
        kind, _, name = each.partition("/")
        yield Delete(DECLARATIONS, (project, kind, name))
        if kind == "contract" and name in moved:  # the asset has it under its new name
            continue
        yield Emit(
            _facts(each).removed(
                project=project,
                deployment_id=deployment_id,
                name=name,
                asset_id=deployed_id(name),
            )
        )
    for declaration in changed:
        kind, name = kind_of(declaration), declaration.name
        fingerprint = canonical.fingerprint(declaration)
        more = {}
        if isinstance(declaration, DeployedContract):
            more["consumer_ids"] = _consumer_ids(rows, declaration, ids)
        yield Put(DECLARATIONS, DeclarationRow(project, kind, name, fingerprint, deployment_id))
        yield Emit(
            FACTS[kind].declared(
                project=project,
                deployment_id=deployment_id,
                asset_id=ids.get(name) or deployed_id(name),
                declaration=declaration,
                **more,
            )
        )


def _consumer_ids(
    rows: Rows, contract: DeployedContract, changed: Mapping[str, str]
) -> dict[str, str]:
    """The ids of consumers that are deployed assets."""
    keys = [each for each in contract.consumers if "." in each and "@" not in each]
    ids = {key: changed.get(key) or _deployed_id(rows, key) for key in keys}
    return {key: asset_id for key, asset_id in ids.items() if asset_id != key}


def _facts(declaration_id: str) -> Facts:
    kind = declaration_id.partition("/")[0]
    if kind not in FACTS:
        raise Invalid(f"there is no declaration of the kind {kind!r}")
    return FACTS[kind]


def _give_up(project: str, before: Mapping[str, DeployedAssetRow | None]) -> Iterator[Change]:
    for key, old in before.items():
        if old is None:
            continue
        if (old.project, old.asset_key) != (project, key):
            yield Delete(DEPLOYED_ASSETS, (old.project, old.asset_key))
        if old.asset_key != key:
            namespace, _, name = old.asset_key.partition(".")
            yield Emit(AssetMoved(asset_id=old.asset_id, namespace=namespace, name=name))


def _take_namespaces(
    rows: Rows,
    project: str,
    before: Mapping[str, DeployedAssetRow | None],
    removed: Iterable[DeployedAssetRow],
) -> Iterator[Change]:
    """Count the active assets of each namespace, and take those that nobody has any more."""
    counts = Counter(map(namespace_of, before))
    olds = [old for old in before.values() if old is not None and _is_active(old, project)]
    counts.subtract(namespace_of(row.asset_key) for row in (*olds, *removed))
    for namespace, change in counts.items():
        owner = rows.get(PROJECT_NAMESPACES, namespace)
        if owner is not None and owner.project != project:
            yield from _take_over(rows, owner, project, before)
            owner = None
        active = change if owner is None else owner.assets + change
        yield Put(PROJECT_NAMESPACES, ProjectNamespaceRow(namespace, project, active))


def _take_over(
    rows: Rows,
    owner: ProjectNamespaceRow,
    project: str,
    before: Mapping[str, DeployedAssetRow | None],
) -> Iterator[Change]:
    """Take over the assets that another project has left in a namespace."""
    for row in rows.scan(DEPLOYED_ASSETS, owner.project):
        if namespace_of(row.asset_key) == owner.namespace:
            yield Delete(DEPLOYED_ASSETS, (row.project, row.asset_key))
            if row.asset_key not in before:
                yield Put(DEPLOYED_ASSETS, replace(row, project=project))


def _deployed(
    project: str, asset: DeployedAsset, old: DeployedAssetRow | None, deployment_id: str
) -> DeployedAssetRow:
    before = () if old is None else (*old.previous_keys, old.asset_key)
    previous = [key for key in dict.fromkeys(before) if key != asset.key]
    return row_from(
        DeployedAssetRow,
        asset,
        project=project,
        asset_key=asset.key,
        deployment_id=deployment_id,
        active=True,
        previous_keys=previous,
        inputs=inputs_fingerprint(asset),
    )


def _emit_asset(
    e: DeploymentCreated | DeploymentInstalled, asset: DeployedAsset, old: DeployedAssetRow | None
) -> Iterator[Change]:
    """Facts for the catalog: all that code says, or only that the asset is active again; and for
    others, that its partitions changed."""
    same = old is not None and (old.asset_key, old.definition) == (asset.key, asset.definition)
    is_slim = isinstance(e, DeploymentCreated) and e.total is None  # of what is as it was
    if same and is_slim and not _is_active(old, e.project):
        yield Emit(AssetReturned(asset_id=asset.asset_id, project=e.project))
    elif not same or not _is_active(old, e.project):
        yield Emit(_declared(e.project, asset))
    if old is not None and old.shape != asset.shape:
        yield Emit(AssetReshaped(asset_id=asset.asset_id))
    yield from _key_sets(asset, {} if old is None else old.key_sets)


def _key_sets(asset: DeployedAsset, before: Mapping[str, str]) -> Iterator[Change]:
    if asset.key_sets == before:
        return
    for keys in sorted({*before.values(), *asset.key_sets.values()}):
        names = [name for name, of in asset.key_sets.items() if of == keys]
        yield Emit(
            KeySetsDeclared(keys=keys, asset_id=asset.asset_id, dimensions=tuple(sorted(names)))
        )


def _declared(project: str, asset: DeployedAsset) -> AssetDeclared:
    namespace, _, name = asset.key.partition(".")
    return AssetDeclared(
        asset_id=asset.asset_id,
        namespace=namespace,
        name=name,
        description=asset.description,
        owners=asset.owners,
        tags=asset.tags,
        columns=tuple(
            [
                Column(
                    name=column.name,
                    type=column.type,
                    nullable=column.nullable,
                    description=column.description,
                    pii=column.pii,
                    sensitivity=column.sensitivity,
                    terms=column.terms,
                    renamed_from=column.renamed_from or msgspec.UNSET,
                )
                for column in asset.columns
            ]
        ),
        project=project,
        sla=encode_sla(asset.sla),
        terms=asset.terms,
        links=asset.links,
        deprecated=asset.deprecated,
        kind=asset.kind,
        code=asset.code,
    )


_one_key = always("")
STAGE = Stage(
    "deployments",
    (
        PROJECTS,
        DEPLOYMENTS,
        DEPLOYED_ASSETS,
        PROJECT_NAMESPACES,
        DEPLOYMENT_PARTS,
        DECLARATIONS,
        LAST_DEPLOYMENT,
    ),
    (
        On(DeploymentPart, _one_key, _keep_part),
        On(DeploymentCreated, _one_key, _create),
        On(DeploymentInstalled, _one_key, _install_parts),
    ),
)
