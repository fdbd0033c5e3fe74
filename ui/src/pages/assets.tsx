/** All assets: a list that stays quick with 100,000. The first rows come from the API, the rest by SQL. */
import { getRouteApi } from "@tanstack/react-router";
import { useCallback, useDeferredValue } from "react";
import linesSql from "../../sql/asset_lines.sql?raw";
import assetsSql from "../../sql/assets.sql?raw";
import statesSql from "../../sql/asset_states.sql?raw";
import { useList } from "../api/hooks";
import type { Item } from "../api/types";
import { Grid, type GridColumn } from "../design/grid";
import { Choice, Empty, Page, Panel, ProblemNote, SearchField, Skeleton } from "../design/parts";
import { State, stateText } from "../design/states";
import { ago, count, duration, exact, Name, Time } from "../design/values";
import { AssetLink, PageLink, useGo, useSetSearch } from "../layout/link";
import { useQuestion } from "../query/engine";
import { useWindows } from "../query/windows";

const LINES = { name: "asset_lines", sql: linesSql };
const route = getRouteApi("/w/$tenant/$workspace/assets");

interface AssetLine {
  asset: string;
  namespace: string;
  description: string;
  owners: string;
  kinds: string;
  state: string;
  materialized_ms: number | null;
  last_rows: number | null;
  last_wall_ms: number | null;
  total: number;
}

/** Texts of the search's table have line breaks around each part. */
const parts = (text: string): string => text.split("\n").map((part) => part.trim()).filter(Boolean).join(", ");
const when = (ms: number | null) => (ms === null ? <span className="faint">never</span> : <time title={exact(new Date(Number(ms)).toISOString())}>{ago(Number(ms))}</time>);

export function AssetsPage() {
  const { status } = route.useSearch();
  return status ? <ByHealth status={status} /> : <AllAssets />;
}

function AllAssets() {
  const search = route.useSearch();
  const go = useGo();
  const q = useDeferredValue(search.q ?? "");
  const sort = search.sort ?? "name";
  const isFiltered = Boolean(search.q || search.namespace || search.state || sort !== "name");
  const lines = useWindows<AssetLine>("assets", assetsSql, { q, namespace: search.namespace ?? "", state: search.state ?? "", sort }, LINES);
  const first = useList("/assets", { enabled: lines.isPending && !isFiltered, pageSize: 50 });
  const namespaces = useList("/namespaces", { pageSize: 100 });
  const states = useQuestion<{ state: string; assets: number }>("asset_states", statesSql, {}, { lines: LINES });
  const set = useSetSearch();
  const columns: GridColumn<AssetLine>[] = [
    { name: "name", title: "Asset", width: "minmax(220px, 3fr)", sort: sort === "name" ? "ascending" : undefined, onSort: () => set({ sort: undefined }), cell: (row) => <AssetLink asset={row.asset} /> },
    { name: "state", title: "State", width: "136px", cell: (row) => <State state={row.state} text={row.state === "MISSING" ? "Never run" : undefined} /> },
    { name: "description", title: "Description", width: "minmax(160px, 4fr)", cell: (row) => <span className="muted"><Name>{row.description.trim()}</Name></span> },
    { name: "owners", title: "Owners", width: "minmax(110px, 1.4fr)", cell: (row) => <span className="muted"><Name>{parts(row.owners)}</Name></span> },
    { name: "rows", title: "Last rows", width: "96px", num: true, sort: sort === "rows" ? "descending" : undefined, onSort: () => set({ sort: "rows" }), cell: (row) => (row.last_rows === null ? "" : count(Number(row.last_rows))) },
    { name: "took", title: "Last took", width: "84px", num: true, cell: (row) => (row.last_wall_ms === null ? "" : duration(Number(row.last_wall_ms))) },
    { name: "updated", title: "Materialized", width: "104px", num: true, sort: sort === "updated" ? "descending" : undefined, onSort: () => set({ sort: "updated" }), cell: (row) => when(row.materialized_ms) },
  ];
  const early = lines.isPending && !isFiltered ? first.items.map(earlyLine) : [];
  const shown = lines.isPending ? early.length : lines.count;
  const row = useCallback((index: number) => (lines.isPending ? early[index] : lines.row(index)), [lines, early]);
  return (
    <Page full title="Assets">
      <div className="toolbar">
        <SearchField label="Name, owner or description" value={search.q ?? ""} onChange={(text) => set({ q: text || undefined })} />
        <Choice
          label="Namespace"
          value={search.namespace ?? ""}
          options={[["", "Every namespace"], ...namespaces.items.map((each) => [each.namespace, each.namespace] as const)]}
          onChange={(namespace) => set({ namespace: namespace || undefined })}
        />
        <Choice
          label="State"
          value={search.state ?? ""}
          options={[["", "Every state"], ...(states.data ?? []).map((each) => [each.state, `${stateText(each.state)} (${count(Number(each.assets))})`] as const)]}
          onChange={(state) => set({ state: state || undefined })}
        />
        <span className="spring" />
        <span className="muted num" role="status">{lines.isPending ? "" : `${count(lines.count)} assets`}</span>
      </div>
      {lines.error ? <ProblemNote error={lines.error} /> : null}
      <Panel fill>
        {shown ? (
          <Grid label="Assets" columns={columns} count={shown} row={row} rowKey={(line) => line.asset} onRange={lines.onRange} onOpen={(line) => go("/assets/$asset", { asset: line.asset })} minWidth={900} />
        ) : lines.isPending && !lines.error ? (
          <Skeleton rows={14} />
        ) : isFiltered ? (
          <Empty title="No asset matches">Ctrl K also searches columns, tags and code.</Empty>
        ) : (
          <Empty title="There are no assets yet">
            <code>servo init shop && cd shop && servo deploy</code>
          </Empty>
        )}
      </Panel>
    </Page>
  );
}

