/** Backfills: create with a preview, watch the progress, pause, resume, retry, cancel. */
import { getRouteApi } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useState } from "react";
import { useList, useRead, useWrite } from "../api/hooks";
import { useCan } from "../api/permissions";
import type { Schemas } from "../api/types";
import { useMoment } from "../api/workspace";
import { Action, Field, words } from "../design/action";
import { Bar, Choice, Dialog, Empty, Loaded, Page, Panel, ProblemNote, type Share, Skeleton } from "../design/parts";
import { State } from "../design/states";
import { By, count, duration, Name, plural, Time } from "../design/values";
import { PageLink, RunLink, useGo } from "../layout/link";

const route = getRouteApi("/w/$tenant/$workspace/backfills");
type Backfill = Schemas["BackfillBody"];
type Draft = Partial<Schemas["BackfillDraftBody"]>;
type Preview = Schemas["BackfillPreview"];

export const backfillShares = (backfill: Backfill): Share[] => {
  const left = backfill.total_partitions - backfill.completed - backfill.failed - backfill.skipped - backfill.cancelled;
  return [
    { tone: "good", value: backfill.completed, label: "done" },
    { tone: "bad", value: backfill.failed, label: "failed" },
    { tone: "warn", value: backfill.skipped, label: "skipped" },
    { tone: "idle", value: backfill.cancelled, label: "cancelled" },
    { tone: "busy", value: backfill.state === "RUNNING" ? Math.max(0, Math.min(left, backfill.pending)) : 0, label: "to do" },
  ];
};

export function BackfillsPage() {
  const search = route.useSearch();
  const list = useList("/backfills", { at: "now" });
  const mayCreate = useCan("backfills.create");
  return (
    <Page title="Backfills" lead="A range of partitions, cut into chunks. Chunks run after everything else, and always get a share." actions={mayCreate ? <NewBackfill /> : null}>
      {list.error ? <ProblemNote error={list.error} /> : null}
      <div className={search.id ? "split" : "split alone"}>
        <Panel>
          {list.isPending && !list.error ? <Skeleton /> : list.items.length ? (
            <div className="table-wrap">
              <table className="table">
                <thead><tr><th>State</th><th>What</th><th>Progress</th><th className="num">Partitions</th><th className="num">Created</th></tr></thead>
                <tbody>
                  {list.items.map((each) => (
                    <tr key={each.backfill_id} aria-selected={each.backfill_id === search.id}>
                      <td><State state={each.state} /></td>
                      <td>
                        <PageLink to="/backfills" search={{ id: each.backfill_id }} className="row-link">
                          <Name mono>{each.selection.join(" ")}</Name>
                          <div className="small muted"><Name>{each.partitions.join(", ")}</Name></div>
                        </PageLink>
                      </td>
                      <td><Bar shares={backfillShares(each)} /></td>
                      <td className="num">{count(each.completed)} of {count(each.total_partitions)}</td>
                      <td className="num muted"><Time at={each.created_at} /></td>
                    </tr>
                  ))}
                </tbody>
              </table>
              {list.hasMore ? <div className="body"><button type="button" className="button" onClick={list.more}>Show more</button></div> : null}
            </div>
          ) : <Empty title="No backfill yet"><code>servo backfill create sales.orders -p date=2026-01-01..2026-06-30</code></Empty>}
        </Panel>
        {search.id ? <Details id={search.id} /> : null}
      </div>
    </Page>
  );
}

