"""The fold of schemas: versions, identities of columns, renames, accepted breaks.

Most outputs have the current schema: one row is read, and none is written. Otherwise the columns
are matched with those of the current version (by name, by a governed rename, by inference), and
then with columns that were there before: a column that comes back has the id that it had.

The order of reports decides what is current. A held output counts from its report on, not from its
approval: later outputs stay current. So the position of the current version is kept exact while an
output is held, and only then.

If a current version is quarantined by a person, the one before it is current again, and so is its
schema, if no newer output of the asset is current. With partitions this is known only for an output
that introduced its schema, if no other output has had it since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from arco.catalog.column_identity import (
    ColumnRename,
    governed_renames,
    identified,
    rename_row,
    rename_rows,
    renames_between,
    renames_of,
    renames_out,
)
from arco.catalog.column_rows import (
    UNSAID,
    column_id,
    is_inside,
    new_column,
    put_column,
    show_actual,
)
from arco.catalog.events import AssetDeclared, Column
from arco.catalog.governance_fold import AssetStatements
from arco.catalog.schema_events import (
    WHOLE,
    BreakAccepted,
    ColumnRenamed,
    HeldSchemaDecided,
    SchemaObserved,
    SchemaWithdrawn,
)
from arco.catalog.schema_tables import (
    ACCEPTED_BREAKS,
    COLUMN_RENAMES,
    HELD_SCHEMAS,
    SCHEMA_REGISTRY,
    SCHEMA_TABLES,
    SCHEMA_VERSIONS,
    VERSIONS_KEPT,
    AcceptedBreakRow,
    ColumnRenameRow,
    HeldSchemaRow,
    SchemaRegistryRow,
    SchemaVersionRow,
)
from arco.catalog.tables import ASSETS, COLUMNS, ColumnRow, ColumnStatus
from arco.columns.compatibility import compare
from arco.columns.schema_columns import (
    SchemaColumn,
    actual_columns,
    declared_type,
    hash_of,
    required_names,
    text_hash,
    with_known_nulls,
)
from arco.state.fold import Change, Delete, Fact, Put, Rows
from arco.state.table import Table
from servo.contract.task import ColumnInfo

replace = msgspec.structs.replace
_infos = msgspec.json.Decoder(tuple[ColumnInfo, ...])


def _registry(rows: Rows, asset_id: str) -> SchemaRegistryRow:
    row = rows.get(SCHEMA_REGISTRY, asset_id)
    return row or SchemaRegistryRow(
        asset_id,
        current=0,
        current_hash="",
        position=0,
        declared=0,
        declared_hash="",
        versions=0,
        held=0,
        hashes={},
    )


# -- outputs ------------------------------------------------------------------------------


def observe(rows: Rows, fact: Fact, e: SchemaObserved) -> Iterator[Change]:
    if rows.get(ASSETS, e.asset_id) is None:
        return
    if not e.held:
        yield from _register(rows, fact, e)
        return
    if rows.get(HELD_SCHEMAS, e.asset_id, e.materialization_id) is None:
        columns = msgspec.json.encode(e.columns).decode()
        key = e.asset_id, e.materialization_id
        held = HeldSchemaRow(*key, e.run_id, columns, fact.received_at, fact.position)
        yield Put(HELD_SCHEMAS, held)
        registry = _registry(rows, e.asset_id)
        yield Put(SCHEMA_REGISTRY, replace(registry, held=registry.held + 1))


def decide(rows: Rows, fact: Fact, e: HeldSchemaDecided) -> Iterator[Change]:
    held = rows.get(HELD_SCHEMAS, e.asset_id, e.materialization_id)
    if held is None:
        return
    yield Delete(HELD_SCHEMAS, (e.asset_id, e.materialization_id))
    registry = _registry(rows, e.asset_id)
    yield Put(SCHEMA_REGISTRY, replace(registry, held=registry.held - 1))
    if not e.approved:
        return
    if held.version:
        yield from _restore(rows, fact, replace(registry, held=registry.held - 1), held)
        return
    observed = SchemaObserved(
        asset_id=e.asset_id,
        materialization_id=e.materialization_id,
        run_id=held.run_id,
        columns=_infos.decode(held.columns),
    )
    yield from _accept_by_approval(rows, fact, e, observed)
    yield from _register(rows, replace(fact, position=held.position), observed, registry.held - 1)


def _register(
    rows: Rows, fact: Fact, e: SchemaObserved, held: int | None = None
) -> Iterator[Change]:
    """`held`: the number of held outputs, if this fact has changed it."""
    registry = _registry(rows, e.asset_id)
    registry = registry if held is None else replace(registry, held=held)
    columns, digest = _known_nulls(rows, registry, e.columns)
    is_newest = fact.position >= registry.position
    if digest == registry.current_hash:
        position = fact.position if registry.held and is_newest else registry.position
        repeated = registry.repeated or bool(e.partition)
        if (position, repeated) != (registry.position, registry.repeated):
            yield Put(SCHEMA_REGISTRY, replace(registry, position=position, repeated=repeated))
        return
    before = _current(rows, registry)
    number = registry.hashes.get(digest, 0)
    stored = rows.get(SCHEMA_VERSIONS, e.asset_id, number) if number else None
    existing = rows.scan(COLUMNS, e.asset_id)
    renames: list[ColumnRenameRow] = []
    if stored is None:
        number = registry.versions + 1
        columns, renamed = identified(rows, fact, before, columns, existing, e.asset_id)
        renames = list(rename_rows(rows, fact, e.asset_id, renamed, number))
        base = before or _declared(rows, registry)
        old = () if before is None else before.decoded_columns()
        governed = None if before is None else governed_renames(old, existing)
        version = _version(fact, e.asset_id, number, digest, columns, base, renames=governed)
        registry = replace(registry, versions=number, hashes={**registry.hashes, digest: number})
    else:
        version = stored
        renames = list(renames_out(rows, fact, e.asset_id, stored.decoded_columns(), number))
    first = not version.run_id
    version = replace(
        version,
        run_id=e.run_id if first else version.run_id,
        materialization_id=e.materialization_id if first else version.materialization_id,
    )
    for rename in renames:
        yield Put(COLUMN_RENAMES, rename)
    if not is_newest:
        yield Put(SCHEMA_VERSIONS, version)
        yield from _keep_few(rows, registry)
        return
    yield from _make_current(rows, fact, registry, before, version)
    registry = replace(
        registry, current=number, current_hash=digest, position=fact.position, repeated=False
    )
    yield from _keep_few(rows, registry)


def _make_current(
    rows: Rows,
    fact: Fact,
    registry: SchemaRegistryRow,
    before: SchemaVersionRow | None,
    version: SchemaVersionRow,
) -> Iterator[Change]:
    """The rows of versions and of columns; the caller puts the registry's."""
    if before is not None:
        yield from _end_accepted(rows, before, version, by_output=bool(registry.declared))
        yield Put(SCHEMA_VERSIONS, replace(before, current=False))
    yield Put(SCHEMA_VERSIONS, replace(version, current=True))
    yield from show_actual(rows, fact, registry, version)


