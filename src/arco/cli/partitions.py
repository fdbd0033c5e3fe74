"""`servo partitions`: state of partitions, and keys of dynamic dimensions."""

from __future__ import annotations

from enum import StrEnum
from itertools import islice
from typing import Annotated, Any, NamedTuple

from arco.cli import deferral
from arco.cli.options import Limit, LineLimit, Partition, argument, command, flag, group, option

if deferral.LOADED:
    from rich.text import Text

    from arco.cli import render
    from arco.cli.deprecated import note_deprecated
    from arco.cli.live import partition_text
    from arco.cli.session import Session
    from arco.cli.short_ids import short, shorts
    from arco.errors import NotFound
    from arco.execution.reader import ExecutionReader
    from arco.execution.tables import (
        PARTITION_STATUS,
        MaterializationRow,
        PartitionRow,
        PartitionStatusRow,
    )
    from arco.orchestration.partition_status import MAX_JUDGED, StatusRange, StatusReader
    from arco.orchestration.reader import OrchestrationReader
    from arco.orchestration.tables import DYNAMIC_KEYS
    from arco.orchestration.world import World
    from arco.state.snapshot import Snapshot
    from servo.contract.identity import version_label

app = group("partitions", "Show the state of partitions; manage dynamic keys.")

Set = Annotated[str, argument("SET", "The name of a set of dynamic keys.")]
Asset = Annotated[str, argument("ASSET", "The asset: namespace.name.")]


class StateName(StrEnum):
    missing = "MISSING"
    materializing = "MATERIALIZING"
    materialized = "MATERIALIZED"
    stale = "STALE"
    failed = "FAILED"


Keys = Annotated[list[str], argument("KEY", "The keys.")]


@command(app, "add", example="servo partitions add customers acme globex", takes=["actor"])
def add(session: Session, keys: Set, key: Keys) -> None:
    """Add keys to a set. Existing keys do not change."""
    session.open().commands.orchestration.change_partition_keys(keys, add=key)
    _answer(session, keys)


@command(app, "remove", example="servo partitions remove customers globex", takes=["actor"])
def remove(session: Session, keys: Set, key: Keys) -> None:
    """Remove keys from a set. Versions of their partitions stay."""
    session.open().commands.orchestration.change_partition_keys(keys, remove=key)
    _answer(session, keys)


@command(app, "list", example="servo partitions list customers", takes=["at"])
def list_(session: Session, keys: Set) -> None:
    """List the keys of a set."""
    _answer(session, keys)


@command(
    app,
    "status",
    example="servo partitions status shop.orders\n"
    "servo partitions status shop.orders -p date=2026-01-01..2026-01-31 --state missing",
    takes=["at"],
)
def status(
    session: Session,
    asset: Asset,
    partition: Annotated[
        list[str] | None, option("RANGE", "Only these; all by default.", "--partition", "-p")
    ] = None,
    state: Annotated[
        list[StateName] | None,
        option(
            "STATE",
            "Only these: missing, materializing, materialized, stale or failed.",
            "--state",
            case_sensitive=False,
        ),
    ] = None,
    each: Annotated[bool, flag("--each", "Print one line per partition.")] = False,
    limit: LineLimit = 100,
) -> None:
    """Show the state and quality of an asset's partitions, including missing ones.

    Adjacent partitions with the same status are one line. A partition is MISSING, MATERIALIZING,
    MATERIALIZED, STALE (a plan would run it again) or FAILED (its last attempt failed). The
    quality is that of the last attempt's output: PASSED, WARNED, FAILED, QUARANTINED, BLOCKED or
    REJECTED, and UNKNOWN if there is no output.
    """
    workspace = session.open()
    at = session.at()
    snapshot = workspace.read.snapshot(at)
    world = World.of(OrchestrationReader(snapshot), workspace.library)
    assets = {each.key: each for each in world.manifest.assets}
    if asset not in assets:
        OrchestrationReader(snapshot).asset_id(asset)  # or it never was
        raise NotFound(f"{asset} is not deployed", hint="see `servo partitions versions`")
    until = workspace.clock.now() if at is None else snapshot.published_at
    statuses, is_judged = StatusReader(snapshot, assets, until).statuses(asset, partition or ())
    states = [each.value for each in state or ()]
    lines = statuses.each(states) if each else statuses.ranges(states)
    chosen = list(islice(lines, limit + 1))
    entries = [_Entry.of(snapshot, asset, line) for line in chosen[:limit]]
    if session.json:
        render.document(
            {
                "generation": snapshot.generation,
                "asset": asset,
                "partitions": statuses.partitions,
                "outside": statuses.outside,
                "stale_known": is_judged,
                "counts": [
                    {"state": status.state, "quality": status.quality, "partitions": count}
                    for status, count in statuses.counts().items()
                ],
                "ranges": [entry.plain() for entry in entries],
                "more": len(chosen) > limit,
            }
        )
        return
    _show_status(asset, entries)
    note_deprecated(snapshot, [asset])
    if not is_judged:
        render.note(
            f"more than {MAX_JUDGED:,} partitions are materialized: which of them are STALE is "
            "shown for smaller ranges, with -p"
        )
    if len(chosen) > limit:
        render.note("there are more; see --limit, --state and -p")
    if statuses.outside:
        render.note(
            f"{render.count(statuses.outside, 'partition')} outside of these have versions too; "
            "see `servo partitions versions`"
        )


