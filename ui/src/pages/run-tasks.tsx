/** Tasks of a run, 50,000 or more: failed ones first. One of them with its log. */
import { X } from "lucide-react";
import tasksSql from "../../sql/run_tasks.sql?raw";
import { useList, useRead } from "../api/hooks";
import type { Schemas } from "../api/types";
import { Grid, type GridColumn } from "../design/grid";
import { Choice, Empty, Loaded, Panel, ProblemNote, Skeleton } from "../design/parts";
import { State } from "../design/states";
import { bytes, count, duration, Name, plural, Time } from "../design/values";
import { AssetLink, PageLink, useSetSearch } from "../layout/link";
import { Tabs } from "../layout/tabs";
import { TypedSearch } from "../layout/typed";
import { useWindows } from "../query/windows";
import { LogView } from "./log-view";
import { partitionText } from "./partition-text";
import { runRoute } from "./run";
import { TaskCode, TaskInputs } from "./task-plan";

interface TaskLine {
  index: number;
  task_id: string;
  asset: string;
  partition: string;
  state: string;
  attempt: number;
  error_code: string;
  error_message: string;
  wall_ms: number;
  rows: number | null;
  bytes: number | null;
  worker_id: string;
  total: number;
}
const PARTS = [[undefined, "Log"], ["code", "Code"], ["inputs", "Inputs"]] as const;
const STATES = ["FAILED", "RUNNING", "BLOCKED", "SUCCEEDED", "REUSED", "SKIPPED", "RETRY_WAIT", "READY", "PLANNED", "CANCELLED"];

export function RunTasks({ run, body }: { run: string; body: Schemas["RunBody"] }) {
  const search = runRoute.useSearch();
  const set = useSetSearch();
  const isFiltered = Boolean(search.state || search.q);
  // The first rows, at once; then SQL, which has the failed ones first.
  const early = useList("/runs/{run_id}/tasks", { path: { run_id: run }, pageSize: 50, enabled: !isFiltered });
  const tasks = useWindows<TaskLine>("run_tasks", tasksSql, { run, state: search.state ?? "", q: search.q ?? "", first: "errors" }, { enabled: isFiltered || !early.isPending });
  const columns: GridColumn<TaskLine>[] = [
    { name: "state", title: "State", width: "130px", cell: (task) => <State state={task.state} /> },
    { name: "asset", title: "Asset", width: "minmax(160px, 2fr)", cell: (task) => <button type="button" className="linklike" onClick={() => set({ task: task.task_id })}><Name mono>{task.asset}</Name></button> },
    { name: "partition", title: "Partition", width: "minmax(120px, 1.5fr)", cell: (task) => <span className="mono muted">{partitionText(task.partition)}</span> },
    { name: "error", title: "Error", width: "minmax(120px, 3fr)", cell: (task) => (task.error_code ? <span title={task.error_message}><span className="mono">{task.error_code}</span> <span className="muted"><Name>{task.error_message}</Name></span></span> : "") },
    { name: "attempt", title: "Attempt", width: "66px", num: true, cell: (task) => (task.attempt > 1 ? task.attempt : "") },
    { name: "rows", title: "Rows", width: "90px", num: true, cell: (task) => (task.rows ? count(Number(task.rows)) : "") },
    { name: "size", title: "Size", width: "80px", num: true, cell: (task) => (task.bytes ? bytes(Number(task.bytes)) : "") },
    { name: "took", title: "Took", width: "80px", num: true, cell: (task) => (task.wall_ms ? duration(Number(task.wall_ms)) : "") },
  ];
  const rows = tasks.isPending ? early.items.map((task) => ({ ...task, total: 0, rows: task.rows ?? null, bytes: task.bytes ?? null }) as TaskLine) : null;
  const shown = rows ? rows.length : tasks.count;
  return (
    <>
      <div className="toolbar">
        <TypedSearch label="Asset or partition" value={search.q ?? ""} onChange={(q) => set({ q: q || undefined })} />
        <Choice label="State" value={search.state ?? ""} options={[["", "Every state"], ...STATES.map((state) => [state, state.toLowerCase().replaceAll("_", " ")] as const)]} onChange={(state) => set({ state: state || undefined })} />
        <span className="spring" />
        <span className="muted num" role="status">{tasks.isPending ? "" : `${count(tasks.count)} of ${plural(body.tasks_total, "task")}`}</span>
      </div>
      {tasks.error ? <ProblemNote error={tasks.error} /> : null}
      <Panel fill>
        {shown ? (
          <Grid label="Tasks" columns={columns} count={shown} row={(index) => (rows ? rows[index] : tasks.row(index))} rowKey={(task) => task.task_id} selectedKey={search.task} onRange={tasks.onRange} onOpen={(task) => set({ task: task.task_id })} minWidth={960} />
        ) : tasks.isPending && !tasks.error ? <Skeleton rows={10} /> : <Empty title="No task matches" />}
      </Panel>
      {search.task ? <TaskPanel run={run} task={search.task} onClose={() => set({ task: undefined, show: undefined })} /> : null}
    </>
  );
}

