/** One run: how far it is, why each task ran or was reused, and what it printed. */
import { getRouteApi } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { useRead, useWrite } from "../api/hooks";
import { useCan } from "../api/permissions";
import type { Answer } from "../api/types";
import { useMoment } from "../api/workspace";
import { Bar, Dialog, Page, Panel, ProblemNote, Skeleton } from "../design/parts";
import { State } from "../design/states";
import { between, count, duration, Name, plural, Time } from "../design/values";
import { FaultPage } from "../layout/faults";
import { PageLink, RunLink, useGo } from "../layout/link";
import { Tabs } from "../layout/tabs";
import type { RunView } from "../router";
import { CauseLine } from "./asset-explain";
import { runTitle } from "./overview";
import { RunCosts } from "./run-costs";
import { RunOutputs } from "./run-outputs";
import { RunPlan } from "./run-plan";
import { runShares } from "./run-shares";
import { RunTasks } from "./run-tasks";
import { RunTimeline } from "./run-timeline";

const RunGraph = lazy(async () => ({ default: (await import("./run-graph")).RunGraph }));
export const runRoute = getRouteApi("/w/$tenant/$workspace/runs/$run");

const VIEWS: [RunView | undefined, string][] = [
  [undefined, "Tasks"],
  ["timeline", "Timeline"],
  ["graph", "Graph"],
  ["plan", "Plan"],
  ["outputs", "Outputs"],
  ["costs", "Costs"],
  ["explain", "Explain"],
];
export const ACTIVE = ["RUNNING", "PLANNING", "CANCELLING"];

export function RunPage() {
  const { run } = runRoute.useParams();
  const { view } = runRoute.useSearch();
  // What a run waits for depends on all of its tasks: the page does not wait for that.
  const details = useRead("/runs/{run_id}", { path: { run_id: run }, query: { waiting: false }, at: "now" });
  const isActive = details.data !== undefined && ACTIVE.includes(details.data.run.state);
  const { data: whole } = useRead("/runs/{run_id}", { path: { run_id: run }, at: "now", enabled: isActive });
  if (details.error && !details.data) return <FaultPage error={details.error} what="run" />;
  const body = details.data?.run;
  return (
    <Page
      full
      title={
        <>
          {body ? <Name>{runTitle(body)}</Name> : `Run ${run.slice(-8)}`} {body ? <State state={body.state} pill /> : null}
        </>
      }
      lead={body ? <Summary body={details.data!} /> : null}
      actions={body ? <Actions run={run} state={body.state} /> : null}
    >
      {isActive && whole?.waiting.length ? (
        <div className="notice">
          <div>
            {whole.waiting.map((each, index) => (
              <div key={index}>
                <Name>{each.text}</Name> {each.since ? <Time at={each.since} /> : null}
              </div>
            ))}
          </div>
        </div>
      ) : null}
      <Tabs label="Parts of the run">
        {VIEWS.map(([each, title]) => (
          <PageLink key={title} to="/runs/$run" params={{ run }} search={{ view: each }} current={view === each}>
            {title}
            {title === "Tasks" && body ? <span className="count num">{count(body.tasks_total)}</span> : null}
          </PageLink>
        ))}
      </Tabs>
      {!body ? (
        <Skeleton rows={10} />
      ) : view === "timeline" ? (
        <RunTimeline run={run} body={body} />
      ) : view === "graph" ? (
        <Suspense fallback={<Skeleton rows={10} />}>
          <RunGraph run={run} />
        </Suspense>
      ) : view === "costs" ? (
        <RunCosts run={run} />
      ) : view === "plan" ? (
        <RunPlan run={run} />
      ) : view === "outputs" ? (
        <RunOutputs run={run} />
      ) : view === "explain" ? (
        <RunExplain run={run} />
      ) : (
        <RunTasks run={run} body={body} />
      )}
    </Page>
  );
}

