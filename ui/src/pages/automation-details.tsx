/** One schedule, sensor, automated asset or request, with what a person may do about it. */
import { useState } from "react";
import { useList, useRead, useWrite } from "../api/hooks";
import { useCan } from "../api/permissions";
import { Action, Field } from "../design/action";
import { Choice, Empty, Loaded, Panel } from "../design/parts";
import { State } from "../design/states";
import { count, duration, exact, Name, plural, Time } from "../design/values";
import { AssetLink, RunLink } from "../layout/link";
import { partitionText } from "./partition-text";

const CATCHUP = [["none", "No tick that was missed"], ["latest", "The last tick that was missed"], ["all", "All ticks that were missed"]] as const;

export function ScheduleDetails({ project, name }: { project: string; name: string }) {
  const path = { project, name };
  const schedule = useRead("/schedules/{project}/{name}", { path, at: "now" });
  const preview = useRead("/schedules/{project}/{name}/preview", { path, query: { count: 8 }, at: "now" });
  const ticks = useList("/schedules/{project}/{name}/ticks", { path, pageSize: 30 });
  const mayManage = useCan("automation.manage");
  const pause = useWrite("post", "/schedules/{project}/{name}/pause");
  const resume = useWrite("post", "/schedules/{project}/{name}/resume");
  const tick = useWrite("post", "/schedules/{project}/{name}/tick");
  const [catchup, setCatchup] = useState<"none" | "latest" | "all">("latest");
  return (
    <div className="stack">
      <Loaded result={schedule}>
        {(data) => (
          <Panel
            title={<Name>{data.name}</Name>}
            actions={mayManage ? (
              <span className="actions">
                <Action label="Tick now" title="Ask for the run of a tick now?" confirm="Ask" reason="none" run={(_, key) => tick.mutateAsync({ path, body: undefined as never, key })}><p>The ticks of the schedule itself do not change.</p></Action>
                {data.state === "PAUSED" ? (
                  <Action label="Resume" primary title="Resume this schedule?" confirm="Resume" reason="none" run={(_, key) => resume.mutateAsync({ path, body: { catchup }, key })}>
                    <label className="labelled"><span>Ticks that were missed meanwhile</span><Choice label="Catch up" value={catchup} options={CATCHUP} onChange={setCatchup} /></label>
                  </Action>
                ) : (
                  <Action label="Pause" title="Pause this schedule?" confirm="Pause" run={(reason, key) => pause.mutateAsync({ path, body: { reason }, key })}><p>No tick fires until it is resumed, also after new deployments.</p></Action>
                )}
              </span>
            ) : null}
          >
            <dl className="properties">
              <dt>State</dt><dd><State state={data.state} pill /> {data.paused_at ? <>by <Name>{data.paused_by}</Name>, <Time at={data.paused_at} /> <Name>{data.pause_reason}</Name></> : null}</dd>
              <dt>Cron</dt><dd><Name mono>{data.cron}</Name> in {data.timezone}</dd>
              <dt>Runs</dt><dd><Name mono>{data.selection.join(" ")}</Name> <Name mono>{data.partitions.join(", ")}</Name></dd>
              <dt>Missed ticks</dt><dd>{data.catchup}</dd>
              <dt>Overlap</dt><dd>{data.overlap}</dd>
            </dl>
          </Panel>
        )}
      </Loaded>
      <Panel title="Next ticks">
        <Loaded result={preview}>
          {(data) => (
            <>
              <div className="table-wrap">
                <table className="table">
                  <thead><tr><th>Local time</th><th>UTC</th><th>Would run</th></tr></thead>
                  <tbody>
                    {data.ticks.map((each) => (
                      <tr key={each.tick}>
                        <td className="mono">{each.tick} <span className="faint">{each.offset}</span></td>
                        <td className="muted mono small">{exact(each.at)}</td>
                        <td>{each.refused ? <span className="bad-text"><Name>{each.refused}</Name></span> : <>{plural(each.runs, "task")} of {count(each.tasks)} <span className="muted small"><Name>{each.first_tasks.slice(0, 2).map((task) => [task.asset, partitionText(task.partition)].filter(Boolean).join(" ")).join("; ")}</Name></span></>}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
              {data.clock_change ? <div className="body muted small">Clocks in {data.timezone} change {exact(data.clock_change)}.</div> : null}
            </>
          )}
        </Loaded>
      </Panel>
      <Panel title="Past ticks">
        {ticks.items.length ? (
          <div className="table-wrap">
            <table className="table">
              <tbody>
                {ticks.items.map((each) => (
                  <tr key={each.tick}>
                    <td><State state={each.state} /></td>
                    <td className="mono">{each.tick}</td>
                    <td className="small muted"><Name>{each.reason}</Name></td>
                    <td>{each.run_id ? <RunLink run={each.run_id} /> : null}</td>
                    <td className="num muted"><Time at={each.recorded_at} /></td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        ) : <Empty title="It has not ticked yet" />}
      </Panel>
    </div>
  );
}

export function SensorDetails({ project, name }: { project: string; name: string }) {
  const path = { project, name };
  const sensor = useRead("/sensors/{project}/{name}", { path, at: "now" });
  const evaluations = useList("/sensors/{project}/{name}/evaluations", { path, pageSize: 30 });
  const mayManage = useCan("automation.manage");
  const pause = useWrite("post", "/sensors/{project}/{name}/pause");
  const resume = useWrite("post", "/sensors/{project}/{name}/resume");
  const reset = useWrite("post", "/sensors/{project}/{name}/reset");
  const [cursor, setCursor] = useState("");
  return (
    <div className="stack">
      <Loaded result={sensor}>
        {(data) => {
          const row = data.sensor;
          return (
            <Panel
              title={<Name>{row.name}</Name>}
              actions={mayManage ? (
                <span className="actions">
                  {row.status === "PAUSED" ? (
                    <Action label="Resume" primary title="Resume this sensor?" confirm="Resume" reason="none" run={(_, key) => resume.mutateAsync({ path, body: undefined as never, key })}><p>It goes on from its cursor.</p></Action>
                  ) : (
                    <Action label="Pause" title="Pause this sensor?" confirm="Pause" run={(reason, key) => pause.mutateAsync({ path, body: { reason }, key })}><p>It is not evaluated until it is resumed. Messages to it wait.</p></Action>
                  )}
                  <Action label="Reset" danger title="Reset the cursor?" confirm="Reset" reason="required" run={(reason, key) => reset.mutateAsync({ path, body: { cursor, reason }, key })}>
                    <Field label="New cursor" value={cursor} onChange={setCursor} hint="Empty: it starts from the beginning" />
                  </Action>
                </span>
              ) : null}
            >
              <dl className="properties">
                <dt>State</dt><dd><State state={row.status} pill /> <Name>{row.pause_reason}</Name></dd>
                <dt>Kind</dt><dd>{row.kind}, every {duration(row.interval_s * 1000)}</dd>
                <dt>Cursor</dt><dd><Name mono>{row.cursor || "(none)"}</Name></dd>
                {row.error ? <><dt>Error</dt><dd className="bad-text"><Name>{row.error}</Name>{row.hint ? <div className="small muted"><Name>{row.hint}</Name></div> : null} <span className="muted">{plural(row.failures, "failure")} in a row</span></dd></> : null}
                <dt>Evaluated</dt><dd><Time at={row.last_evaluation_at} none="never" /></dd>
              </dl>
            </Panel>
          );
        }}
      </Loaded>
      <Panel title="Evaluations with an effect">
        {evaluations.items.length ? (
          <div className="table-wrap">
            <table className="table">
              <thead><tr><th>Result</th><th>Reason</th><th className="num">Requests</th><th className="num">Took</th><th className="num">When</th></tr></thead>
              <tbody>
                {evaluations.items.map((each) => (
                  <tr key={each.number}>
                    <td><State state={each.state === "REQUESTED" ? "TRIGGERED" : each.state} text={each.state.toLowerCase()} /></td>
                    <td className="small"><Name>{each.reason}</Name></td>
                    <td className="num">{each.requests || ""}</td>
                    <td className="num muted">{duration(each.wall_ms)}</td>
                    <td className="num muted"><Time at={each.evaluated_at} /></td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        ) : <Empty title="None yet">A worker evaluates sensors: <code>servo worker</code></Empty>}
      </Panel>
    </div>
  );
}

const OUTCOMES: Record<string, [string, string]> = { runs: ["READY", "would run now"], waits: ["RETRY_WAIT", "waits"], idle: ["GOOD", "up to date"] };

export function AutomationDetails({ asset }: { asset: string }) {
  const explained = useRead("/automations/{asset}/explain", { path: { asset }, at: "now" });
  const mayManage = useCan("automation.manage");
  const pause = useWrite("post", "/automations/{asset}/pause");
  const resume = useWrite("post", "/automations/{asset}/resume");
  const path = { asset };
  return (
    <Loaded result={explained}>
      {({ automation, partitions, next_tick }) => (
        <Panel
          title={<AssetLink asset={asset} />}
          actions={mayManage ? (
            automation.state === "PAUSED"
              ? <Action label="Resume" primary title="Resume this automation?" confirm="Resume" reason="none" run={(_, key) => resume.mutateAsync({ path, body: {}, key })}><p>What changed meanwhile is looked at.</p></Action>
              : <Action label="Pause" title="Pause this automation?" confirm="Pause" run={(reason, key) => pause.mutateAsync({ path, body: { reason }, key })}><p>The asset does not run by itself until it is resumed.</p></Action>
          ) : null}
        >
          <dl className="properties">
            <dt>State</dt><dd><State state={automation.state} pill /> <Name>{automation.pause_reason}</Name></dd>
            {next_tick ? <><dt>Next time</dt><dd><Time at={next_tick} /></dd></> : null}
            {automation.cause ? <><dt>Last cause</dt><dd><Name>{automation.cause}</Name></dd></> : null}
          </dl>
          <div className="table-wrap">
            <table className="table">
              <thead><tr><th>Partition</th><th>Now</th><th>Why</th></tr></thead>
              <tbody>
                {partitions.map((each) => (
                  <tr key={each.partition}>
                    <td><Name mono>{partitionText(each.partition) || "(all)"}</Name></td>
                    <td><State state={OUTCOMES[each.outcome]?.[0] ?? "UNKNOWN"} text={OUTCOMES[each.outcome]?.[1] ?? each.outcome} /></td>
                    <td className="small"><Name>{[each.cause, ...each.reasons].filter(Boolean).join("; ")}</Name></td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </Panel>
      )}
    </Loaded>
  );
}

export function RequestDetails({ request }: { request: string }) {
  const row = useRead("/requests/by-key", { query: { key: request }, at: "now", refetchInterval: 3_000 });
  const mayCancel = useCan("runs.cancel");
  const cancel = useWrite("post", "/requests/cancel");
  return (
    <Loaded result={row}>
      {(data) => (
        <Panel
          title="Request"
          actions={mayCancel && data.state === "PENDING" ? <Action label="Cancel" danger title="Cancel this request?" confirm="Cancel the request" run={(reason, key) => cancel.mutateAsync({ path: {}, body: { key: request, reason }, key })}><p>Its key starts no run after this.</p></Action> : null}
        >
          <dl className="properties">
            <dt>State</dt><dd><State state={data.state} pill /></dd>
            <dt>Run</dt><dd>{data.run_id && data.state === "TRIGGERED" ? <RunLink run={data.run_id} /> : data.state === "PENDING" ? "An orchestrator plans it: servo orchestrator" : "–"}</dd>
            {data.reason ? <><dt>Reason</dt><dd><Name>{data.reason}</Name>{data.hint ? <div className="small muted"><Name>{data.hint}</Name></div> : null}</dd></> : null}
            <dt>Asked for</dt><dd><Name mono>{data.request.selection.join(" ")}</Name> <Name mono>{(data.request.partitions ?? []).join(", ")}</Name></dd>
            <dt>By</dt><dd>{[data.kind, data.requested_by].filter(Boolean).map((each) => <span key={each}><Name>{each}</Name>, </span>)}<Time at={data.requested_at} /></dd>
            <dt>Key</dt><dd><Name mono>{data.request_key}</Name></dd>
          </dl>
        </Panel>
      )}
    </Loaded>
  );
}
