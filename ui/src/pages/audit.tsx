/** Who changed what, and what was refused. */
import { getRouteApi } from "@tanstack/react-router";
import { useCallback } from "react";
import { useList } from "../api/hooks";
import type { Schemas } from "../api/types";
import { Grid, type GridColumn } from "../design/grid";
import { Choice, Empty, Page, Panel, ProblemNote, Skeleton } from "../design/parts";
import { State } from "../design/states";
import { count, exact, Name, plural, Time } from "../design/values";
import { useSetSearch } from "../layout/link";
import { TypedSearch } from "../layout/typed";

const route = getRouteApi("/w/$tenant/$workspace/audit");
type Row = Schemas["AuditRow"];
const OUTCOMES = [["", "Every outcome"], ["applied", "Applied"], ["refused", "Refused"], ["denied", "Denied"], ["failed", "Failed"]] as const;
const SINCE = [["", "Any time"], ["24h", "Last day"], ["7d", "Last week"], ["30d", "Last month"]] as const;
const TONE: Record<string, string> = { applied: "GOOD", refused: "REFUSED", denied: "REJECTED", failed: "FAILED" };

/** A record about a secret names it, and the asset or sensor that it was read for. */
const resource = (row: Row) => (row.resource_type === "secret" ? `${row.resource_id} for ${row.resource_name}` : row.resource_name || row.resource_id);

const COLUMNS: GridColumn<Row>[] = [
  { name: "record", title: "Record", width: "76px", num: true, cell: (row) => Number(row.record_id) },
  { name: "outcome", title: "Outcome", width: "104px", cell: (row) => <State state={TONE[row.outcome] ?? "UNKNOWN"} text={row.outcome} /> },
  { name: "action", title: "Action", width: "minmax(150px, 1.4fr)", cell: (row) => <Name>{row.action}</Name> },
  { name: "resource", title: "Of", width: "minmax(160px, 2fr)", cell: (row) => <Name mono>{resource(row)}</Name> },
  { name: "actor", title: "By", width: "minmax(130px, 1.4fr)", cell: (row) => <Name>{row.actor}</Name> },
  { name: "address", title: "From", width: "120px", cell: (row) => <span className="muted"><Name mono>{row.address || "–"}</Name></span> },
  { name: "when", title: "When", width: "90px", num: true, cell: (row) => <Time at={row.recorded_at} /> },
];

export function AuditPage() {
  const search = route.useSearch();
  const set = useSetSearch();
  const list = useList("/audit", {
    query: { actor: search.actor, action: search.action, outcome: search.outcome, resource: search.resource, since: search.since },
  });
  const { items, hasMore, more } = list;
  const onRange = useCallback((_: number, last: number) => { if (hasMore && last > items.length - 60) more(); }, [hasMore, items.length, more]);
  const chosen = items.find((row) => row.record_id === search.record);
  return (
    <Page full title="Audit" lead={<>Every change, every refused call and every secret that was read, derived from the log and chained by hashes. <code>servo audit verify</code> compares all of it.</>}>
      <div className="toolbar">
        <TypedSearch label="Actor" value={search.actor ?? ""} onChange={(actor) => set({ actor: actor || undefined })} />
        <TypedSearch label="Action, for example TriggerRun" value={search.action ?? ""} onChange={(action) => set({ action: action || undefined })} />
        <Choice label="Outcome" value={search.outcome ?? ""} options={OUTCOMES} onChange={(outcome) => set({ outcome: outcome || undefined })} />
        <Choice label="Since" value={search.since ?? ""} options={SINCE} onChange={(since) => set({ since: since || undefined })} />
        <span className="spring" />
        <span className="muted num">{hasMore ? `${count(items.length)}+ records` : plural(items.length, "record")}</span>
      </div>
      {list.error ? <ProblemNote error={list.error} /> : null}
      {chosen ? <AuditRecord row={chosen} onClose={() => set({ record: undefined })} /> : null}
      <Panel fill>
        {list.isPending && !list.error ? <Skeleton rows={12} /> : items.length ? (
          <Grid label="Audit records" columns={COLUMNS} count={items.length} row={(at) => items[at]} rowKey={(row) => row.record_id} onRange={onRange} onOpen={(row) => set({ record: row.record_id })} minWidth={900} />
        ) : <Empty title="No record matches">Change the filters.</Empty>}
      </Panel>
      <p className="muted small">Enter or a double click opens a record.</p>
    </Page>
  );
}

function AuditRecord({ row, onClose }: { row: Row; onClose: () => void }) {
  return (
    <Panel title={<><Name>{row.action}</Name> <Name mono>{resource(row)}</Name></>} actions={<button type="button" className="button quiet" onClick={onClose}>Close</button>}>
      <dl className="properties">
        <dt>Outcome</dt><dd>{row.outcome} <span className="muted"><Name>{row.code}</Name></span></dd>
        <dt>By</dt><dd><Name>{row.actor}</Name> <span className="muted">{row.actor_kind} <Name>{row.email}</Name></span></dd>
        <dt>When</dt><dd>{exact(row.recorded_at)}</dd>
        <dt>From</dt><dd><Name mono>{row.address || "–"}</Name> <span className="muted"><Name>{row.user_agent}</Name></span></dd>
        <dt>Request</dt><dd><Name mono>{row.request_id || "–"}</Name></dd>
        <dt>Hash</dt><dd><Name mono>{row.hash}</Name></dd>
      </dl>
      <Document title="What was asked" text={row.request} />
      <Document title="What changed" text={row.changes} />
    </Panel>
  );
}

function Document({ title, text }: { title: string; text: string }) {
  if (!text) return null;
  let shown = text;
  try {
    shown = JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    // Not JSON: shown as it is.
  }
  return (
    <div className="body stack">
      <strong className="small">{title}</strong>
      <pre className="code-block small"><Name mono>{shown}</Name></pre>
    </div>
  );
}