def _show_status(asset: str, entries: list[_Entry]) -> None:
    if not entries:
        render.say(f"{asset} has no such partitions")
        return
    headers = ("partitions", "count", "state", "quality", "version", "rows", "size", "when")
    lines = [entry.line() for entry in entries]
    whole = ("state", "quality", "version", "when")
    render.show_table(headers, lines, right=["count", "rows", "size"], whole=whole)
    for entry in entries:
        if entry.row is not None and entry.row.message:
            render.say(f"\n{entry.text}: {entry.row.message}")


@command(
    app,
    "versions",
    example="servo partitions versions shop.orders -p date=2026-01-31",
    takes=["at"],
)
def versions(
    session: Session,
    asset: Asset,
    partition: Partition = None,
    limit: Limit = 20,
) -> None:
    """List all versions of an asset's partitions, newest first.

    The files of an EXPIRED version may have been deleted by `servo gc`.
    """
    snapshot = session.open().read.snapshot(session.at())
    id = OrchestrationReader(snapshot).asset_id(asset)
    rows = ExecutionReader(snapshot).versions(
        id, matches=lambda row: _is_selected(row.partition_key, partition), limit=limit + 1
    )
    if session.json:
        document = {"generation": snapshot.generation, "asset": asset, "versions": rows[:limit]}
        render.document(document)
        return
    if not rows:
        render.say(f"{asset} has no matching versions")
        return
    _show_versions(rows[:limit])
    if len(rows) > limit:
        render.note("there are older versions; see --limit")


def _is_selected(key: str, partition: str | None) -> bool:
    text = partition_text(key)
    return partition is None or partition in (key, text, *text.split(","))


def _show_versions(rows: list[MaterializationRow]) -> None:
    names = shorts(row.materialization_id for row in rows)
    lines = [
        (
            names[row.materialization_id],
            partition_text(row.partition_key) or "(all)",
            version_label(row.version) if row.version else None,
            state_text(row.status),
            row.rows,
            render.size(row.bytes),
            row.created_at,
            row.superseded_at,
            short(row.run_id),
        )
        for row in rows
    ]
    headers = ("id", "partition", "version", "status", "rows", "size", "made", "until", "run")
    whole = ("id", "version", "status", "made", "until", "run")
    render.show_table(headers, lines, right=["rows", "size"], whole=whole)


class _Entry(NamedTuple):
    """A line of the list: a range, or one partition with its rows."""

    range: StatusRange
    row: PartitionStatusRow | None
    current: PartitionRow | None

    @classmethod
    def of(cls, snapshot: Snapshot, asset: str, line: StatusRange) -> _Entry:
        if line.partitions > 1:
            return cls(line, None, None)
        id = OrchestrationReader(snapshot).asset_id(asset)
        row = snapshot.get(PARTITION_STATUS, id, line.first)
        return cls(line, row, ExecutionReader(snapshot).partition(id, line.first))

    @property
    def text(self) -> str:
        first, last = partition_text(self.range.first), partition_text(self.range.last)
        if first == last:
            return first or "(all)"
        return ",".join(
            low if low == high else f"{low}..{high.partition('=')[2]}"
            for low, high in zip(first.split(","), last.split(","), strict=True)
        )

    def line(self) -> tuple[object, ...]:
        current = self.current
        return (
            self.text,
            self.range.partitions,
            state_text(self.range.state),
            state_text(self.range.quality),
            None if current is None else version_label(current.version),
            None if current is None else current.rows,
            None if current is None else render.size(current.bytes),
            None if self.row is None else self.row.last_at,
        )

    def plain(self) -> dict[str, Any]:
        fields: dict[str, Any] = render.plain(self.range)
        # As -p takes it.
        fields |= {"partition": "" if self.text == "(all)" else self.text}
        if self.row is not None:
            fields["last_attempt"] = render.plain(self.row)
        if self.current is not None:
            names = ("materialization_id", "version", "rows", "bytes")
            fields["current"] = {name: getattr(self.current, name) for name in names}
        return fields


_STYLES = {
    "CURRENT": "bold green",
    "MATERIALIZED": "green",
    "PASSED": "green",
    "GOOD": "green",
    "MATERIALIZING": "cyan",
    "STALE": "yellow",
    "WARNED": "yellow",
    "QUARANTINED": "yellow",
    "MISSING": "dim",
    "UNKNOWN": "dim",
}


def state_text(status: str) -> Text:
    return Text(status, _STYLES.get(status, "bold red"))


def _answer(session: Session, keys: str) -> None:
    rows = session.open().read.snapshot(session.at()).rows(DYNAMIC_KEYS, keys)
    if session.json:
        render.document({"keys": keys, "values": rows})
    elif not rows:
        render.say(f"{keys} has no keys")
    else:
        lines = [(row.key, row.added_at, row.added_by) for row in rows]
        render.show_table(("key", "added", "by"), lines)