const earlyLine = (row: Item<"/assets">): AssetLine => ({
  asset: `${row.namespace}.${row.name}`,
  namespace: row.namespace,
  description: row.description,
  owners: row.owners.join("\n"),
  kinds: row.kind,
  state: row.active === false ? "REMOVED" : "UNKNOWN",
  materialized_ms: null,
  last_rows: null,
  last_wall_ms: null,
  total: 0,
});

type Health = Item<"/health">;
const HEALTH_COLUMNS: GridColumn<Health>[] = [
  { name: "asset", title: "Asset", width: "minmax(220px, 2fr)", cell: (row) => <AssetLink asset={row.asset} /> },
  { name: "status", title: "Health", width: "120px", cell: (row) => <State state={row.status} /> },
  { name: "reasons", title: "Why", width: "minmax(240px, 5fr)", cell: (row) => <span title={row.reasons.join("\n")}><Name>{row.reasons.join("; ")}</Name></span> },
  { name: "failing", title: "Failing", width: "76px", num: true, cell: (row) => (row.failing_partitions ? count(row.failing_partitions) : "") },
  { name: "last", title: "Materialized", width: "104px", num: true, cell: (row) => <Time at={row.freshness.last_materialized_at} none="never" /> },
];

function ByHealth({ status }: { status: string }) {
  const list = useList("/health", { at: "now", query: { status: [status as Health["status"]] } });
  const { items, hasMore, more } = list;
  const onRange = useCallback((_: number, last: number) => { if (hasMore && last > items.length - 60) more(); }, [hasMore, items.length, more]);
  return (
    <Page full title="Assets" lead={<>Those that are <State state={status} />. <PageLink to="/assets" className="link">Show all</PageLink></>}>
      {list.error ? <ProblemNote error={list.error} /> : null}
      <Panel fill>
        {list.isPending && !list.error ? <Skeleton rows={10} /> : items.length ? (
          <Grid label="Assets" columns={HEALTH_COLUMNS} count={items.length} row={(at) => items[at]} rowKey={(row) => row.asset} onRange={onRange} minWidth={800} />
        ) : <Empty title="None" />}
      </Panel>
    </Page>
  );
}
