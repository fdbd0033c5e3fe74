"""Why a document matches: the field, the entry, and where the words are in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from arco.search.ranking import PATTERNS, POINTS, Alternative, Field, MatchKind, points
from arco.search.tables import DocumentRow, entries
from arco.search.terms import SearchQuery, SearchTerm

SNIPPET_CHARS: Final = 80
FIELDS: Final[Mapping[str, tuple[Field, str]]] = {
    "name": ("names", "name"),
    "namespace": ("path", "asset"),
    "columns": ("columns", "column"),
    "owners": ("labels", "owner"),
    "tags": ("labels", "tag"),
    "terms": ("labels", "term"),
    "previous_names": ("labels", "previous name"),
    "description": ("texts", "description"),
    "column_descriptions": ("texts", "column description"),
    "code": ("code", "code"),
}
"""The fields of a document: what they are ranked as, and what people call them."""


class SearchMatch(Struct, frozen=True):
    field: str
    """name, asset (with its namespace), column, owner, tag, term, description, code, …"""
    how: MatchKind | Literal["filter"]
    text: str
    """The entry; of a long one the part around the match."""
    spans: list[tuple[int, int]]
    """Where the matches are in the text: start and end."""
    meant: str = ""
    """Of a typing error: the text that was taken in its place."""


class MatchPlace(Struct, frozen=True):
    count: int
    match: SearchMatch


def explain(
    document: DocumentRow,
    query: SearchQuery,
    alternatives: Mapping[SearchTerm, Sequence[Alternative]],
) -> list[SearchMatch]:
    """The best match of each term, and what filters hold for. Terms in the same text share one."""
    best: dict[tuple[str, str], SearchMatch] = {}
    for term in query.terms:
        places = list(_places(document, term, alternatives.get(term, ())))
        if not places:
            continue
        match = max(places, key=lambda place: place.count).match
        other = best.get((match.field, match.text))
        if other is not None:
            spans = sorted({*other.spans, *match.spans})
            match = SearchMatch(
                match.field, other.how, match.text, spans, match.meant or other.meant
            )
        best[match.field, match.text] = match
    return [*best.values(), *_filtered(document, query)]


def _filtered(document: DocumentRow, query: SearchQuery) -> Iterator[SearchMatch]:
    """The entries for which filters let the document pass."""
    for state in query.states:
        yield SearchMatch("state", "filter", state, [])
    for name, every in query.filters.items():
        for value in (value for values in every for value in values):
            match name:
                case "tag" | "owner":
                    for entry in entries(document.tags if name == "tag" else document.owners):
                        at = _filtered_at(name, entry.lower(), value)
                        if at >= 0:
                            yield SearchMatch(name, "filter", entry, [(at, at + len(value))])
                case "has" if value == "pii":
                    for entry in entries(document.pii):
                        yield SearchMatch("personal data", "filter", entry, [])


def _filtered_at(name: str, entry: str, value: str) -> int:
    """Where the value of a filter is in an entry; -1 if the entry does not match it."""
    if entry == value or entry.startswith(value + ("=" if name == "tag" else "@")):
        return 0
    if name == "tag" and "=" not in value and entry.endswith(f"={value}"):
        return len(entry) - len(value)
    return -1


def _places(
    document: DocumentRow, term: SearchTerm, alternatives: Sequence[Alternative]
) -> Iterator[MatchPlace]:
    for name, (field, label) in FIELDS.items():
        for entry in _entries(document, name):
            text = f"\n {_small(entry)} \n"
            for kind in POINTS[field]:
                if kind == "typo":
                    continue
                at = text.find(PATTERNS[kind].format(term.phrase))
                if at >= 0:
                    yield _place(field, label, kind, entry, at, term, points(field, kind, term))
                    break
            for other in alternatives:
                at = text.find(PATTERNS["typo"].format(other.phrase))
                if at >= 0 and field in other.fields:
                    count = POINTS[field]["typo"] - other.distance
                    yield _place(field, label, "typo", entry, at, term, count, other.phrase)


def _place(
    field: Field,
    label: str,
    kind: MatchKind,
    entry: str,
    at: int,
    term: SearchTerm,
    count: int,
    meant: str = "",
) -> MatchPlace:
    # What precedes the phrase in the pattern, and the "\n " before the entry.
    start = at + PATTERNS[kind].index("{") - 2
    text, span = _snippet(entry, start, start + len(meant or term.phrase))
    return MatchPlace(count, SearchMatch(label, kind, text, [span], meant))


def _snippet(entry: str, start: int, end: int) -> tuple[str, tuple[int, int]]:
    if len(entry) <= SNIPPET_CHARS:
        return entry, (start, end)
    room = max(SNIPPET_CHARS - (end - start), 0) // 2
    low, high = max(start - room, 0), min(end + room, len(entry))
    before, after = "…" if low else "", "…" if high < len(entry) else ""
    shift = len(before) - low
    return f"{before}{entry[low:high]}{after}", (start + shift, end + shift)


def _entries(document: DocumentRow, name: str) -> list[str]:
    match name:
        case "name":
            return [document.name]
        case "namespace":
            return [f"{document.namespace}.{document.name}"]
        case _:
            return entries(getattr(document, name))


def _small(text: str) -> str:
    """As `terms.normal`, with a character for each of the text: places are the same in both."""
    return "".join(_small_character(character) for character in text)


def _small_character(character: str) -> str:
    small = character.lower()
    if len(small) != 1:
        return character
    return small if small.isalnum() or ord(small) >= 128 else " "
