"""The catalog's fold, in three stages, and those of `governance_fold` after them.

    directory   one key for each namespace: who may have which name
    contracts   one key for each asset: what is promised of it (`contract_fold`)
    assets      one key for each asset: everything else about it

The directory decides races for names, and informs the assets' stage. A command is applied
completely, or refused with a stable code and a message.

The name in an asset's row is the one that the directory has for it, at every position: so the
assets' stage can decide whether a command still refers to the asset that its caller named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import msgspec

from arco.catalog import contract_fold, governance_fold, observations
from arco.catalog.column_rows import column_id, new_column, put_column
from arco.catalog.contract_events import (
    ContractSet,
    ContractSetAdmitted,
    ContractWithdrawalAdmitted,
    ContractWithdrawn,
)
from arco.catalog.events import (
    AssetCreated,
    AssetDeclared,
    AssetDropped,
    AssetImported,
    AssetImportEnded,
    AssetLeft,
    AssetMoved,
    AssetNotice,
    AssetReleased,
    AssetRenamed,
    AssetReturned,
    AssetUpdated,
    ColumnAdded,
    ColumnDropped,
    ColumnUpdated,
    NamespaceCreated,
    NamespaceDropped,
    NamespaceUpdated,
    TextOrUnset,
)
from arco.catalog.governance import FIELDS, FIELDS_OF, encode_sla, values_at
from arco.catalog.governance_events import (
    AssetGoverned,
    AssetNoticeAddressed,
    NamespaceDeclared,
    NamespaceGoverned,
    NamespaceUndeclared,
)
from arco.catalog.governance_fold import AssetStatements, NamespaceStatements, Statements
from arco.catalog.governance_tables import (
    ASSET_STATEMENTS,
    DEPRECATIONS,
    NAMESPACE_STATEMENTS,
    DeprecationRow,
)
from arco.catalog.import_fold import end_import, import_columns
from arco.catalog.names import check_asset, check_column_name
from arco.catalog.schema_events import (
    BreakAccepted,
    ColumnRenamed,
    HeldSchemaDecided,
    SchemaObserved,
    SchemaWithdrawn,
)
from arco.catalog.schema_fold import (
    accept,
    decide,
    declare_columns,
    forget,
    observe,
    renamed,
    withdraw,
)
from arco.catalog.schema_tables import COLUMN_RENAMES, SCHEMA_TABLES, ColumnRenameRow
from arco.catalog.tables import (
    ASSET_CODE,
    ASSET_NAMES,
    ASSETS,
    COLUMNS,
    NAMESPACES,
    AssetCodeRow,
    AssetNameRow,
    AssetRow,
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
    """Derived: a new asset has its name."""

    TYPE: ClassVar[str] = "catalog.asset_registered"
    asset_id: str
    asset: AssetCreated


class AssetNameChanged(Payload, frozen=True, kw_only=True):
    """Derived: an asset has got another name."""

    TYPE: ClassVar[str] = "catalog.asset_name_changed"
    asset_id: str
    name: str


class ImportedAssetDescribed(AssetImported, frozen=True, kw_only=True):
    """Derived: the description of an imported asset that has its name."""

    TYPE: ClassVar[str] = "catalog.imported_asset_described"


class AssetDescribed(AssetDeclared, frozen=True, kw_only=True):
    """Derived: the declaration of an asset that has its name."""

    TYPE: ClassVar[str] = "catalog.asset_described"


# -- the directory ------------------------------------------------------------------------


def _create_namespace(rows: Rows, fact: Fact, e: NamespaceCreated) -> Iterator[Change]:
    if refusal := _bad_name(fact, lambda: check_name(e.namespace, "namespace")):
        yield refusal
        return
    if rows.get(NAMESPACES, e.namespace) is not None:
        yield refused(fact, "namespace_exists", f"namespace {e.namespace} already exists")
        return
    statements = NamespaceStatements(rows, fact, e.namespace)
    statements.set_fields("people", _governed(e))
    yield Put(NAMESPACES, replace(_new_namespace(fact, e), **statements.effective()))
    yield from statements.changes()
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
        statements = NamespaceStatements(rows, fact, e.namespace)
        statements.set_fields("people", _governed(e))
        yield Put(NAMESPACES, _touched(fact, row, _given(e, row) | statements.effective()))
        yield from statements.changes()
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
        statements = NamespaceStatements(rows, fact, e.namespace)
        statements.forget()
        yield Delete(NAMESPACES, (e.namespace,))
        yield from statements.changes()
        yield applied(fact)


def _govern_namespace(rows: Rows, fact: Fact, e: NamespaceGoverned) -> Iterator[Change]:
    row = rows.get(NAMESPACES, e.namespace)
    if row is None:
        yield _no_namespace(fact, e.namespace)
        return
    if _stale(e.expected_version, version := rows.version(NAMESPACES, e.namespace)):
        yield _changed_since(fact, f"namespace {e.namespace}", e.expected_version, version)
        return
    statements = NamespaceStatements(rows, fact, e.namespace)
    if refusal := _bad_change(fact, statements, e):
        yield refusal
        return
    yield Put(NAMESPACES, _touched(fact, row, statements.effective()))
    yield from statements.changes()
    yield applied(fact)


def _declare_namespace(rows: Rows, fact: Fact, e: NamespaceDeclared) -> Iterator[Change]:
    code = e.declaration
    fields = msgspec.structs.asdict(code) | {"sla": encode_sla(code.sla)}
    del fields["name"]
    yield from _say_of_namespace(rows, fact, code.name, fields)


def _undeclare_namespace(rows: Rows, fact: Fact, e: NamespaceUndeclared) -> Iterator[Change]:
    if rows.get(NAMESPACES, e.name) is not None:
        yield from _say_of_namespace(rows, fact, e.name, {})


def _say_of_namespace(
    rows: Rows, fact: Fact, namespace: str, fields: dict[str, Any]
) -> Iterator[Change]:
    """Replace the statement of code about a namespace."""
    row = rows.get(NAMESPACES, namespace)
    if row is None:
        row = _new_namespace(fact, NamespaceCreated(namespace=namespace))
    statements = NamespaceStatements(rows, fact, namespace)
    statements.say("code", values_at(**fields))
    if (changed := replace(row, **statements.effective())) != row:
        yield Put(NAMESPACES, _touched(fact, changed, {}))
    yield from statements.changes()


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


def _admit_contract(rows: Rows, fact: Fact, e: ContractSet) -> Iterator[Change]:
    """The fold of contracts decides whether it may be changed."""
    if refusal := _unnamed(rows, fact, e):
        yield refusal
    else:
        yield Emit(ContractSetAdmitted(asset_id=e.asset_id, command=e))


def _admit_withdrawal(rows: Rows, fact: Fact, e: ContractWithdrawn) -> Iterator[Change]:
    if refusal := _unnamed(rows, fact, e):
        yield refusal
    else:
        yield Emit(ContractWithdrawalAdmitted(asset_id=e.asset_id, command=e))


def _unnamed(rows: Rows, fact: Fact, e: ContractSet | ContractWithdrawn) -> Emit | None:
    named = rows.get(ASSET_NAMES, e.namespace, e.name)
    if named is not None and named.asset_id == e.asset_id:
        return None
    return _not_its_name(fact, e.asset_id, f"{e.namespace}.{e.name}")


def _declare(rows: Rows, fact: Fact, e: AssetDeclared) -> Iterator[Change]:
    """Code decides about names: a deployment was checked as a whole.

    An asset of that name may have been created by command since the check. It is removed: it has no
    data, and code would not find it. A fact cannot be refused: one with an invalid name raises, is
    skipped and counted.
    """
    check_asset(e.namespace, e.name)
    held = rows.get(ASSET_NAMES, e.namespace, e.name)
    if held is None:
        yield _with_one_more(rows, fact, e.namespace)
    elif held.asset_id != e.asset_id:
        yield Emit(AssetReleased(asset_id=held.asset_id))
    yield Put(ASSET_NAMES, AssetNameRow(e.namespace, e.name, e.asset_id))
    yield Emit(AssetDescribed(**msgspec.structs.asdict(e)))


def _with_one_more(rows: Rows, fact: Fact, name: str) -> Put:
    """A namespace, which may be new, with another asset."""
    new = NamespaceCreated(namespace=name)
    namespace = rows.get(NAMESPACES, name) or _new_namespace(fact, new)
    return Put(NAMESPACES, replace(namespace, assets=namespace.assets + 1))


def _import(rows: Rows, fact: Fact, e: AssetImported) -> Iterator[Change]:
    """An asset that got the name since the import's snapshot keeps it for the next import."""
    check_asset(e.namespace, e.name)
    held = rows.get(ASSET_NAMES, e.namespace, e.name)
    if held is None:
        yield _with_one_more(rows, fact, e.namespace)
        yield Put(ASSET_NAMES, AssetNameRow(e.namespace, e.name, e.asset_id))
    if held is None or held.asset_id == e.asset_id:
        yield Emit(ImportedAssetDescribed(**msgspec.structs.asdict(e)))


