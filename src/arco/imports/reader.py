"""Reading at one generation what was imported."""

from __future__ import annotations

from arco.errors import NotFound
from arco.imports.tables import IMPORTED_NODES, IMPORTS, ImportedNodeRow, ImportRow
from arco.state.snapshot import Snapshot
from servo.suggest import did_you_mean


class ImportReader:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def imports(self) -> list[ImportRow]:
        """The newest import of each source."""
        return sorted(self.snapshot.all(IMPORTS), key=lambda row: row.source)

    def current(self, source: str) -> ImportRow | None:
        return self.snapshot.get(IMPORTS, source)

    def named(self, source: str) -> ImportRow:
        """NotFound with a suggestion."""
        row = self.current(source)
        if row is None:
            sources = [row.source for row in self.imports()]
            hint = did_you_mean(source, sources) or "see `servo lineage imports`"
            raise NotFound(f"nothing was imported from {source}", hint=hint)
        return row

    def nodes(self, source: str) -> dict[str, ImportedNodeRow]:
        return {row.node: row for row in self.snapshot.rows(IMPORTED_NODES, source)}
