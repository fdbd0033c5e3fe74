"""Reading statements of code, people and dbt, and the values in effect, at one generation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from arco.catalog import governance
from arco.catalog.governance import Source, SubjectKind, ValuePath
from arco.catalog.governance_tables import (
    ASSET_STATEMENTS,
    DEPRECATIONS,
    NAMESPACE_STATEMENTS,
    TERM_USES,
    TERMS,
    AssetStatementRow,
    NamespaceStatementRow,
    TermRow,
)
from arco.catalog.reader import CatalogReader
from arco.catalog.subjects import CatalogSubject
from arco.catalog.tables import ASSETS, COLUMNS, NAMESPACES, AssetRow
from arco.errors import NotFound
from arco.state.snapshot import Snapshot
from arco.state.table import Row
from servo.suggest import did_you_mean


class SourcedValue(msgspec.Struct, frozen=True):
    """One value that code, people or dbt have set."""

    field: str
    entry: str
    value: str
    source: Source
    inherited_from: str
    """The namespace, if it is set there."""
    in_effect: bool
    set_by: str
    set_at: datetime
    position: int
    generation: int
    """The first kept one that has it."""


class SubjectView(msgspec.Struct, frozen=True):
    subject: str
    kind: SubjectKind
    asset_id: str
    column_id: str
    version: int
    """What `expected_version` of a change is compared with."""
    effective: dict[str, Any]
    """By field; of an asset, with what it inherits."""
    inherited: tuple[str, ...]
    """The fields that come from the namespace, all or some of them."""
    values: tuple[SourcedValue, ...]


class TermView(msgspec.Struct, frozen=True):
    row: TermRow
    version: int
    used_by: tuple[str, ...]
    """Namespaces, assets and columns."""


class GovernanceReader:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def ids(self, subject: CatalogSubject) -> tuple[str, str]:
        """Of the asset, and of the column if one is named. NotFound with a suggestion."""
        asset_id = CatalogReader(self.snapshot).asset_id(subject.key)
        if not subject.column:
            return asset_id, ""
        columns = {row.name: row.column_id for row in self.snapshot.rows(COLUMNS, asset_id)}
        if subject.column not in columns:
            hint = did_you_mean(subject.column, columns) or f"columns: {', '.join(columns)}"
            raise NotFound(f"{subject.key} has no column {subject.column}", hint=hint)
        return asset_id, columns[subject.column]

    def view(self, text: str) -> SubjectView:
        """The values of a namespace, an asset or a column: in effect, and by source."""
        subject = CatalogSubject.parse(text)
        catalog = CatalogReader(self.snapshot)
        if subject.kind == "namespace":
            namespace = catalog.namespace(subject.namespace)
            version = catalog.namespace_version(subject.namespace)
            effective = _fields("namespace", namespace)
            return self._view(subject, ("", ""), version, effective, effective)
        asset_id, column_id = ids = self.ids(subject)
        if column_id:
            version, column = self.snapshot.versioned(COLUMNS, ids)
            assert column is not None
            effective = _fields("column", column)
            return self._view(subject, ids, version, effective, effective)
        version, row = self.snapshot.versioned(ASSETS, (asset_id,))
        assert row is not None
        return self._view(subject, ids, version, _fields("asset", row), self.effective(row))

    def effective(self, asset: AssetRow) -> dict[str, Any]:
        """The fields of an asset's row, with what it inherits from its namespace."""
        own = _fields("asset", asset)
        namespace = self.snapshot.get(NAMESPACES, asset.namespace)
        if namespace is None:
            return own
        return own | governance.inherited(own, _fields("namespace", namespace))

    def _view(
        self,
        subject: CatalogSubject,
        ids: tuple[str, str],
        version: int,
        own: Mapping[str, Any],
        effective: dict[str, Any],
    ) -> SubjectView:
        asset_id, column_id = ids
        if subject.kind == "namespace":
            values = list(self._values(self._of_namespace(subject.namespace), ""))
        else:
            statements = self.snapshot.rows(ASSET_STATEMENTS, asset_id)
            values = list(self._values(statements, column_id))
        if subject.kind == "asset":
            values += self._inherited(subject.namespace, own)
        order = governance.FIELDS_OF[subject.kind]
        values.sort(key=lambda v: (order.index(v.field), v.entry, v.inherited_from, v.source))
        return SubjectView(
            subject=str(subject),
            kind=subject.kind,
            asset_id=asset_id,
            column_id=column_id,
            version=version,
            effective=effective,
            inherited=tuple(f for f in effective if effective[f] != own[f]),
            values=tuple(values),
        )

    def _of_namespace(self, namespace: str) -> list[NamespaceStatementRow]:
        return self.snapshot.rows(NAMESPACE_STATEMENTS, namespace)

    def _values(
        self,
        statements: Sequence[AssetStatementRow | NamespaceStatementRow],
        column_id: str,
        inherited_from: str = "",
    ) -> Iterator[SourcedValue]:
        order = governance.PRECEDENCE.index
        holders: dict[str, Source] = {}
        for row in sorted(statements, key=lambda row: order(_source(row)), reverse=True):
            holders |= dict.fromkeys(row.values, _source(row))
        for row in statements:
            for text, value in row.values.items():
                path = ValuePath.parse(text)
                if path.column_id != column_id:
                    continue
                kind = governance.FIELDS[path.field]
                position = row.positions[text]
                yield SourcedValue(
                    field=path.field,
                    entry=path.entry,
                    value="" if kind == "set" else value,
                    source=_source(row),
                    inherited_from=inherited_from,
                    in_effect=kind == "set" or holders[text] == row.source,
                    set_by=row.authors[position],
                    set_at=row.times[position],
                    position=position,
                    generation=self.snapshot.generation_of(position),
                )

    def _inherited(self, namespace: str, own: Mapping[str, Any]) -> Iterator[SourcedValue]:
        for value in self._values(self._of_namespace(namespace), "", namespace):
            if value.field not in governance.INHERITED:
                continue
            overridden = value.entry in own["tags"] if value.field == "tags" else own[value.field]
            in_effect = value.in_effect and not overridden
            yield msgspec.structs.replace(value, in_effect=in_effect)

    def deprecations(self) -> dict[str, str]:
        """By key, the deprecation text of each deprecated asset."""
        rows = self.snapshot.all(DEPRECATIONS)
        return {f"{row.namespace}.{row.name}": row.message for row in rows}

    def deprecated_by_people(self, asset_id: str) -> str:
        row = self.snapshot.get(ASSET_STATEMENTS, asset_id, "people")
        return "" if row is None else row.values.get("deprecated", "")

    def terms(self) -> list[TermRow]:
        return sorted(self.snapshot.all(TERMS), key=lambda row: row.term)

    def term(self, term: str, *, may_create: bool = False) -> tuple[int, TermRow]:
        """A term with its version. NotFound with a suggestion, also to create it."""
        version, row = self.snapshot.versioned(TERMS, (term,))
        if row is None:
            create = f"create it: servo catalog terms create {term} --description …"
            otherwise = create if may_create else "see `servo catalog terms list`"
            hint = did_you_mean(term, [row.term for row in self.terms()]) or otherwise
            raise NotFound(f"there is no term {term}", hint=hint)
        return version, row

    def has_term(self, term: str) -> bool:
        return self.snapshot.get(TERMS, term) is not None

    def term_view(self, term: str) -> TermView:
        version, row = self.term(term)
        return TermView(row, version, tuple(self._uses(term)))

    def _uses(self, term: str) -> list[str]:
        uses = self.snapshot.rows(TERM_USES, term)
        names = [use.namespace for use in uses if use.namespace]
        for use in uses:
            if not use.asset_id:
                continue
            asset = self.snapshot.get(ASSETS, use.asset_id)
            key = use.asset_id if asset is None else f"{asset.namespace}.{asset.name}"
            if use.column_id:
                column = self.snapshot.get(COLUMNS, use.asset_id, use.column_id)
                key = f"{key}.{use.column_id if column is None else column.name}"
            names.append(key)
        return sorted(names)


def _source(row: AssetStatementRow | NamespaceStatementRow) -> Source:
    return next(source for source in governance.SOURCES if source == row.source)


def _fields(kind: SubjectKind, row: Row) -> dict[str, Any]:
    return {field: getattr(row, field) for field in governance.FIELDS_OF[kind]}