function Details({ id }: { id: string }) {
  const path = { backfill_id: id };
  const isLive = useMoment().isLive;
  const backfill = useRead("/backfills/{backfill_id}", { path, at: "now", refetchInterval: isLive ? 10_000 : false });
  const chunks = useList("/backfills/{backfill_id}/chunks", { path, at: "now", pageSize: 50 });
  return (
    <div className="stack">
      <Loaded result={backfill}>{(data) => <Summary backfill={data} />}</Loaded>
      <Panel title="Chunks" count={`${count(chunks.items.length)}${chunks.hasMore ? "+" : ""} asked for`}>
        {chunks.items.length ? (
          <div className="table-wrap">
            <table className="table">
              <thead><tr><th className="num">Chunk</th><th>State</th><th>Run</th><th className="num">Partitions</th><th className="num">Failed</th><th>Reason</th></tr></thead>
              <tbody>
                {chunks.items.map((each) => (
                  <tr key={`${each.round}/${each.chunk_index}`}>
                    <td className="num">{each.chunk_index + 1}{each.round ? <span className="muted"> (round {each.round + 1})</span> : null}</td>
                    <td><State state={each.state} /></td>
                    <td>{each.run_id ? <RunLink run={each.run_id} /> : "–"}</td>
                    <td className="num">{count(each.partitions)}</td>
                    <td className="num">{each.failed ? count(each.failed) : ""}</td>
                    <td className="small muted"><Name>{each.reason}</Name></td>
                  </tr>
                ))}
              </tbody>
            </table>
            {chunks.hasMore ? <div className="body"><button type="button" className="button" onClick={chunks.more}>Show more</button></div> : null}
          </div>
        ) : <Empty title="No chunk was asked for yet">An orchestrator asks for them: <code>servo orchestrator</code></Empty>}
      </Panel>
    </div>
  );
}

function Summary({ backfill }: { backfill: Backfill }) {
  const mayManage = useCan("backfills.manage");
  const pause = useWrite("post", "/backfills/{backfill_id}/pause");
  const resume = useWrite("post", "/backfills/{backfill_id}/resume");
  const retry = useWrite("post", "/backfills/{backfill_id}/retry");
  const cancel = useWrite("post", "/backfills/{backfill_id}/cancel");
  const path = { backfill_id: backfill.backfill_id };
  const isActive = backfill.state === "RUNNING" || backfill.state === "PENDING";
  const isOver = backfill.state === "SUCCEEDED" || backfill.state === "FAILED" || backfill.state === "CANCELLED";
  return (
    <Panel
      title={<Name mono>{backfill.selection.join(" ")}</Name>}
      actions={
        mayManage ? (
          <span className="actions">
            {isActive ? <Action label="Pause" title="Pause this backfill?" confirm="Pause" run={(reason, key) => pause.mutateAsync({ path, body: { reason }, key })}><p>No other chunk starts until it is resumed. Runs that run go on.</p></Action> : null}
            {backfill.state === "PAUSED" ? <Action label="Resume" primary title="Resume this backfill?" confirm="Resume" reason="none" run={(_, key) => resume.mutateAsync({ path, body: undefined as never, key })}><p>It goes on with chunk {backfill.next_chunk + 1} of {count(backfill.chunks)}.</p></Action> : null}
            {isOver && (backfill.failed > 0 || backfill.cancelled > 0) ? <Action label="Retry failed" primary title="Run failed and cancelled chunks again?" confirm="Retry" reason="none" run={(_, key) => retry.mutateAsync({ path, body: undefined as never, key })}><p>What succeeded is reused.</p></Action> : null}
            {isOver ? null : <Action label="Cancel" danger title="Cancel this backfill?" confirm="Cancel the backfill" run={(reason, key) => cancel.mutateAsync({ path, body: { reason }, key })}><p>No other chunk starts, and its runs are cancelled.</p></Action>}
          </span>
        ) : null
      }
    >
      <div className="body stack">
        <Bar shares={backfillShares(backfill)} />
      </div>
      <dl className="properties">
        <dt>State</dt><dd><State state={backfill.state} pill /> <Name>{backfill.reason}</Name></dd>
        <dt>Partitions</dt><dd>{count(backfill.completed)} done, {count(backfill.failed)} failed, {count(backfill.skipped)} skipped, {count(backfill.pending)} to do, of {count(backfill.total_partitions)}</dd>
        <dt>Range</dt><dd><Name mono>{backfill.partitions.join(", ")}</Name></dd>
        <dt>Chunks</dt><dd>{count(backfill.asked)} of {count(backfill.chunks)} asked for, {plural(backfill.active_runs, "active run")} of at most {backfill.max_concurrent_runs}, {backfill.newest_first ? "newest" : "oldest"} first</dd>
        <dt>Created</dt><dd><Time at={backfill.created_at} /><By who={backfill.created_by} /></dd>
        {backfill.finished_at ? <><dt>Finished</dt><dd><Time at={backfill.finished_at} /></dd></> : null}
      </dl>
    </Panel>
  );
}

