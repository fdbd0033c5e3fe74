"""`servo lineage`: where data comes from, and what would feel a change."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from arco.cli.options import command, group
from arco.cli.session import Session
from arco.errors import Invalid, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.text import Text
    from rich.tree import Tree

    from arco.app import Workspace
    from arco.lineage.openlineage import Field, ReadAsset, TaskRun
    from arco.lineage.reader import Impact, LineageReader, Link, Node
    from arco.lineage.tables import ExecutionRow
    from arco.orchestration.tables import TaskRow
    from arco.quality.tables import CheckResultRow
    from arco.state.snapshot import Snapshot
    from servo.contract.task import CheckResult, ColumnInfo, InputRef

SHOWN = 10
"""So many of the newest outputs, and what went into them."""

GONE = "(no longer deployed)"

app = group("lineage", "Lineage: where data comes from, and what uses it.")

Target = Annotated[
    str, typer.Argument(metavar="ASSET[.COLUMN]", help="namespace.asset, or one of its columns.")
]
Depth = Annotated[int, typer.Option(min=1, max=100, metavar="N", help="So many steps at most.")]


@command(app, "show", example="servo lineage show shop.daily.revenue --depth 3", takes=["at"])
def show(
    session: Session,
    target: Target,
    down: Annotated[
        bool, typer.Option("--down/--up", help="What uses it; otherwise where it comes from.")
    ] = False,
    depth: Depth = 10,
) -> None:
    """Show where an asset or a column comes from, or what uses it.

    Every step says how: values that flow (identity, transformation, aggregation), and what
    only decides (filter, join, group_by, sort, window, conditional). Masked means that the
    values themselves cannot be seen any more.
    """
    from arco.cli import render

    reader = _reader(session.open().snapshot(session.at()))
    node = _node(reader, target)
    if session.json:
        render.document(_document(reader, node, down, depth))
        return
    render.show(_tree(reader, node, down, depth))
    _show_behind(reader, node, down)


@command(app, "impact", example="servo lineage impact shop.orders.amount", takes=["at"])
def impact(session: Session, target: Target, depth: Depth = 32) -> None:
    """Show all that a change of a column reaches, the nearest first."""
    from arco.cli import render

    reader = _reader(session.open().snapshot(session.at()))
    node = _node(reader, target)
    if not node.column:
        raise Invalid(f"{target} is an asset", hint=f"name a column: {target}.column")
    found = reader.impact(node.asset, node.column, depth=depth)
    deployed = _deployed(reader)
    if session.json:
        rows = [_plain_impact(each) | {"deployed": each.node.asset in deployed} for each in found]
        render.document(
            {"generation": reader.snapshot.generation, "column": str(node), "impact": rows}
        )
        return
    if not found:
        render.say(f"nothing uses {node}")
        return
    shown = [
        (
            each.distance,
            each.node.asset,
            each.node.column or "(which rows there are)",
            _how(each) + ("" if each.node.asset in deployed else f" {GONE}"),
        )
        for each in found
    ]
    headers = ("steps", "asset", "column", "how")
    render.show(render.table(headers, shown, right=["steps"], whole=["asset", "column"]))
    assets = {each.node.asset for each in found}
    render.say(f"{render.count(len(assets), 'asset')}, {render.count(len(found), 'place')}")


@command(app, "export", example="servo lineage export 01K… --output lineage.ndjson")
def export(
    session: Session,
    run: Annotated[str, typer.Argument(metavar="RUN", help="Its id, or an end of it.")],
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write there, not to the terminal.")
    ] = None,
) -> None:
    """Export a run as OpenLineage events, one JSON object to a line.

    What was held back when the run ended is no output of it.
    """
    import json

    from arco.cli import render
    from arco.lineage.openlineage import Place, events_of

    workspace = session.open()
    row = workspace.read_orchestration().find_run(run)
    snapshot = _ended(workspace, row.run_id)
    config = session.config()
    store = f"{config.store.rstrip('/')}/{config.tenant}/{config.workspace}"
    place = Place(f"arco://{config.tenant}/{config.workspace}", store)
    tasks = _task_runs(snapshot, row.run_id, _queries(workspace, row.deployment_id))
    lines = [json.dumps(event) for event in events_of(place, row.run_id, tasks)]
    if output is None:
        for line in lines:
            print(line)
        return
    output.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    render.say(f"{render.count(len(lines), 'event')} of run {row.run_id} in {output}")


# -- what was asked for -------------------------------------------------------------------


def _reader(snapshot: Snapshot) -> LineageReader:
    from arco.lineage.reader import LineageReader

    return LineageReader(snapshot)


def _deployed(reader: LineageReader) -> set[str]:
    """Lineage stays known of assets that are gone, and of those that have another name now."""
    from arco.orchestration.reader import OrchestrationReader

    assets = OrchestrationReader(reader.snapshot).deployed_assets()
    return {key for key, row in assets.items() if row.active}


def _node(reader: LineageReader, target: str) -> Node:
    from arco.lineage.reader import Node
    from servo.suggest import did_you_mean

    parts = target.split(".", 2)
    if len(parts) < 2 or not all(parts):
        raise Invalid(f"{target!r} names no asset", hint="write namespace.asset[.column]")
    node = Node(".".join(parts[:2]), parts[2] if len(parts) > 2 else "")
    coverage = reader.coverage(node.asset)
    used = {use.source_column for use in reader.uses(node.asset)}
    if coverage is None and not reader.dependents(node.asset):
        raise NotFound(
            f"nothing is known about where {node.asset} comes from",
            hint="lineage is recorded when an asset is materialized: servo run",
        )
    known = {*(coverage.columns if coverage else ()), *(coverage.unmapped if coverage else ())}
    known |= {column.name for column in _columns(reader.snapshot, node.asset)}
    if node.column and known and node.column not in known | used:
        near = did_you_mean(node.column, known)
        raise NotFound(
            f"{node.asset} has no column {node.column!r}",
            hint=near or f"it has {', '.join(sorted(known))}",
        )
    return node


# -- trees --------------------------------------------------------------------------------


def _tree(reader: LineageReader, node: Node, down: bool, depth: int) -> Tree:
    from rich.text import Text
    from rich.tree import Tree

    from arco.cli.failures import visible

    links = (reader.downstream if down else reader.upstream)(*node, depth=depth)
    root = Tree(Text(visible(str(node)), "bold"))
    if not node.column and not down:
        _add_columns(root, reader, node)
    _grow(root, node, _by_near_end(links, down), down, {node}, _deployed(reader))
    return root


def _by_near_end(links: list[Link], down: bool) -> dict[Node, list[Link]]:
    made: dict[Node, list[Link]] = {}
    for link in links:
        made.setdefault(link.source if down else link.target, []).append(link)
    return made


def _grow(
    tree: Tree,
    node: Node,
    links: dict[Node, list[Link]],
    down: bool,
    told: set[Node],
    deployed: set[str],
) -> None:
    """Direct ones first; one branch for each far end. What was told is not told again."""
    ends: dict[Node, list[Link]] = {}
    for link in sorted(links.get(node, ()), key=lambda each: not each.direct):
        ends.setdefault(link.target if down else link.source, []).append(link)
    for end, ways in ends.items():
        text = _step(end, ways, end in told, down)
        branch = tree.add(text)
        if end.asset not in deployed:
            text.append(f"  {GONE}", "yellow")
        if end not in told:
            told.add(end)
            _grow(branch, end, links, down, told, deployed)


def _step(end: Node, ways: list[Link], seen: bool, down: bool) -> Text:
    from rich.text import Text

    direct = any(way.direct for way in ways)
    text = Text("→ " if down else "← ", "dim")
    text.append(
        str(end) if end.column or not down else f"{end.asset} (rows)", "" if direct else "dim"
    )
    for way in ways:
        style = "cyan" if way.direct else "magenta dim"
        text.append(f"  {way.kind}", style)
        if way.masked:
            text.append(" masked", "yellow")
    doubts = {way.confidence for way in ways} - {"high", ""}
    if doubts:
        text.append(f"  {', '.join(sorted(doubts))} confidence", "yellow")
    if seen:
        text.append("  (as above)", "dim")
    return text


def _add_columns(root: Tree, reader: LineageReader, node: Node) -> None:
    """Of a whole asset, a line for each column before the assets that it reads."""
    from rich.text import Text

    from arco.cli.failures import visible

    coverage = reader.coverage(node.asset)
    if coverage is None:
        return
    edges = reader.columns(node.asset)
    for column in coverage.columns:
        sources = [
            f"{e.source}.{e.source_column} {e.kind}" for e in edges if e.target_column == column
        ]
        text = Text(visible(column))
        text.append(visible(f"  ← {', '.join(sources) if sources else 'made here'}"), "dim")
        root.add(text)
    for column in coverage.unmapped:
        root.add(Text(visible(column)) + Text("  ← unknown", "yellow"))
    deciding = [f"{e.source}.{e.source_column} {e.kind}" for e in edges if not e.target_column]
    if deciding:
        root.add(Text(visible(f"rows  ← {', '.join(deciding)}"), "magenta dim"))


def _show_behind(reader: LineageReader, node: Node, down: bool) -> None:
    """How sure this is, and the runs and versions behind the newest outputs."""
    from arco.cli import render

    coverage = reader.coverage(node.asset)
    if coverage is not None:
        render.say(
            f"{coverage.coverage_percent}% of the columns are covered, "
            f"{coverage.confidence} confidence ({coverage.method}). {coverage.reason}",
            "dim",
        )
    if down:
        return
    _show_seen(reader, node.asset)
    rows = reader.executions(node.asset)
    for row in reversed(rows[-SHOWN:]):
        render.say(_execution(row))
    if len(rows) > SHOWN:
        render.note(f"{len(rows) - SHOWN:,} older ones; see --json")


def _show_seen(reader: LineageReader, asset: str) -> None:
    """Since when each input is one, and how often it was read."""
    from arco.cli import render
    from arco.cli.times import short

    seen = reader.edge_metadata(asset)
    for edge in sorted(reader.edges(asset), key=lambda edge: (edge.source, edge.parameter)):
        if (row := seen.get(edge.edge_id)) is not None:
            render.say(
                f"{edge.source}: {render.count(row.executions, 'output')}, first "
                f"{short(row.first_seen_at)}, last {short(row.last_seen_at)}",
                "dim",
            )


def _execution(row: ExecutionRow) -> str:
    """`2026-01-31 12:00:00Z  run 0J2Q…: shop.orders[date=…] version 8Z… → [date=…] version 9X…`"""
    from arco.cli.live import partition_text
    from arco.cli.times import short

    partitions = [text for key in row.source_partitions if (text := partition_text(key))]
    read = f"{row.source}[{_few(partitions, row.source_count)}]" if partitions else row.source
    versions = _few([id[-8:] for id in row.source_materializations], row.source_count)
    made = partition_text(row.partition_key)
    return (
        f"{short(row.recorded_at)}  run {row.run_id[-8:]}: {read} version {versions or '–'} → "
        f"{f'[{made}] ' if made else ''}version {row.materialization_id[-8:]}"
    )


def _few(texts: list[str], total: int = 0) -> str:
    """The first of them, and how many more there are; `total` where the list was cut."""
    more = (total or len(texts)) - 3
    return ", ".join(texts[:3]) + (f" and {more:,} more" if more > 0 else "")


# -- for machines -------------------------------------------------------------------------


def _document(reader: LineageReader, node: Node, down: bool, depth: int) -> dict[str, Any]:
    from arco.cli import render

    links = (reader.downstream if down else reader.upstream)(*node, depth=depth)
    steps = [
        {
            "distance": link.distance,
            "source": link.source._asdict(),
            "target": link.target._asdict(),
            "kind": link.kind,
            "direct": link.direct,
            "masked": link.masked,
            "method": link.method,
            "confidence": link.confidence,
        }
        for link in links
    ]
    return {
        "generation": reader.snapshot.generation,
        "asset": node.asset,
        "column": node.column or None,
        "direction": "down" if down else "up",
        "links": steps,
        "no_longer_deployed": sorted(
            {end.asset for link in links for end in (link.source, link.target)} - _deployed(reader)
        ),
        "coverage": render.plain(reader.coverage(node.asset)),
        "edges": _plain_edges(reader, node.asset),
        "columns": render.plain(reader.columns(node.asset)),
        "executions": render.plain(reader.executions(node.asset)),
    }


def _plain_edges(reader: LineageReader, asset: str) -> list[dict[str, Any]]:
    from arco.cli import render

    seen = reader.edge_metadata(asset)
    return [
        render.plain(seen.get(edge.edge_id)) | render.plain(edge)
        for edge in reader.edges(asset)
        if edge.edge_id in seen
    ]


def _how(each: Impact) -> str:
    if not each.direct:
        return "decides"
    return "flows, masked" if each.masked else "flows"


def _plain_impact(each: Impact) -> dict[str, Any]:
    return {
        "distance": each.distance,
        "asset": each.node.asset,
        "column": each.node.column or None,
        "direct": each.direct,
        "masked": each.masked,
    }


# -- export -------------------------------------------------------------------------------


def _ended(workspace: Workspace, run_id: str) -> Snapshot:
    """The generation at which the run had ended; the newest where that was collected."""
    from arco.errors import NotYet
    from arco.orchestration.reader import as_of_run

    try:
        return workspace.snapshot(as_of_run(run_id))
    except NotYet:
        raise NotYet(f"run {run_id} has not ended yet", hint="see `servo runs show`") from None
    except NotFound:
        return workspace.snapshot()


def _task_runs(snapshot: Snapshot, run_id: str, sql: Mapping[str, str]) -> list[TaskRun]:
    """What is known of each task that ran; each asset is looked up once."""
    from arco.orchestration.reader import OrchestrationReader

    tasks = OrchestrationReader(snapshot).tasks(run_id)
    ran = [task for task in tasks if task.started_at and task.finished_at]
    known = {task.asset_key: task.asset_id for task in ran}
    assets = {key: _known(snapshot, run_id, key, id) for key, id in known.items()}
    read = {each.asset for known in assets.values() for each in chain(*known.inputs.values())}
    columns = {key: _columns(snapshot, key) for key in read | known.keys()}
    return [_task_run(task, assets[task.asset_key], columns, sql) for task in ran]


class _Known(NamedTuple):
    """What is known of an asset's part in a run, by task."""

    fields: tuple[Field, ...]
    inputs: dict[str, list[ReadAsset]]
    outputs: dict[str, str]
    """The version that a task made, held back or not."""
    checks: dict[str, list[CheckResultRow]]