def withdraw(rows: Rows, fact: Fact, e: SchemaWithdrawn) -> Iterator[Change]:
    """Make the schema of the version before a quarantined one current."""
    registry = _registry(rows, e.asset_id)
    before = _current(rows, registry)
    if before is None or rows.get(HELD_SCHEMAS, e.asset_id, e.materialization_id) is not None:
        return
    if e.partition:
        is_newest = e.position == registry.position and not registry.repeated
    else:
        is_newest = e.position >= registry.position
    version = _version_of(rows, registry, e) if is_newest else None
    if version is None:
        return
    key = e.asset_id, e.materialization_id
    held = HeldSchemaRow(*key, e.run_id, "", fact.received_at, e.position, before.version)
    yield Put(HELD_SCHEMAS, held)
    registry = replace(registry, held=registry.held + 1, repeated=bool(e.partition))
    yield from _switch(rows, fact, registry, version, e.previous_position)


def _restore(
    rows: Rows, fact: Fact, registry: SchemaRegistryRow, held: HeldSchemaRow
) -> Iterator[Change]:
    """Make the schema of a version that was withdrawn current, if nothing newer came since."""
    version = rows.get(SCHEMA_VERSIONS, held.asset_id, held.version)
    if version is not None and held.position >= registry.position:
        registry = replace(registry, repeated=False)
        yield from _switch(rows, fact, registry, version, held.position)


def _switch(
    rows: Rows, fact: Fact, registry: SchemaRegistryRow, version: SchemaVersionRow, position: int
) -> Iterator[Change]:
    if version.version != registry.current:
        yield from _make_current(rows, fact, registry, _current(rows, registry), version)
    digest = version.schema_hash
    registry = replace(registry, current=version.version, current_hash=digest, position=position)
    yield Put(SCHEMA_REGISTRY, registry)


