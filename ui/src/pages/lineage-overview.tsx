/** All assets and what they read: a picture of up to 20,000, and the same as a list. */
import { getRouteApi } from "@tanstack/react-router";
import { type FormEvent, useMemo } from "react";
import linesSql from "../../sql/asset_lines.sql?raw";
import overviewSql from "../../sql/lineage_overview.sql?raw";
import { useList } from "../api/hooks";
import { Grid, type GridColumn } from "../design/grid";
import { Choice, Empty, Panel, ProblemNote, SearchField, Skeleton } from "../design/parts";
import { State, stateText } from "../design/states";
import { count, Name, plural } from "../design/values";
import { AssetLink, PageLink, useGo, useSetSearch } from "../layout/link";
import { Tabs } from "../layout/tabs";
import { useTyped } from "../layout/typed";
import { useQuestion } from "../query/engine";
import { around, type AssetGraph } from "./asset-graph";
import { AssetGraphView } from "./asset-graph-view";

const LINES = { name: "asset_lines", sql: linesSql };
const MOST_ASSETS = 20_000;
const route = getRouteApi("/w/$tenant/$workspace/lineage");

interface OverviewRow {
  total: number;
  assets: string[] | null;
  states: string[] | null;
  ups: number[] | null;
  downs: number[] | null;
  sources: number[] | null;
  targets: number[] | null;
}

const graphOf = (row: OverviewRow): AssetGraph => ({
  assets: row.assets ?? [],
  states: row.states ?? [],
  ups: Int32Array.from(row.ups ?? []),
  downs: Int32Array.from(row.downs ?? []),
  sources: Int32Array.from(row.sources ?? []),
  targets: Int32Array.from(row.targets ?? []),
});

export function LineageOverview() {
  const search = route.useSearch();
  const { namespace = "", node, view } = search;
  const set = useSetSearch();
  const [q, setQ] = useTyped(search.q ?? "", (text) => set({ q: text || undefined }));
  const namespaces = useList("/namespaces", { pageSize: 100 });
  const result = useQuestion<OverviewRow>("lineage_overview", overviewSql, { namespace, limit: MOST_ASSETS }, { lines: LINES });
  const row = result.data?.[0];
  const whole = useMemo(() => (row ? graphOf(row) : null), [row]);
  const text = q.toLowerCase();
  const found = useMemo(() => (whole && text ? Uint8Array.from(whole.assets, (asset) => Number(asset.toLowerCase().includes(text))) : null), [whole, text]);
  const matches = found?.reduce((sum, each) => sum + each, 0) ?? 0;
  const next = (event: FormEvent) => {
    event.preventDefault();
    if (whole && found && matches) set({ node: whole.assets[following(found, node === undefined ? -1 : whole.assets.indexOf(node))] });
  };
  return (
    <>
      <Tabs label="Views of lineage">
        <PageLink to="/lineage" search={{ namespace: namespace || undefined, q: q || undefined, node }} current={view !== "list"}>Graph</PageLink>
        <PageLink to="/lineage" search={{ namespace: namespace || undefined, q: q || undefined, node, view: "list" }} current={view === "list"}>List</PageLink>
      </Tabs>
      <div className="toolbar">
        <form role="search" onSubmit={next}>
          <SearchField label="Find an asset" value={q} onChange={setQ} />
        </form>
        {q && whole ? <span className="muted num">{plural(matches, "match", "matches")}{matches && view !== "list" ? <> · <kbd>↵</kbd> next</> : null}</span> : null}
        <Choice
          label="Namespace"
          value={namespace}
          options={[["", "Every namespace"], ...namespaces.items.map((each) => [each.namespace, each.namespace] as const)]}
          onChange={(value) => set({ namespace: value || undefined, node: undefined, view: view === "near" ? undefined : view })}
        />
        <span className="spring" />
        {whole ? <span className="muted num" role="status">{counts(whole, row!.total, view === "near" && node ? node : undefined)}</span> : null}
      </div>
      {result.error ? <ProblemNote error={result.error} /> : null}
      {!whole ? result.error ? null : <Skeleton rows={12} /> : whole.assets.length === 0 ? (
        <Empty title="There are no assets yet"><code>servo init shop && cd shop && servo deploy</code></Empty>
      ) : view === "list" ? (
        <AssetList graph={whole} found={found} />
      ) : (
        <Picture graph={whole} found={found} node={node} isNear={view === "near"} />
      )}
    </>
  );
}