def _known(snapshot: Snapshot, run_id: str, asset: str, asset_id: str) -> _Known:
    from arco.lineage.openlineage import Field
    from arco.quality.reader import QualityReader

    reader = _reader(snapshot)
    fields = [
        Field(row.target_column, row.source, row.source_column, row.kind, row.masked)
        for row in reader.columns(asset)
    ]
    known = _Known(tuple(fields), defaultdict(list), {}, defaultdict(list))
    for execution in reader.executions(asset):
        if execution.run_id == run_id:
            known.outputs[execution.task_id] = execution.materialization_id
            known.inputs[execution.task_id].append(_read(execution))
    for held in reader.held(asset).values():
        if held.run_id == run_id:
            known.outputs[held.task_id] = held.materialization_id
            known.inputs[held.task_id] += map(_read_by_held, held.lineage.read)
    for result in QualityReader(snapshot).results(asset_id):
        if result.run_id == run_id:
            known.checks[result.task_id].append(result)
    return known


def _read(row: ExecutionRow) -> ReadAsset:
    from arco.lineage.openlineage import ReadAsset

    versions = tuple(row.source_materializations)
    return ReadAsset(asset=row.source, versions=versions, rows=row.rows_read)


def _read_by_held(ref: InputRef) -> ReadAsset:
    from arco.lineage.openlineage import ReadAsset

    versions = tuple(each.materialization_id for each in ref.materializations)
    rows = ref.rows if ref.count else sum(each.rows for each in ref.materializations)
    return ReadAsset(asset=ref.asset, versions=versions, rows=rows)


