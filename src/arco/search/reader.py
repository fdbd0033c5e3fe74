"""Searching a generation: from Python, and for the command line.

    result = SearchReader(snapshot).search("custmer email tag:tier=gold")
    result.hits[0].asset, result.hits[0].matches

The documents are read by the first search and stay with the reader: of a search with a
`namespace:` filter, those of its namespaces alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from arco.automation.freshness_tables import FRESHNESS, FreshnessStatus
from arco.catalog.tables import NAMESPACES
from arco.errors import Invalid, NotFound
from arco.orchestration.personal_data import PersonalDataReader
from arco.search.index import RankedDocument, Ranking, SearchIndex
from arco.search.matches import SearchMatch, explain
from arco.search.ranking import WHOLE, Alternative
from arco.search.tables import DOCUMENTS, FAILING, entries, joined
from arco.search.terms import SearchQuery, SearchTerm, parse
from arco.state.snapshot import Snapshot
from servo.suggest import did_you_mean

LIMIT: Final = 20
MAX_LIMIT: Final = 1_000


class SearchHit(Struct, frozen=True):
    asset: str
    asset_id: str
    kinds: list[str]
    active: bool
    """False: the code of its project does not have it any more."""
    description: str
    owners: list[str]
    tags: list[str]
    matches: list[SearchMatch]
    score: int


class SearchResult(Struct, frozen=True):
    query: str
    generation: int
    total: int
    """How many assets match; hits are the best of them."""
    hits: list[SearchHit]
    corrected: dict[str, list[str]]
    """Words that were taken with typing errors, and what was searched for, too."""


class SearchReader:
    def __init__(self, snapshot: Snapshot, namespaces: frozenset[str] | None = None) -> None:
        """`namespaces` are those that are searched, as if there were no others; None: all."""
        self.snapshot = snapshot
        self._namespaces = namespaces

    def search(self, query: str, *, limit: int = LIMIT) -> SearchResult:
        """The assets that match a query, the best first. Raises Invalid for a bad query."""
        if not 1 <= limit <= MAX_LIMIT:
            raise Invalid(f"the limit is {limit}; it must be 1 to {MAX_LIMIT}")
        parsed = parse(query)
        index = self._index_for(parsed)
        states = {"stale": self._stale, "failing": self._failing}
        for state in parsed.states:
            index.know(state, states[state])
        if parsed.wants_personal:
            index.know("personal", lambda: pa.array(self._personal, pa.string()))
        ranking = index.rank(parsed, limit)
        alternatives: dict[SearchTerm, Sequence[Alternative]] = {}
        is_named = bool(ranking.documents) and ranking.documents[0].score >= WHOLE["key"]
        if ranking.total < limit and not is_named:
            alternatives = {t: other for t in parsed.terms if (other := index.alike(t))}
        if alternatives:
            ranking = index.rank(parsed, limit, alternatives)
        if parsed.wants_personal:
            ranking = Ranking(list(map(self._with_personal, ranking.documents)), ranking.total)
        hits = [_hit(ranked, parsed, alternatives) for ranked in ranking.documents]
        corrected = {
            term.raw: sorted({m.meant for h in hits for m in h.matches} & {a.phrase for a in other})
            for term, other in alternatives.items()
        }
        return SearchResult(
            query,
            self.snapshot.generation,
            ranking.total,
            hits,
            {word: phrases for word, phrases in corrected.items() if phrases},
        )

    def _index_for(self, query: SearchQuery) -> SearchIndex:
        namespaces = query.filters.get("namespace")
        if namespaces is None:
            return self._all
        names = namespaces[0]
        for name in names:
            if not self._is_searched(name) or self.snapshot.get(NAMESPACES, name) is None:
                rows = self.snapshot.all(NAMESPACES)
                candidates = [row.namespace for row in rows if self._is_searched(row.namespace)]
                hint = did_you_mean(name, candidates) or "see servo catalog namespace list"
                raise NotFound(f"there is no namespace {name}", hint=hint)
        if "_all" in self.__dict__:
            return self._all
        columns = [*DOCUMENTS.columns]
        parts = [self.snapshot.columns(DOCUMENTS, name, columns) for name in names]
        return SearchIndex(pa.concat_tables(parts).combine_chunks())

    @cached_property
    def _all(self) -> SearchIndex:
        documents = self.snapshot.scan(DOCUMENTS)
        if not documents.num_rows and any(row.assets for row in self.snapshot.all(NAMESPACES)):
            raise NotFound(
                f"generation {self.snapshot.generation} has assets, and no documents to search",
                hint="it was written by a version without search: run servo admin rebuild, "
                "and search a newer generation",
            )
        if self._namespaces is not None:
            chosen = pa.array(sorted(self._namespaces), pa.string())
            documents = documents.filter(pc.is_in(documents.column("namespace"), chosen))
        return SearchIndex(documents)

    @cached_property
    def _personal(self) -> dict[str, list[str]]:
        """By the ids of assets: their columns with personal data, said or inherited."""
        columns: dict[str, list[str]] = {}
        for asset_id, column in PersonalDataReader(self.snapshot).personal_nodes():
            columns.setdefault(asset_id, []).append(column)
        return columns

    def _with_personal(self, ranked: RankedDocument) -> RankedDocument:
        document = ranked.document
        columns = sorted(self._personal.get(document.asset_id, ()))
        return ranked._replace(document=msgspec.structs.replace(document, pii=joined(columns)))

    def _is_searched(self, namespace: str) -> bool:
        return self._namespaces is None or namespace in self._namespaces

    def _stale(self) -> pa.Array:
        series = self.snapshot.scan(FRESHNESS)
        is_stale = pc.equal(series.column("status"), FreshnessStatus.STALE.value)
        return pc.unique(series.filter(is_stale).column("asset_id"))

    def _failing(self) -> pa.Array:
        return pc.unique(self.snapshot.scan(FAILING).column("asset_id"))


def _hit(
    ranked: RankedDocument,
    query: SearchQuery,
    alternatives: dict[SearchTerm, Sequence[Alternative]],
) -> SearchHit:
    document = ranked.document
    return SearchHit(
        f"{document.namespace}.{document.name}",
        document.asset_id,
        entries(document.kinds),
        document.active,
        " ".join(entries(document.description)),
        entries(document.owners),
        entries(document.tags),
        explain(document, query, alternatives),
        ranked.score,
    )
