"""Removes names of hidden assets from texts.

Readers leave out what is hidden. Texts that people or programs wrote (the message of an error, a
cause in words, a log) may still name an asset of a hidden namespace: in an answer to a caller who
does not see the whole workspace, such a name is replaced.
"""

from __future__ import annotations

import re
from typing import Any, Final

from arco.api.views import View
from arco.catalog.tables import NAMESPACES
from arco.columns.quoting import literal
from arco.orchestration.tables import PROJECT_NAMESPACES
from arco.security.visibility import Visible

HIDDEN: Final = "(hidden)"
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
