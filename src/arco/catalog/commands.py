"""Changes of the catalog: each method validates, appends one command and waits (Tier 1).

Names become ids on the snapshot that Tier 1 provides: for a repeated idempotency key, that is the
snapshot before the first decision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, Unpack

import msgspec

from arco.catalog import events
from arco.catalog.governance import check_pii, check_sensitivity
from arco.catalog.names import MAX_ENTRIES, MAX_TEXT, check_column_name, check_printable
from arco.catalog.reader import CatalogReader, CodeDeclaration
from arco.catalog.schema_events import ColumnRenamed
from arco.catalog.schema_reader import SchemaReader
from arco.catalog.tables import ColumnRow
from arco.errors import Invalid, NotFound, Refused
from arco.log.envelope import Payload
from arco.state.snapshot import Snapshot
from arco.state.tier1 import Acknowledged, Tier1
from servo.contract.keys import AssetKey, check_name
from servo.suggest import did_you_mean

CommandOf = Callable[[CatalogReader], Payload]
MAX_COLUMNS = 5_000


class Details(TypedDict, total=False):
    """What people write about a namespace or an asset. A field that is None is not given."""

    description: str | None
    owners: Sequence[str] | None
    tags: Mapping[str, str] | None
    properties: Mapping[str, str] | None


class DataDetails(Details, total=False):
    kind: str | None
    format: str | None
    location: str | None


class ColumnChanges(TypedDict, total=False):
    name: str | None
    type: str | None
    nullable: bool | None
    description: str | None
    pii: str | None
    sensitivity: str | None


class CatalogCommands:
    """`declared` looks up the declaration of an asset in deployed code.

    Declared assets are not renamed or dropped here: the catalog and the code would have different
    names.
    """

    def __init__(
        self,
        tier1: Tier1,
        declared: Callable[[Snapshot, str], CodeDeclaration | None],
        actor: str = "",
    ) -> None:
        self._tier1 = tier1
        self._declared = declared
        self._actor = actor

    def create_namespace(
        self, namespace: str, *, idempotency_key: str = "", **details: Unpack[Details]
    ) -> Acknowledged:
        check_name(namespace, "namespace")
        payload = events.NamespaceCreated(namespace=namespace, **_checked(details))
        return self._do(lambda _: payload, idempotency_key)

    def update_namespace(
        self,
        namespace: str,
        *,
        expected_version: int | None = None,
        idempotency_key: str = "",
        **details: Unpack[Details],
    ) -> Acknowledged:
        payload = events.NamespaceUpdated(
            namespace=namespace, expected_version=expected_version, **_checked(details)
        )
        return self._do(_in_namespace(namespace, payload), idempotency_key)

    def drop_namespace(self, namespace: str, *, idempotency_key: str = "") -> Acknowledged:
        payload = events.NamespaceDropped(namespace=namespace)
        return self._do(_in_namespace(namespace, payload), idempotency_key)

    def create_asset(
        self,
        key: AssetKey | str,
        *,
        columns: Sequence[events.Column] = (),
        idempotency_key: str = "",
        **details: Unpack[DataDetails],
    ) -> Acknowledged:
        """Create an asset; its id is the `event_id` of the acknowledgement."""
        key = _key(key)
        payload = events.AssetCreated(
            namespace=key.namespace,
            name=key.name,
            columns=_columns(columns),
            **_checked(details),
        )
        return self._do(_in_namespace(key.namespace, payload), idempotency_key)

    def update_asset(
        self,
        key: AssetKey | str,
        *,
        expected_version: int | None = None,
        idempotency_key: str = "",
        **details: Unpack[DataDetails],
    ) -> Acknowledged:
        """Change what is given. Maps and lists are replaced as a whole."""
        key = _key(key)
        checked = _checked(details)

        def build(at: CatalogReader) -> Payload:
            return events.AssetUpdated(
                asset_id=at.asset_id(key),
                expected_version=expected_version,
                asset_key=str(key),
                **checked,
            )

        return self._do(build, idempotency_key)

    def rename_asset(
        self, key: AssetKey | str, new_name: str, *, idempotency_key: str = ""
    ) -> Acknowledged:
        """Give an asset another name in its namespace. Its id, and all it has, stay."""
        key = _key(key)
        check_name(new_name, "asset name")

        def build(at: CatalogReader) -> Payload:
            asset_id = at.asset_id(key)
            self._check_not_declared(at, key)
            return events.AssetRenamed(
                asset_id=asset_id, namespace=key.namespace, name=key.name, new_name=new_name
            )

        return self._do(build, idempotency_key)

    def drop_asset(self, key: AssetKey | str, *, idempotency_key: str = "") -> Acknowledged:
        key = _key(key)

        def build(at: CatalogReader) -> Payload:
            asset_id = at.asset_id(key)
            self._check_not_declared(at, key)
            return events.AssetDropped(asset_id=asset_id, namespace=key.namespace, name=key.name)

        return self._do(build, idempotency_key)

    def add_column(
        self, key: AssetKey | str, column: events.Column, *, idempotency_key: str = ""
    ) -> Acknowledged:
        key = _key(key)
        (checked,) = _columns([column])

        def build(at: CatalogReader) -> Payload:
            return events.ColumnAdded(asset_id=at.asset_id(key), column=checked, asset_key=str(key))

        return self._do(build, idempotency_key)

    def update_column(
        self,
        key: AssetKey | str,
        column: str,
        *,
        expected_version: int | None = None,
        idempotency_key: str = "",
        **changes: Unpack[ColumnChanges],
    ) -> Acknowledged:
        """Change a column, found by its name; `name` renames it. Its id stays."""
        key = _key(key)
        fields = {field: value for field, value in changes.items() if value is not None}
        _columns([msgspec.convert({"name": column, "type": "unchanged"} | fields, events.Column)])

        def build(at: CatalogReader) -> Payload:
            row = _column(at, key, column)
            if fields.get("name", column) != column:
                self._check_column_not_declared(at, key, column)
                _check_not_in_data(key, row)
            return events.ColumnUpdated(
                asset_id=row.asset_id,
                column_id=row.column_id,
                asset_key=str(key),
                column_name=column,
                expected_version=_expected(expected_version),
                **changes,
            )

        return self._do(build, idempotency_key)

    def rename_column(
        self,
        key: AssetKey | str,
        column: str,
        new_name: str,
        *,
        reason: str = "",
        expected_version: int | None = None,
        idempotency_key: str = "",
    ) -> Acknowledged:
        """Rename a column, from the next output with the new name on.

        If one column was removed and another one added, this states that they are the same. Its id
        and metadata stay. With a reason, the rename is an accepted break for readers. Declared
        columns are renamed in code.
        """
        key = _key(key)
        check_column_name(new_name)
        check_printable(new_name, "the column name")
        _text(reason, "the reason")

        def build(at: CatalogReader) -> Payload:
            row = _any_column(at, key, column)
            if row.declared_by == "code":
                raise Refused(
                    "asset_deployed",
                    f"the column {column} is declared in the code of {key}",
                    hint=f'write column("{new_name}", renamed_from="{column}") there, and deploy',
                )
            return ColumnRenamed(
                asset_id=row.asset_id,
                asset_key=str(key),
                column_id=row.column_id,
                column_name=column,
                new_name=new_name,
                reason=reason,
                expected_version=_expected(expected_version),
            )

        return self._do(build, idempotency_key)

    def drop_column(
        self,
        key: AssetKey | str,
        column: str,
        *,
        expected_version: int | None = None,
        idempotency_key: str = "",
    ) -> Acknowledged:
        key = _key(key)

        def build(at: CatalogReader) -> Payload:
            row = _any_column(at, key, column)
            self._check_column_not_declared(at, key, column)
            return events.ColumnDropped(
                asset_id=row.asset_id,
                column_id=row.column_id,
                asset_key=str(key),
                column_name=column,
                expected_version=_expected(expected_version),
            )

        return self._do(build, idempotency_key)

    def _check_not_declared(self, at: CatalogReader, key: AssetKey) -> None:
        if (code := self._declared(at.snapshot, str(key))) is not None:
            raise Refused(
                "asset_deployed",
                f"{key} is deployed by the project {code.project}",
                hint="rename it with renamed_from= in the code, or remove it there, and deploy",
            )

    def _check_column_not_declared(self, at: CatalogReader, key: AssetKey, column: str) -> None:
        code = self._declared(at.snapshot, str(key))
        if code is not None and column in code.columns:
            raise Refused(
                "asset_deployed",
                f"the column {column} is in the code of {key}, which the project {code.project} "
                "has deployed",
                hint="remove it from the code and deploy; then drop it here",
            )

    def _do(self, build: CommandOf, idempotency_key: str) -> Acknowledged:
        return self._tier1.execute(
            lambda snapshot: build(CatalogReader(snapshot)),
            idempotency_key=idempotency_key,
            actor=self._actor,
        )


def _expected(version: int | None) -> events.VersionOrUnset:
    """As an event has it: one without it is what it was before events had such a field."""
    return msgspec.UNSET if version is None else version


def _in_namespace(namespace: str, payload: Payload) -> CommandOf:
    """The payload, if the namespace exists. Raises NotFound with a suggestion."""

    def build(at: CatalogReader) -> Payload:
        at.namespace(namespace)
        return payload

    return build


def _check_not_in_data(key: AssetKey, row: ColumnRow) -> None:
    if row.actual_type:
        raise Refused(
            "column_in_data",
            f"the newest output of {key} has the column {row.name}",
            hint=f"servo schema rename-column {key} {row.name} NEW renames it with its data",
        )


def _any_column(at: CatalogReader, key: AssetKey, name: str) -> ColumnRow:
    """A column by its name, also an inactive one."""
    rows = SchemaReader(at.snapshot).columns(at.asset_id(key))
    for row in rows:
        if row.name == name:
            return row
    hint = did_you_mean(name, [row.name for row in rows]) or f"see `servo schema show {key}`"
    raise NotFound(f"{key} has no column {name}", hint=hint)


def _column(at: CatalogReader, key: AssetKey, name: str) -> ColumnRow:
    columns = at.asset(key).columns
    for column in columns:
        if column.name == name:
            return column
    names = ", ".join(column.name for column in columns)
    raise NotFound(f"{key} has no column {name}", hint=f"columns: {names}" if names else "")


def _key(key: AssetKey | str) -> AssetKey:
    return AssetKey.parse(key) if isinstance(key, str) else key


def _text(value: str, what: str) -> str:
    if len(value) > MAX_TEXT:
        raise Invalid(f"{what} has {len(value)} characters; the limit is {MAX_TEXT}")
    return value


def _checked(details: Details) -> dict[str, Any]:
    """The details that are given, as events have them."""
    given = {what: value for what, value in details.items() if value is not None}
    return {what: _CHECKS.get(what, _text)(value, what) for what, value in given.items()}


def _owners(owners: Sequence[str], what: str) -> tuple[str, ...]:
    if any(not owner.strip() for owner in owners):
        raise Invalid("an owner is empty", hint="name a person or a team")
    for owner in owners:
        check_printable(owner, "the owner")
    return tuple(dict.fromkeys(owners))


def _map(entries: Mapping[str, str], what: str) -> dict[str, str]:
    if len(entries) > MAX_ENTRIES:
        raise Invalid(f"{what} has {len(entries)} entries; the limit is {MAX_ENTRIES}")
    for name, value in entries.items():
        if not name:
            raise Invalid(f"{what} has an entry without a name")
        _text(name + value, f"{what} entry {name!r}")
    return dict(entries)


_CHECKS: Mapping[str, Callable[[Any, str], object]] = {
    "owners": _owners,
    "tags": _map,
    "properties": _map,
}


def _columns(columns: Sequence[events.Column]) -> tuple[events.Column, ...]:
    if len(columns) > MAX_COLUMNS:
        raise Invalid(f"{len(columns)} columns; the limit is {MAX_COLUMNS}")
    seen: set[str] = set()
    for column in columns:
        check_column_name(column.name)
        check_printable(column.name, "the column name")
        if not column.type:
            raise Invalid(f"column {column.name!r} needs a type")
        for what in ("type", "description"):
            _text(getattr(column, what), f"a column's {what}")
        if column.name in seen:
            raise Invalid(f"column {column.name} is given twice")
        check_pii(column.pii)
        check_sensitivity(column.sensitivity)
        seen.add(column.name)
    return tuple(columns)
