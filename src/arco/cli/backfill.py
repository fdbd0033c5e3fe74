"""`servo backfill`: many partitions, in chunks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer

from arco.cli import deferral
from arco.cli.options import Limit, Reason, argument, command, group, option
from arco.cli.run_options import PlanOptions

if deferral.LOADED:
    from arco.automation.backfill_commands import BackfillDraft, BackfillPreview, SampledChunk
    from arco.automation.backfill_states import CHUNK_BAD, ChunkState
    from arco.automation.reader import Backfill
    from arco.automation.tables import BackfillRunRow
    from arco.cli import render
    from arco.cli.costs import duration
    from arco.cli.session import Session
    from arco.cli.short_ids import short, shorts
    from arco.dispatch.backfill_waiting import waits_for

app = group("backfill", "Preview, create, pause and retry backfills.")

SELECTION = "shop.orders -p date=2020-01-01..2025-12-31"


class BackfillOrder(StrEnum):
    oldest = "oldest"
    newest = "newest"


Id = Annotated[str, argument("ID", "The id of a backfill, or its first characters.")]
ChunkSize = Annotated[int, option("N", "Partitions per run.", min=1, max=10_000)]
Ordering = Annotated[BackfillOrder, typer.Option(help="Which partitions run first.")]
MaxRuns = Annotated[
    int, option("N", "Maximum number of active runs.", "--max-concurrent-runs", min=1, max=100)
]
Threshold = Annotated[
    str,
    option(
        "LIMIT",
        "Stop when more partitions fail: 10% of all, or a number. No limit by default.",
        "--failure-threshold",
    ),
]


@dataclass(frozen=True)
class BackfillOptions(PlanOptions):
    chunk_size: ChunkSize = 100
    max_concurrent_runs: MaxRuns = 3
    order: Ordering = BackfillOrder.oldest

    def draft(self, failure_threshold: str = "", reason: str = "") -> BackfillDraft:
        return BackfillDraft(
            request=self.request(),
            chunk_size=self.chunk_size,
            max_concurrent_runs=self.max_concurrent_runs,
            newest_first=self.order == BackfillOrder.newest,
            failure_threshold=failure_threshold,
            reason=reason,
        )


@command(app, "preview", example=f"servo backfill preview {SELECTION}")
def preview(
    session: Session,
    options: BackfillOptions,
) -> None:
    """Show what a backfill would do, with an estimate of its time and cost. Changes nothing.

    The number of partitions that are up to date is exact for up to 10 chunks, and otherwise
    estimated from 10 of them. Time and cost are estimated from recent tasks of the same assets.
    """
    result = session.open().commands.backfills.preview(options.draft())
    if session.json:
        render.document(result)
    else:
        _show_preview(result)


@command(
    app,
    "create",
    example=f"servo backfill create {SELECTION}\n"
    "servo backfill create shop.* -p date=all --order newest --failure-threshold 10%",
    takes=["actor"],
)
def create(
    session: Session,
    options: BackfillOptions,
    failure_threshold: Threshold = "",
    reason: Reason = "",
) -> None:
    """Create a backfill. `servo orchestrator` and `servo worker` processes run it.

    Its partitions are split into chunks; each chunk is a run. Partitions that are up to date are
    not run again, unless --force is given. It uses the code that is deployed now until it ends.
    Its tasks have a lower priority than all others.
    """
    draft = options.draft(failure_threshold, reason)
    entry = session.open().commands.backfills.create(draft)
    if session.json:
        render.document(_plain(entry))
        return
    row = entry.row
    parts = f"{render.count(row.total_partitions, 'partition')} in "
    runs = render.count(row.chunks, "run")
    render.say(f"created backfill {row.backfill_id}: {parts}{runs}", "bold")
    render.say(f"see servo backfill status {short(row.backfill_id)}", "dim")


@command(app, "list", example="servo backfill list", takes=["at"])
def list_(session: Session, limit: Limit = 20) -> None:
    """List backfills with their progress, newest first."""
    reader = session.open().read.automation(session.at())
    entries = reader.backfills()
    chosen = entries[:limit]
    if session.json:
        backfills = [_plain(entry) for entry in chosen]
        render.document({"generation": reader.snapshot.generation, "backfills": backfills})
        return
    if not chosen:
        render.say("there are no backfills; see servo backfill create --help")
        return
    names = shorts(entry.row.backfill_id for entry in entries)
    headers = ("backfill", "state", "progress", "failed", "created", "what")
    lines = [
        (
            names[e.row.backfill_id],
            e.row.state,
            _progress(e),
            e.failed or None,
            e.row.created_at,
            _what(e),
        )
        for e in chosen
    ]
    render.show_table(headers, lines, right=["failed"], whole=("backfill", "state", "created"))
    if len(chosen) < len(entries):
        render.note("there are older backfills; see --limit")


@command(app, "status", example="servo backfill status 01KA7R2M --limit 50", takes=["at"])
def status(
    session: Session,
    backfill: Id,
    limit: Annotated[int, option("N", "Show at most N chunks.", min=1)] = 20,
) -> None:
    """Show a backfill: its progress, and its chunks that failed, are active, or ended last.

    Partitions of all its assets are counted. Skipped partitions are downstream of a failed one,
    or were removed after the backfill was created.
    """
    workspace = session.open()
    reader = workspace.read.automation(session.at())
    entry = reader.backfill(backfill)
    runs = reader.backfill_runs(entry.row.backfill_id)
    waiting = waits_for(reader.snapshot, entry.row, runs, workspace.clock.now())
    chunks = _interesting(runs)[:limit]
    if session.json:
        document = {"generation": reader.snapshot.generation, **_plain(entry), "waiting": waiting}
        render.document(document | {"runs": chunks})
        return
    row = entry.row
    render.show_fields(
        {
            "backfill": row.backfill_id,
            "state": f"{row.state}: {row.reason}" if row.reason else row.state,
            "selection": " ".join(row.selection),
            "partitions": " ".join(row.partitions) or "all",
            "progress": _progress(entry),
            "failed": entry.failed or None,
            "skipped": _skipped(entry),
            "cancelled": entry.cancelled or None,
            "pending": entry.pending or None,
            "runs": f"{row.next_chunk:,} of {row.chunks:,} chunks requested, "
            f"{entry.active_runs:,} active (at most {row.max_concurrent_runs:,})",
            "order": "newest first" if row.newest_first else "oldest first",
            "failure threshold": row.failure_threshold or None,
            "created": row.created_at,
            "created by": row.created_by or None,
            "ended": row.finished_at,
        }
    )
    for text in waiting:
        render.say(f"waiting: {text}", "yellow")
    if chunks:
        headers = ("chunk", "state", "run", "partitions", "failed", "why")
        lines = [
            (
                c.chunk_index,
                c.state,
                short(c.run_id) or None,
                c.partitions,
                c.failed or None,
                c.reason or None,
            )
            for c in chunks
        ]
        right = ["chunk", "partitions", "failed"]
        render.show_table(headers, lines, right=right, whole=("state", "run"), title="chunks")


@command(app, "pause", example="servo backfill pause 01KA7R2M --reason outage", takes=["actor"])
def pause(session: Session, backfill: Id, reason: Reason = "") -> None:
    """Pause a backfill: no further run is started. Active runs continue."""
    _answer(session, session.open().commands.backfills.pause(backfill, reason=reason))


@command(app, "resume", example="servo backfill resume 01KA7R2M", takes=["actor"])
def resume(session: Session, backfill: Id) -> None:
    """Resume a backfill that was paused."""
    _answer(session, session.open().commands.backfills.resume(backfill))


@command(app, "retry", example="servo backfill retry 01KA7R2M", takes=["actor"])
def retry(session: Session, backfill: Id) -> None:
    """Run failed and cancelled partitions again, and those that were never started.

    Partitions that succeeded are not run again.
    """
    _answer(session, session.open().commands.backfills.retry(backfill))


@command(app, "cancel", example="servo backfill cancel 01KA7R2M --reason mistake", takes=["actor"])
def cancel(session: Session, backfill: Id, reason: Reason = "") -> None:
    """Cancel a backfill and its active runs. `servo backfill retry` continues it."""
    _answer(session, session.open().commands.backfills.cancel(backfill, reason=reason))


def _answer(session: Session, entry: Backfill) -> None:
    if session.json:
        render.document(_plain(entry))
    else:
        render.say(f"backfill {entry.row.backfill_id} is {entry.row.state}; {_progress(entry)}")


def _interesting(chunks: list[BackfillRunRow]) -> list[BackfillRunRow]:
    """Failed chunks, then active ones, then the others, the last first."""

    def rank(row: BackfillRunRow) -> tuple[int, int]:
        ended = row.state in (ChunkState.SUCCEEDED, ChunkState.SKIPPED)
        return (2 if ended else 0 if row.state in CHUNK_BAD else 1), -row.chunk_index

    return sorted(chunks, key=rank)


def _progress(entry: Backfill) -> str:
    total = entry.row.total_partitions
    share = 100 * entry.completed // max(1, total)
    return f"{entry.completed:,} of {total:,} ({share}%)"


def _skipped(entry: Backfill) -> str | None:
    if not entry.skipped:
        return None
    removed = f", {entry.removed:,} of them removed since it was created" if entry.removed else ""
    return f"{entry.skipped:,}{removed}"


def _what(entry: Backfill) -> str:
    return " ".join([*entry.row.selection, *entry.row.partitions])


def _plain(entry: Backfill) -> dict[str, Any]:
    fields: dict[str, Any] = render.plain(entry.row)
    progress = entry.progress
    return {
        **fields,
        "request": msgspec.json.decode(entry.row.request),
        "completed_partitions": entry.completed,
        "reused_partitions": 0 if progress is None else progress.reused,
        "failed_partitions": entry.failed,
        "skipped_partitions": entry.skipped,
        "gone_partitions": entry.removed,
        "cancelled_partitions": entry.cancelled,
        "pending_partitions": entry.pending,
        "active_runs": entry.active_runs,
    }


# -- previews --------------------------------------------------------------------------------


def _show_preview(result: BackfillPreview) -> None:
    about = "about " if result.is_estimate else ""
    render.show_fields(
        {
            "partitions": f"{result.partitions:,}",
            "runs": f"{result.chunks:,}, at most {result.max_concurrent_runs:,} concurrent",
            "up to date": f"{about}{result.up_to_date:,}",
            "tasks to run": f"{about}{result.tasks:,}",
            "task time": _time(result),
            "cost": _cost(result),
        }
    )
    if len(result.assets) > 1:
        lines = [(key, count) for key, count in result.assets.items()]
        render.show_table(("asset", "partitions"), lines, right=["partitions"])
    title = "some of the chunks" if result.is_estimate else "chunks"
    headers = ("chunk", "partitions", "tasks", "up to date")
    chunks = [(c.number, _partitions(c), c.tasks, c.up_to_date) for c in result.sample]
    right = ["chunk", "tasks", "up to date"]
    render.show_table(headers, chunks, right=right, title=title)
    refused = [chunk for chunk in result.sample if chunk.refused]
    if refused:
        others = f"; so would {len(refused) - 1} more of these chunks" if len(refused) > 1 else ""
        first = refused[0]
        render.note(f"chunk {first.number} would be refused: {first.refused}{others}")
    if result.one_by_one:
        render.note(f"its runs execute one after the other: {result.one_by_one}")
    if result.unknown_assets:
        some = ", ".join(result.unknown_assets[:5])
        render.note(f"no recent tasks to estimate from: {some}")


def _partitions(chunk: SampledChunk) -> str:
    return "would be refused" if chunk.refused else " ".join(chunk.partitions)


def _time(result: BackfillPreview) -> str | None:
    if result.task_time_s is None:
        return None
    return f"about {duration(round(result.task_time_s * 1000))}, one task after the other"


def _cost(result: BackfillPreview) -> str | None:
    if result.cost is None or not result.currency:
        return None
    return f"about {result.cost:,.2f} {result.currency}"
