"""`servo costs`: usage and cost of tasks."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import typer

from arco.cli import deferral
from arco.cli.options import command, option

if deferral.LOADED:
    from rich.text import Text

    from arco.answers.cost_report import CostReport, CostSum, first_day
    from arco.cli import render
    from arco.cli.session import Session
    from arco.cli.short_ids import shorts
    from arco.worker.pricing import Pricing

BAR = 12
WIDE = 100
"""Minimum terminal width for bars."""
KIB_MS_PER_GIB_HOUR = (1 << 20) * 3_600_000
NO_PRICES = (
    "no prices are configured. To see costs, put your prices into a file and name it in\n"
    "arco.toml:\n"
    '  [costs]\n  pricing = "pricing.toml"\n'
    "or give the file with --pricing, to see what these tasks would have cost."
)


class GroupBy(StrEnum):
    asset = "asset"
    day = "day"
    both = "asset,day"
    run = "run"


def register(app: typer.Typer) -> None:
    example = "servo costs\nservo costs --by asset,day --days 7 --asset 'sales.*'"
    command(app, "costs", example=example, takes=["at"])(costs)


def costs(
    session: Session,
    by: Annotated[GroupBy, typer.Option(help="Group by asset, day or run.")] = GroupBy.asset,
    days: Annotated[
        int, option("N", "Include the last N days, today included (UTC).", min=1, max=36_500)
    ] = 30,
    asset: Annotated[str, option("PATTERN", "Only these assets: sales.orders, 'sales.*'.")] = "*",
    pricing: Annotated[
        Path | None, option("FILE", "Use these prices instead of those recorded at the time.")
    ] = None,
) -> None:
    """Show the CPU time, memory, bytes and cost of tasks.

    Every attempt counts, including failed ones. CPU is the time of the task's process and of
    Spark's executors; memory is the peak multiplied by the duration.
    """
    workspace = session.open()
    prices = None if pricing is None else Pricing.read(pricing)
    reader = workspace.read.execution(session.at())
    at = session.at()
    now = workspace.clock.now() if at is None else reader.snapshot.published_at
    since = first_day(now, days)
    rows = [row for row in reader.costs(since) if fnmatchcase(row.asset_key, asset)]
    bill = CostReport.of(by.value, rows, prices, workspace.tenant)
    if session.json:
        render.document(
            {"generation": reader.snapshot.generation, "since": since, **bill.document()}
        )
    elif not rows:
        of = "" if asset == "*" else f" of {asset}"
        render.say(f"no task{of} has ended since {since:%Y-%m-%d}")
    else:
        _show(bill)


# -- showing --------------------------------------------------------------------------------


def _show(bill: CostReport) -> None:
    names = tuple(bill.by.split(","))
    wide = render.width() >= WIDE
    measures = ("tasks", "CPU", "GiB·h", "read", "written", bill.currency or "cost")
    digits = _digits(max(bill.total.nanos.values(), default=0))

    def cells(sums: CostSum) -> tuple[object, ...]:
        return (*_usage(sums), _money(sums, bill.currency, digits), _share(sums, bill, wide))

    runs = shorts(key[0] for key, _ in bill.lines) if bill.by == "run" else {}
    lines = [(*((runs[key[0]],) if runs else key), *cells(sums)) for key, sums in bill.lines]
    total = ("total", *[""] * (len(names) - 1), *cells(bill.total))
    headers = (*names, *measures, "share")
    right = measures if wide else (*measures, "share")
    render.show_table(headers, [*lines, total], right=right, whole=[*names, "share"])
    _say_more(bill)


def _say_more(bill: CostReport) -> None:
    if bill.total.failed:
        render.say(f"{render.count(bill.total.failed, 'attempt')} failed; their cost is included")
    if not bill.total.nanos:
        render.say(f"\n{NO_PRICES}", "yellow")
    elif bill.total.unpriced:
        render.note(
            f"{render.count(bill.total.unpriced, 'attempt')} had no prices and are counted as 0; "
            "use --pricing to price them"
        )


def _usage(sums: CostSum) -> tuple[object, ...]:
    return (
        len(sums.tasks),
        duration(sums.cpu_ms + sums.executor_cpu_ms),
        f"{Decimal(sums.memory_kib_ms) / KIB_MS_PER_GIB_HOUR:.4f}",
        render.size(sums.bytes_read),
        render.size(sums.bytes_written),
    )


def duration(ms: int) -> str:
    """`250ms`, `12.3s`, `4m10s`, `3h05m`."""
    if ms < 1000:
        return f"{ms}ms"
    if ms < 60_000:
        return f"{ms // 100 / 10:.1f}s"
    minutes, seconds = divmod(ms // 1000, 60)
    if minutes < 60:
        return f"{minutes}m{seconds:02d}s"
    return f"{minutes // 60:,}h{minutes % 60:02d}m"


def _money(sums: CostSum, currency: str, digits: int) -> str | None:
    """Rounded for display. A single currency is in the header; several are named here."""
    if currency:
        return amount(sums.nanos.get(currency, 0), digits)
    amounts = (f"{amount(nanos, digits)} {name}" for name, nanos in sorted(sums.nanos.items()))
    return " + ".join(amounts) or None


def amount(nanos: int, digits: int) -> str:
    return f"{Decimal(nanos).scaleb(-9):,.{digits}f}"


def _digits(largest: int) -> int:
    """The number of decimals, so that small amounts are not shown as zero."""
    units = largest // 10**9
    return 2 if units >= 100 else 4 if units >= 1 else 6


def _share(sums: CostSum, bill: CostReport, wide: bool) -> Text:
    weight, total = bill.weight(sums), bill.weight(bill.total)
    if not total:
        return Text("")
    percent = f"{weight * 100 / total:3.0f}%"
    if not wide:
        return Text(percent)
    cells = (weight * BAR + total // 2) // total
    return Text("█" * cells, "cyan") + Text("░" * (BAR - cells), "dim") + f" {percent}"
