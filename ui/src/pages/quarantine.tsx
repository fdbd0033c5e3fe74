/** Outputs that are held: failing checks, samples of rows, and the decision of a person. */
import { getRouteApi } from "@tanstack/react-router";
import { Check, ShieldX } from "lucide-react";
import { useList, useRead, useWrite } from "../api/hooks";
import { useCan } from "../api/permissions";
import { Action } from "../design/action";
import { Choice, Empty, Loaded, Page, Panel, ProblemNote, Skeleton } from "../design/parts";
import { State } from "../design/states";
import { bytes, count, Name, plural, Time } from "../design/values";
import { AssetLink, PageLink, RunLink, useSetSearch } from "../layout/link";
import { partitionText } from "./partition-text";

const route = getRouteApi("/w/$tenant/$workspace/quarantine");
const WHICH = [["waiting", "Waiting for a decision"], ["all", "Decided ones too"]] as const;

export function QuarantinePage() {
  const search = route.useSearch();
  const set = useSetSearch();
  const which = search.which ?? "waiting";
  const list = useList("/quarantine", { query: { asset: search.asset, decided: which === "all" } });
  return (
    <Page title="Quarantine" lead="Outputs that failed their checks. Consumers read the previous good version until a person decides.">
      <div className="toolbar">
        <Choice label="Which outputs" value={which} options={WHICH} onChange={(chosen) => set({ which: chosen === "all" ? "all" : undefined })} />
        <span className="spring" />
        <span className="muted num">{plural(list.items.length, "output")}{list.hasMore ? " and more" : ""}</span>
      </div>
      <div className={search.id ? "split" : "split alone"}>
        <Panel>
          {list.error ? <div className="body"><ProblemNote error={list.error} /></div> : list.isPending ? <Skeleton /> : list.items.length ? (
            <div className="table-wrap">
              <table className="table">
                <thead><tr><th>Status</th><th>Output</th><th className="num">Rows</th><th className="num">Held</th></tr></thead>
                <tbody>
                  {list.items.map((each) => (
                    <tr key={each.materialization_id} aria-selected={each.materialization_id === search.id}>
                      <td><State state={each.status} /></td>
                      <td>
                        <PageLink to="/quarantine" search={{ ...search, id: each.materialization_id }} className="row-link">
                          <span className="truncate"><Name mono>{each.asset}</Name> <span className="muted">{partitionText(each.partition)}</span></span>
                          <div className="small muted"><Name>{each.reason}</Name></div>
                        </PageLink>
                      </td>
                      <td className="num">{count(each.rows)}</td>
                      <td className="num muted"><Time at={each.held_at} /></td>
                    </tr>
                  ))}
                </tbody>
              </table>
              {list.hasMore ? <div className="body"><button type="button" className="button" onClick={list.more}>Show more</button></div> : null}
            </div>
          ) : <Empty title="Nothing is held">Outputs that fail a check with the action <code>quarantine</code> or <code>block</code> are listed here.</Empty>}
        </Panel>
        {search.id ? <Held id={search.id} /> : null}
      </div>
    </Page>
  );
}

function Held({ id }: { id: string }) {
  const held = useRead("/quarantine/{materialization_id}", { path: { materialization_id: id } });
  return <Loaded result={held} rows={8}>{(data) => <HeldDetails held={data} />}</Loaded>;
}

type HeldAnswer = NonNullable<ReturnType<typeof useRead<"/quarantine/{materialization_id}">>["data"]>;

function HeldDetails({ held }: { held: HeldAnswer }) {
  const mayDecide = useCan("quarantine.manage");
  const approve = useWrite("post", "/quarantine/{materialization_id}/approve");
  const reject = useWrite("post", "/quarantine/{materialization_id}/reject");
  const { output, current } = held;
  const path = { materialization_id: output.materialization_id };
  const isOpen = output.status === "QUARANTINED" || output.status === "BLOCKED";
  const failing = held.checks.filter((check) => check.status !== "passed");
  return (
    <div className="stack">
      <Panel
        title={<><Name mono>{output.asset}</Name> <span className="muted">{partitionText(output.partition)}</span></>}
        actions={
          isOpen && mayDecide ? (
            <span className="actions">
              <Action label="Approve" icon={<Check size={14} aria-hidden />} primary title="Approve this output?" confirm="Approve" run={(reason, key) => approve.mutateAsync({ path, body: { reason }, key })}>
                <p>It becomes the current version of the partition, unless a newer good one is. Consumers read it from then on.</p>
              </Action>
              <Action label="Reject" icon={<ShieldX size={14} aria-hidden />} danger title="Reject this output for good?" confirm="Reject" reason="required" run={(reason, key) => reject.mutateAsync({ path, body: { reason }, key })}>
                <p>It will never be current. Its files stay until they are collected.</p>
              </Action>
            </span>
          ) : null
        }
      >
        <dl className="properties">
          <dt>Status</dt><dd><State state={output.status} pill /></dd>
          <dt>Why</dt><dd><Name>{output.reason}</Name></dd>
          <dt>Asset</dt><dd><AssetLink asset={output.asset} /></dd>
          <dt>Run</dt><dd>{output.run_id ? <RunLink run={output.run_id} /> : "–"}</dd>
          <dt>Size</dt><dd>{plural(output.rows, "row")}, {bytes(output.bytes)}</dd>
          <dt>Held</dt><dd><Time at={output.held_at} />{output.held_by ? <> by <Name>{output.held_by}</Name></> : null}</dd>
          <dt>Consumers read</dt><dd>{current ? <>version {current.version}, {plural(current.rows, "row")}, of <Time at={current.updated_at} /></> : "nothing: there is no good version yet"}</dd>
          {output.decided_at ? <><dt>Decided</dt><dd><Name>{output.decision}</Name> by <Name>{output.decided_by}</Name>, <Time at={output.decided_at} /></dd></> : null}
        </dl>
      </Panel>
      {held.checks.length ? <Panel title="Checks" count={`${failing.length} of ${held.checks.length} failed`}>
        <div className="table-wrap">
          <table className="table">
            <thead><tr><th>Result</th><th>Check</th><th>Expected</th><th>Found</th><th className="num">Failing rows</th></tr></thead>
            <tbody>
              {[...failing, ...held.checks.filter((check) => check.status === "passed")].map((check) => (
                <tr key={check.check_id}>
                  <td><State state={check.status} /></td>
                  <td><Name>{check.check_name}</Name>{check.message ? <div className="small muted"><Name>{check.message}</Name></div> : null}</td>
                  <td><Name mono>{check.expected}</Name></td>
                  <td><Name mono>{check.actual}</Name></td>
                  <td className="num">{check.failing === null ? "–" : `${count(check.failing)} of ${count(check.rows)}`}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </Panel> : null}
      {failing.some((check) => check.sample.length) ? (
        <Panel title="Samples of failing rows">
          {failing.filter((check) => check.sample.length).map((check) => (
            <div key={check.check_id} className="body stack">
              <strong className="small"><Name>{check.check_name}</Name></strong>
              <pre className="code-block small">{check.sample.map((row, at) => <div key={at}><Name mono>{row}</Name></div>)}</pre>
            </div>
          ))}
        </Panel>
      ) : null}
    </div>
  );
}
