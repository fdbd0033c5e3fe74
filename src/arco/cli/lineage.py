"""`servo lineage`: sources of assets and columns, and what depends on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from arco.cli import deferral
from arco.cli.catalog_options import WRITES, acknowledge
from arco.cli.options import argument, command, flag, group, option

if deferral.LOADED:
    from arco.catalog.reader import CatalogReader
    from arco.cli import render
    from arco.cli.deprecated import note_deprecated
    from arco.cli.lineage_tree import absence, deployed_assets, lineage_tree
    from arco.cli.live import partition_text
    from arco.cli.older_version import note_older_version
    from arco.cli.session import Session
    from arco.cli.short_ids import short
    from arco.errors import Invalid, NotFound, Unreadable
    from arco.lineage.reader import Impact, LineageReader, Node, is_by_names
    from arco.lineage.tables import EdgeRow, ExecutionRow
    from arco.openlineage.export import queries_of, snapshot_at_end, task_runs
    from arco.openlineage.spec import Location, events_of
    from arco.orchestration.asset_columns import check_column
    from arco.orchestration.catalog_names import lineage_reader
    from arco.orchestration.input_lists import read_versions
    from arco.times import short as short_time
    from servo.contract.keys import AssetKey
    from servo.contract.task import DIRECT


app = group("lineage", "Show where data comes from and what uses it.")

Target = Annotated[
    str, argument("ASSET[.COLUMN]", "The asset, namespace.name, or one of its columns.")
]
Depth = Annotated[int, option("N", "Maximum number of steps.", min=1, max=100)]


@command(app, "show", example="servo lineage show shop.daily.revenue --depth 3", takes=["at"])
def show(
    session: Session,
    target: Target,
    down: Annotated[
        bool, flag("--down/--up", "Show what uses it, or where it comes from.")
    ] = False,
    depth: Depth = 10,
    limit: Annotated[int, option("N", "Show at most N of the newest outputs.", min=1)] = 10,
) -> None:
    """Show the sources of an asset or a column, or what uses it.

    Every step has a kind. Values flow by identity, transformation or aggregation; filter,
    join, group_by, sort, window and conditional only influence rows or values. Masked
    means that the original values cannot be recovered.
    """
    reader = session.open().read.lineage(session.at())
    node = _node(session, reader, target)
    if session.json:
        render.document(_document(reader, node, down, depth, limit))
        return
    render.show(lineage_tree(reader, node, down, depth))
    _show_behind(reader, node, down, limit)


@command(app, "impact", example="servo lineage impact shop.orders.amount", takes=["at"])
def impact(session: Session, target: Target, depth: Depth = 32) -> None:
    """Show everything that depends on a column, nearest first."""
    reader = session.open().read.lineage(session.at())
    node = _node(session, reader, target)
    if not node.column:
        raise Invalid(f"{target} is an asset, not a column", hint=f"name a column: {target}.column")
    reached = reader.impact(node.asset, node.column, depth=depth)
    deployed = deployed_assets(reader)
    if session.json:
        rows = [_plain_impact(each) | {"deployed": each.node.asset in deployed} for each in reached]
        render.document(
            {"generation": reader.snapshot.generation, "column": str(node), "impact": rows}
        )
        return
    if not reached:
        render.say(f"nothing uses {node}")
        return
    lines = [
        (
            each.distance,
            each.node.asset,
            each.node.column or "(selects rows)",
            _how(each)
            + ("" if each.node.asset in deployed else f" {absence(reader, each.node.asset)}"),
        )
        for each in reached
    ]
    headers = ("steps", "asset", "column", "how")
    render.show_table(headers, lines, right=["steps"], whole=["asset", "column"])
    assets = {each.node.asset for each in reached}
    render.say(f"{render.count(len(assets), 'asset')}, {render.count(len(reached), 'place')}")
    note_deprecated(reader.snapshot, assets)


@command(app, "inputs", example="servo lineage inputs shop.daily --version 8Z2M…", takes=["at"])
def inputs(
    session: Session,
    asset: Annotated[str, argument("ASSET", "The asset: namespace.name.")],
    version: Annotated[
        str, option("ID", "The version's id, or its first characters; default: the newest.")
    ] = "",
    limit: Annotated[int, option("N", "Show at most N; --json shows all.", min=1)] = 100,
) -> None:
    """List the input versions of an output.

    Long lists are separate Parquet files, kept as long as versions of their run.
    """
    workspace = session.open()
    snapshot = workspace.read.snapshot(session.at())
    rows = lineage_reader(snapshot).inputs_of(asset, version)
    read = [read_versions(workspace.store, row) for row in rows]
    if session.json:
        outputs = [
            plain_execution(row)
            | {
                "inputs": [
                    {"partition": each.partition, "materialization_id": each.materialization_id}
                    for each in of.versions
                ],
                "complete": of.is_complete,
            }
            for row, of in zip(rows, read, strict=True)
        ]
        render.document({"generation": snapshot.generation, "asset": asset, "read": outputs})
        return
    headers = ("input", "partition", "version")
    pairs = [(row.source, each) for row, of in zip(rows, read, strict=True) for each in of.versions]
    lines = [
        (source, partition_text(each.partition) or None, each.materialization_id)
        for source, each in pairs[:limit]
    ]
    render.show_table(headers, lines, whole=headers)
    if len(pairs) > limit:
        render.note(f"{len(pairs) - limit:,} more; see --limit and --json")
    for row, of in zip(rows, read, strict=True):
        total = row.source_count or len(of.versions)
        listed = f"; all in {row.source_list}" if row.source_list and of.is_complete else ""
        counts = f"{render.count(total, 'version')}, {row.rows_read:,} rows"
        render.say(f"{row.source}: {counts}{listed}")
        if not of.is_complete:
            render.say(
                f"only the first {len(of.versions):,} are shown: the full list "
                f"{'was not kept' if not row.source_list else f'is missing ({of.problem})'}",
                "yellow",
            )


End = Annotated[str, argument("SOURCE", "The asset or column that data comes from.")]
OtherEnd = Annotated[str, argument("TARGET", "The asset or column that data goes to.")]


@command(
    app,
    "add",
    example="servo lineage add crm.contacts shop.customers --owner sales-ops "
    '--description "nightly export"\n'
    "servo lineage add crm.contacts.mail shop.customers.email --kind identity",
    takes=WRITES,
)
def add(
    session: Session,
    source: End,
    target: OtherEnd,
    kind: Annotated[
        str, option("KIND", "Between columns: identity, transformation or aggregation.")
    ] = "transformation",
    masked: Annotated[
        bool, flag("--masked", "Between columns: the values cannot be recovered.")
    ] = False,
    owner: Annotated[str, option("OWNER", "Who is responsible for the edge.")] = "",
    description: Annotated[str, option("TEXT", "The program that moves the data.")] = "",
) -> None:
    """Add a lineage edge between assets or columns that Arco cannot detect.

    The edge stays until it is removed; outputs and deployments do not change it. Adding it again
    updates its owner and description.
    """
    if kind not in DIRECT:
        raise Invalid(f"{kind!r} is not a kind of edge", hint=f"one of {', '.join(DIRECT)}")
    outcome = session.open().commands.lineage.add(
        parsed_node(source),
        parsed_node(target),
        kind=kind,
        masked=masked,
        owner=owner,
        description=description,
        idempotency_key=session.idempotency_key,
    )
    acknowledge(session, outcome, f"added {source} → {target}", source=source, target=target)


@command(app, "remove", example="servo lineage remove crm.contacts shop.customers", takes=WRITES)
def remove(session: Session, source: End, target: OtherEnd) -> None:
    """Remove an edge that `servo lineage add` has added.

    Edges that come from code are removed by a deployment without them. Removing the edge between
    two assets also removes the manual edges between their columns.
    """
    done = session.open().commands.lineage.remove(
        parsed_node(source), parsed_node(target), idempotency_key=session.idempotency_key
    )
    acknowledge(session, done, f"removed {source} → {target}", source=source, target=target)


@command(app, "export", example="servo lineage export 01K… --output lineage.ndjson")
def export(
    session: Session,
    run: Annotated[str, argument("RUN", "The run's id, or its first characters.")],
    output: Annotated[Path | None, option("FILE", "Write to this file instead of stdout.")] = None,
) -> None:
    """Export a run as OpenLineage events, one JSON object per line.

    Outputs that were held when the run ended are not included.
    """
    workspace = session.open()
    reader = workspace.read.orchestration()
    row = reader.find_run(run)
    snapshot = snapshot_at_end(workspace.read.snapshot, reader.snapshot, row)
    config = session.config()
    name = f"{config.tenant}/{config.workspace}"
    store = f"{config.store.rstrip('/')}/{name}"
    place = Location(f"arco://{name}", f"arco://{name}" if session.api else store)
    tasks = task_runs(snapshot, row, queries_of(workspace.library, reader, row))
    lines = [json.dumps(event) for event in events_of(place, row.run_id, tasks)]
    if output is None:
        for line in lines:
            print(line)
        return
    output.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    render.say(f"{render.count(len(lines), 'event')} of run {row.run_id} in {output}")


def parsed_node(target: str) -> Node:
    parts = target.split(".", 2)
    if len(parts) < 2 or not all(parts):
        raise Invalid(
            f"{target!r} is not an asset", hint="write namespace.name, or namespace.name.column"
        )
    return Node(".".join(parts[:2]), parts[2] if len(parts) > 2 else "")


def _node(session: Session, reader: LineageReader, target: str) -> Node:
    node = parsed_node(target)
    coverage = reader.coverage(node.asset)
    edges = reader.edges(node.asset)
    if coverage is None and is_by_names(reader.snapshot):
        raise Unreadable(
            "the lineage of this workspace was recorded by an older version",
            hint="run `servo admin rebuild`: it computes the tables again from the log",
        )
    note_older_version(session, reader.snapshot)
    if coverage is None and not edges and not reader.dependents(node.asset):
        CatalogReader(reader.snapshot).asset_id(AssetKey.parse(node.asset))  # raises NotFound
        raise NotFound(
            f"{node.asset} has no recorded lineage",
            hint="lineage is recorded when a task writes an output (servo run), and imported from "
            "dbt with `servo lineage import-dbt`",
        )
    if node.column:
        check_column(reader.snapshot, node.asset, node.column)
    return node


def _show_behind(reader: LineageReader, node: Node, down: bool, limit: int) -> None:
    """Coverage and confidence, and the runs and versions of the newest outputs."""
    coverage = reader.coverage(node.asset)
    if coverage is not None:
        render.say(
            f"{coverage.coverage_percent}% of the columns are covered, "
            f"{coverage.confidence} confidence ({coverage.method}). {coverage.reason}",
            "dim",
        )
    if down:
        for target in sorted({row.target for row in reader.dependents(node.asset)}):
            for edge in reader.edges(target):
                if edge.origin == "manual" and edge.source == node.asset:
                    render.say(f"{target}: {_added(edge)}", "dim")
        return
    _show_seen(reader, node.asset)
    rows = reader.executions(node.asset, limit=limit + 1)
    for row in rows[:limit]:
        render.say(_execution(row))
    if len(rows) > limit:
        render.note("there are older outputs; see --limit")


def _show_seen(reader: LineageReader, asset: str) -> None:
    """When each input was first and last read, and how often; manual edges."""
    seen = reader.edge_metadata(asset)
    for edge in sorted(reader.edges(asset), key=lambda edge: (edge.source, edge.parameter)):
        if edge.origin == "manual":
            render.say(f"{edge.source}: {_added(edge)}", "dim")
        elif edge.origin == "dbt":
            render.say(f"{edge.source}: imported from dbt", "dim")
        elif edge.origin == "openlineage":
            render.say(f"{edge.source}: reported by others", "dim")
        elif (row := seen.get(edge.edge_id)) is None:
            render.say(f"{edge.source}: in the code, not read yet", "dim")
        else:
            render.say(
                f"{edge.source}: {render.count(row.executions, 'output')}, first "
                f"{short_time(row.first_seen_at)}, last {short_time(row.last_seen_at)}",
                "dim",
            )


def _added(edge: EdgeRow) -> str:
    owner = f", owner {edge.owner}" if edge.owner else ""
    by = f" by {edge.added_by}" if edge.added_by else ""
    about = f": {edge.description}" if edge.description else ""
    return f"added{by}{owner}{about}"


def _execution(row: ExecutionRow) -> str:
    """`2026-01-31 12:00:00Z  run 01K9…: shop.orders[date=…] version 01K8… → version 01K9…`"""
    partitions = [text for key in row.source_partitions if (text := partition_text(key))]
    read = f"{row.source}[{_few(partitions, row.source_count)}]" if partitions else row.source
    versions = _few([short(id) for id in row.source_materializations], row.source_count)
    partition = partition_text(row.partition_key)
    return (
        f"{short_time(row.recorded_at)}  run {short(row.run_id)}: {read} "
        f"version {versions or '–'} → "
        f"{f'[{partition}] ' if partition else ''}version {short(row.materialization_id)}"
    )


def _few(texts: list[str], total: int = 0) -> str:
    """The first of them, and how many more there are; `total` where the list was cut."""
    more = (total or len(texts)) - 3
    return ", ".join(texts[:3]) + (f" and {more:,} more" if more > 0 else "")


# -- for machines -------------------------------------------------------------------------


def _document(
    reader: LineageReader, node: Node, down: bool, depth: int, limit: int
) -> dict[str, Any]:
    links = (reader.downstream if down else reader.upstream)(*node, depth=depth)
    steps = [
        {
            "distance": link.distance,
            "source": link.source._asdict(),
            "target": link.target._asdict(),
            **render.picked(link, "kind", "direct", "masked", "method", "confidence"),
        }
        for link in links
    ]
    named = {end.asset for link in links for end in (link.source, link.target)}
    return {
        "generation": reader.snapshot.generation,
        "asset": node.asset,
        "column": node.column or None,
        "direction": "down" if down else "up",
        "links": steps,
        "no_longer_deployed": sorted(named - deployed_assets(reader)),
        "coverage": render.plain(reader.coverage(node.asset)),
        "edges": _plain_edges(reader, node.asset),
        "columns": render.plain(reader.columns(node.asset)),
        "executions": [plain_execution(row) for row in reader.executions(node.asset, limit=limit)],
    }


def plain_execution(row: ExecutionRow) -> dict[str, Any]:
    """A row, with the number of inputs also where its lists hold all of them."""
    count = row.source_count or len(row.source_materializations)
    return {**render.plain(row), "source_count": count}


def _plain_edges(reader: LineageReader, asset: str) -> list[dict[str, Any]]:
    seen = reader.edge_metadata(asset)
    return [
        (render.plain(seen[edge.edge_id]) if edge.edge_id in seen else {}) | render.plain(edge)
        for edge in reader.edges(asset)
    ]


def _how(impact: Impact) -> str:
    if not impact.direct:
        return "decides"
    return "flows, masked" if impact.masked else "flows"


def _plain_impact(impact: Impact) -> dict[str, Any]:
    return {
        "distance": impact.distance,
        "asset": impact.node.asset,
        "column": impact.node.column or None,
        "direct": impact.direct,
        "masked": impact.masked,
    }