# -- assets -------------------------------------------------------------------------------


def _change_name(rows: Rows, fact: Fact, e: AssetNameChanged) -> Iterator[Change]:
    if (row := rows.get(ASSETS, e.asset_id)) is not None:
        names = [*row.previous_names, row.name]
        renamed = _touched(fact, row, {"name": e.name, "previous_names": names})
        yield from _put_asset(row, renamed)


def _put_asset(before: AssetRow | None, row: AssetRow) -> Iterator[Change]:
    yield Put(ASSETS, row)
    if row.deprecated:
        deprecation = DeprecationRow(row.asset_id, row.namespace, row.name, row.deprecated)
        yield Put(DEPRECATIONS, deprecation)
    elif before is not None and before.deprecated:
        yield Delete(DEPRECATIONS, (row.asset_id,))


def _leave(rows: Rows, fact: Fact, e: AssetLeft) -> Iterator[Change]:
    if (row := rows.get(ASSETS, e.asset_id)) is not None:
        yield Put(ASSETS, _touched(fact, row, {"active": False}))


def _return(rows: Rows, fact: Fact, e: AssetReturned) -> Iterator[Change]:
    if (row := rows.get(ASSETS, e.asset_id)) is not None:
        yield Put(ASSETS, _touched(fact, row, {"active": True, "project": e.project}))