def _version_of(
    rows: Rows, registry: SchemaRegistryRow, e: SchemaWithdrawn
) -> SchemaVersionRow | None:
    """The newest version that the output before a quarantined one can have."""
    current = registry.current
    for number in sorted(registry.hashes.values(), key=lambda n: (n != current, -n)):
        row = rows.get(SCHEMA_VERSIONS, registry.asset_id, number)
        if row is None or not row.run_id:
            continue
        columns = [(each.name, each.type_text) for each in row.decoded_columns()]
        is_first = row.materialization_id == e.previous_id
        if is_first or text_hash(columns) == e.previous_schema_hash:
            return row
    return None


def _known_nulls(
    rows: Rows, registry: SchemaRegistryRow, infos: Sequence[ColumnInfo]
) -> tuple[tuple[SchemaColumn, ...], str]:
    columns = actual_columns(infos)
    digest = hash_of(columns)
    if digest == registry.current_hash:
        return columns, digest
    required: set[str] = set()
    for version in (_current(rows, registry), _declared(rows, registry)):
        if version is not None:
            required |= required_names(version.decoded_columns())
    if required:
        columns = with_known_nulls(columns, infos, required)
    return columns, hash_of(columns)


def _current(rows: Rows, registry: SchemaRegistryRow) -> SchemaVersionRow | None:
    if not registry.current:
        return None
    return rows.get(SCHEMA_VERSIONS, registry.asset_id, registry.current)


def _declared(rows: Rows, registry: SchemaRegistryRow) -> SchemaVersionRow | None:
    if not registry.declared:
        return None
    return rows.get(SCHEMA_VERSIONS, registry.asset_id, registry.declared)


def _version(
    fact: Fact,
    asset_id: str,
    number: int,
    digest: str,
    columns: Sequence[SchemaColumn],
    before: SchemaVersionRow | None,
    *,
    declared: bool = False,
    renames: Mapping[str, str] | None = None,
) -> SchemaVersionRow:
    """`renames` are the governed ones, where some others are inferred."""
    changes: tuple[Any, ...] = ()
    if before is not None:
        old = before.decoded_columns()
        governed = renames_between(old, columns) if renames is None else renames
        changes = compare(old, columns, "full", governed).changes
    return SchemaVersionRow(
        asset_id=asset_id,
        version=number,
        schema_hash=digest,
        source="declaration" if declared else "output",
        current=False,
        declared=declared,
        columns=msgspec.json.encode(columns).decode(),
        changes=msgspec.json.encode(changes).decode(),
        run_id="",
        materialization_id="",
        registered_at=fact.received_at,
        registered_by=fact.actor,
        position=fact.position,
    )


def _keep_few(rows: Rows, registry: SchemaRegistryRow) -> Iterator[Change]:
    """Put the registry's row, and delete versions beyond the limit."""
    pinned = {registry.current, registry.declared, registry.versions}
    old = [n for n in registry.hashes.values() if n <= registry.versions - VERSIONS_KEPT]
    expired = set(old) - pinned
    for number in sorted(expired):
        yield Delete(SCHEMA_VERSIONS, (registry.asset_id, number))
    hashes = {digest: n for digest, n in registry.hashes.items() if n not in expired}
    yield Put(SCHEMA_REGISTRY, replace(registry, hashes=hashes))


# -- declarations -------------------------------------------------------------------------


class _Declared(msgspec.Struct, frozen=True):
    column: Column
    row: ColumnRow
    before: ColumnRow | None


def declare_columns(
    rows: Rows, fact: Fact, e: AssetDeclared, statements: AssetStatements
) -> list[Change]:
    """Declared columns are added or updated by name; columns that code does not name any more stay
    if they are in the data or were added by a person, and are inactive otherwise. Updates the
    `statements`."""
    existing = rows.scan(COLUMNS, e.asset_id)
    registry = _registry(rows, e.asset_id)
    changes: list[Change] = []
    declared = _declared_columns(rows, fact, e, existing, registry, changes)
    statements.set_columns("code", {each.row.column_id: each.column for each in declared})
    for each in declared:
        row = replace(each.row, **statements.effective(each.row.column_id))
        before = row if each.before is None else each.before
        changes += put_column(fact, before, row, touch=each.before is None)
    ids = {each.row.column_id for each in declared}
    for row in existing:
        if row.declared_by == "code" and row.column_id not in ids:
            status: ColumnStatus = "Active" if row.actual_type else "Inactive"
            undeclared = replace(row, declared_by="", lacking_version=0, status=status)
            changes += put_column(fact, row, undeclared)
    columns = [
        SchemaColumn(
            name=each.column.name,
            type=declared_type(each.column.type),
            nullable=each.column.nullable,
            column_id=each.row.column_id,
        )
        for each in declared
        if "." not in each.column.name
    ]
    changes += _declare_version(rows, fact, registry, columns)
    return changes


