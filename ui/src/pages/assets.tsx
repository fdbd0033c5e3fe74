/** All assets: a list that stays quick with 100,000. The first rows come from the API, the rest by SQL. */
import { getRouteApi } from "@tanstack/react-router";
import { memo, useCallback, useDeferredValue, useEffect, useMemo, useRef } from "react";
import linesSql from "../../sql/asset_lines.sql?raw";
import assetsSql from "../../sql/assets.sql?raw";
import statesSql from "../../sql/asset_states.sql?raw";
import { useList } from "../api/hooks";
import type { Item } from "../api/types";
import { Grid, type GridColumn } from "../design/grid";
import { Choice, Empty, Page, Panel, ProblemNote, SearchField, Skeleton } from "../design/parts";
import { State, stateText } from "../design/states";
import { ago, count, duration, exact, Name, plural, Time } from "../design/values";
import { AssetLink, PageLink, useGo, useSetSearch } from "../layout/link";
import { useTyped } from "../layout/typed";
import type { ColumnTable } from "../query/columns";
import { useQuestion } from "../query/engine";
import { useKeptLines } from "../query/kept-lines";
import { useWindows } from "../query/windows";
import { type AssetFilter, AssetIndex, type AssetLine } from "./asset-index";

const MOST_CACHED = 5_000;
const LINES = { name: "asset_lines", sql: linesSql };
const route = getRouteApi("/w/$tenant/$workspace/assets");

/** Texts of the search's table have line breaks around each part. */
const parts = (text: string): string => text.split("\n").map((part) => part.trim()).filter(Boolean).join(", ");
const when = (ms: number | null) => (ms === null ? <span className="faint">never</span> : <time title={exact(new Date(Number(ms)).toISOString())}>{ago(Number(ms))}</time>);

export function AssetsPage() {
  const { status } = route.useSearch();
  return status ? <ByHealth status={status} /> : <AllAssets />;
}

const makeIndex = (table: ColumnTable) => new AssetIndex(table);

/** The list for a filter: how many lines it has, and each of them. */
interface Listed {
  /** Undefined until it is known. */
  count: number | undefined;
  row: (at: number) => AssetLine | undefined;
  onRange?: (first: number, last: number) => void;
  error?: Error | null;
}

function AllAssets() {
  const search = route.useSearch();
  const set = useSetSearch();
  const [q, setQ] = useTyped(search.q ?? "", (text) => set({ q: text || undefined }));
  const { namespace = "", state = "", sort = "name" } = search;
  const filter = { q, namespace, state, sort };
  // The first rows come from the API at once, then windows by SQL, and from the page's memory when all lines are in it.
  // It is one list for all of them: what somebody is typing, the focus and the place in it stay.
  const index = useKeptLines(LINES, makeIndex);
  const asked = useAskedAssets(filter, index === null);
  const kept = useKeptAssets(filter, index);
  const list = kept ?? asked;
  const shown = kept || !asked.isEarly ? list.count : undefined;
  const namespaces = useList("/namespaces", { pageSize: 100 });
  return (
    <Page full title="Assets">
      <div className="toolbar">
        <SearchField label="Name, owner or description" value={q} onChange={setQ} />
        <Choice
          label="Namespace"
          value={namespace}
          options={[["", "Every namespace"], ...namespaces.items.map((each) => [each.namespace, each.namespace] as const)]}
          onChange={(namespace) => set({ namespace: namespace || undefined })}
        />
        <StateChoice state={state} isAsked={shown !== undefined} />
        <span className="spring" />
        <span className="muted num" role="status">{shown === undefined ? "" : plural(shown, "asset")}</span>
      </div>
      <AssetList list={list} filter={filter} />
    </Page>
  );
}

/** From the page's memory: a key in the filter changes this list and nothing else, and nobody is asked. */
function useKeptAssets({ q, namespace, state, sort }: AssetFilter, index: AssetIndex | null): Listed | undefined {
  const matching = useMemo(() => index?.matching({ q, namespace, state, sort }), [index, q, namespace, state, sort]);
  const line = useMemo(() => index && cached((row: number) => index.line(row)), [index]);
  if (!matching || !line) return undefined;
  return { count: matching.length, row: (at: number) => (at < matching.length ? line(matching[at]!) : undefined) };
}

