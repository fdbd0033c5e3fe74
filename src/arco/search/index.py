"""Documents in memory, as Arrow has them, and DuckDB over them.

No index is stored: the texts are normalised in one pass over their bytes, and a scan finds the
words. Only if there are few matches, the words of all documents are collected, once for each index,
to search for similar words.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from arco.search.ranking import POINTS, Alternative, Field, RankingSql
from arco.search.tables import DOCUMENTS, DocumentRow
from arco.search.terms import BLANKED, SearchQuery, SearchTerm
from arco.state.sorted_rows import one_chunk

CHUNK_ROWS: Final = 8_192
"""Number of rows that a thread of DuckDB takes at once."""
ALTERNATIVES: Final = 4
"""Of a term: the nearest."""
COMBINED: Final[Mapping[str, Sequence[str]]] = {
    "columns": ["columns"],
    "labels": ["owners", "tags", "terms", "previous_names"],
    "texts": ["description", "column_descriptions"],
    "code": ["code"],
}
"""The texts that are searched as one."""
_AS_IT_IS: Final = (
    "asset_id", "namespace", "name", "active", "kinds", "owners", "tags", "terms", "description",
    "pii",
)  # fmt: skip
_PIECES: Final[Mapping[Field, str]] = {
    "names": "names",
    "path": "path",
    "columns": "unnest(string_split(columns, chr(10)))",
    "labels": "unnest(string_split(labels, chr(10)))",
    "texts": "unnest(string_split(texts, ' '))",
}
"""The entries of fields, of which words are made, too; of long texts the words at once."""
_VOCABULARY: Final = """
    CREATE TABLE vocabulary AS
    WITH pieces AS MATERIALIZED ({pieces}), phrases AS MATERIALIZED (
        SELECT trim(piece, chr(10) || ' ') AS phrase, field, uses FROM pieces
    ), words AS (
        SELECT unnest(string_split(phrase, ' ')) AS phrase, field, uses FROM phrases
        WHERE field <> {path} AND contains(phrase, ' ')
    )
    SELECT phrase, strip_accents(phrase) AS plain, bit_or(field) AS fields, sum(uses) AS uses
    FROM (SELECT * FROM phrases UNION ALL SELECT * FROM words)
    WHERE length(phrase) > 2 GROUP BY phrase
"""
_ALIKE: Final = """
    WITH candidates AS MATERIALIZED (
        SELECT * FROM vocabulary
        WHERE left(plain, 1) = left($plain, 1) AND contains(plain, $digits)
        AND length(plain) BETWEEN length($plain) - $most AND length($plain) + $most
    )
    SELECT phrase, damerau_levenshtein(plain, $plain) AS distance, fields FROM candidates
    WHERE distance <= $most AND phrase <> $phrase
    AND regexp_replace(plain, '[^0-9]', '', 'g') = regexp_replace($plain, '[^0-9]', '', 'g')
    ORDER BY distance, uses DESC, phrase LIMIT $limit
"""


class RankedDocument(NamedTuple):
    document: DocumentRow
    score: int


class Ranking(NamedTuple):
    documents: list[RankedDocument]
    total: int


class SearchIndex:
    def __init__(self, documents: pa.Table) -> None:
        """`documents` has rows of `search.documents`."""
        self._documents = documents
        self._duckdb = duckdb.connect(":memory:")
        self._duckdb.register("docs", _searchable(documents))
        self._states: set[str] = set()
        self._lock = threading.Lock()
        self._has_vocabulary = False

    def know(self, name: str, read: Callable[[], pa.Array]) -> None:
        """Cache the ids of assets with a property, e.g. stale; they are read the first time."""
        with self._lock:
            if name not in self._states:
                self._duckdb.register(name, pa.table({"asset_id": read()}))
                self._states.add(name)

    def rank(
        self,
        query: SearchQuery,
        limit: int,
        alternatives: Mapping[SearchTerm, Sequence[Alternative]] | None = None,
    ) -> Ranking:
        statement = RankingSql(query, alternatives).statement(limit)
        rows = self._run(*statement)
        if not rows:
            return Ranking([], 0)
        at, scores, totals = zip(*rows, strict=True)
        documents = DOCUMENTS.rows_of(self._documents.take(pa.array(at)))
        return Ranking(list(map(RankedDocument, documents, scores)), totals[0])

    def alike(self, term: SearchTerm) -> list[Alternative]:
        """Words and names that differ from a term by accents, or by one or two typing errors.

        The first letter and digits are taken as they are: `clicks_2024` is not `clicks_2025`.
        """
        with self._lock:
            if not self._has_vocabulary:
                self._duckdb.execute(_vocabulary_sql())
                self._has_vocabulary = True
        plain = _without_accents(term.phrase)
        most = edits(plain)
        values = {
            "phrase": term.phrase,
            "plain": plain,
            "digits": max(re.findall("[0-9]+", plain), key=len, default=""),
            "most": most,
            "limit": ALTERNATIVES,
        }
        return [
            Alternative(phrase, distance, tuple(f for f in POINTS if _flag(f) & fields))
            for phrase, distance, fields in self._run(_ALIKE, values)
        ]

    def _run(self, sql: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        with self._lock:  # a query takes all threads that there are
            return self._duckdb.execute(sql, values).fetchall()


def edits(phrase: str) -> int:
    """How many typing errors a phrase may have: none for short ones."""
    return 0 if len(phrase) < 4 else 1 if len(phrase) < 8 else 2


def _vocabulary_sql() -> str:
    pieces = [
        f"SELECT piece, {_flag(field)} AS field, count(*) AS uses "
        f"FROM (SELECT {sql} AS piece FROM docs) GROUP BY piece"
        for field, sql in _PIECES.items()
    ]
    return _VOCABULARY.format(pieces=" UNION ALL ".join(pieces), path=_flag("path"))


def _flag(field: Field) -> int:
    """A bit for each field: sets of them are numbers."""
    return 1 << list(POINTS).index(field)


def _without_accents(text: str) -> str:
    parts = unicodedata.normalize("NFD", text)
    return "".join(part for part in parts if not unicodedata.combining(part))


def _searchable(documents: pa.Table) -> pa.Table:
    """What `ranking` tests: texts that are normal, and what filters need as it is."""
    columns: dict[str, Any] = {name: documents.column(name) for name in _AS_IT_IS}
    names, namespaces = documents.column("name"), documents.column("namespace")
    columns["names"] = _normal(pc.binary_join_element_wise("\n ", names, " \n", ""))
    columns["path"] = _normal(pc.binary_join_element_wise("\n ", namespaces, " ", names, " \n", ""))
    for name, parts in COMBINED.items():
        texts = [documents.column(part) for part in parts]
        joined = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, "")
        columns[name] = _normal(joined)
    columns["row"] = pa.array(range(documents.num_rows), pa.int64())
    table = pa.table(columns).combine_chunks()
    return pa.Table.from_batches(table.to_batches(CHUNK_ROWS), table.schema)


def _normal(texts: pa.ChunkedArray | pa.Array) -> pa.Array:
    """As `terms.normal` has each of them, in one pass over all bytes."""
    array = one_chunk(pc.utf8_lower(texts))
    if len(array) == 0:
        return array
    validity, offsets, data = array.buffers()
    blanked = pa.py_buffer(b"" if data is None else data.to_pybytes().translate(BLANKED))
    return pa.StringArray.from_buffers(
        len(array), offsets, blanked, validity, array.null_count, array.offset
    )
