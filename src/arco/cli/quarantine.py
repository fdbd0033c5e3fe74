"""`servo quarantine`: held outputs, and decisions about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from arco.cli import deferral
from arco.cli.options import Reason, argument, command, flag, group, option

if deferral.LOADED:
    from rich.text import Text

    from arco.answers.held_readers import readers_out_of_date
    from arco.app import Workspace
    from arco.cli import render
    from arco.cli.live import partition_text
    from arco.cli.session import Session
    from arco.cli.short_ids import short, shorts
    from arco.execution.commands import find_held
    from arco.execution.reader import ExecutionReader
    from arco.execution.tables import MaterializationRow, PartitionRow, QuarantineRow
    from arco.orchestration.reader import OrchestrationReader
    from arco.orchestration.world import World
    from arco.quality.reader import QualityReader
    from arco.quality.tables import CheckResultRow
    from arco.state.snapshot import Snapshot
    from arco.times import parse_time
    from arco.times import short as short_time

SAMPLES = 5

app = group("quarantine", "Show, approve and reject held outputs; hold versions.")

Id = Annotated[str, argument("ID", "The output's id, or its first characters.")]


@command(
    app,
    "list",
    example="servo quarantine list\nservo quarantine list --all --asset sales.orders",
    takes=["at"],
)
def list_(
    session: Session,
    everything: Annotated[
        bool, flag("--all", "Include outputs that were approved or rejected.")
    ] = False,
    asset: Annotated[str, option("NAMESPACE.NAME", "Only outputs of this asset.")] = "",
    since: Annotated[
        str | None,
        option("TIME", "With --all: only decisions since this time; default: 30 days ago."),
    ] = None,
) -> None:
    """List held outputs, newest first.

    A held output is not current: readers of the asset get the previous version.
    """
    reader = session.open().read.execution(session.at())
    oldest = None if since is None else parse_time(since, reader.snapshot.published_at)
    rows = reader.quarantine(decided=everything, asset_key=asset, since=oldest)
    if session.json:
        render.document({"generation": reader.snapshot.generation, "outputs": rows})
    elif rows:
        _show_list(rows, everything)
    else:
        of = f" of {asset}" if asset else ""
        ever = "was ever" if everything else "is"
        render.say(f"no output{of} {ever} held", "green")


def _show_list(rows: Sequence[QuarantineRow], everything: bool) -> None:
    names = shorts(row.materialization_id for row in rows)
    lines = [
        (
            names[row.materialization_id],
            status_text(row.status),
            row.held_at,
            name_of(row),
            (row.decision if everything else "") or _why(row),
        )
        for row in rows
    ]
    headers = ("id", "status", "held", "output", "why")
    render.show_table(headers, lines, whole=headers[:3])


def _why(row: QuarantineRow) -> str:
    if not row.held_by:
        return row.reason
    return f"{row.held_by}: {row.reason}" if row.reason else f"held by {row.held_by}"


def status_text(status: str) -> Text:
    styles = {"QUARANTINED": "yellow", "BLOCKED": "bold red", "APPROVED": "green"}
    return Text(status, styles.get(status, "dim"))


# -- one of them ----------------------------------------------------------------------------


@command(app, "show", example="servo quarantine show 01K9ZQ3F7M", takes=["at"])
def show(session: Session, id: Id) -> None:
    """Show a held output and the results of its checks."""
    snapshot = session.open().read.snapshot(session.at())
    held = find_held(snapshot, id)
    reader = ExecutionReader(snapshot)
    version = reader.materialization(held.asset_id, held.materialization_id)
    current = reader.partition(held.asset_id, held.partition_key)
    checks = _checks(snapshot, held, version)
    if session.json:
        render.document(
            {
                "generation": snapshot.generation,
                **render.plain(held),
                "version": 0 if version is None else version.version,
                "checks": checks,
                "current": current,
            }
        )
        return
    _show_held(held, version, current)
    _show_checks(checks)
    if held.decided_at is None:
        name = short(held.materialization_id)
        word = "release" if held.held_by else "approve"
        render.say(f"\nservo quarantine {word} {name}, or reject {name}", "dim")


def _checks(
    snapshot: Snapshot, held: QuarantineRow, version: MaterializationRow | None
) -> list[CheckResultRow]:
    """The check results of this output, failed ones first."""
    if version is None:
        return []
    results = QualityReader(snapshot).of_attempt(held.asset_id, version.attempt_id)
    return sorted(results, key=lambda row: (row.status == "passed", row.check_id))


def _show_held(
    held: QuarantineRow, version: MaterializationRow | None, current: PartitionRow | None
) -> None:
    values: dict[str, object] = {
        "output": held.materialization_id,
        "asset": held.asset_key,
        "partition": partition_text(held.partition_key) or None,
        "status": status_text(held.status),
        "why": held.reason,
        "rows": held.rows,
        "size": render.size(held.bytes),
        "path": held.path,
        "run": held.run_id,
        "held": held.held_at,
        "held by": held.held_by or "checks",
    }
    if held.decided_at is not None:
        values["decided"] = held.decided_at
        values["by"] = held.decided_by or None
        values["reason"] = held.decision or None
    if version is not None and version.version:
        values["version"] = version.version
    values["current"] = _current_text(held, current)
    render.show_fields(values)


def _current_text(held: QuarantineRow, current: PartitionRow | None) -> str:
    if current is None:
        return "none: the partition has no good version"
    if current.materialization_id == held.materialization_id:
        return "this one"
    return (
        f"version {current.version}, {short(current.materialization_id)}: "
        f"{render.count(current.rows, 'row')}, since {short_time(current.updated_at)}"
    )


_MARKS = {"passed": ("✓", "green"), "failed": ("✗", "bold red"), "error": ("!", "bold red")}


def _show_checks(checks: Sequence[CheckResultRow]) -> None:
    if not checks:
        render.say("\nthere are no check results", "dim")
        return
    failed = sum(row.status != "passed" for row in checks)
    render.say(f"\n{failed} of {render.count(len(checks), 'check')} failed:", "bold")
    lines = [
        (
            Text(*_MARKS[row.status]),
            row.check_id,
            row.severity,
            row.expected or None,
            row.actual or None,
            row.failing,
        )
        for row in checks
    ]
    headers = ("", "check", "severity", "expected", "actual", "failing")
    render.show_table(headers, lines, right=["failing"], whole=["check", "severity"])
    for row in checks:
        if row.status != "passed" and (row.sample or row.message):
            _show_sample(row)


def _show_sample(row: CheckResultRow) -> None:
    render.say(f"\n{row.check_id}: {row.message}".rstrip(": "), "bold")
    for line in row.sample[:SAMPLES]:
        render.say(f"  {line}")
    if len(row.sample) > SAMPLES:
        render.say(f"  and {len(row.sample) - SAMPLES} more; see --json", "dim")


# -- deciding -------------------------------------------------------------------------------


@command(
    app,
    "approve",
    example='servo quarantine approve 01K9ZQ3F7M --reason "confirmed by the shop"',
    takes=["actor", "key"],
)
def approve(session: Session, id: Id, reason: Reason = "") -> None:
    """Approve an output. It becomes current, unless a newer version is."""
    _decide(session, id, True, reason)


@command(
    app,
    "reject",
    example='servo quarantine reject 01K9ZQ3F7M --reason "wrong currencies"',
    takes=["actor", "key"],
)
def reject(session: Session, id: Id, reason: Reason = "") -> None:
    """Reject an output permanently. `servo gc` deletes its files."""
    _decide(session, id, False, reason)


def _decide(session: Session, id: str, approved: bool, reason: str) -> None:
    workspace = session.open()
    held = find_held(workspace.read.snapshot(), id)
    key = session.idempotency_key
    workspace.commands.execution.decide(held, approved=approved, reason=reason, idempotency_key=key)
    tell_decision(
        session, workspace, held.materialization_id, "approved" if approved else "rejected"
    )


def tell_decision(
    session: Session, workspace: Workspace, id: str, decision: str, *, is_new: bool = True
) -> None:
    snapshot = workspace.read.snapshot()
    held = find_held(snapshot, id)
    reader = ExecutionReader(snapshot)
    version = reader.materialization(held.asset_id, held.materialization_id)
    current = reader.partition(held.asset_id, held.partition_key)
    is_current = current is not None and current.materialization_id == held.materialization_id
    by_hand = bool(held.held_by)
    downstream, other_partitions = (
        readers_out_of_date(snapshot, world_of(workspace, snapshot), held, given_back=by_hand)
        if is_current
        else ((), ())
    )
    if session.json:
        render.document(
            {
                "generation": snapshot.generation,
                **render.plain(held),
                "version": 0 if version is None else version.version,
                "is_new": is_new,
                "is_current": is_current,
                "out_of_date": sorted([*downstream, *other_partitions]),
            }
        )
    elif decision != "rejected" and version is not None:
        _say_good(decision, held, version, current)
        say_out_of_date(held, downstream, other_partitions, current)
    else:
        render.say(f"{name_of(held)}: rejected; {current_after(current, 'stays')}", "yellow")


def world_of(workspace: Workspace, snapshot: Snapshot) -> World:
    return World.of(OrchestrationReader(snapshot), workspace.library)


def name_of(held: QuarantineRow) -> str:
    text = partition_text(held.partition_key)
    return f"{held.asset_key}[{text}]" if text else held.asset_key


def _say_good(
    decision: str, held: QuarantineRow, version: MaterializationRow, current: PartitionRow | None
) -> None:
    name = name_of(held)
    if current is None or current.materialization_id != held.materialization_id:
        newer = "" if current is None else f"; version {current.version} is newer and stays current"
        render.say(f"{name}: {decision} as version {version.version}{newer}", "green")
        return
    render.say(f"{name}: {decision}, and current as version {version.version}", "green")


def say_out_of_date(
    held: QuarantineRow,
    downstream: Sequence[str],
    other_partitions: Sequence[str],
    current: PartitionRow | None,
) -> None:
    if downstream:
        render.say(f"now out of date: {_few(downstream)}")
        if current is None:
            render.say(f"  they cannot run while {name_of(held)} has no good version", "dim")
        else:
            render.say(f"  {_command(held, downstream)}", "cyan")
    if other_partitions:
        render.say(f"out of date in the partitions that read this: {_few(other_partitions)}")
        if current is not None:
            render.say("  choose their partitions and run them with `servo run`", "dim")


def _few(keys: Sequence[str]) -> str:
    return f"{', '.join(keys[:5])}{' …' if len(keys) > 5 else ''}"


def _command(held: QuarantineRow, downstream: Sequence[str]) -> str:
    parts = [p for p in partition_text(held.partition_key).split(",") if p]
    return " ".join(["servo run", *downstream, *(f"-p {part}" for part in parts)])


def current_after(current: PartitionRow | None, verb: str) -> str:
    if current is None:
        return "the partition has no current version"
    return f"version {current.version} {verb} current"