function TaskPanel({ run, task, onClose }: { run: string; task: string; onClose: () => void }) {
  const { show } = runRoute.useSearch();
  const result = useRead("/runs/{run_id}/tasks/{task_id}", { path: { run_id: run, task_id: task } });
  const plan = useRead("/runs/{run_id}/tasks/{task_id}/plan", { path: { run_id: run, task_id: task } });
  const body = result.data?.task_id === task ? result.data : undefined;
  const planned = plan.data?.task_id === task ? plan.data : undefined;
  return (
    <Panel
      fill
      share={3}
      title={body ? <><Name mono>{body.asset}</Name> <span className="muted">{partitionText(body.partition)}</span> <State state={body.state} pill /></> : "Task"}
      actions={<button type="button" className="button quiet icon" aria-label="Close the task" onClick={onClose}><X size={15} /></button>}
    >
      {result.error ? <div className="body"><ProblemNote error={result.error} /></div> : body ? (
        <>
          <dl className="properties body" style={{ gridTemplateColumns: "max-content minmax(0,1fr) max-content minmax(0,1fr)" }}>
            <dt>Why</dt><dd>{planned ? <Name>{`${planned.action}: ${planned.reason}`}</Name> : plan.error ? "not known" : ""}</dd>
            <dt>Attempt</dt><dd>{body.attempt} of {body.max_attempts}</dd>
            <dt>Started</dt><dd><Time at={body.started_at} /></dd>
            <dt>Worker</dt><dd><Name mono>{body.worker_id || "–"}</Name></dd>
            {body.error_code ? <><dt>Error</dt><dd style={{ gridColumn: "2 / -1" }}><span className="mono">{body.error_code}</span> <Name>{body.error_message}</Name>{body.error_place ? <span className="muted mono"> {body.error_place}</span> : null}{body.error_hint ? <div className="muted"><Name>{body.error_hint}</Name></div> : null}</dd></> : null}
            <dt>Asset</dt><dd><AssetLink asset={body.asset} /></dd>
            <dt>Processor</dt><dd>{duration(body.cpu_ms)}, {bytes(body.peak_memory_kib * 1024)} at most</dd>
          </dl>
          <Tabs label="Parts of the task">
            {PARTS.map(([part, title]) => (
              <PageLink key={title} to="/runs/$run" params={{ run }} search={{ task, show: part }} current={show === part}>
                {title}
              </PageLink>
            ))}
          </Tabs>
          {show !== undefined ? (
            <Loaded result={{ data: planned, error: plan.error, isPending: plan.isPending }}>{(found) => (show === "code" ? <TaskCode plan={found} /> : <TaskInputs run={run} plan={found} />)}</Loaded>
          ) : body.attempt ? (
            <LogView run={run} task={task} attempt={body.attempt} isRunning={["RUNNING", "DISPATCHED"].includes(body.state)} isFailed={body.state === "FAILED"} />
          ) : (
            <Empty title="It has not run, so it printed nothing" />
          )}
        </>
      ) : <Skeleton />}
    </Panel>
  );
}