def _register(rows: Rows, fact: Fact, e: AssetRegistered) -> Iterator[Change]:
    asset = e.asset
    statements = AssetStatements(rows, fact, e.asset_id)
    statements.set_fields("people", _governed(asset))
    ids = [column_id(fact.id, ordinal) for ordinal in range(len(asset.columns))]
    statements.set_columns("people", dict(zip(ids, asset.columns, strict=True)))
    row = row_from(AssetRow, asset, asset_id=e.asset_id, previous_names=[], **_created(fact))
    yield Put(ASSETS, replace(row, **statements.effective()))
    for ordinal, (id, column) in enumerate(zip(ids, asset.columns, strict=True)):
        governed = statements.effective(id)
        new = new_column(fact, (e.asset_id, id), column, ordinal, "person", governed)
        yield Put(COLUMNS, new)
    yield from statements.changes()


def _describe(rows: Rows, fact: Fact, e: AssetDescribed) -> Iterator[Change]:
    if e.kind:
        yield Put(ASSET_CODE, AssetCodeRow(e.asset_id, e.kind, e.code))
    row = rows.get(ASSETS, e.asset_id)
    before = row
    if row is None:
        created = AssetCreated(namespace=e.namespace, name=e.name)
        row = row_from(AssetRow, created, asset_id=e.asset_id, previous_names=[], **_created(fact))
    statements = AssetStatements(rows, fact, e.asset_id)
    statements.set_fields("code", {field: getattr(e, field) for field in FIELDS_OF["asset"]})
    columns = declare_columns(rows, fact, e, statements)
    change = _names(row, e) | {"project": e.project, "active": True} | statements.effective()
    if before is None or any(getattr(row, name) != value for name, value in change.items()):
        yield from _put_asset(before, _touched(fact, row, change))
    yield from columns
    yield from statements.changes()


