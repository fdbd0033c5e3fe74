/** All runs, the newest first. */
import { getRouteApi } from "@tanstack/react-router";
import { useCallback } from "react";
import { useList } from "../api/hooks";
import type { Schemas } from "../api/types";
import { Grid, type GridColumn } from "../design/grid";
import { Bar, Choice, Empty, Page, Panel, ProblemNote, Skeleton } from "../design/parts";
import { State } from "../design/states";
import { between, count, duration, Name, plural, Time } from "../design/values";
import { RunLink, useSetSearch } from "../layout/link";
import { TypedSearch } from "../layout/typed";
import { runTitle } from "./overview";
import { Materialize } from "./materialize";
import { runShares } from "./run-shares";

const route = getRouteApi("/w/$tenant/$workspace/runs");
type Run = Schemas["RunBody"];

const COLUMNS: GridColumn<Run>[] = [
  { name: "state", title: "State", width: "118px", cell: (run) => <State state={run.state} /> },
  { name: "id", title: "Run", width: "90px", cell: (run) => <RunLink run={run.run_id} /> },
  { name: "what", title: "Selection", width: "minmax(180px, 3fr)", cell: (run) => <Name mono>{runTitle(run)}</Name> },
  { name: "partitions", title: "Partitions", width: "minmax(120px, 2fr)", cell: (run) => <span className="muted"><Name>{run.partitions.join(", ")}</Name></span> },
  { name: "trigger", title: "Asked by", width: "minmax(110px, 1fr)", cell: (run) => <span className="muted">{run.trigger}{run.triggered_by ? <> · <Name>{run.triggered_by}</Name></> : null}</span> },
  { name: "tasks", title: "Tasks", width: "72px", num: true, cell: (run) => count(run.tasks_total) },
  { name: "progress", title: "Progress", width: "110px", cell: (run) => <Bar shares={runShares(run)} /> },
  { name: "took", title: "Took", width: "90px", num: true, cell: (run) => { const ms = between(run.started_at, run.finished_at); return ms === null ? "" : duration(ms); } },
  { name: "created", title: "Created", width: "90px", num: true, cell: (run) => <Time at={run.created_at} /> },
];

const STATES = [["", "Every state"], ["RUNNING", "Running"], ["FAILED", "Failed"], ["SUCCEEDED", "Succeeded"], ["CANCELLED", "Cancelled"], ["TIMED_OUT", "Timed out"]] as const;

export function RunsPage() {
  const search = route.useSearch();
  const list = useList("/runs", {
    query: { state: search.state ? [search.state as Run["state"]] : undefined, asset: search.asset, created_after: search.since },
  });
  const { items, hasMore, more } = list;
  const onRange = useCallback((_: number, last: number) => { if (hasMore && last > items.length - 60) more(); }, [hasMore, items.length, more]);
  const set = useSetSearch();
  return (
    <Page full title="Runs" lead="Each run has a plan, made before it starts: which tasks run, which are reused, and why." actions={<Materialize />}>
      <div className="toolbar">
        <Choice label="State" value={search.state ?? ""} options={STATES} onChange={(state) => set({ state: state || undefined })} />
        <TypedSearch label="Asset, for example sales.orders" value={search.asset ?? ""} onChange={(asset) => set({ asset: asset || undefined })} />
        <Choice label="Since" value={search.since ?? ""} options={[["", "Any time"], ["1h", "Last hour"], ["24h", "Last day"], ["7d", "Last week"]]} onChange={(since) => set({ since: since || undefined })} />
        <span className="spring" />
        <span className="muted num">{hasMore ? `${count(items.length)}+ runs` : plural(items.length, "run")}</span>
      </div>
      {list.error ? <ProblemNote error={list.error} /> : null}
      <Panel fill>
        {list.isPending && !list.error ? (
          <Skeleton rows={12} />
        ) : items.length ? (
          <Grid label="Runs" columns={COLUMNS} count={items.length} row={(at) => items[at]} rowKey={(run) => run.run_id} onRange={onRange} minWidth={980} />
        ) : (
          <Empty title="No run matches">Change the filters, or ask for one: <code>servo run NAME</code></Empty>
        )}
      </Panel>
    </Page>
  );
}