def _task_run(
    task: TaskRow,
    known: _Known,
    columns: Mapping[str, tuple[ColumnInfo, ...]],
    sql: Mapping[str, str],
) -> TaskRun:
    from msgspec.structs import replace

    from arco.lineage.openlineage import TaskRun

    is_held = task.gate in ("quarantine", "block")
    # The row of a task whose output is held back names the version that is used instead.
    made = known.outputs.get(task.task_id, "" if is_held else task.materialization_id)
    checks = _checks(known.checks.get(task.task_id, ()), made, task.attempt_id)
    assert task.started_at is not None and task.finished_at is not None
    return TaskRun(
        task_id=task.task_id,
        asset=task.asset_key,
        state=task.state,
        started_at=task.started_at,
        finished_at=task.finished_at,
        partition=task.partition_key,
        materialization_id=made,
        rows=0 if is_held else task.rows,
        bytes=0 if is_held else task.bytes,
        columns=columns[task.asset_key],
        fields=known.fields,
        inputs=tuple(
            replace(read, columns=columns[read.asset], checks=tuple(checks.get(read.asset, ())))
            for read in known.inputs.get(task.task_id, ())
        ),
        checks=tuple(checks.get("", ())),
        sql=sql.get(task.asset_key, ""),
        error=task.error_message,
        held=is_held,
    )


