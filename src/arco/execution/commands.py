"""Deciding about outputs that exist (Tier 1)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pyarrow.compute as pc

from arco.epoch import EPOCH
from arco.errors import NotFound
from arco.execution.events import QuarantineDecided, Version, VersionsDamaged, VersionsExpired
from arco.execution.states import HELD
from arco.execution.tables import QUARANTINE, QuarantineRow
from arco.state.days import newest_first
from arco.state.snapshot import Snapshot
from arco.state.tier1 import Acknowledged, Tier1
from servo.contract.ulid import is_ulid, timestamp_ms

MILLISECOND = timedelta(milliseconds=1)
CHARS = 26
MIN_CHARS = 4
"""So much of an id may name an output."""


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

    def record_damage(self, asset_id: str, versions: Sequence[Version]) -> Acknowledged:
        """Record that files of versions are lost; plans then write current ones again."""
        command = VersionsDamaged(asset_id=asset_id, versions=tuple(versions))
        return self._tier1.execute(command, actor=self._actor)


def find_held(snapshot: Snapshot, text: str) -> QuarantineRow:
    """An output that was held back, by its id, or by enough of its beginning.

    One that waits for a decision goes before those that are decided. History is searched
    back to the day in which the id was made.
    """
    start = text.upper()
    chosen: list[QuarantineRow] = []
    if len(start) >= MIN_CHARS:
        made_ms = _made_ms(start)
        for rows, rest_before in newest_first(snapshot, QUARANTINE):
            named = rows.filter(pc.starts_with(rows.column("materialization_id"), start))
            chosen += QUARANTINE.rows_of(named)
            waiting = [row for row in chosen if row.status in HELD]
            if len(waiting) == 1:
                return waiting[0]
            if any(row.materialization_id == start for row in chosen):
                break
            if rest_before is not None and (rest_before - EPOCH) // MILLISECOND < made_ms:
                break
    if len(chosen) == 1:
        return chosen[0]
    if not chosen:
        raise NotFound(
            f"{text!r} is not the id of a held output",
            hint="give an id or its first characters; see `servo quarantine list`",
        )
    several = ", ".join(sorted(row.materialization_id for row in chosen)[:5])
    raise NotFound(
        f"{text!r} names {len(chosen):,} outputs", hint=f"give more characters: {several}"
    )


def _made_ms(start: str) -> int:
    """When the first id was made that begins like this, since 1970; 0 if no id does."""
    first = start.ljust(CHARS, "0")
    return timestamp_ms(first) if is_ulid(first) else 0
