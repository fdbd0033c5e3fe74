"""The lineage of a query before it runs, from its text and its inputs' columns.

sqlglot parses; names are resolved here, as Spark resolves them: without regard to
case, columns before aliases in WHERE and GROUP BY, aliases first in ORDER BY. The
answer has the same form as that of the analyzed plan, and should be the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import sqlglot

from arco.lineage.flow import KNOWN, column
from arco.lineage.found import Found, found
from arco.lineage.sql_query import Queries, Relation

_REF = re.compile(r"""\{\{\s*ref\(\s*(?:"([^"]*)"|'([^']*)')\s*\)\s*\}\}""")
_VALUE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
"""What else may stand there is a literal, which comes from nowhere."""


def analyze(
    sql: str, inputs: Mapping[str, Sequence[str]], refs: Mapping[str, str] | None = None
) -> Found:
    """What a query says about its columns.

    `inputs` are the columns of each asset, by its key; `refs` the key of each text inside
    a `{{ ref(…) }}`, for texts that are no key themselves. Raises what sqlglot raises
    for a query that it cannot parse.
    """
    names: dict[str, str] = {}

    def name(match: re.Match[str]) -> str:
        text = match[1] or match[2] or ""
        made = f"__ref_{len(names)}"
        names[made] = (refs or {}).get(text) or _key(text, inputs)
        return f"`{made}`"

    plain = _VALUE.sub("NULL", _REF.sub(name, sql))
    tree = sqlglot.parse_one(plain, dialect="spark")
    tables = {made: _table(key, inputs.get(key, ())) for made, key in names.items()}
    relation = Queries().query(tree, tables)
    certain = all(flow.doubt == KNOWN for _, flow in relation.outputs)
    reason = "" if certain else "Some columns of the query could not be resolved."
    return found("sql", relation.outputs, relation.influences, reason)


def _key(text: str, inputs: Mapping[str, Sequence[str]]) -> str:
    """A text without a namespace is of the asset's own, which is not known here."""
    if text in inputs:
        return text
    alike = [key for key in inputs if key.partition(".")[2] == text]
    return alike[0] if len(alike) == 1 else text


def _table(key: str, columns: Sequence[str]) -> Relation:
    return Relation([(name, column(key, name)) for name in columns], {})
