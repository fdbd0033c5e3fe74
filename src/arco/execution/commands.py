"""Deciding about outputs that exist (Tier 1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import NamedTuple

import pyarrow.compute as pc

from arco.epoch import EPOCH
from arco.errors import NotFound, Refused
from arco.execution.events import (
    QuarantineDecided,
    RecordedVersion,
    Version,
    VersionQuarantined,
    VersionsDamaged,
    VersionsExpired,
)
from arco.execution.holds import STALE
from arco.execution.states import HELD, HELD_VERSIONS
from arco.execution.tables import QUARANTINE, MaterializationRow, QuarantineRow
from arco.execution.version_lookup import VersionLookup
from arco.state.days import newest_first
from arco.state.snapshot import Snapshot
from arco.state.tier1 import Acknowledged, Tier1
from servo.contract.ulid import is_ulid, timestamp_ms

MILLISECOND = timedelta(milliseconds=1)
CHARS = 26
MIN_CHARS = 4
"""Minimum length of the beginning of an id that names an output."""


TRIES = 5


class Quarantined(NamedTuple):
    version: MaterializationRow
    """As it was before."""
    is_new: bool
    """Whether it was not held before."""


class ExecutionCommands:
    def __init__(self, tier1: Tier1, snapshot: Callable[[], Snapshot], actor: str = "") -> None:
        self._tier1 = tier1
        self._snapshot = snapshot
        self._actor = actor

    def quarantine(self, asset: str, asset_id: str, version_id: str, reason: str) -> Quarantined:
        """Hold a good version, so that nothing reads it. Nothing changes if it is held already.

        If it is current, the newest good version before it is current again. If the partition
        changes meanwhile, this is repeated.
        """
        for number in range(1, TRIES + 1):
            lookup = VersionLookup(self._snapshot(), asset, asset_id)
            version = lookup.version((), version_id)
            if version.status in HELD_VERSIONS:
                return Quarantined(version, False)
            previous = lookup.before(version)
            command = VersionQuarantined(
                asset_id=asset_id,
                asset=asset,
                version=_recorded(version),
                previous=None if previous is None else _recorded(previous),
                partition_version=lookup.partition_version(version.partition_key),
                reason=reason,
            )
            try:
                self._tier1.execute(command, actor=self._actor)
                break
            except Refused as refusal:
                if refusal.code != STALE or number == TRIES:
                    raise
        return Quarantined(version, True)

    def decide(
        self, held: QuarantineRow, *, approved: bool, reason: str = "", idempotency_key: str = ""
    ) -> Acknowledged:
        """Approve or reject a held output. Refused if that was decided before."""
        command = QuarantineDecided(
            asset_id=held.asset_id,
            materialization_id=held.materialization_id,
            approved=approved,
            reason=reason,
        )
        return self._tier1.execute(command, idempotency_key=idempotency_key, actor=self._actor)

    def expire(self, asset_id: str, versions: Sequence[Version]) -> Acknowledged:
        """Expire versions: their files may be deleted. Refused if one is current or held."""
        command = VersionsExpired(asset_id=asset_id, versions=tuple(versions))
        return self._tier1.execute(command, actor=self._actor)

    def record_damage(self, asset_id: str, versions: Sequence[Version]) -> Acknowledged:
        """Record that files of versions are lost; plans then write current ones again."""
        command = VersionsDamaged(asset_id=asset_id, versions=tuple(versions))
        return self._tier1.execute(command, actor=self._actor)


def _recorded(row: MaterializationRow) -> RecordedVersion:
    return RecordedVersion(
        **{name: getattr(row, name) for name in RecordedVersion.__struct_fields__}
    )


def find_held(snapshot: Snapshot, text: str) -> QuarantineRow:
    """A held output, by its id or by its beginning.

    One that waits for a decision goes before those that are decided. History is searched back to
    the day on which the id was created.
    """
    start = text.upper()
    by_id: dict[str, QuarantineRow] = {}
    chosen: list[QuarantineRow] = []
    if len(start) >= MIN_CHARS:
        earliest_ms = _earliest_ms(start)
        for rows, rest_before in newest_first(snapshot, QUARANTINE):
            named = rows.filter(pc.starts_with(rows.column("materialization_id"), start))
            for row in QUARANTINE.rows_of(named):
                by_id.setdefault(row.materialization_id, row)  # one may have been held again
            chosen = list(by_id.values())
            waiting = [row for row in chosen if row.status in HELD]
            if len(waiting) == 1:
                return waiting[0]
            if any(row.materialization_id == start for row in chosen):
                break
            if rest_before is not None and (rest_before - EPOCH) // MILLISECOND < earliest_ms:
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


def _earliest_ms(start: str) -> int:
    """The earliest time of ids with this beginning, in ms since 1970; 0 if it is invalid."""
    first = start.ljust(CHARS, "0")
    return timestamp_ms(first) if is_ulid(first) else 0