def _declared_columns(
    rows: Rows,
    fact: Fact,
    e: AssetDeclared,
    existing: Sequence[ColumnRow],
    registry: SchemaRegistryRow,
    renames: list[Change],
) -> list[_Declared]:
    """The columns that code names, with the rows that they have, or had under another name."""
    active = {row.name: row for row in existing if row.status == "Active"}
    inactive = {row.name: row for row in existing if row.status == "Inactive"}
    names = [row.name for row in existing]
    ordinal = 1 + max((row.ordinal for row in existing), default=-1)
    ids: set[str] = set()
    declared: list[_Declared] = []
    for column in e.columns:
        row = active.get(column.name) or inactive.get(column.name)
        old = "" if column.renamed_from is msgspec.UNSET else column.renamed_from
        former = active.get(old) or inactive.get(old)
        before = row
        if old and row is None and former is not None and former.column_id not in ids:
            before, row = former, replace(former, name=column.name, renaming_to="")
            rename = ColumnRename(row.column_id, former.name, column.name, "GovernedRename")
            earlier = renames_of(rows, e.asset_id, row.column_id)
            version = 0 if former.actual_type else registry.versions + 1
            changed = rename_row(fact, e.asset_id, rename, len(earlier), version)
            renames.append(Put(COLUMN_RENAMES, changed))
        if row is None:
            key = e.asset_id, column_id(fact.id, ordinal)
            row = new_column(fact, key, column, ordinal, "code", UNSAID)
            lacks = not is_inside(column.name, names)
            row = replace(row, lacking_version=registry.current if lacks else 0)
            ordinal += 1
        else:
            row = replace(
                row,
                type=column.type or row.type,
                nullable=column.nullable,
                status="Active",
                declared_by="code",
            )
        ids.add(row.column_id)
        declared.append(_Declared(column, row, before))
    return declared


def _declare_version(
    rows: Rows, fact: Fact, registry: SchemaRegistryRow, columns: Sequence[SchemaColumn]
) -> Iterator[Change]:
    digest = hash_of(columns) if columns else ""
    if digest == registry.declared_hash:
        return
    before = _declared(rows, registry)
    if before is not None:
        yield Put(SCHEMA_VERSIONS, replace(before, declared=False))
    number = registry.hashes.get(digest, 0)
    if columns and not number:
        number = registry.versions + 1
        version = _version(fact, registry.asset_id, number, digest, columns, before, declared=True)
        yield Put(SCHEMA_VERSIONS, version)
        registry = replace(registry, versions=number, hashes={**registry.hashes, digest: number})
    elif columns:
        stored = rows.get(SCHEMA_VERSIONS, registry.asset_id, number)
        if stored is not None:
            yield Put(SCHEMA_VERSIONS, replace(stored, declared=True))
            if before is not None:
                yield from _end_accepted(rows, before, stored)
    yield from _keep_few(rows, replace(registry, declared=number, declared_hash=digest))


# -- people -------------------------------------------------------------------------------


def renamed(rows: Rows, fact: Fact, e: ColumnRenamed, row: ColumnRow) -> Iterator[Change]:
    """The rows of a valid rename."""
    others = [each for each in rows.scan(COLUMNS, e.asset_id) if each.column_id != row.column_id]
    target = next(
        (each for each in others if each.name == e.new_name and each.status == "Active"), None
    )
    registry = _registry(rows, e.asset_id)
    rename = ColumnRename(row.column_id, row.name, e.new_name, "GovernedRename")
    number = len(renames_of(rows, e.asset_id, row.column_id))
    pending = bool(row.actual_type) and target is None
    version = 0 if pending else registry.current
    yield Put(COLUMN_RENAMES, rename_row(fact, e.asset_id, rename, number, version, e.reason))
    if e.reason:  # accepted by name, with a reason
        yield _accepted(fact, registry, row.name, e.reason, "rename", e.new_name)
    if target is not None:
        yield from _join(rows, fact, registry, row, target)
    elif pending:
        yield from put_column(fact, row, replace(row, renaming_to=e.new_name))
    else:
        yield from put_column(fact, row, replace(row, name=e.new_name, renaming_to=""))


