"""The catalog's fold, in two stages.

    directory   one key for each namespace: who may have which name
    assets      one key for each asset: everything about it

The directory decides races for names, and tells the assets' stage what became of
them. A command is applied whole, or refused with a code that stays the same and
a sentence for people.

The name in an asset's row is the one that the directory has for it, at every
position: so the assets' stage can decide whether a command still means the asset
that its caller named.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import msgspec

from arco.catalog.events import (
    AddressedNotice,
    AssetCreated,
    AssetDeclared,
    AssetDropped,
    AssetLeft,
    AssetMoved,
    AssetNotice,
    AssetObserved,
    AssetRenamed,
    AssetReturned,
    AssetUpdated,
    Column,
    ColumnAdded,
    ColumnDropped,
    ColumnUpdated,
    Given,
    NamespaceCreated,
    NamespaceDropped,
    NamespaceUpdated,
)
from arco.catalog.names import check_asset, check_column_name
from arco.catalog.tables import (
    ASSET_NAMES,
    ASSET_STATS,
    ASSETS,
    COLUMNS,
    NAMESPACES,
    AssetNameRow,
    AssetRow,
    AssetStatsRow,
    ColumnRow,
    NamespaceRow,
)
from arco.errors import Invalid
from arco.log.envelope import Payload
from arco.state.copied_rows import row_from
from arco.state.fold import Change, Delete, Emit, Fact, On, Put, Rows, Stage, by
from arco.state.system import applied, refused
from arco.state.table import Row
from servo.contract.keys import check_name

replace = msgspec.structs.replace


class AssetRegistered(Payload, frozen=True, kw_only=True):
    """Derived: the name of a new asset is its own."""

    TYPE: ClassVar[str] = "catalog.asset_registered"
    asset_id: str
    asset: AssetCreated


class AssetNameChanged(Payload, frozen=True, kw_only=True):
    """Derived: an asset has got another name."""

    TYPE: ClassVar[str] = "catalog.asset_name_changed"
    asset_id: str
    name: str


class AssetReleased(Payload, frozen=True, kw_only=True):
    """Derived: an asset has lost its name, and goes."""

    TYPE: ClassVar[str] = "catalog.asset_released"
    asset_id: str


class AssetDescribed(AssetDeclared, frozen=True, kw_only=True):
    """Derived: a declared asset has its name; this is what code says of it."""

    TYPE: ClassVar[str] = "catalog.asset_described"


# -- the directory ------------------------------------------------------------------------


def _create_namespace(rows: Rows, fact: Fact, e: NamespaceCreated) -> Iterator[Change]:
    if refusal := _bad_name(fact, lambda: check_name(e.namespace, "namespace")):
        yield refusal
        return
    if rows.get(NAMESPACES, e.namespace) is not None:
        yield refused(fact, "namespace_exists", f"namespace {e.namespace} already exists")
        return
    yield Put(NAMESPACES, _new_namespace(fact, e))
    yield applied(fact)


def _new_namespace(fact: Fact, e: NamespaceCreated) -> NamespaceRow:
    return row_from(NamespaceRow, e, assets=0, **_created(fact))


def _created(fact: Fact) -> dict[str, Any]:
    now, by = fact.received_at, fact.actor
    return {"created_at": now, "created_by": by, "updated_at": now, "updated_by": by}


def _update_namespace(rows: Rows, fact: Fact, e: NamespaceUpdated) -> Iterator[Change]:
    row = rows.get(NAMESPACES, e.namespace)
    if row is None:
        yield _no_namespace(fact, e.namespace)
    elif _stale(e.expected_version, version := rows.version(NAMESPACES, e.namespace)):
        yield _changed_since(fact, f"namespace {e.namespace}", e.expected_version, version)
    else:
        yield Put(NAMESPACES, _touched(fact, row, _given(e, row)))
        yield applied(fact)


def _drop_namespace(rows: Rows, fact: Fact, e: NamespaceDropped) -> Iterator[Change]:
    row = rows.get(NAMESPACES, e.namespace)
    if row is None:
        yield _no_namespace(fact, e.namespace)
    elif row.assets:
        yield refused(
            fact,
            "namespace_not_empty",
            f"namespace {e.namespace} still holds {row.assets} assets; drop them first",
        )
    else:
        yield Delete(NAMESPACES, (e.namespace,))
        yield applied(fact)


def _claim(rows: Rows, fact: Fact, e: AssetCreated) -> Iterator[Change]:
    namespace = rows.get(NAMESPACES, e.namespace)
    columns = [column.name for column in e.columns]
    if refusal := _bad_name(fact, lambda: check_asset(e.namespace, e.name, columns)):
        yield refusal
    elif namespace is None:
        yield _no_namespace(fact, e.namespace)
    elif rows.get(ASSET_NAMES, e.namespace, e.name) is not None:
        yield _name_taken(fact, e.namespace, e.name)
    else:
        yield Put(ASSET_NAMES, AssetNameRow(e.namespace, e.name, fact.id))
        yield Put(NAMESPACES, replace(namespace, assets=namespace.assets + 1))
        yield Emit(AssetRegistered(asset_id=fact.id, asset=e))
        yield applied(fact)


def _rename(rows: Rows, fact: Fact, e: AssetRenamed) -> Iterator[Change]:
    held = rows.get(ASSET_NAMES, e.namespace, e.name)
    if refusal := _bad_name(fact, lambda: check_name(e.new_name, "asset name")):
        yield refusal
    elif held is None or held.asset_id != e.asset_id:
        yield _not_its_name(fact, e.asset_id, f"{e.namespace}.{e.name}")
    elif rows.get(ASSET_NAMES, e.namespace, e.new_name) is not None:
        yield _name_taken(fact, e.namespace, e.new_name)
    else:
        yield Delete(ASSET_NAMES, (e.namespace, e.name))
        yield Put(ASSET_NAMES, AssetNameRow(e.namespace, e.new_name, e.asset_id))
        yield Emit(AssetNameChanged(asset_id=e.asset_id, name=e.new_name))
        yield applied(fact)


def _release(rows: Rows, fact: Fact, e: AssetDropped) -> Iterator[Change]:
    namespace = rows.get(NAMESPACES, e.namespace)
    held = rows.get(ASSET_NAMES, e.namespace, e.name)
    if namespace is None or held is None or held.asset_id != e.asset_id:
        yield _not_its_name(fact, e.asset_id, f"{e.namespace}.{e.name}")
        return
    yield Delete(ASSET_NAMES, (e.namespace, e.name))
    yield Put(NAMESPACES, replace(namespace, assets=namespace.assets - 1))
    yield Emit(AssetReleased(asset_id=e.asset_id))
    yield applied(fact)


def _give_up(rows: Rows, fact: Fact, e: AssetMoved) -> Iterator[Change]:
    namespace = rows.get(NAMESPACES, e.namespace)
    held = rows.get(ASSET_NAMES, e.namespace, e.name)
    if namespace is not None and held is not None and held.asset_id == e.asset_id:
        yield Delete(ASSET_NAMES, (e.namespace, e.name))
        yield Put(NAMESPACES, replace(namespace, assets=namespace.assets - 1))


def _declare(rows: Rows, fact: Fact, e: AssetDeclared) -> Iterator[Change]:
    """Code has the last word on names: a deployment was checked as a whole.

    Somebody may have created an asset of that name by hand since the deployment
    looked. Then that one goes: it has no data yet, and code would never find it.
    A fact cannot be refused: one with a bad name raises, is skipped and counted.
    """
    check_asset(e.namespace, e.name)
    held = rows.get(ASSET_NAMES, e.namespace, e.name)
    if held is None:
        new = NamespaceCreated(namespace=e.namespace)
        namespace = rows.get(NAMESPACES, e.namespace) or _new_namespace(fact, new)
        yield Put(NAMESPACES, replace(namespace, assets=namespace.assets + 1))
    elif held.asset_id != e.asset_id:
        yield Emit(AssetReleased(asset_id=held.asset_id))
    yield Put(ASSET_NAMES, AssetNameRow(e.namespace, e.name, e.asset_id))
    yield Emit(AssetDescribed(**msgspec.structs.asdict(e)))


# -- assets -------------------------------------------------------------------------------


def _change_name(rows: Rows, fact: Fact, e: AssetNameChanged) -> Iterator[Change]:
    if (row := rows.get(ASSETS, e.asset_id)) is not None:
        names = [*row.previous_names, row.name]
        yield Put(ASSETS, _touched(fact, row, {"name": e.name, "previous_names": names}))


def _leave(rows: Rows, fact: Fact, e: AssetLeft) -> Iterator[Change]:
    if (row := rows.get(ASSETS, e.asset_id)) is not None:
        yield Put(ASSETS, _touched(fact, row, {"active": False}))


def _return(rows: Rows, fact: Fact, e: AssetReturned) -> Iterator[Change]:
    if (row := rows.get(ASSETS, e.asset_id)) is not None:
        yield Put(ASSETS, _touched(fact, row, {"active": True, "project": e.project}))


def _register(rows: Rows, fact: Fact, e: AssetRegistered) -> Iterator[Change]:
    yield from _new_asset(fact, e.asset_id, e.asset)


def _new_asset(
    fact: Fact, asset_id: str, asset: AssetCreated, project: str = ""
) -> Iterator[Change]:
    row = row_from(
        AssetRow, asset, asset_id=asset_id, previous_names=[], project=project, **_created(fact)
    )
    yield Put(ASSETS, row)
    for ordinal, column in enumerate(asset.columns):
        yield Put(COLUMNS, _column(fact, asset_id, column, ordinal))


def _describe(rows: Rows, fact: Fact, e: AssetDescribed) -> Iterator[Change]:
    row = rows.get(ASSETS, e.asset_id)
    if row is None:
        created = AssetCreated(
            namespace=e.namespace,
            name=e.name,
            description=e.description,
            owners=e.owners,
            tags=e.tags,
            columns=e.columns,
        )
        yield from _new_asset(fact, e.asset_id, created, e.project)
        return
    moved = (row.namespace, row.name) != (e.namespace, e.name)
    before = row.name if row.namespace == e.namespace else f"{row.namespace}.{row.name}"
    change = {
        "namespace": e.namespace,
        "name": e.name,
        "previous_names": [*row.previous_names, before] if moved else row.previous_names,
        "description": e.description,
        "owners": list(e.owners),
        "tags": e.tags,
        "project": e.project,
        "active": True,
    }
    if any(getattr(row, name) != value for name, value in change.items()):
        yield Put(ASSETS, _touched(fact, row, change))
    yield from _declare_columns(rows, fact, e)


def _declare_columns(rows: Rows, fact: Fact, e: AssetDescribed) -> Iterator[Change]:
    """Declared columns are added or updated by name; what code does not name stays."""
    existing = {column.name: column for column in rows.scan(COLUMNS, e.asset_id)}
    ordinal = 1 + max((column.ordinal for column in existing.values()), default=-1)
    for column in e.columns:
        row = existing.get(column.name)
        if row is None:
            yield Put(COLUMNS, _column(fact, e.asset_id, column, ordinal))
            ordinal += 1
            continue
        declared = replace(
            row,
            type=column.type or row.type,
            nullable=column.nullable,
            description=column.description or row.description,
            pii=column.pii or row.pii,
            sensitivity=column.sensitivity or row.sensitivity,
        )
        if declared != row:
            yield Put(COLUMNS, replace(declared, updated_at=fact.received_at))


def _address(rows: Rows, fact: Fact, e: AssetNotice) -> Iterator[Change]:
    row = rows.get(ASSETS, e.asset_id)
    if row is not None:
        yield Emit(
            AddressedNotice(
                **msgspec.structs.asdict(e),
                asset=f"{row.namespace}.{row.name}",
                project=row.project,
                owners=tuple(row.owners),
                tags=row.tags,
            )
        )


def _remove(rows: Rows, fact: Fact, e: AssetReleased) -> Iterator[Change]:
    yield Delete(ASSETS, (e.asset_id,))
    for column in rows.scan(COLUMNS, e.asset_id):
        yield Delete(COLUMNS, (e.asset_id, column.column_id))


def _update_asset(rows: Rows, fact: Fact, e: AssetUpdated) -> Iterator[Change]:
    row = rows.get(ASSETS, e.asset_id)
    if row is None:
        yield _no_asset(fact, e.asset_id)
    elif _misnamed(row, e.asset_key):
        yield _not_its_name(fact, e.asset_id, e.asset_key)
    elif _stale(e.expected_version, version := rows.version(ASSETS, e.asset_id)):
        yield _changed_since(fact, f"asset {e.asset_id}", e.expected_version, version)
    else:
        yield Put(ASSETS, _touched(fact, row, _given(e, row)))
        yield applied(fact)


def _observe(rows: Rows, fact: Fact, e: AssetObserved) -> Iterator[Change]:
    # Of all observations the one with the greatest id stays, whatever else happens to the
    # asset: so they may come in any order, late, and twice, and the row is the same.
    stats = rows.get(ASSET_STATS, e.asset_id)
    if stats is None or stats.observed_by < fact.id:
        yield Put(
            ASSET_STATS,
            AssetStatsRow(
                e.asset_id, e.row_count, e.size_bytes, e.files, fact.id, fact.received_at
            ),
        )


def _add_column(rows: Rows, fact: Fact, e: ColumnAdded) -> Iterator[Change]:
    columns = rows.scan(COLUMNS, e.asset_id)
    asset = rows.get(ASSETS, e.asset_id)
    if refusal := _bad_name(fact, lambda: check_column_name(e.column.name)):
        yield refusal
    elif asset is None:
        yield _no_asset(fact, e.asset_id)
    elif _misnamed(asset, e.asset_key):
        yield _not_its_name(fact, e.asset_id, e.asset_key)
    elif any(column.name == e.column.name for column in columns):
        yield _column_taken(fact, e.column.name)
    else:
        ordinal = 1 + max((column.ordinal for column in columns), default=-1)
        yield Put(COLUMNS, _column(fact, e.asset_id, e.column, ordinal))
        yield applied(fact)


def _update_column(rows: Rows, fact: Fact, e: ColumnUpdated) -> Iterator[Change]:
    columns = {column.column_id: column for column in rows.scan(COLUMNS, e.asset_id)}
    row = columns.pop(e.column_id, None)
    if row is None:
        yield _no_column(fact, e.column_id)
    elif refusal := _other_column(rows, fact, e, row) or _bad_new_name(fact, e.name):
        yield refusal
    elif any(column.name == e.name for column in columns.values()):
        yield _column_taken(fact, str(e.name))
    else:
        yield Put(COLUMNS, replace(row, **_given(e, row), updated_at=fact.received_at))
        yield applied(fact)


def _drop_column(rows: Rows, fact: Fact, e: ColumnDropped) -> Iterator[Change]:
    row = rows.get(COLUMNS, e.asset_id, e.column_id)
    if row is None:
        yield _no_column(fact, e.column_id)
    elif refusal := _other_column(rows, fact, e, row):
        yield refusal
    else:
        yield Delete(COLUMNS, (e.asset_id, e.column_id))
        yield applied(fact)


def _column(fact: Fact, asset_id: str, column: Column, ordinal: int) -> ColumnRow:
    return row_from(
        ColumnRow,
        column,
        asset_id=asset_id,
        column_id=column_id(fact.id, ordinal),
        ordinal=ordinal,
        created_at=fact.received_at,
        updated_at=fact.received_at,
    )


def column_id(event_id: str, ordinal: int) -> str:
    """Stable for ever: it survives renames, and is never given twice."""
    return "col_" + hashlib.sha256(f"{event_id}:{ordinal}".encode()).hexdigest()[:16]


def _given(e: Payload, row: Row) -> dict[str, Any]:
    """The row's fields that an update names; sequences as the rows have them."""
    shared = {name: getattr(e, name) for name in e.__struct_fields__ if hasattr(row, name)}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in shared.items()
        if value is not None
    }


