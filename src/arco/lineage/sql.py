"""The lineage of a query before it runs, from its text and its inputs' columns.

sqlglot parses; names are resolved here, as Spark resolves them: without regard to
case, columns before aliases in WHERE and GROUP BY, aliases first in ORDER BY. The
answer has the same form as that of the analyzed plan, and should be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import sqlglot
from msgspec import structs
from sqlglot import exp

from arco.lineage.flow import KNOWN, column
from arco.lineage.sql_query import Queries
from arco.lineage.sql_relation import SqlRelation
from arco.lineage.traced import TracedColumns, traced_columns
from servo.contract.template import Call, render


def analyze(
    sql: str, inputs: Mapping[str, Sequence[str]], refs: Mapping[str, str] | None = None
) -> TracedColumns:
    """The lineage of a query's columns.

    `inputs` are the columns of each asset, by its key; `refs` the key of each text inside
    a `{{ ref(…) }}`, for texts that are no key themselves. Raises what sqlglot raises
    for a query that it cannot parse.
    """
    names: dict[str, str] = {}

    def name(call: Call) -> str:
        """The name of a table; empty for a literal."""
        if call.function != "ref":
            return "NULL"
        result = f"__ref_{len(names)}"
        names[result] = (refs or {}).get(call.argument) or _key(call.argument, inputs)
        return f"`{result}`"

    tree = sqlglot.parse_one(render(sql, name).text, dialect="spark")
    tables = {
        result: SqlRelation([(name, column(key, name)) for name in inputs.get(key, ())], {})
        for result, key in names.items()
    }
    return _traced(tree, tables)


class SqlTable(NamedTuple):
    """What a table in a query is: an asset, with those of its columns that are known."""

    asset: str
    columns: Sequence[str]
    whole: bool = True
    """Whether these are all of its columns."""


def analyze_tables(
    sql: str, dialect: str, table_of: Callable[[str, str, str], SqlTable | None]
) -> TracedColumns:
    """The lineage of a query whose tables have the names of a database.

    `table_of` knows a table by its database, schema and name, as far as the query has them.
    Raises what sqlglot raises for a query that it cannot parse.
    """
    tree = sqlglot.parse_one(sql, dialect=dialect)
    tables: dict[str, SqlRelation] = {}
    for each in list(tree.find_all(exp.Table)):
        table = table_of(each.catalog, each.db, each.name) if each.db else None
        if table is None:
            continue
        name = f"__table_{len(tables)}"
        outputs = [(name, column(table.asset, name)) for name in table.columns]
        tables[name] = SqlRelation(outputs, {}, partial=not table.whole)
        if not each.alias:
            alias = exp.TableAlias(this=exp.to_identifier(each.name, quoted=True))
            each.set("alias", alias)
        each.set("this", exp.to_identifier(name))
        each.set("db", None)
        each.set("catalog", None)
    return _traced(tree, tables)


def _traced(tree: exp.Expr, tables: Mapping[str, SqlRelation]) -> TracedColumns:
    queries = Queries()
    relation = queries.query(tree, tables)
    certain = not queries.gaps and all(flow.doubt == KNOWN for _, flow in relation.outputs)
    reason = "" if certain else "Some columns of the query could not be resolved."
    result = traced_columns("sql", relation.outputs, relation.influences, reason)
    return structs.replace(result, names=()) if relation.partial else result


def _key(text: str, inputs: Mapping[str, Sequence[str]]) -> str:
    """A text without a namespace is of the asset's own, which is not known here."""
    if text in inputs:
        return text
    alike = [key for key in inputs if key.partition(".")[2] == text]
    return alike[0] if len(alike) == 1 else text