def _names(row: AssetRow, e: AssetDescribed | ImportedAssetDescribed) -> dict[str, Any]:
    """The names of an asset: the current one, and the previous ones."""
    moved = (row.namespace, row.name) != (e.namespace, e.name)
    last = row.name if row.namespace == e.namespace else f"{row.namespace}.{row.name}"
    names = [*row.previous_names, last] if moved else row.previous_names
    return {"namespace": e.namespace, "name": e.name, "previous_names": names}


def _describe_imported(rows: Rows, fact: Fact, e: ImportedAssetDescribed) -> Iterator[Change]:
    row = before = rows.get(ASSETS, e.asset_id)
    if row is None:
        new = AssetCreated(namespace=e.namespace, name=e.name, kind=e.kind, format="")
        row = row_from(AssetRow, new, asset_id=e.asset_id, previous_names=[], **_created(fact))
    statements = AssetStatements(rows, fact, e.asset_id)
    fields = {"description": e.description, "owners": e.owners, "tags": e.tags}
    statements.set_fields("dbt", fields)
    columns = import_columns(rows, fact, e.asset_id, e.columns, statements)
    change = _names(row, e) | {"imported_from": e.source, "active": True}
    if row.imported_from and not row.project:
        change["kind"] = e.kind
    if not row.active:
        change["project"] = ""  # code does not have it any more: the import brings it back
    change |= statements.effective()
    if before is None or any(getattr(row, name) != value for name, value in change.items()):
        yield from _put_asset(before, _touched(fact, row, change))
    yield from columns
    yield from statements.changes()


def _end_import(rows: Rows, fact: Fact, e: AssetImportEnded) -> Iterator[Change]:
    row = rows.get(ASSETS, e.asset_id)
    if row is None or row.imported_from != e.source:
        return
    statements = AssetStatements(rows, fact, e.asset_id)
    columns = end_import(rows, fact, e.asset_id, statements)
    change = statements.effective() | {"imported_from": ""}
    if not row.project:
        change["active"] = False
    yield from _put_asset(row, _touched(fact, row, change))
    yield from columns
    yield from statements.changes()


def _address(rows: Rows, fact: Fact, e: AssetNotice) -> Iterator[Change]:
    row = rows.get(ASSETS, e.asset_id)
    if row is not None:
        yield Emit(
            AssetNoticeAddressed(
                **msgspec.structs.asdict(e),
                asset=f"{row.namespace}.{row.name}",
                project=row.project,
                owners=tuple(row.owners),
                tags=row.tags,
            )
        )


def _remove(rows: Rows, fact: Fact, e: AssetReleased) -> Iterator[Change]:
    statements = AssetStatements(rows, fact, e.asset_id)
    statements.forget()
    yield Delete(ASSETS, (e.asset_id,))
    yield Delete(DEPRECATIONS, (e.asset_id,))
    yield from statements.changes()
    yield Delete(ASSET_CODE, (e.asset_id,))
    for column in rows.scan(COLUMNS, e.asset_id):
        yield Delete(COLUMNS, (e.asset_id, column.column_id))
    yield from forget(rows, e.asset_id)


def _update_asset(rows: Rows, fact: Fact, e: AssetUpdated) -> Iterator[Change]:
    row = rows.get(ASSETS, e.asset_id)
    if row is None:
        yield _no_asset(fact, e.asset_id)
    elif _misnamed(row, e.asset_key):
        yield _not_its_name(fact, e.asset_id, e.asset_key)
    elif _stale(e.expected_version, version := rows.version(ASSETS, e.asset_id)):
        yield _changed_since(fact, f"asset {e.asset_id}", e.expected_version, version)
    else:
        statements = AssetStatements(rows, fact, e.asset_id)
        statements.set_fields("people", _governed(e))
        yield Put(ASSETS, _touched(fact, row, _given(e, row) | statements.effective()))
        yield from statements.changes()
        yield applied(fact)


