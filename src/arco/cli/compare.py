"""`servo compare`: how two versions of a partition differ."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from arco.cli import deferral
from arco.cli.options import OnePartition, argument, command, option
from arco.cli.version_history import Reveal

if deferral.LOADED:
    from rich.text import Text

    from arco.answers.comparing import VersionComparison
    from arco.answers.comparing import compare as compare_versions
    from arco.app import Workspace
    from arco.cli import render
    from arco.cli.session import Session
    from arco.cli.version_history import hidden_columns
    from arco.errors import Invalid
    from arco.execution.tables import MaterializationRow
    from arco.execution.version_diff import ColumnChange, KeyChanges, RowChange
    from arco.execution.version_lookup import VersionLookup
    from arco.orchestration.reader import OrchestrationReader
    from arco.remote.data_answers import RemoteAsset, remote_comparison
    from servo.contract.task import ColumnInfo


class DiffEngine(StrEnum):
    auto = "auto"
    duckdb = "duckdb"
    spark = "spark"


def register(app: typer.Typer) -> None:
    command(
        app,
        "compare",
        example="servo compare shop.orders -p date=2026-01-31 2 3\n"
        "servo compare shop.orders -p date=2026-01-31 2 current --key id",
        takes=["at"],
    )(compare)


def compare(
    session: Session,
    asset: Annotated[str, argument("ASSET", "The asset: namespace.name.")],
    before: Annotated[str, argument("A", "The first version: its number or id.")],
    after: Annotated[str, argument("B", "The second version: number, id or `current`.")],
    partition: OnePartition = None,
    key: Annotated[
        list[str] | None, option("NAME,…", "Match rows by these columns, which must be unique.")
    ] = None,
    examples: Annotated[
        int, option("N", "Show at most N rows of each kind of change.", min=0, max=1_000)
    ] = 5,
    engine: Annotated[
        DiffEngine,
        option(
            "ENGINE", "The engine that compares rows: duckdb, spark, or auto (Spark above 256 MiB)."
        ),
    ] = DiffEngine.auto,
    reveal: Reveal = False,
) -> None:
    """Compare two versions of a partition.

    Columns, row counts and statistics are compared. With --key also rows: added, removed and
    changed ones, with examples. Values of personal and restricted columns are masked, unless
    --reveal is given.
    """
    workspace = session.open()
    snapshot = workspace.read.snapshot(session.at())
    id = OrchestrationReader(snapshot).asset_id(asset)
    lookup = VersionLookup(snapshot, asset, id)
    first, second = (lookup.version(partition or (), version) for version in (before, after))
    if first.partition_key != second.partition_key:
        raise Invalid(
            f"{lookup.name(first.partition_key)} and {lookup.name(second.partition_key)} are "
            "different partitions",
            hint="compare versions of one partition",
        )
    if session.api:
        comparison = remote_comparison(
            RemoteAsset(workspace, asset, snapshot.generation),
            (first, second),
            key=key or (),
            examples=examples,
            engine=engine.value,
            reveal=reveal,
        )
    else:
        hidden = hidden_columns(session, workspace, snapshot, id, reveal)
        try:
            comparison = compare_versions(
                workspace.store,
                snapshot,
                asset,
                (first, second),
                key=key or (),
                examples=examples,
                engine=engine.value,
                hidden=hidden,
                spark=workspace.runtime.spark,
            )
        finally:
            _end_spark(workspace, engine)
    if session.json:
        render.document(_document(asset, snapshot.generation, comparison))
    else:
        _show(lookup.name(first.partition_key), comparison)


def _end_spark(workspace: Workspace, engine: DiffEngine) -> None:
    if engine != DiffEngine.duckdb:
        workspace.runtime.spark().end()


def _document(asset: str, generation: int, comparison: VersionComparison) -> dict[str, Any]:
    fields = ("materialization_id", "version", "status", "rows", "bytes", "schema_hash", "run_id")
    return {
        "generation": generation,
        "asset": asset,
        "partition": comparison.before.partition_key,
        "before": render.picked(comparison.before, *fields),
        "after": render.picked(comparison.after, *fields),
        "schema_changed": comparison.before.schema_hash != comparison.after.schema_hash,
        "columns": comparison.columns,
        "keys": comparison.keys,
    }


def _show(name: str, comparison: VersionComparison) -> None:
    render.say(name, "bold")
    headers = ("", "version", "status", "rows", "size", "made", "run")
    lines = [
        _version_line("A", comparison.before),
        _version_line("B", comparison.after),
    ]
    render.show_table(headers, lines, right=["rows", "size"], whole=["version", "made"])
    changed = [each for each in comparison.columns if each.change != "same"]
    if not changed:
        render.say("\nthe same columns, with the same statistics")
    else:
        render.say("")
        names = ("column", "change", "type", "nulls", "min", "max")
        render.show_table(names, map(_column_line, changed), whole=["change"])
    if comparison.keys is not None:
        _show_keys(comparison.keys)


def _version_line(side: str, row: MaterializationRow) -> tuple[object, ...]:
    version = f"{row.version}" if row.version else row.materialization_id
    size = render.size(row.bytes)
    return side, version, row.status, row.rows, size, row.created_at, row.run_id


_STYLES = {"added": "green", "removed": "red", "type": "yellow", "changed": "yellow"}


def _column_line(change: ColumnChange) -> tuple[object, ...]:
    def value(name: str) -> str | None:
        texts = [_field(column, name) for column in (change.before, change.after)]
        if change.before is None or change.after is None:
            return texts[0] or texts[1] or None
        return texts[0] if texts[0] == texts[1] else f"{texts[0] or '–'} → {texts[1] or '–'}"

    kind = Text(change.change, _STYLES.get(change.change, ""))
    return change.name, kind, value("type"), value("nulls"), value("min"), value("max")


def _field(column: ColumnInfo | None, name: str) -> str:
    if column is None:
        return ""
    value = getattr(column, name)
    if name == "type" and not column.nullable:
        return f"{value} not null"
    return "" if value is None else str(value)


def _show_keys(keys: KeyChanges) -> None:
    render.say(f"\nrows by {', '.join(keys.key)} ({keys.engine}):", "bold")
    render.say(
        f"  {keys.added:,} added, {keys.removed:,} removed, {keys.changed:,} changed, "
        f"{keys.same:,} the same"
    )
    for name, count in keys.columns.items():
        render.say(f"  {name}: changed in {render.count(count, 'row')}")
    if keys.not_compared:
        render.say(f"  not compared: {', '.join(keys.not_compared)}", "dim")
    for example in keys.examples:
        _show_example(example)


def _show_example(example: RowChange) -> None:
    key = ", ".join(f"{name}={_text(value)}" for name, value in example.key.items())
    if example.change == "changed":
        parts = [
            f"{name}: {_text(example.before[name])} → {_text(value)}"
            for name, value in example.after.items()
        ]
    else:
        values = example.before or example.after
        parts = [f"{name}: {_text(value)}" for name, value in values.items()]
    line = "; ".join(parts).replace("\n", " ")
    render.say(f"  {example.change:<8} {key}  {line}", _STYLES[example.change])


def _text(value: str | None) -> str:
    return "–" if value is None else value
