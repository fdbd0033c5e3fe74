"""`servo checks`: results of checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from arco.cli import deferral
from arco.cli.options import Limit, Partition, argument, command, flag, group, option

if deferral.LOADED:
    from rich.text import Text

    from arco.cli import render
    from arco.cli.live import is_partition, partition_text
    from arco.cli.session import Session
    from arco.errors import NotFound
    from arco.orchestration.catalog_names import asset_id_of
    from arco.quality.reader import QualityReader
    from arco.quality.tables import CheckResultRow, CheckStatusRow
    from arco.times import parse_time

app = group("checks", "Show the results of checks.")

Asset = Annotated[str, argument("NAMESPACE.NAME", "The asset.")]
Name = Annotated[str, argument("CHECK", "The check's name, or a part of it.")]
_STYLES = {"passed": "green", "failed": "red", "error": "yellow"}


@command(app, "list", example="servo checks list sales.orders", takes=["at"])
def list_(
    session: Session,
    asset: Asset,
    partition: Partition = None,
    bad: Annotated[bool, flag("--failing", "Only checks that failed.")] = False,
) -> None:
    """List the newest result of each check for each partition."""
    snapshot = session.open().read.snapshot(session.at())
    reader = QualityReader(snapshot)
    statuses = [
        row
        for row in reader.status(asset_id_of(snapshot, asset))
        if is_partition(row.partition_key, partition)
    ]
    rows = [row for row in statuses if not (bad and row.status == "passed")]
    if session.json:
        render.document({"generation": snapshot.generation, "asset": asset, "checks": rows})
        return
    if not rows:
        of = f"{asset}[{partition}]" if partition else asset
        render.say(f"{of}: all checks pass" if statuses else f"{of}: no results yet")
        return
    lines = [
        (
            partition_text(row.partition_key) or None,
            row.check_id,
            _status(row.status),
            row.severity,
            status_reason(row),
        )
        for row in rows
    ]
    headers = ("partition", "check", "status", "severity", "why")
    render.show_table(headers, lines, whole=["partition", "check", "status"])


@command(app, "show", example="servo checks show sales.orders 'unique(order_id)'", takes=["at"])
def show(
    session: Session,
    asset: Asset,
    check: Name,
    partition: Partition = None,
    limit: Limit = 10,
    since: Annotated[
        str, option("TIME", "Only results since this time: 2026-01-31, or 7d ago.")
    ] = "30d",
) -> None:
    """Show the results of a check and samples of failing rows."""
    snapshot = session.open().read.snapshot(session.at())
    reader, id = QualityReader(snapshot), asset_id_of(snapshot, asset)
    oldest = parse_time(since, snapshot.published_at)
    name = find_check_name(check, asset, reader.status(id)) or find_check_name(
        check, asset, reader.results(id, since=oldest), last=True
    )
    rows = reader.results(
        id,
        matches=lambda row: (
            name in (row.check_name, row.check_id) and is_partition(row.partition_key, partition)
        ),
        limit=limit + 1,
        since=oldest,
    )
    if session.json:
        document = {"generation": snapshot.generation, "asset": asset, "results": rows[:limit]}
        render.document(document)
        return
    if not rows:
        render.say(f"{name} has no results for this partition since {oldest:%Y-%m-%d}")
        return
    for row in rows[:limit]:
        _show(row)
    if len(rows) > limit:
        render.note("there are older results; see --limit")


def _show(row: CheckResultRow) -> None:
    render.show_title(f"{row.check_id}  {partition_text(row.partition_key)}".rstrip())
    render.show_fields(
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
            "evaluated at": row.evaluated_at,
        }
    )
    for sample in row.sample:
        render.say(f"  {sample}")


def find_check_name(
    text: str, asset: str, rows: Sequence[CheckStatusRow | CheckResultRow], *, last: bool = False
) -> str:
    """The check with this name, or the only one whose name contains it.

    Empty if there is none; with `last`, raises NotFound.
    """
    names = dict.fromkeys(name for row in rows for name in (row.check_name, row.check_id))
    if text in names:
        return text
    alike = {row.check_name for row in rows if text in row.check_name}
    if len(alike) == 1:
        return alike.pop()
    if not alike and not last:
        return ""
    candidates = ", ".join(sorted({row.check_name for row in rows})) or "none yet"
    several = "more than one check" if alike else "no check"
    raise NotFound(f"{several} of {asset} matches {text!r}", hint=f"checks: {candidates}")


def _status(status: str) -> Text:
    return Text(status, _STYLES.get(status, ""))


def status_reason(row: CheckStatusRow) -> str:
    if row.status == "passed":
        return row.message
    times = f", {row.consecutive_failures} times" if row.consecutive_failures > 1 else ""
    since = f" (since {row.failing_since:%Y-%m-%d %H:%M}{times})" if row.failing_since else ""
    return f"{row.message}{since}"
