"""`servo quarantine`: outputs that checks hold back, and what people decide about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from arco.cli.options import command, group
from arco.cli.session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from rich.text import Text

    from arco.app import Workspace
    from arco.execution.tables import MaterializationRow, PartitionRow, QuarantineRow
    from arco.quality.tables import CheckResultRow
    from arco.state.snapshot import Snapshot
    from servo.contract.manifest import Asset

SHORT = 8
"""So much of an id, from its end, names it for people."""
SAMPLES = 5

app = group("quarantine", "Outputs that checks hold back: look at them, approve or reject them.")

Id = Annotated[str, typer.Argument(metavar="ID", help="Its id, or the beginning or end of it.")]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Say why; it is kept.")]


@command(
    app,
    "list",
    example="servo quarantine list\nservo quarantine list --all --asset sales.orders",
    takes=["at"],
)
def list_(
    session: Session,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that somebody has decided about.")
    ] = False,
    asset: Annotated[
        str, typer.Option(metavar="NAMESPACE.NAME", help="Only outputs of this asset.")
    ] = "",
) -> None:
    """List outputs that are held back, the newest first.

    What is held back is not current: whoever reads the asset reads the version before.
    """
    from arco.cli import render

    reader = session.open().read_execution(session.at())
    rows = reader.quarantine(decided=everything, asset_key=asset)
    if session.json:
        render.document({"generation": reader.snapshot.generation, "outputs": rows})
    elif rows:
        _show_list(rows, everything)
    else:
        of = f" of {asset}" if asset else ""
        ever = "was ever" if everything else "is"
        render.say(f"nothing{of} {ever} held back", "green")


def _show_list(rows: Sequence[QuarantineRow], everything: bool) -> None:
    from arco.cli import render

    shown = [
        (
            row.materialization_id[-SHORT:],
            status_text(row.status),
            row.held_at,
            f"{name_of(row)}\n{(row.decision if everything else '') or row.reason}",
        )
        for row in rows
    ]
    headers = ("id", "status", "held", "output, and why")
    render.show(render.table(headers, shown, whole=headers[:3]))


def status_text(status: str) -> Text:
    from rich.text import Text

    styles = {"QUARANTINED": "yellow", "BLOCKED": "bold red", "APPROVED": "green"}
    return Text(status, styles.get(status, "dim"))


# -- one of them ----------------------------------------------------------------------------


@command(app, "show", example="servo quarantine show 7Q2M8XKD", takes=["at"])
def show(session: Session, id: Id) -> None:
    """Show an output that was held back: what it is, and what each check found."""
    from arco.cli import render
    from arco.execution.commands import find_held
    from arco.execution.reader import ExecutionReader

    snapshot = session.open().snapshot(session.at())
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
        short = held.materialization_id[-SHORT:]
        render.say(f"\nservo quarantine approve {short}, or reject {short}", "dim")


def _checks(
    snapshot: Snapshot, held: QuarantineRow, version: MaterializationRow | None
) -> list[CheckResultRow]:
    """What was found about this output: those that did not pass first."""
    from arco.quality.reader import QualityReader

    if version is None:
        return []
    found = QualityReader(snapshot).of_attempt(held.asset_id, version.attempt_id)
    return sorted(found, key=lambda row: (row.status == "passed", row.check_id))


def _show_held(
    held: QuarantineRow, version: MaterializationRow | None, current: PartitionRow | None
) -> None:
    from arco.cli import render
    from arco.cli.live import partition_text

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
    }
    if held.decided_at is not None:
        values["decided"] = held.decided_at
        values["by"] = held.decided_by or None
        values["reason"] = held.decision or None
    if version is not None and version.version:
        values["version"] = version.version
    values["current"] = _current_text(held, current)
    render.show(render.fields(values))


def _current_text(held: QuarantineRow, current: PartitionRow | None) -> str:
    from arco.cli import render
    from arco.cli.times import short

    if current is None:
        return "nothing: there is no good version of it"
    if current.materialization_id == held.materialization_id:
        return "this one"
    return (
        f"version {current.version}, {current.materialization_id[-SHORT:]}: "
        f"{render.count(current.rows, 'row')}, since {short(current.updated_at)}"
    )


_MARKS = {"passed": ("✓", "green"), "failed": ("✗", "bold red"), "error": ("!", "bold red")}


def _show_checks(checks: Sequence[CheckResultRow]) -> None:
    from rich.text import Text

    from arco.cli import render

    if not checks:
        render.say("\nno results of its checks are known", "dim")
        return
    failed = sum(row.status != "passed" for row in checks)
    render.say(f"\n{failed} of {render.count(len(checks), 'check')} did not pass:", "bold")
    shown = [
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
    render.show(render.table(headers, shown, right=["failing"], whole=["check", "severity"]))
    for row in checks:
        if row.status != "passed" and (row.sample or row.message):
            _show_sample(row)


def _show_sample(row: CheckResultRow) -> None:
    from arco.cli import render

    render.say(f"\n{row.check_id}: {row.message}".rstrip(": "), "bold")
    for line in row.sample[:SAMPLES]:
        render.say(f"  {line}")
    if len(row.sample) > SAMPLES:
        render.say(f"  and {len(row.sample) - SAMPLES} more; see --json", "dim")


# -- deciding -------------------------------------------------------------------------------


@command(
    app,
    "approve",
    example='servo quarantine approve 7Q2M8XKD --reason "it was a good day"',
    takes=["actor", "key"],
)
def approve(session: Session, id: Id, reason: Reason = "") -> None:
    """Say that an output is good after all. It is current then, unless a newer one is."""
    _decide(session, id, True, reason)


@command(
    app,
    "reject",
    example='servo quarantine reject 7Q2M8XKD --reason "wrong currencies"',
    takes=["actor", "key"],
)
def reject(session: Session, id: Id, reason: Reason = "") -> None:
    """Say that an output will never be good. Its files go with `servo gc`."""
    _decide(session, id, False, reason)


def _decide(session: Session, id: str, approved: bool, reason: str) -> None:
    from arco.cli import render
    from arco.execution.commands import find_held
    from arco.execution.reader import ExecutionReader

    workspace = session.open()
    held = find_held(workspace.snapshot(), id)
    key = session.idempotency_key
    workspace.execution.decide(held, approved=approved, reason=reason, idempotency_key=key)
    snapshot = workspace.snapshot()
    held = find_held(snapshot, held.materialization_id)
    reader = ExecutionReader(snapshot)
    version = reader.materialization(held.asset_id, held.materialization_id)
    current = reader.partition(held.asset_id, held.partition_key)
    is_current = current is not None and current.materialization_id == held.materialization_id
    below, elsewhere = _downstream(workspace, held.asset_key) if is_current else ([], [])
    if session.json:
        render.document(
            {
                "generation": snapshot.generation,
                **render.plain(held),
                "version": 0 if version is None else version.version,
                "is_current": is_current,
                "out_of_date": sorted([*below, *elsewhere]),
            }
        )
    elif approved and version is not None:
        _say_approved(held, version, current, below, elsewhere)
    else:
        _say_rejected(held, current)


def _downstream(workspace: Workspace, asset_key: str) -> tuple[list[str], list[str]]:
    """What is deployed below an asset: in the same partition alone, and in others."""
    from arco.orchestration.selection import Graph, evaluate

    deployed = workspace.read_orchestration().current_deployment()
    if deployed is None:
        return [], []
    manifest = workspace.library.manifest(deployed.manifest)
    assets = {asset.key: asset for asset in manifest.assets}
    if asset_key not in assets:
        return [], []
    below = evaluate(Graph(manifest), f"{asset_key}+")
    same = set(below)
    while odd := {key for key in same if not _follows(assets[key], assets[asset_key], below, same)}:
        same -= odd
    return sorted(same - {asset_key}), sorted(below - same)


def _follows(asset: Asset, top: Asset, below: Set[str], same: Set[str]) -> bool:
    """Whether a partition of `top` reaches the partition of the same key, and no other."""
    from servo.contract.manifest import Identity

    if asset.key == top.key:
        return True
    if [each.name for each in asset.partitions] != [each.name for each in top.partitions]:
        return False
    return all(
        given.asset in same
        and all(isinstance(m, Identity) for m in (given.mapping, *given.dimensions.values()))
        for given in asset.inputs
        if given.asset in below
    )


def name_of(held: QuarantineRow) -> str:
    from arco.cli.live import partition_text

    text = partition_text(held.partition_key)
    return f"{held.asset_key}[{text}]" if text else held.asset_key


def _say_approved(
    held: QuarantineRow,
    version: MaterializationRow,
    current: PartitionRow | None,
    below: Sequence[str],
    elsewhere: Sequence[str],
) -> None:
    from arco.cli import render

    name = name_of(held)
    if current is None or current.materialization_id != held.materialization_id:
        newer = (
            "" if current is None else f"; version {current.version} is newer, and stays current"
        )
        render.say(f"{name}: approved as version {version.version}{newer}", "green")
        return
    render.say(f"{name}: approved, and current as version {version.version}", "green")
    if below:
        render.say(f"out of date now: {_few(below)}")
        render.say(f"  {_command(held, below)}", "cyan")
    if elsewhere:
        render.say(f"out of date where they read this: {_few(elsewhere)}")
        render.say("  servo run with the partitions that you want", "dim")


def _few(keys: Sequence[str]) -> str:
    return f"{', '.join(keys[:5])}{' …' if len(keys) > 5 else ''}"


def _command(held: QuarantineRow, below: Sequence[str]) -> str:
    from arco.cli.live import partition_text

    parts = [p for p in partition_text(held.partition_key).split(",") if p]
    return " ".join(["servo run", *below, *(f"-p {part}" for part in parts)])


def _say_rejected(held: QuarantineRow, current: PartitionRow | None) -> None:
    from arco.cli import render

    stays = "nothing of it is current"
    if current is not None:
        stays = f"version {current.version} stays current"
    render.say(f"{name_of(held)}: rejected; {stays}", "yellow")