def _touched(fact: Fact, row: Any, change: dict[str, Any]) -> Any:
    return replace(row, **change, updated_at=fact.received_at, updated_by=fact.actor)


def _stale(expected: int | None, version: int) -> bool:
    return expected is not None and expected != version


def _no_namespace(fact: Fact, namespace: str) -> Emit:
    return refused(fact, "namespace_not_found", f"there is no namespace {namespace}")


def _no_asset(fact: Fact, asset_id: str) -> Emit:
    return refused(fact, "asset_not_found", f"there is no asset {asset_id}")


def _no_column(fact: Fact, column_id: str) -> Emit:
    return refused(fact, "column_not_found", f"there is no column {column_id}")


def _name_taken(fact: Fact, namespace: str, name: str) -> Emit:
    return refused(fact, "name_taken", f"asset {namespace}.{name} already exists")


def _column_taken(fact: Fact, name: str) -> Emit:
    return refused(fact, "column_exists", f"column {name} already exists")


def _misnamed(row: AssetRow, asset_key: Given) -> bool:
    return asset_key not in (msgspec.UNSET, f"{row.namespace}.{row.name}")


def _not_its_name(fact: Fact, asset_id: str, asset_key: Given) -> Emit:
    message = f"asset {asset_id} does not have the name {asset_key}; look it up again"
    return refused(fact, "asset_not_found", message)


