"""Deciding about outputs that exist (Tier 1)."""

from __future__ import annotations

from collections.abc import Sequence

from arco.errors import NotFound
from arco.execution.events import QuarantineDecided, Version, VersionsExpired
from arco.execution.fold import HELD
from arco.execution.tables import QUARANTINE, QuarantineRow
from arco.state.snapshot import Snapshot
from arco.state.tier1 import Acknowledged, Tier1

MIN_CHARS = 4


class ExecutionCommands:
    def __init__(self, tier1: Tier1, actor: str = "") -> None:
        self._tier1 = tier1
        self._actor = actor

    def decide(
        self, held: QuarantineRow, *, approved: bool, reason: str = "", idempotency_key: str = ""
    ) -> Acknowledged:
        """Approve or reject an output that is held back. Refused if that was done before."""
        command = QuarantineDecided(
            asset_id=held.asset_id,
            materialization_id=held.materialization_id,
            approved=approved,
            reason=reason,
        )
        return self._tier1.execute(command, idempotency_key=idempotency_key, actor=self._actor)

    def expire(self, asset_id: str, versions: Sequence[Version]) -> Acknowledged:
        """Give versions up, so that their files may go. Refused if one is current or held back."""
        command = VersionsExpired(asset_id=asset_id, versions=tuple(versions))
        return self._tier1.execute(command, actor=self._actor)


def find_held(snapshot: Snapshot, text: str) -> QuarantineRow:
    """An output that was held back, by its id, or by enough of its beginning or end."""
    wanted = text.upper()
    rows = [
        row
        for row in snapshot.all(QUARANTINE)
        if row.materialization_id == wanted
        or (
            len(wanted) >= MIN_CHARS
            and (
                row.materialization_id.startswith(wanted) or row.materialization_id.endswith(wanted)
            )
        )
    ]
    if len(rows) == 1:
        return rows[0]
    waiting = [row for row in rows if row.status in HELD]
    if len(waiting) == 1:
        return waiting[0]
    problem = f"names {len(rows)} outputs" if rows else "names no output that was held back"
    raise NotFound(f"{text!r} {problem}", hint="see `servo quarantine list`")
