"""The namespaces of one workspace that a caller sees. Computed once for each request.

Readers take it as an argument, so that a list, a count, a search or a traversal of lineage cannot
forget it. Hidden objects do not exist for the caller.
"""

from __future__ import annotations

from typing import Final

import msgspec

from servo.contract.keys import AssetKey


class Visible(msgspec.Struct, frozen=True):
    """All namespaces of a workspace, or some of them."""

    namespaces: frozenset[str] | None = frozenset()
    """None: all of them, including later ones."""

    @property
    def all(self) -> bool:
        return self.namespaces is None

    @property
    def nothing(self) -> bool:
        return self.namespaces is not None and not self.namespaces

    def sees(self, namespace: str) -> bool:
        return self.namespaces is None or namespace in self.namespaces

    def sees_asset(self, key: AssetKey | str) -> bool:
        """Whether the caller sees an asset, by its key `namespace.name`."""
        if self.namespaces is None:
            return True
        namespace = key.namespace if isinstance(key, AssetKey) else key.partition(".")[0]
        return namespace in self.namespaces

    def __or__(self, other: Visible) -> Visible:
        if self.namespaces is None or other.namespaces is None:
            return EVERYTHING
        return Visible(self.namespaces | other.namespaces)

    def __and__(self, other: Visible) -> Visible:
        if self.namespaces is None:
            return other
        if other.namespaces is None:
            return self
        return Visible(self.namespaces & other.namespaces)


EVERYTHING: Final = Visible(None)
NOTHING: Final = Visible()
