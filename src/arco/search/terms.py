"""Queries: words, phrases in quotes, and filters.

    orders              a word, or the start of one
    customer_id         punctuation between words is as good as any other: customer.id
    "daily revenue"     both words, one after the other
    tag:tier=gold       only assets with that tag; tag:tier, tag:gold by its key or value alone
    owner:ana,bob       a comma separates alternatives
    namespace:sales     kind:sql     has:pii     stale     failing

All words and all filters must hold. A filter in quotes is a word: `"stale"`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from arco.errors import Invalid
from servo.suggest import did_you_mean

FILTERS: Final[Mapping[str, str]] = {
    "tag": "tag:tier=gold, or tag:tier for any value, or tag:gold for any key",
    "owner": "owner:ana",
    "namespace": "namespace:sales",
    "kind": "kind:sql",
    "has": "has:pii",
}
STATES: Final = ("stale", "failing")
HAS: Final[Mapping[str, str]] = {
    "pii": "pii",
    "owner": "owners",
    "description": "description",
    "tag": "tags",
    "term": "terms",
    "column": "columns",
    "code": "code",
}
"""What an asset may have, and the field of its document: of `pii` what is said of its columns, to
which `reader` adds what flows into them."""
MAX_TERMS: Final = 16
_TOKEN = re.compile(
    r'(?P<filter>[A-Za-z_]+):(?P<value>"[^"]*"|\S*)|"(?P<quoted>[^"]*)"|(?P<word>\S+)'
)


def _is_searchable(byte: int) -> bool:
    return chr(byte).isalnum() or byte == ord("\n") or byte >= 128


BLANKED: Final = bytes(byte if _is_searchable(byte) else 32 for byte in bytes(range(256)).lower())
"""For `bytes.translate`: ASCII letters become small, and what is neither letter nor digit blank."""


class SearchTerm(Struct, frozen=True):
    raw: str
    """In small letters."""
    phrase: str
    """The same with blanks for punctuation."""


class SearchQuery(Struct, frozen=True):
    terms: tuple[SearchTerm, ...]
    filters: Mapping[str, tuple[tuple[str, ...], ...]]
    """By their name: all of them must hold, of each one of its values."""
    states: tuple[str, ...] = ()

    @property
    def wants_personal(self) -> bool:
        """Whether a filter asks where personal data is."""
        return any("pii" in values for values in self.filters.get("has", ()))

    @property
    def text(self) -> str:
        """The terms as one text."""
        return " ".join(term.raw for term in self.terms)


def normal(text: str) -> str:
    """Small letters, and blanks for punctuation: what texts are compared as."""
    small: str = pc.utf8_lower(pa.scalar(unicodedata.normalize("NFC", text))).as_py()
    return small.encode().translate(BLANKED).decode()


def parse(text: str) -> SearchQuery:
    """Raises Invalid for an invalid query."""
    if text.count('"') % 2:
        raise Invalid(f"a quote is not closed in {text!r}", hint='write "…" around a phrase')
    terms: list[SearchTerm] = []
    filters: dict[str, tuple[tuple[str, ...], ...]] = {}
    states: list[str] = []
    for token in _TOKEN.finditer(text):
        name, value, word = token["filter"], token["value"], token["word"]
        if name:
            filters[name] = (*filters.get(name, ()), _values(name, value.strip('"')))
        elif word in STATES:
            states.append(word)
        else:
            terms += _term(token["quoted"] if word is None else word)
    if not terms and not filters and not states:
        raise Invalid("the query has no words", hint="name an asset, a column, or a filter")
    if len(terms) > MAX_TERMS:
        raise Invalid(f"the query has {len(terms)} words; the limit is {MAX_TERMS}")
    return SearchQuery(tuple(terms), filters, tuple(dict.fromkeys(states)))


def _term(word: str) -> list[SearchTerm]:
    phrase = normal(word).strip(" \n")
    return [SearchTerm(word.strip().lower(), phrase.replace("\n", " "))] if phrase else []


def _values(name: str, text: str) -> tuple[str, ...]:
    if name not in FILTERS:
        hint = did_you_mean(name, FILTERS) or f'to search for the text, write "{name}:{text}"'
        filters = ", ".join([*(f"{each}:" for each in FILTERS), *STATES])
        raise Invalid(f"there is no filter {name}:; the filters are {filters}", hint=hint)
    values = tuple(value.lower() for value in text.split(",") if value)
    if not values:
        raise Invalid(f"the filter {name}: has no value", hint=f"write {FILTERS[name]}")
    for value in values:
        if name == "has" and value not in HAS:
            hint = did_you_mean(value, HAS) or f"has: takes {', '.join(HAS)}"
            raise Invalid(f"has: does not take {value!r}", hint=hint)
    return values