function Summary({ body }: { body: Answer<"/runs/{run_id}"> }) {
  const run = body.run;
  const took = between(run.started_at, run.finished_at);
  return (
    <span style={{ display: "flex", gap: 14, flexWrap: "wrap", alignItems: "center" }}>
      <Name mono>{run.run_id}</Name>
      <span style={{ width: 140 }}>
        <Bar shares={runShares(run)} />
      </span>
      <span>{plural(run.tasks_total, "task")}</span>
      {run.partitions.length ? <Name>{run.partitions.join(", ")}</Name> : null}
      <span>
        {run.trigger} {run.triggered_by ? <>by <Name>{run.triggered_by}</Name></> : null} <Time at={run.created_at} />
      </span>
      {took !== null ? <span>took {duration(took)}</span> : null}
      {run.retry_of ? (
        <span>
          retries <RunLink run={run.retry_of} />
        </span>
      ) : null}
      {body.caused_by.length ? (
        <span>
          caused by <RunLink run={body.caused_by[0]!} />
        </span>
      ) : null}
      {run.cancel_reason ? (
        <span>
          cancelled: <Name>{run.cancel_reason}</Name>
        </span>
      ) : null}
      {body.hidden_tasks ? <span>{plural(body.hidden_tasks, "task")} that you may not see</span> : null}
    </span>
  );
}

function Actions({ run, state }: { run: string; state: string }) {
  const { isLive } = useMoment();
  const mayCancel = useCan("runs.cancel");
  const mayRetry = useCan("runs.retry");
  const [asked, setAsked] = useState<"cancel" | "retry" | null>(null);
  const [reason, setReason] = useState("");
  const cancel = useWrite("post", "/runs/{run_id}/cancel");
  const retry = useWrite("post", "/runs/{run_id}/retry");
  const go = useGo();
  if (!isLive) return null;
  const close = () => setAsked(null);
  const error = cancel.error ?? retry.error;
  const isBusy = cancel.isPending || retry.isPending;
  const perform = async () => {
    if (asked === "cancel") await cancel.mutateAsync({ path: { run_id: run }, body: { reason } as never });
    else {
      const answer = await retry.mutateAsync({ path: { run_id: run }, body: { reason } as never });
      go("/runs/$run", { run: (answer as { run_id: string }).run_id });
    }
    close();
  };
  return (
    <>
      {mayCancel && ACTIVE.includes(state) ? (
        <button type="button" className="button danger" onClick={() => setAsked("cancel")}>
          Cancel…
        </button>
      ) : null}
      {mayRetry && ["FAILED", "CANCELLED", "TIMED_OUT"].includes(state) ? (
        <button type="button" className="button primary" onClick={() => setAsked("retry")}>
          Retry…
        </button>
      ) : null}
      <Dialog
        title={asked === "cancel" ? "Cancel this run?" : "Retry this run?"}
        open={asked !== null}
        onClose={close}
        footer={
          <>
            <button type="button" className="button" onClick={close}>
              Keep it as it is
            </button>
            <button type="button" className={asked === "cancel" ? "button danger" : "button primary"} disabled={isBusy} onClick={() => void perform().catch(() => undefined)}>
              {asked === "cancel" ? "Cancel the run" : "Start a new run"}
            </button>
          </>
        }
      >
        <p className="muted">
          {asked === "cancel"
            ? "Tasks that wait do not start; running ones are told to stop. What has succeeded stays."
            : "A new run has the same selection and partitions. Tasks that succeeded are reused."}
        </p>
        <label className="labelled">
          <span>Reason (in the audit log)</span>
          <input className="field" value={reason} onChange={(event) => setReason(event.target.value)} />
        </label>
        {error ? <ProblemNote error={error} /> : null}
      </Dialog>
    </>
  );
}

function RunExplain({ run }: { run: string }) {
  const result = useRead("/runs/{run_id}/explain", { path: { run_id: run }, at: "now" });
  return (
    <Panel title="Why this run is in its state">
      {result.error ? <div className="body"><ProblemNote error={result.error} /></div> : result.data ? (
        <>
          <div className="cause">
            <strong><Name>{result.data.summary}</Name></strong>
            {result.data.triggered_by.map((text, index) => <div key={index} className="muted"><Name>{text}</Name></div>)}
          </div>
          {[...result.data.causes, ...result.data.observations].map((cause, index) => <CauseLine key={index} cause={cause} />)}
        </>
      ) : <Skeleton />}
    </Panel>
  );
}
