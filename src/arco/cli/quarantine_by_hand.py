"""`servo quarantine add` and `release`: versions that a person holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from arco.cli import deferral
from arco.cli.options import OnePartition, Reason, StatedReason, argument, command, option, stated
from arco.cli.quarantine import Id

if deferral.LOADED:
    from arco.answers.held_readers import readers_out_of_date
    from arco.cli import render
    from arco.cli.quarantine import (
        current_after,
        name_of,
        say_out_of_date,
        tell_decision,
        world_of,
    )
    from arco.cli.session import Session
    from arco.cli.short_ids import short
    from arco.errors import Invalid, NotFound, Refused
    from arco.execution.commands import find_held
    from arco.execution.reader import ExecutionReader
    from arco.execution.states import HELD, HoldStatus
    from arco.execution.tables import MaterializationRow
    from arco.execution.version_lookup import VersionLookup
    from arco.orchestration.reader import OrchestrationReader
    from arco.state.snapshot import Snapshot
    from arco.times import short as short_time


def register(quarantine: typer.Typer) -> None:
    command(
        quarantine,
        "add",
        example='servo quarantine add shop.orders -p date=2026-01-31 --reason "half of the shops"\n'
        "servo quarantine add shop.orders -p date=2026-01-31 --version 3",
        takes=["actor"],
    )(add)
    command(
        quarantine,
        "release",
        example='servo quarantine release 01K9ZQ3F7M --reason "the shops were closed"',
        takes=["actor", "key"],
    )(release)


def add(
    session: Session,
    asset: Annotated[str, argument("ASSET", "The asset: namespace.name.")],
    partition: OnePartition = None,
    version: Annotated[
        str | None, option("N|ID", "The version's number or id; the current one by default.")
    ] = None,
    reason: StatedReason = None,
) -> None:
    """Put a good version into quarantine, so that it is not read any more.

    If it is current, the previous good version becomes current again. Runs that are already
    planned still read the versions in their plan. A version that is already held does not change.
    While the newest version is held by hand, an older one can be held only with --version.
    """
    why = stated(reason)
    workspace = session.open()
    snapshot = workspace.read.snapshot()
    asset_id = OrchestrationReader(snapshot).asset_id(asset)
    lookup = VersionLookup(snapshot, asset, asset_id)
    newest = _held_newest(snapshot, lookup, partition or ()) if version is None else None
    row = newest or lookup.version(partition or (), version)
    before = ExecutionReader(snapshot).partition(asset_id, row.partition_key)
    was_current = before is not None and before.materialization_id == row.materialization_id
    held_now = workspace.commands.execution.quarantine(asset, asset_id, row.materialization_id, why)
    snapshot = workspace.read.snapshot()
    held = find_held(snapshot, row.materialization_id)
    current = ExecutionReader(snapshot).partition(asset_id, row.partition_key)
    downstream, other_partitions = (
        readers_out_of_date(snapshot, world_of(workspace, snapshot), held)
        if was_current
        else ((), ())
    )
    if session.json:
        render.document(
            {
                "generation": snapshot.generation,
                **render.plain(held),
                "version": row.version,
                "is_new": held_now.is_new,
                "current": current,
                "out_of_date": sorted([*downstream, *other_partitions]),
            }
        )
        return
    name = f"{name_of(held)}: version {row.version}" if row.version else name_of(held)
    if not held_now.is_new:
        by = f" by {held.held_by}" if held.held_by else ""
        render.say(f"{name} is already held{by}, since {short_time(held.held_at)}", "yellow")
        if newest is not None:
            render.say("give --version to hold an older one", "dim")
        return
    render.say(f"{name} is in quarantine; {current_after(current, 'is')}", "yellow")
    say_out_of_date(held, downstream, other_partitions, current)
    render.say(f"servo quarantine release {short(held.materialization_id)}", "dim")


def _held_newest(
    snapshot: Snapshot, lookup: VersionLookup, texts: Sequence[str]
) -> MaterializationRow | None:
    """The version that is newer than the current one and that somebody holds, if there is one."""
    reader = ExecutionReader(snapshot)
    holds = [hold for hold in reader.holds(lookup.asset_id) if hold.held_by and hold.status in HELD]
    if texts and holds:
        key = lookup.partition(texts)
        holds = [hold for hold in holds if hold.partition_key == key]
    rows = (reader.materialization(lookup.asset_id, hold.materialization_id) for hold in holds)
    newest = max((row for row in rows if row is not None), key=_position, default=None)
    if newest is None:
        return None
    try:
        current = lookup.current(lookup.partition(texts))
    except NotFound:
        return newest
    return newest if newest.position > current.position else None


def _position(row: MaterializationRow) -> int:
    return row.position


def release(session: Session, id: Id, reason: Reason = "") -> None:
    """Release a version that was put into quarantine by hand.

    It becomes current, unless a newer version is. A version that is already released does not
    change.
    """
    workspace = session.open()
    held = find_held(workspace.read.snapshot(), id)
    if not held.held_by:
        raise Invalid(
            f"{held.materialization_id} is held by checks, not by a person",
            hint=f"approve it: servo quarantine approve {short(held.materialization_id)}",
        )
    is_new = held.status != HoldStatus.APPROVED
    try:
        if is_new:
            workspace.commands.execution.decide(
                held, approved=True, reason=reason, idempotency_key=session.idempotency_key
            )
    except Refused:
        # Somebody else may have released it.
        held = find_held(workspace.read.snapshot(), held.materialization_id)
        if held.status != HoldStatus.APPROVED:
            raise
        is_new = False
    if is_new or session.json:
        tell_decision(session, workspace, held.materialization_id, "released", is_new=is_new)
        return
    by = f" by {held.decided_by}" if held.decided_by else ""
    at = "" if held.decided_at is None else f", {short_time(held.decided_at)}"
    render.say(f"{name_of(held)}: already released{by}{at}", "yellow")