def _govern_asset(rows: Rows, fact: Fact, e: AssetGoverned) -> Iterator[Change]:
    row = rows.get(ASSETS, e.asset_id)
    column = _column(rows, e) if e.column_id else None
    version = rows.version(ASSETS, e.asset_id)
    if column is not None:
        version = rows.version(COLUMNS, e.asset_id, column.column_id)
    if row is None:
        yield _no_asset(fact, e.asset_id)
        return
    if _misnamed(row, e.asset_key):
        yield _not_its_name(fact, e.asset_id, e.asset_key)
        return
    if e.column_id and (column is None or column.name != e.column_name):
        yield _no_column(fact, e.column_id)
        return
    what = f"{e.asset_key}.{e.column_name}" if e.column_id else f"asset {e.asset_key}"
    if _stale(e.expected_version, version):
        yield _changed_since(fact, what, e.expected_version, version)
        return
    statements = AssetStatements(rows, fact, e.asset_id)
    column_id = "" if column is None else column.column_id
    if refusal := _bad_change(fact, statements, e, column_id):
        yield refusal
        return
    effective = statements.effective(column_id)
    if column is None:
        yield from _put_asset(row, _touched(fact, row, effective))
    else:
        yield Put(COLUMNS, replace(column, **effective, updated_at=fact.received_at))
    yield from statements.changes()
    yield applied(fact)


def _bad_change(
    fact: Fact, statements: Statements, e: AssetGoverned | NamespaceGoverned, column_id: str = ""
) -> Emit | None:
    """Change the statement of people; returns the refusal if a value cannot be set or withdrawn."""
    try:
        statements.patch(e.set, e.withdraw, column_id)
    except Invalid as error:
        hint = f"; {error.hint}" if error.hint else ""
        return refused(fact, "invalid_value", f"{error.message}{hint}")
    return None


def _add_column(rows: Rows, fact: Fact, e: ColumnAdded) -> Iterator[Change]:
    columns = rows.scan(COLUMNS, e.asset_id)
    named = [column for column in columns if column.name == e.column.name]
    asset = rows.get(ASSETS, e.asset_id)
    if refusal := _bad_name(fact, lambda: check_column_name(e.column.name)):
        yield refusal
    elif asset is None:
        yield _no_asset(fact, e.asset_id)
    elif _misnamed(asset, e.asset_key):
        yield _not_its_name(fact, e.asset_id, e.asset_key)
    elif any(column.status == "Active" for column in named):
        yield _column_taken(fact, e.column.name)
    else:
        ordinal = 1 + max((column.ordinal for column in columns), default=-1)
        id = named[0].column_id if named else column_id(fact.id, ordinal)
        statements = AssetStatements(rows, fact, e.asset_id)
        statements.set_columns("people", {id: e.column})
        governed = statements.effective(id)
        if named:  # it was there before
            declared = replace(named[0], type=e.column.type, nullable=e.column.nullable, **governed)
            back = replace(declared, status="Active", declared_by="person")
            yield from put_column(fact, named[0], back)
        else:
            key = (e.asset_id, id)
            yield Put(COLUMNS, new_column(fact, key, e.column, ordinal, "person", governed))
        yield from statements.changes()
        yield applied(fact)


