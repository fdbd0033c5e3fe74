"""Changing the catalog: each method validates, and has one command decided (Tier 1).

Names become ids on the snapshot that Tier 1 provides: for a request that is repeated
under its idempotency key, that is the one from before it was decided the first time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from arco.catalog.events import (
    AssetCreated,
    AssetDropped,
    AssetRenamed,
    AssetUpdated,
    Column,
    ColumnAdded,
    ColumnDropped,
    ColumnUpdated,
    NamespaceCreated,
    NamespaceDropped,
    NamespaceUpdated,
)
from arco.catalog.names import MAX_TEXT, check_column_name
from arco.catalog.reader import CatalogReader, CodeDeclaration
from arco.catalog.tables import ColumnRow
from arco.errors import Invalid, NotFound, Refused
from arco.log.envelope import Payload
from arco.state.snapshot import Snapshot
from arco.state.tier1 import Acknowledged, Tier1
from servo.contract.keys import AssetKey, check_name

SENSITIVITIES = ("", "public", "internal", "confidential", "restricted")
PII = (
    "",
    "ssn",
    "email",
    "phone",
    "address",
    "name",
    "date_of_birth",
    "credit_card",
    "bank_account",
    "ip_address",
)
"""The kinds of personal data; `custom:<word>` is allowed too."""
Build = Callable[[CatalogReader], Payload]
MAX_ENTRIES = 200
MAX_COLUMNS = 5_000


class CatalogCommands:
    """`declared` finds what the code that is deployed says of an asset.

    What code declares is not renamed or dropped here: the catalog would have other names
    than the code for good.
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
        self,
        namespace: str,
        *,
        description: str = "",
        owners: Sequence[str] = (),
        tags: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
        idempotency_key: str = "",
    ) -> Acknowledged:
        check_name(namespace, "namespace")
        payload = NamespaceCreated(
            namespace=namespace,
            description=_text(description, "description"),
            owners=_owners(owners),
            tags=_map(tags, "tags"),
            properties=_map(properties, "properties"),
        )
        return self._do(lambda _: payload, idempotency_key)

    def update_namespace(
        self,
        namespace: str,
        *,
        description: str | None = None,
        owners: Sequence[str] | None = None,
        tags: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
        expected_version: int | None = None,
        idempotency_key: str = "",
    ) -> Acknowledged:
        payload = NamespaceUpdated(
            namespace=namespace,
            description=None if description is None else _text(description, "description"),
            owners=None if owners is None else _owners(owners),
            tags=None if tags is None else _map(tags, "tags"),
            properties=None if properties is None else _map(properties, "properties"),
            expected_version=expected_version,
        )
        return self._do(_in_namespace(namespace, payload), idempotency_key)

    def drop_namespace(self, namespace: str, *, idempotency_key: str = "") -> Acknowledged:
        payload = NamespaceDropped(namespace=namespace)
        return self._do(_in_namespace(namespace, payload), idempotency_key)

    def create_asset(
        self,
        key: AssetKey | str,
        *,
        kind: str = "table",
        format: str = "parquet",
        location: str = "",
        description: str = "",
        owners: Sequence[str] = (),
        tags: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
        columns: Sequence[Column] = (),
        idempotency_key: str = "",
    ) -> Acknowledged:
        """Create an asset; its id is the `event_id` of the acknowledgement."""
        key = _key(key)
        payload = AssetCreated(
            namespace=key.namespace,
            name=key.name,
            kind=_text(kind, "kind"),
            format=_text(format, "format"),
            location=_text(location, "location"),
            description=_text(description, "description"),
            owners=_owners(owners),
            tags=_map(tags, "tags"),
            properties=_map(properties, "properties"),
            columns=_columns(columns),
        )
        return self._do(_in_namespace(key.namespace, payload), idempotency_key)

    def update_asset(
        self,
        key: AssetKey | str,
        *,
        kind: str | None = None,
        format: str | None = None,
        location: str | None = None,
        description: str | None = None,
        owners: Sequence[str] | None = None,
        tags: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
        expected_version: int | None = None,
        idempotency_key: str = "",
    ) -> Acknowledged:
        """Change what is given. Maps and lists are replaced as a whole."""
        key = _key(key)

        def build(at: CatalogReader) -> Payload:
            return AssetUpdated(
                asset_id=at.asset_id(key),
                kind=None if kind is None else _text(kind, "kind"),
                format=None if format is None else _text(format, "format"),
                location=None if location is None else _text(location, "location"),
                description=None if description is None else _text(description, "description"),
                owners=None if owners is None else _owners(owners),
                tags=None if tags is None else _map(tags, "tags"),
                properties=None if properties is None else _map(properties, "properties"),
                expected_version=expected_version,
                asset_key=str(key),
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
            return AssetRenamed(
                asset_id=asset_id, namespace=key.namespace, name=key.name, new_name=new_name
            )

        return self._do(build, idempotency_key)

    def drop_asset(self, key: AssetKey | str, *, idempotency_key: str = "") -> Acknowledged:
        key = _key(key)

        def build(at: CatalogReader) -> Payload:
            asset_id = at.asset_id(key)
            self._check_not_declared(at, key)
            return AssetDropped(asset_id=asset_id, namespace=key.namespace, name=key.name)

        return self._do(build, idempotency_key)

    def add_column(
        self, key: AssetKey | str, column: Column, *, idempotency_key: str = ""
    ) -> Acknowledged:
        key = _key(key)
        (checked,) = _columns([column])

        def build(at: CatalogReader) -> Payload:
            return ColumnAdded(asset_id=at.asset_id(key), column=checked, asset_key=str(key))

        return self._do(build, idempotency_key)

    def update_column(
        self,
        key: AssetKey | str,
        column: str,
        *,
        name: str | None = None,
        type: str | None = None,
        nullable: bool | None = None,
        description: str | None = None,
        pii: str | None = None,
        sensitivity: str | None = None,
        idempotency_key: str = "",
    ) -> Acknowledged:
        """Change a column, found by its name; `name` renames it. Its id stays."""
        key = _key(key)
        checked = Column(
            name=column if name is None else name,
            type="unchanged" if type is None else type,
            description="" if description is None else _text(description, "description"),
            pii=pii or "",
            sensitivity=sensitivity or "",
        )
        _columns([checked])

        def build(at: CatalogReader) -> Payload:
            row = _column(at, key, column)
            if name not in (None, column):
                self._check_column_not_declared(at, key, column)
            return ColumnUpdated(
                asset_id=row.asset_id,
                column_id=row.column_id,
                name=name,
                type=type,
                nullable=nullable,
                description=description,
                pii=pii,
                sensitivity=sensitivity,
                asset_key=str(key),
                column_name=column,
            )

        return self._do(build, idempotency_key)

    def drop_column(
        self, key: AssetKey | str, column: str, *, idempotency_key: str = ""
    ) -> Acknowledged:
        key = _key(key)

        def build(at: CatalogReader) -> Payload:
            row = _column(at, key, column)
            self._check_column_not_declared(at, key, column)
            return ColumnDropped(
                asset_id=row.asset_id,
                column_id=row.column_id,
                asset_key=str(key),
                column_name=column,
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

    def _do(self, build: Build, idempotency_key: str) -> Acknowledged:
        return self._tier1.execute(
            lambda snapshot: build(CatalogReader(snapshot)),
            idempotency_key=idempotency_key,
            actor=self._actor,
        )


def _in_namespace(namespace: str, payload: Payload) -> Build:
    """The payload, where the namespace is there; NotFound with a suggestion otherwise."""

    def build(at: CatalogReader) -> Payload:
        at.namespace(namespace)
        return payload

    return build


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


def _owners(owners: Sequence[str]) -> tuple[str, ...]:
    if any(not owner.strip() for owner in owners):
        raise Invalid("an owner is empty", hint="name a person or a team")
    return tuple(dict.fromkeys(owners))


def _map(entries: Mapping[str, str] | None, what: str) -> dict[str, str]:
    values = dict(entries or {})
    if len(values) > MAX_ENTRIES:
        raise Invalid(f"{what} has {len(values)} entries; the limit is {MAX_ENTRIES}")
    for name, value in values.items():
        if not name:
            raise Invalid(f"{what} has an entry without a name")
        _text(name + value, f"{what} entry {name!r}")
    return values


def _columns(columns: Sequence[Column]) -> tuple[Column, ...]:
    if len(columns) > MAX_COLUMNS:
        raise Invalid(f"{len(columns)} columns; the limit is {MAX_COLUMNS}")
    seen: set[str] = set()
    for column in columns:
        check_column_name(column.name)
        if not column.type:
            raise Invalid(f"column {column.name!r} needs a type")
        for what in ("type", "description"):
            _text(getattr(column, what), f"a column's {what}")
        if column.name in seen:
            raise Invalid(f"column {column.name} is given twice")
        if column.pii not in PII and not column.pii.startswith("custom:"):
            raise Invalid(
                f"{column.pii!r} is not a kind of PII", hint=f"one of {', '.join(PII[1:])}"
            )
        if column.sensitivity not in SENSITIVITIES:
            raise Invalid(
                f"{column.sensitivity!r} is not a sensitivity",
                hint=f"one of {', '.join(SENSITIVITIES[1:])}",
            )
        seen.add(column.name)
    return tuple(columns)