function useAskedAssets(filter: AssetFilter, enabled: boolean): Listed & { isEarly: boolean } {
  const { q, namespace, state, sort } = filter;
  const isFiltered = isAny(filter);
  const first = useList("/assets", { enabled: enabled && !isFiltered, pageSize: 50 });
  const asked = useDeferredValue(q);
  const lines = useWindows<AssetLine>("assets", assetsSql, { q: asked, namespace, state, sort }, { lines: LINES, enabled: enabled && (isFiltered || !first.isPending) });
  const early = useMemo(() => (isFiltered ? [] : first.items.map(earlyLine)), [isFiltered, first.items]);
  return lines.isPending
    ? { isEarly: true, count: early.length || undefined, row: (at) => early[at], error: lines.error }
    : { isEarly: false, count: lines.count, row: lines.row, onRange: lines.onRange, error: lines.error };
}

const isAny = ({ q, namespace, state, sort }: AssetFilter): boolean => Boolean(q || namespace || state || sort !== "name");

function AssetList({ list, filter }: { list: Listed; filter: AssetFilter }) {
  const go = useGo();
  const columns = useColumns(filter.sort);
  return (
    <>
      {list.error ? <ProblemNote error={list.error} /> : null}
      <Panel fill>
        {list.count ? (
          <Grid label="Assets" columns={columns} count={list.count} row={list.row} rowKey={(line) => line.asset} onRange={list.onRange} onOpen={(line) => go("/assets/$asset", { asset: line.asset })} minWidth={900} />
        ) : list.count === undefined ? (
          list.error ? null : <Skeleton rows={14} />
        ) : isAny(filter) ? (
          <Empty title="No asset matches">Ctrl K also searches columns, tags and code.</Empty>
        ) : (
          <Empty title="There are no assets yet">
            <code>servo init shop && cd shop && servo deploy</code>
          </Empty>
        )}
      </Panel>
    </>
  );
}

/** Its options are counted when the list is there, not before it. */
const StateChoice = memo(function StateChoice({ state, isAsked }: { state: string; isAsked: boolean }) {
  const set = useSetSearch();
  const states = useQuestion<{ state: string; assets: number }>("asset_states", statesSql, {}, { lines: LINES, enabled: isAsked });
  return (
    <Choice
      label="State"
      value={state}
      options={[["", "Every state"], ...(states.data ?? []).map((each) => [each.state, `${stateText(each.state)} (${count(Number(each.assets))})`] as const)]}
      onChange={(state) => set({ state: state || undefined })}
    />
  );
});

/** Lines that were made once are the same object again: their rows are not drawn anew. */
function cached(make: (row: number) => AssetLine): (row: number) => AssetLine {
  const made = new Map<number, AssetLine>();
  return (row) => {
    const line = made.get(row) ?? make(row);
    if (made.size > MOST_CACHED) made.clear();
    made.set(row, line);
    return line;
  };
}

function useColumns(sort: string): GridColumn<AssetLine>[] {
  const set = useSetSearch();
  const change = useRef(set);
  useEffect(() => {
    change.current = set;
  });
  return useMemo(
    () => [
      { name: "name", title: "Asset", width: "minmax(220px, 3fr)", sort: sort === "name" ? "ascending" : undefined, onSort: () => change.current({ sort: undefined }), cell: (row) => <AssetLink asset={row.asset} /> },
      { name: "state", title: "State", width: "136px", cell: (row) => (row.state ? <State state={row.state} text={row.state === "MISSING" ? "Never run" : undefined} /> : null) },
      { name: "description", title: "Description", width: "minmax(160px, 4fr)", cell: (row) => <span className="muted"><Name>{row.description.trim()}</Name></span> },
      { name: "owners", title: "Owners", width: "minmax(110px, 1.4fr)", cell: (row) => <span className="muted"><Name>{parts(row.owners)}</Name></span> },
      { name: "rows", title: "Last rows", width: "96px", num: true, sort: sort === "rows" ? "descending" : undefined, onSort: () => change.current({ sort: "rows" }), cell: (row) => (row.last_rows === null ? "" : count(Number(row.last_rows))) },
      { name: "took", title: "Last took", width: "84px", num: true, cell: (row) => (row.last_wall_ms === null ? "" : duration(Number(row.last_wall_ms))) },
      { name: "updated", title: "Materialized", width: "104px", num: true, sort: sort === "updated" ? "descending" : undefined, onSort: () => change.current({ sort: "updated" }), cell: (row) => (row.state ? when(row.materialized_ms) : null) },
    ],
    [sort],
  );
}

const earlyLine = (row: Item<"/assets">): AssetLine => ({
  asset: `${row.namespace}.${row.name}`,
  namespace: row.namespace,
  description: row.description,
  owners: row.owners.join("\n"),
  kinds: row.kind,
  state: row.active === false ? "REMOVED" : "",
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