def _join(
    rows: Rows, fact: Fact, registry: SchemaRegistryRow, row: ColumnRow, target: ColumnRow
) -> Iterator[Change]:
    """Join a removed and an added column: one column, with the older id."""
    statements = AssetStatements(rows, fact, row.asset_id)
    statements.join_columns(target.column_id, row.column_id)
    joined = replace(
        target,
        column_id=row.column_id,
        **statements.effective(row.column_id),
        first_version=row.first_version or target.first_version,
        created_at=row.created_at,
    )
    yield Delete(COLUMNS, (target.asset_id, target.column_id))
    yield from put_column(fact, row, joined)
    yield from statements.changes()
    for version in rows.scan(SCHEMA_VERSIONS, registry.asset_id):
        columns = version.decoded_columns()
        if any(each.column_id == target.column_id for each in columns):
            corrected = [
                replace(each, column_id=row.column_id)
                if each.column_id == target.column_id
                else each
                for each in columns
            ]
            text = msgspec.json.encode(corrected).decode()
            yield Put(SCHEMA_VERSIONS, replace(version, columns=text))


def accept(rows: Rows, fact: Fact, e: BreakAccepted) -> Iterator[Change]:
    if e.column != WHOLE:
        registry = _registry(rows, e.asset_id)
        yield _accepted(fact, registry, e.column, e.reason, "deploy", e.deployment_id)


def _end_accepted(
    rows: Rows, before: SchemaVersionRow, after: SchemaVersionRow, *, by_output: bool = False
) -> Iterator[Put]:
    """An accepted change ends when its column is as it was before.

    `by_output`: by an output. For an asset with declared columns, only a declaration ends what a
    deployment accepted: runs of older code may still be writing.
    """
    old, new = _by_name(before), _by_name(after)
    for row in rows.scan(ACCEPTED_BREAKS, after.asset_id):
        if (
            row.is_over
            or row.up_to_version < after.version
            or (by_output and row.source == "deploy")
        ):
            continue
        source = rows.get(SCHEMA_VERSIONS, row.asset_id, row.from_version)
        was = new if source is None else _by_name(source)
        if old.get(row.column) != new.get(row.column) == was.get(row.column):
            yield Put(ACCEPTED_BREAKS, replace(row, is_over=True))


def _by_name(version: SchemaVersionRow) -> dict[str, tuple[Any, ...]]:
    return {each.name: (each.type, each.nullable) for each in version.decoded_columns()}


def _accepted(
    fact: Fact,
    registry: SchemaRegistryRow,
    column: str,
    reason: str,
    source: Literal["deploy", "approval", "rename"],
    reference: str,
) -> Put:
    row = AcceptedBreakRow(
        asset_id=registry.asset_id,
        column=column,
        position=fact.position,
        up_to_version=registry.versions,
        reason=reason,
        source=source,
        reference=reference,
        accepted_by=fact.actor,
        accepted_at=fact.received_at,
        from_version=registry.current,
    )
    return Put(ACCEPTED_BREAKS, row)


def _accept_by_approval(
    rows: Rows, fact: Fact, e: HeldSchemaDecided, observed: SchemaObserved
) -> Iterator[Change]:
    """The approval of an output accepts the breaks of its schema."""
    registry = _registry(rows, e.asset_id)
    before = _current(rows, registry)
    if before is None:
        return
    columns, digest = _known_nulls(rows, registry, observed.columns)
    if digest in registry.hashes:
        return
    old = before.decoded_columns()
    renames = governed_renames(old, rows.scan(COLUMNS, e.asset_id))
    breaks = compare(old, columns, "full", renames).violations
    reason = e.reason or "approved"
    for column in dict.fromkeys(each.column for each in breaks):
        yield _accepted(fact, registry, column, reason, "approval", e.materialization_id)


def forget(rows: Rows, asset_id: str) -> Iterator[Change]:
    """Delete the schemas of an asset that is removed for good."""
    tables: tuple[Table[Any], ...] = SCHEMA_TABLES
    for table in tables:
        for row in rows.scan(table, asset_id):
            yield Delete(table, table.key_of(row))
