"""`servo checks`: how data stands with its checks, and what they found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from arco.cli.options import command, group
from arco.cli.session import Session
from arco.errors import NotFound

if TYPE_CHECKING:
    from rich.text import Text

    from arco.quality.tables import CheckResultRow, CheckStatusRow
    from arco.state.snapshot import Snapshot

app = group("checks", "Checks: whether data is as its asset says.")

Asset = Annotated[str, typer.Argument(metavar="NAMESPACE.NAME", help="The asset.")]
Name = Annotated[str, typer.Argument(metavar="CHECK", help="The check's name, or a part of it.")]
Partition = Annotated[
    str | None, typer.Option("--partition", "-p", metavar="KEY", help="Only this partition.")
]
_STYLES = {"passed": "green", "failed": "red", "error": "yellow"}


@command(app, "list", example="servo checks list sales.orders", takes=["at"])
def list_(
    session: Session,
    asset: Asset,
    partition: Partition = None,
    bad: Annotated[bool, typer.Option("--failing", help="Only those that do not pass.")] = False,
) -> None:
    """List how each partition stands with each check, by the newest result."""
    from arco.cli import render
    from arco.cli.live import partition_text
    from arco.quality.reader import QualityReader

    snapshot = session.open().snapshot(session.at())
    reader = QualityReader(snapshot)
    found = [
        row
        for row in reader.status(_asset_id(snapshot, asset))
        if _is_wanted(row.partition_key, partition)
    ]
    rows = [row for row in found if not (bad and row.status == "passed")]
    if session.json:
        render.document({"generation": snapshot.generation, "asset": asset, "checks": rows})
        return
    if not rows:
        of = f"{asset}[{partition}]" if partition else asset
        render.say(f"{of}: all checks pass" if found else f"{of}: no results yet")
        return
    shown = [
        (
            partition_text(row.partition_key) or None,
            row.check_id,
            _status(row.status),
            row.severity,
            _standing(row),
        )
        for row in rows
    ]
    headers = ("partition", "check", "status", "severity", "")
    render.show(render.table(headers, shown, whole=["partition", "check", "status"]))


@command(app, "show", example="servo checks show sales.orders 'unique(order_id)'", takes=["at"])
def show(
    session: Session,
    asset: Asset,
    check: Name,
    partition: Partition = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="So many at most.")] = 10,
) -> None:
    """Show what a check found, the newest first, with a sample of the rows that failed."""
    from arco.cli import render
    from arco.quality.reader import QualityReader

    snapshot = session.open().snapshot(session.at())
    results = QualityReader(snapshot).results(_asset_id(snapshot, asset))
    name = _named(check, asset, results)
    rows = [
        row
        for row in results
        if name in (row.check_name, row.check_id) and _is_wanted(row.partition_key, partition)
    ]
    if session.json:
        document = {"generation": snapshot.generation, "asset": asset, "results": rows[:limit]}
        render.document(document)
        return
    if not rows:
        render.say(f"{name} has not looked at this partition")
        return
    for row in rows[:limit]:
        _show(row)
    if len(rows) > limit:
        render.note(f"{len(rows) - limit:,} older results; see --limit")


def _show(row: CheckResultRow) -> None:
    from arco.cli import render
    from arco.cli.live import partition_text

    render.show(
        render.title(f"{row.check_id}  {partition_text(row.partition_key)}".rstrip()),
        render.fields(
            {
                "status": _status(row.status),
                "message": row.message or None,
                "expected": row.expected or None,
                "actual": row.actual or None,
                "severity": f"{row.severity}: {row.action}",
                "rows": row.rows,
                "failing": row.failing,
                "by": f"{row.method or '–'}, {row.wall_ms:,} ms",
                "run": row.run_id,
                "materialization": row.materialization_id or None,
                "looked at": row.evaluated_at,
            }
        ),
    )
    for sample in row.sample:
        render.say(f"  {sample}")


def _named(text: str, asset: str, results: Sequence[CheckResultRow]) -> str:
    """The one check that a text names: exactly, or as the only one that has it in its name."""
    names = dict.fromkeys(name for row in results for name in (row.check_name, row.check_id))
    if text in names:
        return text
    alike = {row.check_name for row in results if text in row.check_name}
    if len(alike) != 1:
        known = ", ".join(sorted({row.check_name for row in results})) or "none yet"
        several = "more than one check" if alike else "no check"
        raise NotFound(f"{several} of {asset} is like {text!r}", hint=f"there are: {known}")
    return alike.pop()


def _asset_id(snapshot: Snapshot, asset: str) -> str:
    from arco.orchestration.reader import OrchestrationReader
    from servo.suggest import did_you_mean

    deployed = OrchestrationReader(snapshot).deployed_assets()
    if asset not in deployed:
        hint = did_you_mean(asset, deployed) or "run `servo deploy`"
        raise NotFound(f"{asset} is not deployed", hint=hint)
    return deployed[asset].asset_id


def _is_wanted(key: str, wanted: str | None) -> bool:
    from arco.cli.live import partition_text

    text = partition_text(key)
    return wanted is None or wanted in (key, text, *text.split(","))


def _status(status: str) -> Text:
    from rich.text import Text

    return Text(status, _STYLES.get(status, ""))


def _standing(row: CheckStatusRow) -> str:
    if row.status == "passed":
        return row.message
    times = f", {row.consecutive_failures} times" if row.consecutive_failures > 1 else ""
    since = f" (since {row.failing_since:%Y-%m-%d %H:%M}{times})" if row.failing_since else ""
    return f"{row.message}{since}"