/** What is shown, and of how many. */
function counts(whole: AssetGraph, total: number, near: string | undefined): string {
  const at = near === undefined ? -1 : whole.assets.indexOf(near);
  if (at >= 0) {
    const shown = around(whole, at).assets.length;
    return `${plural(shown, "asset")} shown, ${count(total - shown)} hidden`;
  }
  if (total > whole.assets.length) return `${plural(whole.assets.length, "asset")} shown, ${count(total - whole.assets.length)} hidden: choose a namespace`;
  return `${plural(total, "asset")}, ${plural(whole.sources.length, "edge")}`;
}

/** The next that was found, around the end. */
function following(found: Uint8Array, from: number): number {
  for (let moved = 1; moved <= found.length; moved++) if (found[(from + moved) % found.length]) return (from + moved) % found.length;
  return from;
}

function Picture({ graph, found, node, isNear }: { graph: AssetGraph; found: Uint8Array | null; node: string | undefined; isNear: boolean }) {
  const set = useSetSearch();
  const go = useGo();
  const at = node === undefined ? -1 : graph.assets.indexOf(node);
  const near = isNear && at >= 0;
  const shown = useMemo(() => (near ? around(graph, at) : graph), [graph, near, at]);
  return (
    <Panel fill>
      <div className="graph-bar" role="status">
        {at >= 0 ? (
          <>
            <State state={graph.states[at]!} text={graph.states[at] === "MISSING" ? "Never run" : undefined} />
            <AssetLink asset={graph.assets[at]!} />
            <span className="muted">{plural(graph.ups[at]!, "input")}, {plural(graph.downs[at]!, "user")}</span>
            <span className="spring" />
            <button type="button" className="button" aria-pressed={near} onClick={() => set({ view: near ? undefined : "near" })}>Only its neighbours</button>
            <PageLink to="/lineage" search={{ asset: graph.assets[at] }} className="button">Step by step</PageLink>
          </>
        ) : (
          <span className="muted">Drag to move, scroll to zoom, click to select. Keys: arrows walk along edges, Shift and arrows move, + − 0 zoom, Enter opens.</span>
        )}
      </div>
      <AssetGraphView
        graph={shown}
        label={`Graph of ${plural(shown.assets.length, "asset")}${at >= 0 ? `, ${graph.assets[at]} is selected` : ""}`}
        selected={node}
        found={near ? null : found}
        onSelect={(asset) => set({ node: asset, ...(asset === undefined ? { view: undefined } : {}) })}
        onOpen={(asset) => go("/lineage", {}, { asset })}
      />
    </Panel>
  );
}

function AssetList({ graph, found }: { graph: AssetGraph; found: Uint8Array | null }) {
  const go = useGo();
  const shown = useMemo(() => [...graph.assets.keys()].filter((at) => !found || found[at]).sort((a, b) => (graph.assets[a]! < graph.assets[b]! ? -1 : 1)), [graph, found]);
  const columns: GridColumn<number>[] = [
    { name: "asset", title: "Asset", width: "minmax(220px, 3fr)", cell: (at) => <PageLink to="/lineage" search={{ asset: graph.assets[at] }}><Name mono>{graph.assets[at]!}</Name></PageLink> },
    { name: "state", title: "State", width: "150px", cell: (at) => <State state={graph.states[at]!} text={graph.states[at] === "MISSING" ? "Never run" : stateText(graph.states[at]!)} /> },
    { name: "inputs", title: "Inputs", width: "90px", num: true, cell: (at) => count(graph.ups[at]!) },
    { name: "users", title: "Users", width: "90px", num: true, cell: (at) => count(graph.downs[at]!) },
  ];
  return (
    <Panel fill>
      {shown.length ? (
        <Grid label="Assets" columns={columns} count={shown.length} row={(index) => shown[index]} rowKey={(at) => graph.assets[at]!} onOpen={(at) => go("/lineage", {}, { asset: graph.assets[at] })} minWidth={560} />
      ) : <Empty title="No asset matches" />}
    </Panel>
  );
}
