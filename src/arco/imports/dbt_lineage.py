"""Column lineage from the SQL that dbt has compiled.

The columns of a relation are those of `catalog.json`. Without it they are those of its query's
result; for relations without a query, those that the project documents, and there may be others:
then its `*` includes unknown columns.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from arco.columns.schema_columns import declared_type
from arco.columns.types import text as type_text
from arco.imports.dbt_artifacts import CatalogNode, DbtCatalog, DbtNode
from arco.lineage.combine import lineage_of
from arco.lineage.sql import SqlTable, analyze_tables
from arco.lineage.traced import TracedColumns
from servo.contract.task import ColumnInfo, ColumnLineage, Lineage

log = logging.getLogger(__name__)
replace = msgspec.structs.replace
DIALECTS: Final[Mapping[str, str]] = {
    "sqlserver": "tsql",
    "synapse": "tsql",
    "glue": "spark",
    "postgresql": "postgres",
    "vertica": "postgres",
    "greenplum": "postgres",
}
"""Of adapters whose names are not those of the parser."""
_UNKNOWN_STAR = "Columns of a `*` are not known: give catalog.json."


def dialect_of(adapter: str | None) -> str:
    """The parser's name of the SQL that an adapter writes; empty for what all have in common."""
    name = DIALECTS.get(adapter or "", adapter or "")
    return name if Dialect.get(name) is not None else ""


class DbtSchemas:
    """The known columns of relations."""

    def __init__(
        self,
        nodes: Mapping[str, DbtNode],
        ids: Mapping[str, str],
        catalog: DbtCatalog | None,
        outputs: Mapping[str, Sequence[str]],
    ) -> None:
        """`ids` are those of the assets, by node; `outputs` the columns that Arco has written."""
        self._catalog = catalog
        self._ids = ids
        self._tables: dict[str, SqlTable] = {}
        self._by_name: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for id, node in nodes.items():
            if id not in ids:
                continue
            database, schema, name = node.relation
            self._by_name.setdefault((schema, name), []).append((database, id))
            described = self.described(id)
            if described is not None:
                names: Sequence[str] = [column.name for column in described.ordered()]
                self._tables[id] = SqlTable(ids[id], names)
            elif id in outputs:
                self._tables[id] = SqlTable(ids[id], outputs[id])
            else:
                names = [column.name for column in node.columns.values()]
                self._tables[id] = SqlTable(ids[id], names, whole=False)

    def described(self, id: str) -> CatalogNode | None:
        node = None if self._catalog is None else self._catalog.node(id)
        return node if node is not None and node.columns else None

    def of(self, id: str) -> SqlTable:
        return self._tables[id]

    def learn(self, id: str, names: Sequence[str], *, whole: bool) -> None:
        """Use the columns of a model's query, if they are not known otherwise."""
        self._tables[id] = SqlTable(self._ids[id], names, whole)

    def table(self, database: str, schema: str, name: str) -> SqlTable | None:
        candidates = self._by_name.get((schema.lower(), name.lower()), ())
        same = [id for of, id in candidates if not database or not of or of == database.lower()]
        # A source and a model may be one relation: both are the same asset.
        return self._tables[same[0]] if same else None


class DbtQuery(NamedTuple):
    """The lineage of a node's compiled query."""

    names: tuple[str, ...]
    """Of its columns; empty where they are not known."""
    lineage: Lineage


def lineage_of_query(node: DbtNode, dialect: str, schemas: DbtSchemas) -> DbtQuery:
    """Never raises: missing lineage must not fail an import."""
    traced = _analyzed(node, dialect, schemas)
    own = schemas.of(node.unique_id)
    names = list(own.columns) if own.whole else list(traced.names)
    if not names:
        names = [each.column for each in traced.columns] + list(traced.unmapped)
    output = [ColumnInfo(name=name, type="") for name in names]
    traced = replace(traced, columns=_with_snapshot_columns(node, names, traced.columns))
    lineage = lineage_of((), {}, output, plan=traced)
    lineage = _without_itself(lineage, own.asset)
    if not own.whole and not traced.names:
        reason = traced.reason if not traced.columns and traced.reason else _UNKNOWN_STAR
        lineage = replace(lineage, confidence="low", reason=reason)
    return DbtQuery(traced.names, replace(lineage, method="dbt"))


def _analyzed(node: DbtNode, dialect: str, schemas: DbtSchemas) -> TracedColumns:
    if (node.language or "sql") != "sql":
        reason = f"The sources of a model in {node.language} are not known."
        return TracedColumns(method="dbt", reason=reason)
    if not node.compiled_code:
        reason = "The manifest has no compiled SQL of the model: run `dbt compile`."
        return TracedColumns(method="dbt", reason=reason)
    try:
        traced = analyze_tables(node.compiled_code, dialect, schemas.table)
    except Exception as error:
        log.info("a query of dbt could not be analyzed", exc_info=True)
        reason = f"The query could not be analyzed: {type(error).__name__}."
        return TracedColumns(method="dbt", reason=reason)
    columns = tuple(replace(each, method="dbt") for each in traced.columns)
    return replace(traced, method="dbt", columns=columns)


def _with_snapshot_columns(
    node: DbtNode, names: Iterable[str], columns: tuple[ColumnLineage, ...]
) -> tuple[ColumnLineage, ...]:
    """Add the columns of a snapshot's validity, which dbt itself writes."""
    if node.resource_type != "snapshot":
        return columns
    traced = {each.column.lower() for each in columns}
    own = (name for name in names if name.lower().startswith("dbt_") and name.lower() not in traced)
    return (*columns, *(ColumnLineage(column=name, method="dbt") for name in own))


def _without_itself(lineage: Lineage, asset: str) -> Lineage:
    """Without the model itself as a source: an incremental model reads its own rows."""
    return replace(
        lineage,
        columns=tuple(
            replace(each, sources=tuple(s for s in each.sources if s.asset != asset))
            for each in lineage.columns
        ),
        influences=tuple(source for source in lineage.influences if source.asset != asset),
    )


@functools.cache
def column_type(text: str | None, dialect: str) -> str:
    """A type of the database in our spelling; as it is, where there is none."""
    if not text:
        return ""
    try:
        spelled = exp.DataType.build(text, dialect=dialect).sql(dialect="spark")
    except Exception:  # databases have many other types
        return text.lower()
    parsed = declared_type(spelled)
    return (
        type_text(parsed) if not isinstance(parsed, str) or parsed != spelled else spelled.lower()
    )
