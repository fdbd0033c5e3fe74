"""The ranking: how much a match counts, and the SQL that finds and orders documents.

Within a field a whole entry counts more than the start of one, that more than a word, that more
than the start of a word, and that more than a part of it. A name counts more than columns,
owners, tags and terms, those more than descriptions, and those more than code. What only matches
with typing errors comes last. `POINTS` has all of it; the SQL, which any DuckDB runs over
documents, and the explanation of a match (`matches`) are both made of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct

from arco.search.terms import HAS, SearchQuery, SearchTerm

Field = Literal["names", "path", "columns", "labels", "texts", "code"]
MatchKind = Literal["exact", "prefix", "word", "word start", "part", "typo"]
PATTERNS: Final[Mapping[MatchKind, str]] = {
    "exact": "\n {} \n",
    "prefix": "\n {}",
    "word": " {} ",
    "word start": " {}",
    "part": "{}",
    "typo": " {} ",
}
POINTS: Final[Mapping[Field, Mapping[MatchKind, int]]] = {
    "names": {
        "exact": 100, "prefix": 90, "word": 80, "word start": 76, "part": 40, "typo": 20,
    },
    "path": {"exact": 100, "prefix": 74, "word": 72, "word start": 71, "part": 32, "typo": 18},
    "columns": {
        "exact": 70, "prefix": 66, "word": 62, "word start": 58, "part": 30, "typo": 16,
    },
    "labels": {
        "exact": 68, "prefix": 64, "word": 60, "word start": 56, "part": 28, "typo": 14,
    },
    "texts": {"word": 50, "word start": 46, "typo": 10},
    "code": {"word": 36, "word start": 34},
}  # fmt: skip
PART_CHARS: Final = 3
"""A shorter text is not looked for within words."""
DOTTED_PREFIX: Final = 95
"""Of `sales.ord`: the start of an asset's whole name."""
WHOLE: Final = {"key": 1_000, "name": 500, "prefix": 250}
"""Points if the whole query is the name of an asset, or the start of one."""


class Alternative(Struct, frozen=True):
    """A similar word for a term."""

    phrase: str
    distance: int
    fields: tuple[Field, ...]
    """Where it occurs."""


class RankingStatement(NamedTuple):
    sql: str
    values: dict[str, Any]


class RankingSql:
    """Makes one statement; `docs` has the documents, with normal texts."""

    def __init__(
        self,
        query: SearchQuery,
        alternatives: Mapping[SearchTerm, Sequence[Alternative]] | None = None,
    ) -> None:
        self._query = query
        self._alternatives = alternatives or {}
        self._values: dict[str, Any] = {}

    def statement(self, limit: int) -> RankingStatement:
        """The best rows, with their scores and the number of all of them."""
        conditions = [*self._filters(), *map(self._matches, self._query.terms)]
        scores = [self._whole(), *map(self._score, self._query.terms)]
        sql = f"""
            WITH hits AS MATERIALIZED (
                SELECT row, namespace, name, active, {" + ".join(scores)} AS score
                FROM docs WHERE {" AND ".join(conditions) or "true"}
            )
            SELECT row, score, (SELECT count(*) FROM hits) AS total FROM hits
            ORDER BY score DESC, active DESC, length(name), namespace, name
            LIMIT {self._value(limit)}
        """
        return RankingStatement(sql, self._values)

    def _value(self, value: object) -> str:
        name = f"v{len(self._values)}"
        self._values[name] = value
        return f"${name}"

    def _contains(self, field: str, text: str) -> str:
        return f"contains({field}, {self._value(text)})"

    def _whole(self) -> str:
        """Whether the query as a whole is a name: `sales.orders`, `orders`, `daily revenue`."""
        if not self._query.terms:
            return "0"
        raw = self._value(self._query.text)
        phrase = " ".join(term.phrase for term in self._query.terms)
        parts = [f"WHEN namespace || '.' || name = {raw} OR name = {raw} THEN {WHOLE['key']}"]
        if len(self._query.terms) > 1:
            exact, prefix = (self._value(PATTERNS[h].format(phrase)) for h in ("exact", "prefix"))
            parts.append(f"WHEN names = {exact} OR path = {exact} THEN {WHOLE['name']}")
            parts.append(f"WHEN starts_with(names, {prefix}) THEN {WHOLE['prefix']}")
        return f"CASE {' '.join(parts)} ELSE 0 END"

    def _matches(self, term: SearchTerm) -> str:
        """One test for each field, of the text that all better matches have in them, too."""
        least = [hows[-1] for field in POINTS if (hows := _hows(field, term))]
        fields = [field for field in POINTS if field != "names"]  # the path has the name in it
        tests = [
            self._contains(field, PATTERNS[how].format(term.phrase))
            for field, how in zip(POINTS, least, strict=True)
            if field in fields
        ]
        for other in self._alternatives.get(term, ()):
            phrase = PATTERNS["typo"].format(other.phrase)
            tests += [self._contains(field, phrase) for field in other.fields]
        return f"({' OR '.join(tests)})"

    def _score(self, term: SearchTerm) -> str:
        cases = []
        for field in POINTS:
            tests = [
                (self._contains(field, PATTERNS[how].format(term.phrase)), points(field, how, term))
                for how in _hows(field, term)
            ]
            tests += [
                (
                    self._contains(field, PATTERNS["typo"].format(other.phrase)),
                    POINTS[field]["typo"] - other.distance,
                )
                for other in self._alternatives.get(term, ())
                if field in other.fields
            ]
            when = " ".join(f"WHEN {test} THEN {count}" for test, count in tests)
            cases.append(f"CASE {when} ELSE 0 END")
        return f"greatest({', '.join(cases)})"

    def _filters(self) -> list[str]:
        conditions = [
            "(" + " OR ".join(self._filter(name, value) for value in values) + ")"
            for name, every in self._query.filters.items()
            for values in every
        ]
        return conditions + [f"asset_id IN (SELECT asset_id FROM {s})" for s in self._query.states]

    def _filter(self, name: str, value: str) -> str:
        match name:
            case "namespace":
                return f"namespace = {self._value(value)}"
            case "has" if value == "pii":
                return "asset_id IN (SELECT asset_id FROM personal)"
            case "has":
                return f"{HAS[value]} <> ''"
            case "kind":
                return self._contains("kinds", f"\n {value} \n")
            case "owner":
                return f"({self._entry('owners', value)} OR {self._starts('owners', value + '@')})"
            case _:
                if "=" in value:
                    return self._entry("tags", value)
                either = (self._starts("tags", f"{value}="), self._ends("tags", f"={value}"))
                return f"({self._entry('tags', value)} OR {' OR '.join(either)})"

    def _entry(self, column: str, value: str) -> str:
        return self._contains(f"lower({column})", f"\n {value} \n")

    def _starts(self, column: str, value: str) -> str:
        return self._contains(f"lower({column})", f"\n {value}")

    def _ends(self, column: str, value: str) -> str:
        return self._contains(f"lower({column})", f"{value} \n")


def _hows(field: Field, term: SearchTerm) -> list[MatchKind]:
    """How a term may match a field without a typing error, the best first."""
    return [
        how
        for how in POINTS[field]
        if how != "typo" and (how != "part" or len(term.phrase) >= PART_CHARS)
    ]


def points(field: Field, kind: MatchKind, term: SearchTerm) -> int:
    if field == "path" and kind == "prefix" and "." in term.raw:
        return DOTTED_PREFIX
    return POINTS[field][kind]