def _update_column(rows: Rows, fact: Fact, e: ColumnUpdated) -> Iterator[Change]:
    row = _column(rows, e)
    if row is None:
        yield _no_column(fact, e.column_id)
    elif refusal := _other_column(rows, fact, e, row) or _bad_new_name(fact, e.name):
        yield refusal
    elif any(
        each.name == e.name and each.status == "Active" and each.column_id != row.column_id
        for each in rows.scan(COLUMNS, e.asset_id)
    ):
        yield _column_taken(fact, str(e.name))
    else:
        if e.name is not None and e.name != row.name:
            yield Put(COLUMN_RENAMES, _column_rename(rows, fact, row, e.name))
        statements = AssetStatements(rows, fact, e.asset_id)
        statements.set_fields("people", _governed(e), row.column_id)
        change = _given(e, row) | statements.effective(row.column_id)
        change["column_id"] = row.column_id
        if e.type is not None or e.nullable is not None:
            change["declared_by"] = row.declared_by or "person"
        yield from put_column(fact, row, replace(row, **change), touch=True)
        yield from statements.changes()
        yield applied(fact)


def _column_rename(rows: Rows, fact: Fact, row: ColumnRow, name: str) -> ColumnRenameRow:
    earlier = rows.scan(COLUMN_RENAMES, row.asset_id)
    return ColumnRenameRow(
        asset_id=row.asset_id,
        column_id=row.column_id,
        number=sum(each.column_id == row.column_id for each in earlier),
        old_name=row.name,
        new_name=name,
        changed_in_version=0,
        change_type="GovernedRename",
        reason="",
        renamed_by=fact.actor,
        renamed_at=fact.received_at,
    )


def _rename_column(rows: Rows, fact: Fact, e: ColumnRenamed) -> Iterator[Change]:
    row = _column(rows, e)
    if row is None:
        yield _no_column(fact, e.column_id)
    elif refusal := _other_column(rows, fact, e, row) or _bad_new_name(fact, e.new_name):
        yield refusal
    elif e.new_name == row.name or (row.status == "Active" and _has_column(rows, e)):
        yield _column_taken(fact, e.new_name)
    elif row.declared_by == "code":
        message = f"the column {row.name} is declared in code; rename it there with renamed_from"
        yield refused(fact, "asset_deployed", message)
    else:
        yield from renamed(rows, fact, e, row)
        yield applied(fact)


def _has_column(rows: Rows, e: ColumnRenamed) -> bool:
    columns = rows.scan(COLUMNS, e.asset_id)
    return any(c.name == e.new_name and c.status == "Active" for c in columns)


def _drop_column(rows: Rows, fact: Fact, e: ColumnDropped) -> Iterator[Change]:
    row = _column(rows, e)
    if row is None:
        yield _no_column(fact, e.column_id)
    elif refusal := _other_column(rows, fact, e, row):
        yield refusal
    elif row.actual_type:  # a column in the data stays
        yield from put_column(fact, row, replace(row, declared_by=""))
        yield applied(fact)
    else:
        statements = AssetStatements(rows, fact, e.asset_id)
        statements.forget_columns({row.column_id})
        yield Delete(COLUMNS, (e.asset_id, row.column_id))
        yield from statements.changes()
        yield applied(fact)


def _column(
    rows: Rows, e: AssetGoverned | ColumnUpdated | ColumnDropped | ColumnRenamed
) -> ColumnRow | None:
    """The column of a command, by its id, or by its name if no column has that id.

    A column that only outputs have gets its id from the first output that was folded. A rebuild may
    fold outputs that an older version had skipped: then ids in commands differ. Updates and drops
    concern columns of people only, and are matched by id.
    """
    row = rows.get(COLUMNS, e.asset_id, e.column_id)
    if row is not None or isinstance(e, ColumnUpdated | ColumnDropped):
        return row
    named = [each for each in rows.scan(COLUMNS, e.asset_id) if each.name == e.column_name]
    return min(named, key=lambda each: each.status != "Active", default=None)


def _given(e: Payload, row: Row) -> dict[str, Any]:
    """The fields of an update for the row."""
    shared = {name: getattr(e, name) for name in e.__struct_fields__ if hasattr(row, name)}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in shared.items()
        if value is not None
    }


def _governed(e: Payload) -> dict[str, Any]:
    """The statement of a person by a command that replaces whole fields."""
    given = {name: getattr(e, name) for name in FIELDS if name in e.__struct_fields__}
    return {name: value for name, value in given.items() if value is not None}


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