function NewBackfill() {
  const [isOpen, setOpen] = useState(false);
  if (!useMoment().isLive) return null;
  return (
    <>
      <button type="button" className="button primary" onClick={() => setOpen(true)}><Plus size={14} aria-hidden />New backfill</button>
      <Dialog title="New backfill" open={isOpen} onClose={() => setOpen(false)}>
        <DraftForm onDone={() => setOpen(false)} />
      </Dialog>
    </>
  );
}

const ORDERS = [["newest", "Newest partitions first"], ["oldest", "Oldest partitions first"]] as const;

function DraftForm({ onDone }: { onDone: () => void }) {
  const go = useGo();
  const preview = useWrite("post", "/backfills/preview");
  const create = useWrite("post", "/backfills");
  const [selection, setSelection] = useState("");
  const [partitions, setPartitions] = useState("");
  const [order, setOrder] = useState<"newest" | "oldest">("newest");
  const [runs, setRuns] = useState("");
  const [shown, setShown] = useState<{ preview: Preview; draft: Draft; key: string } | null>(null);
  const draft: Draft = { selection: words(selection), partitions: words(partitions), order };
  if (Number(runs) > 0) draft.max_concurrent_runs = Number(runs);
  const change = <T,>(set: (value: T) => void) => (value: T) => { setShown(null); set(value); };
  const look = async () => setShown({ preview: await preview.mutateAsync({ path: {}, body: draft }), draft, key: crypto.randomUUID() });
  const start = async () => {
    if (!shown) return;
    const created = await create.mutateAsync({ path: {}, body: shown.draft, key: shown.key });
    onDone();
    go("/backfills", {}, { id: created.backfill_id });
  };
  const error = preview.error ?? create.error;
  return (
    <form className="stack" onSubmit={(event) => { event.preventDefault(); void (shown ? start() : look()).catch(() => undefined); }}>
      <Field label="Assets" value={selection} onChange={change(setSelection)} autoFocus placeholder="sales.orders" />
      <Field label="Partitions" value={partitions} onChange={change(setPartitions)} placeholder="date=2026-01-01..2026-06-30" />
      <Choice label="Order" value={order} options={ORDERS} onChange={change(setOrder)} />
      <Field label="Maximum of concurrent runs" value={runs} onChange={change(setRuns)} type="number" placeholder="as the limits say" />
      {error ? <ProblemNote error={error} /> : null}
      {shown ? <Estimate preview={shown.preview} /> : null}
      <div className="actions">
        <button type="button" className="button" onClick={onDone}>Back</button>
        {shown ? (
          <button type="submit" className="button primary" disabled={create.isPending}>{create.isPending ? "Creating…" : `Create: ${plural(shown.preview.partitions, "partition")}`}</button>
        ) : (
          <button type="submit" className="button primary" disabled={!draft.selection?.length || !draft.partitions?.length || preview.isPending}>{preview.isPending ? "Estimating…" : "Preview"}</button>
        )}
      </div>
    </form>
  );
}

function Estimate({ preview }: { preview: Preview }) {
  return (
    <dl className="properties" aria-label="Estimate">
      <dt>Partitions</dt><dd>{count(preview.partitions)} in {plural(preview.chunks, "chunk")}, {plural(preview.max_concurrent_runs, "concurrent run")} at most</dd>
      <dt>Tasks</dt><dd>{count(preview.tasks)}{preview.is_estimate ? " (estimated)" : ""}, {count(preview.up_to_date)} up to date</dd>
      <dt>Time of tasks</dt><dd>{preview.task_time_s === null ? "unknown: such tasks have not run yet" : duration(preview.task_time_s * 1000)}</dd>
      <dt>Cost</dt><dd>{preview.cost === null ? "unknown" : `${preview.cost.toFixed(2)} ${preview.currency}`}</dd>
      {preview.one_by_one ? <><dt>Order</dt><dd><Name>{preview.one_by_one}</Name></dd></> : null}
    </dl>
  );
}