def _other_column(
    rows: Rows, fact: Fact, e: ColumnUpdated | ColumnDropped, row: ColumnRow
) -> Emit | None:
    """The refusal, if the column or its asset is not called what the caller wrote."""
    asset = rows.get(ASSETS, e.asset_id)
    if asset is not None and _misnamed(asset, e.asset_key):
        return _not_its_name(fact, e.asset_id, e.asset_key)
    if e.column_name not in (msgspec.UNSET, row.name):
        message = f"column {e.column_id} no longer has the name {e.column_name}; look it up again"
        return refused(fact, "column_not_found", message)
    return None


def _bad_name(fact: Fact, check: Callable[[], object]) -> Emit | None:
    """The refusal, if a name breaks the rules: whoever wrote the event did not check it."""
    try:
        check()
    except Invalid as error:
        return refused(fact, "invalid_name", str(error))
    return None


def _bad_new_name(fact: Fact, name: str | None) -> Emit | None:
    return None if name is None else _bad_name(fact, lambda: check_column_name(name))


def _changed_since(fact: Fact, what: str, expected: int | None, version: int) -> Emit:
    message = f"{what} has changed: its version is {version}, not {expected}; read it again"
    return refused(fact, "version_mismatch", message)


_by_namespace, _by_asset = by("namespace"), by("asset_id")
DIRECTORY = Stage(
    "directory",
    (NAMESPACES, ASSET_NAMES),
    (
        On(NamespaceCreated, _by_namespace, _create_namespace),
        On(NamespaceUpdated, _by_namespace, _update_namespace),
        On(NamespaceDropped, _by_namespace, _drop_namespace),
        On(AssetCreated, _by_namespace, _claim),
        On(AssetRenamed, _by_namespace, _rename),
        On(AssetDropped, _by_namespace, _release),
        On(AssetMoved, _by_namespace, _give_up),
        On(AssetDeclared, _by_namespace, _declare),
    ),
)
ASSETS_STAGE = Stage(
    "assets",
    (ASSETS, COLUMNS, ASSET_STATS),
    (
        On(AssetRegistered, _by_asset, _register),
        On(AssetNameChanged, _by_asset, _change_name),
        On(AssetReleased, _by_asset, _remove),
        On(AssetDescribed, _by_asset, _describe),
        On(AssetLeft, _by_asset, _leave),
        On(AssetReturned, _by_asset, _return),
        On(AssetUpdated, _by_asset, _update_asset),
        On(ColumnAdded, _by_asset, _add_column),
        On(ColumnUpdated, _by_asset, _update_column),
        On(ColumnDropped, _by_asset, _drop_column),
        On(AssetObserved, _by_asset, _observe),
        On(AssetNotice, _by_asset, _address),
    ),
)
STAGES = (DIRECTORY, ASSETS_STAGE)
