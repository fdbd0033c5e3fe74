"""Removes names of hidden assets from texts.

Readers leave out what is hidden. Texts that people or programs wrote (the message of an error, a
cause in words, a log) may still name an asset of a hidden namespace: in an answer to a caller who
does not see the whole workspace, such a name is replaced.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from arco.api.views import View
from arco.catalog.tables import NAMESPACES
from arco.columns.quoting import literal
from arco.orchestration.tables import PROJECT_NAMESPACES
from arco.security.visibility import Visible

HIDDEN: Final = "(hidden)"
_POINT: Final = re.compile(rb"\.[a-z]")
_WORD: Final = b"abcdefghijklmnopqrstuvwxyz0123456789_"
_LONG_WORD: Final = 256
_KEY = re.compile(r"(?<![\w.])([a-z][a-z0-9_]*)\.[a-z][a-z0-9_]*")


def all_namespaces(view: View) -> frozenset[str]:
    """Those of the catalog, and those that projects have."""

    def read() -> frozenset[str]:
        rows = view.snapshot.all(NAMESPACES)
        owned = view.snapshot.all(PROJECT_NAMESPACES)
        return frozenset({row.namespace for row in rows} | {row.namespace for row in owned})

    return view.derived("namespaces", read)


def hidden_namespaces(view: View, visible: Visible) -> frozenset[str]:
    """Those that a caller does not see."""
    if visible.namespaces is None:
        return frozenset()
    return all_namespaces(view) - visible.namespaces


def without_hidden_names(view: View, visible: Visible, document: Any) -> Any:
    """A document of JSON values for a caller."""
    hidden = hidden_namespaces(view, visible)
    return Scrubbing(hidden).value(document) if hidden else document


def encode_without_hidden_names(view: View, visible: Visible, document: Any) -> bytes:
    """The same as JSON. Few documents have such a name, and only those are gone through."""
    encoded = msgspec.json.encode(document)
    if visible.all or not _may_name_hidden(view, visible, encoded):
        return encoded
    return msgspec.json.encode(without_hidden_names(view, visible, document))


def _may_name_hidden(view: View, visible: Visible, encoded: bytes) -> bool:
    """Whether JSON may name an asset of a hidden namespace: words before points are compared. What
    follows an escape, as in `\\nsales.orders`, may be such a word, and so may a very long one."""
    namespaces = all_namespaces(view)
    for match in _POINT.finditer(encoded):
        before = encoded[max(0, match.start() - _LONG_WORD) : match.start()]
        rest = before.rstrip(_WORD)
        word = before[len(rest) :].decode()
        if not rest or rest.endswith(b"\\") or (word in namespaces and not visible.sees(word)):
            return True
    return False


class Scrubbing:
    """Replaces names of assets of some namespaces."""

    def __init__(self, hidden: frozenset[str]) -> None:
        self._hidden = hidden

    @property
    def names(self) -> str:
        """A regular expression, of RE2, that every text with such a name matches."""
        return rf"\b(?:{'|'.join(sorted(map(re.escape, self._hidden)))})\.[a-z]"

    @property
    def sql(self) -> str:
        """The replacement as an expression of SQL, with the place `{text}`."""
        names = "|".join(sorted(map(re.escape, self._hidden)))
        pattern = rf"(^|[^\w.])(?:{names})\.[a-z][a-z0-9_]*"
        replacement = rf"\1{HIDDEN}"
        return f"regexp_replace({{text}}, {literal(pattern)}, {literal(replacement)}, 'g')"

    def value(self, value: Any) -> Any:
        match value:
            case str():
                return self._text(value) if "." in value else value
            case dict():
                return {self.value(name): self.value(item) for name, item in value.items()}
            case list():
                return [self.value(item) for item in value]
            case tuple():
                return tuple([self.value(item) for item in value])
        return value

    def _text(self, text: str) -> str:
        return _KEY.sub(self._replaced, text)

    def _replaced(self, match: re.Match[str]) -> str:
        return HIDDEN if match[1] in self._hidden else match[0]
