"""Sources or dependents of an asset or column, as a tree for the terminal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from rich.text import Text
from rich.tree import Tree

from arco.catalog.governance_reader import GovernanceReader
from arco.catalog.tables import ASSETS
from arco.cli.failures import visible
from arco.lineage.reader import LineageReader, Link, Node
from arco.orchestration.reader import OrchestrationReader


def absence(reader: LineageReader, asset: str) -> str:
    """For an asset that is not deployed: its import, or that it was removed or never deployed."""
    imported = reader.snapshot.get(ASSETS, reader.names.id(asset))
    if imported is not None and imported.imported_from:
        return f"({imported.imported_from})"
    row = OrchestrationReader(reader.snapshot).deployed_asset(asset)
    return "(not deployed)" if row is None else "(no longer deployed)"


def deployed_assets(reader: LineageReader) -> set[str]:
    """Assets that were removed or renamed keep their lineage."""
    return OrchestrationReader(reader.snapshot).active_assets()


def lineage_tree(reader: LineageReader, node: Node, down: bool, depth: int) -> Tree:
    links = (reader.downstream if down else reader.upstream)(*node, depth=depth)
    deprecated = GovernanceReader(reader.snapshot).deprecations()
    root = Tree(Text(visible(str(node)), "bold") + _deprecation(node, deprecated))
    if not node.column and not down:
        _add_columns(root, reader, node)
    ends = {end.asset for link in links for end in (link.source, link.target)}
    absent = {asset: absence(reader, asset) for asset in ends - deployed_assets(reader)}
    _grow(root, node, _by_near_end(links, down), down, {node}, absent, deprecated)
    return root


def _by_near_end(links: list[Link], down: bool) -> dict[Node, list[Link]]:
    links_by_node: dict[Node, list[Link]] = {}
    for link in links:
        links_by_node.setdefault(link.source if down else link.target, []).append(link)
    return links_by_node


def _grow(
    tree: Tree,
    node: Node,
    links: dict[Node, list[Link]],
    down: bool,
    printed: set[Node],
    absent: Mapping[str, str],
    deprecated: Mapping[str, str],
) -> None:
    """Direct sources first; one branch for each end. A subtree is printed once."""
    ends: dict[Node, list[Link]] = {}
    for link in sorted(links.get(node, ()), key=lambda each: not each.direct):
        ends.setdefault(link.target if down else link.source, []).append(link)
    for end, edges in ends.items():
        text = _step(end, edges, end in printed, down)
        branch = tree.add(text)
        if end.asset in absent:
            text.append(f"  {absent[end.asset]}", "yellow")
        text.append(_deprecation(end, deprecated))
        if end not in printed:
            printed.add(end)
            _grow(branch, end, links, down, printed, absent, deprecated)


def _deprecation(node: Node, deprecated: Mapping[str, str]) -> Text:
    if node.asset not in deprecated:
        return Text()
    return Text(visible(f"  (deprecated: {deprecated[node.asset]})"), "yellow")


def _step(end: Node, edges: list[Link], seen: bool, down: bool) -> Text:
    direct = any(edge.direct for edge in edges)
    text = Text("→ " if down else "← ", "dim")
    text.append(
        str(end) if end.column or not down else f"{end.asset} (rows)", "" if direct else "dim"
    )
    for edge in edges:
        style = "cyan" if edge.direct else "magenta dim"
        text.append(f"  {edge.kind}", style)
        if edge.masked:
            text.append(" masked", "yellow")
    doubts = {edge.confidence for edge in edges} - {"high", ""}
    if doubts:
        text.append(f"  {', '.join(sorted(doubts))} confidence", "yellow")
    if seen:
        text.append("  (as above)", "dim")
    return text


def _add_columns(root: Tree, reader: LineageReader, node: Node) -> None:
    """For a whole asset: a line for each column, then the assets that it reads."""
    coverage = reader.coverage(node.asset)
    if coverage is None:
        return
    edges: defaultdict[str, list[str]] = defaultdict(list)
    for e in reader.columns(node.asset):
        edges[e.target_column].append(f"{e.source}.{e.source_column} {e.kind}")
    for column in coverage.columns:
        sources = edges[column]
        text = Text(visible(column))
        text.append(visible(f"  ← {', '.join(sources) if sources else 'made here'}"), "dim")
        root.add(text)
    for column in coverage.unmapped:
        root.add(Text(visible(column)) + Text("  ← unknown", "yellow"))
    if deciding := edges[""]:
        root.add(Text(visible(f"rows  ← {', '.join(deciding)}"), "magenta dim"))
