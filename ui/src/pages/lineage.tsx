/** Lineage: the graph of all assets; one step around an asset, with what is hidden counted, or the path of one of its columns; and everything that depends on it, as a list. */
import { getRouteApi } from "@tanstack/react-router";
import { Download } from "lucide-react";
import { lazy, Suspense } from "react";
import edgesSql from "../../sql/lineage_edges.sql?raw";
import { useList, useRead } from "../api/hooks";
import { csv, download } from "../design/csv";
import { Choice, Empty, Loaded, Page, Panel, ProblemNote, Skeleton } from "../design/parts";
import { count, Name, plural } from "../design/values";
import { FaultPage } from "../layout/faults";
import { AssetLink, PageLink, useSetSearch } from "../layout/link";
import { Tabs } from "../layout/tabs";
import { useQuestion } from "../query/engine";
import type { GraphNode } from "./lineage-graph";

const Graph = lazy(async () => ({ default: (await import("./lineage-graph")).LineageGraph }));
const ColumnPath = lazy(async () => ({ default: (await import("./lineage-columns")).ColumnPath }));
const Overview = lazy(async () => ({ default: (await import("./lineage-overview")).LineageOverview }));
const route = getRouteApi("/w/$tenant/$workspace/lineage");

interface Edge {
  source: string;
  target: string;
  source_state: string;
  target_state: string;
}

export function LineagePage() {
  const { asset, column, view } = route.useSearch();
  const body = useRead("/assets/{asset}", { path: { asset: asset ?? "" }, enabled: asset !== undefined });
  if (asset !== undefined && body.error) return <FaultPage error={body.error} what="asset" />;
  return (
    <Page
      full
      title={asset ? <>Lineage of <Name>{asset}</Name></> : "Lineage"}
      actions={asset ? <PageLink to="/assets/$asset" params={{ asset }} className="button">Open the asset</PageLink> : null}
    >
      {asset ? (
        <>
          <Tabs label="Views of lineage">
            <PageLink to="/lineage" search={{ asset }} current={view !== "list"}>Graph</PageLink>
            <PageLink to="/lineage" search={{ asset, view: "list" }} current={view === "list"}>Everything that depends on it</PageLink>
          </Tabs>
          {view === "list" ? <Impact asset={asset} /> : (
            <>
              <ColumnChoice asset={asset} />
              {column ? <Suspense fallback={<Skeleton rows={10} />}><ColumnPath asset={asset} column={column} /></Suspense> : <Neighbours asset={asset} />}
            </>
          )}
        </>
      ) : (
        <Suspense fallback={<Skeleton rows={12} />}><Overview /></Suspense>
      )}
    </Page>
  );
}

/** Which column's path is shown; none: the assets around. */
function ColumnChoice({ asset }: { asset: string }) {
  const { column } = route.useSearch();
  const set = useSetSearch();
  const list = useList("/assets/{asset}/columns", { path: { asset }, pageSize: 100 });
  const names = list.items.map((each) => each.name);
  const shown = column && !names.includes(column) ? [column, ...names] : names;
  if (!shown.length) return null;
  return (
    <div className="toolbar">
      <Choice label="Column" value={column ?? ""} options={[["", "Assets, without columns"], ...shown.map((name) => [name, `Path of ${name}`] as const)]} onChange={(name) => set({ column: name || undefined })} />
      {list.hasMore ? <button type="button" className="button" onClick={list.more}>More columns</button> : null}
    </div>
  );
}

function Neighbours({ asset }: { asset: string }) {
  const { open } = route.useSearch();
  const set = useSetSearch();
  const opened = [asset, ...(open ? open.split(" ") : [])];
  // First what is shown, then what touches that: the numbers at the sides.
  const near = useQuestion<Edge>("lineage_edges", edgesSql, { assets: opened.join(" ") }, { maxRows: 5_000 });
  const shown = new Set([asset, ...(near.data ?? []).flatMap((edge) => [edge.source, edge.target])]);
  const around = useQuestion<Edge>("lineage_edges", edgesSql, { assets: [...shown].sort().join(" ") }, { maxRows: 10_000, enabled: near.data !== undefined });
  if (near.error) return <ProblemNote error={near.error} />;
  if (!near.data) return <Skeleton rows={10} />;
  const states = new Map((near.data ?? []).flatMap((edge) => [[edge.source, edge.source_state], [edge.target, edge.target_state]] as const));
  const all = around.data ?? near.data;
  const edges = all.filter((edge) => shown.has(edge.source) && shown.has(edge.target)).map((edge) => [edge.source, edge.target] as [string, string]);
  const nodes: GraphNode[] = [...shown].map((name) => ({
    asset: name,
    state: states.get(name) ?? "UNKNOWN",
    isCenter: name === asset,
    hiddenUp: all.filter((edge) => edge.target === name && !shown.has(edge.source)).length,
    hiddenDown: all.filter((edge) => edge.source === name && !shown.has(edge.target)).length,
  }));
  return (
    <Panel fill title={plural(nodes.length, "asset")} actions={<span className="muted small">Double-click puts an asset in the middle</span>}>
      <Suspense fallback={<Skeleton />}>
        <Graph
          nodes={nodes}
          edges={edges}
          onOpen={(name) => set({ open: [...new Set([...opened.slice(1), name])].join(" ") })}
          onCenter={(name) => set({ asset: name, open: undefined })}
        />
      </Suspense>
    </Panel>
  );
}

function Impact({ asset }: { asset: string }) {
  const result = useRead("/assets/{asset}/downstream", { path: { asset }, query: { depth: 100 } });
  return (
    <Loaded result={result} rows={10}>
      {(body) => {
        const nearest = new Map<string, number>();
        for (const link of body.links) nearest.set(link.target.asset, Math.min(nearest.get(link.target.asset) ?? Infinity, link.distance));
        const rows = [...nearest].sort((a, b) => a[1] - b[1] || a[0].localeCompare(b[0]));
        return (
          <Panel
            title="Depends on it"
            count={count(rows.length)}
            actions={rows.length ? <button type="button" className="button" onClick={() => download(`impact-of-${asset}.csv`, csv(["asset", "steps"], rows))}><Download size={14} aria-hidden /> CSV</button> : null}
          >
            {rows.length ? (
              <div className="table-wrap">
                <table className="table">
                  <thead><tr><th>Asset</th><th className="num">Steps away</th></tr></thead>
                  <tbody>{rows.slice(0, 1_000).map(([name, distance]) => <tr key={name}><td><AssetLink asset={name} /></td><td className="num">{distance}</td></tr>)}</tbody>
                </table>
              </div>
            ) : <Empty title="Nothing depends on it" />}
            {rows.length > 1_000 ? <p className="body muted">The first 1,000; the CSV has all.</p> : null}
            {body.hidden ? <p className="body muted">{count(body.hidden)} more that you may not see.</p> : null}
            {body.truncated ? <p className="body muted">There is more than an answer holds.</p> : null}
          </Panel>
        );
      }}
    </Loaded>
  );
}