def _columns(snapshot: Snapshot, asset: str) -> tuple[ColumnInfo, ...]:
    """Those of the newest version; else as declared; else the names that lineage knows."""
    from arco.catalog.reader import CatalogReader
    from arco.execution.reader import ExecutionReader
    from arco.orchestration.reader import OrchestrationReader
    from servo.contract.keys import AssetKey
    from servo.contract.task import ColumnInfo

    deployed = OrchestrationReader(snapshot).deployed_assets().get(asset)
    made = ExecutionReader(snapshot).columns(deployed.asset_id) if deployed else ()
    if made:
        return made
    try:
        rows = CatalogReader(snapshot).asset(AssetKey.parse(asset)).columns
    except NotFound:
        rows = []
    if rows:
        return tuple(ColumnInfo(name=row.name, type=row.type) for row in rows)
    coverage = _reader(snapshot).coverage(asset)
    names = [*coverage.columns, *coverage.unmapped] if coverage else []
    return tuple(ColumnInfo(name=name, type="") for name in names)


def _checks(
    rows: Iterable[CheckResultRow], made: str, attempt_id: str
) -> dict[str, list[CheckResult]]:
    """What was found about an output, and under their keys about its inputs.

    Results go by the output: another attempt than the last may have made it. Where there
    is none, they are those of the last attempt.
    """
    from servo.contract.task import CheckResult

    found: dict[str, list[CheckResult]] = {}
    for row in rows:
        if row.materialization_id == made if made else row.attempt_id == attempt_id:
            result = CheckResult(
                name=row.check_name,
                passed=row.status == "passed",
                severity=row.severity,
                columns=tuple(row.columns),
            )
            found.setdefault(row.input, []).append(result)
    return found


def _queries(workspace: Workspace, deployment_id: str) -> dict[str, str]:
    """The SQL of the assets of a deployment that are written in it."""
    for row in workspace.read_orchestration().deployments():
        if row.deployment_id == deployment_id:
            try:
                manifest = workspace.library.manifest(row.manifest)
            except NotFound:
                break
            return {asset.key: asset.sql for asset in manifest.assets if asset.sql}
    return {}
