"""Names of assets that a caller does not see, taken out of texts.

Readers leave out what is hidden. Texts that people or programs wrote (the message of an error, a
cause in words, a log) may still name an asset of a hidden namespace: in an answer to a caller who
does not see the whole workspace, such a name is replaced.
"""

from __future__ import annotations

import re
from typing import Any, Final

from arco.api.views import View
from arco.catalog.tables import NAMESPACES
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


def without_hidden_names(view: View, visible: Visible, document: Any) -> Any:
    """A document of JSON values for a caller."""
    if visible.namespaces is None:
        return document
    hidden = all_namespaces(view) - visible.namespaces
    return _Scrubbing(hidden).value(document) if hidden else document


class _Scrubbing:
    def __init__(self, hidden: frozenset[str]) -> None:
        self._hidden = hidden

    def value(self, value: Any) -> Any:
        match value:
            case str():
                return self._text(value) if "." in value else value
            case dict():
                return {self.value(name): self.value(item) for name, item in value.items()}
            case list():
                return [self.value(item) for item in value]
        return value

    def _text(self, text: str) -> str:
        return _KEY.sub(self._replaced, text)

    def _replaced(self, match: re.Match[str]) -> str:
        return HIDDEN if match[1] in self._hidden else match[0]