def _misnamed(row: AssetRow, asset_key: TextOrUnset) -> bool:
    return asset_key not in (msgspec.UNSET, f"{row.namespace}.{row.name}")


def _not_its_name(fact: Fact, asset_id: str, asset_key: TextOrUnset) -> Emit:
    message = f"asset {asset_id} does not have the name {asset_key}; look it up again"
    return refused(fact, "asset_not_found", message)


def _other_column(
    rows: Rows, fact: Fact, e: ColumnUpdated | ColumnDropped | ColumnRenamed, row: ColumnRow
) -> Emit | None:
    """The refusal if the column or its asset has another name or version than expected."""
    asset = rows.get(ASSETS, e.asset_id)
    if asset is not None and _misnamed(asset, e.asset_key):
        return _not_its_name(fact, e.asset_id, e.asset_key)
    if e.column_name not in (msgspec.UNSET, row.name):
        message = f"column {e.column_id} no longer has the name {e.column_name}; look it up again"
        return refused(fact, "column_not_found", message)
    version = rows.version(COLUMNS, e.asset_id, row.column_id)
    expected = None if isinstance(e.expected_version, msgspec.UnsetType) else e.expected_version
    if _stale(expected, version):
        return _changed_since(fact, f"column {row.name}", expected, version)
    return None


def _bad_name(fact: Fact, check: Callable[[], object]) -> Emit | None:
    """The refusal if a name is invalid: the writer of the event may not have checked it."""
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
    (NAMESPACES, ASSET_NAMES, NAMESPACE_STATEMENTS),
    (
        On(NamespaceCreated, _by_namespace, _create_namespace),
        On(NamespaceUpdated, _by_namespace, _update_namespace),
        On(NamespaceDropped, _by_namespace, _drop_namespace),
        On(NamespaceGoverned, _by_namespace, _govern_namespace),
        On(NamespaceDeclared, by("declaration.name"), _declare_namespace),
        On(NamespaceUndeclared, by("name"), _undeclare_namespace),
        On(AssetCreated, _by_namespace, _claim),
        On(AssetRenamed, _by_namespace, _rename),
        On(AssetDropped, _by_namespace, _release),
        On(AssetMoved, _by_namespace, _give_up),
        On(AssetDeclared, _by_namespace, _declare),
        On(ContractSet, _by_namespace, _admit_contract),
        On(ContractWithdrawn, _by_namespace, _admit_withdrawal),
        On(AssetImported, _by_namespace, _import),
    ),
)
ASSETS_STAGE = Stage(
    "assets",
    (ASSETS, COLUMNS, ASSET_CODE, ASSET_STATEMENTS, DEPRECATIONS, *SCHEMA_TABLES),
    (
        On(AssetRegistered, _by_asset, _register),
        On(AssetNameChanged, _by_asset, _change_name),
        On(AssetReleased, _by_asset, _remove),
        On(AssetDescribed, _by_asset, _describe),
        On(ImportedAssetDescribed, _by_asset, _describe_imported),
        On(AssetImportEnded, _by_asset, _end_import),
        On(AssetLeft, _by_asset, _leave),
        On(AssetReturned, _by_asset, _return),
        On(AssetUpdated, _by_asset, _update_asset),
        On(AssetGoverned, _by_asset, _govern_asset),
        On(ColumnAdded, _by_asset, _add_column),
        On(ColumnUpdated, _by_asset, _update_column),
        On(ColumnDropped, _by_asset, _drop_column),
        On(AssetNotice, _by_asset, _address),
        On(SchemaObserved, _by_asset, observe),
        On(HeldSchemaDecided, _by_asset, decide),
        On(SchemaWithdrawn, _by_asset, withdraw),
        On(BreakAccepted, _by_asset, accept),
        On(ColumnRenamed, _by_asset, _rename_column),
    ),
)
STAGES = (
    DIRECTORY,
    contract_fold.STAGE,
    ASSETS_STAGE,
    observations.STAGE,
    *governance_fold.STAGES,
)
