/** The contract of an asset: what is promised to whom, and when it was broken. */
import { useList, useRead } from "../api/hooks";
import { Empty, Panel, ProblemNote, Skeleton } from "../design/parts";
import { State } from "../design/states";
import { By, Name, Time } from "../design/values";
import { RunLink } from "../layout/link";

export function AssetContract({ asset }: { asset: string }) {
  const contract = useRead("/assets/{asset}/contract", { path: { asset } });
  const breaches = useList("/assets/{asset}/contract/breaches", { path: { asset }, enabled: Boolean(contract.data) });
  if (contract.error)
    return (
      <Panel title="Contract">
        {contract.error.status === 404 ? <Empty title="This asset has no contract">A contract says what others may rely on. Code declares it, or: <code>servo contracts import FILE --asset {asset}</code></Empty> : <div className="body"><ProblemNote error={contract.error} /></div>}
      </Panel>
    );
  if (!contract.data) return <Skeleton />;
  const { contract: statement, state, version, declared_at, declared_by } = contract.data;
  return (
    <>
      <Panel title={<>{statement.name} <span className="muted">version {version}</span></>} actions={<State state={state === "KEPT" ? "PASSED" : state === "BREACHED" ? "FAILED" : "UNKNOWN"} text={state.toLowerCase()} pill />}>
        <dl className="properties body">
          <dt>Owner</dt><dd><Name>{statement.owner || "–"}</Name></dd>
          <dt>Consumers</dt><dd><Name>{statement.consumers?.join(", ") || "–"}</Name></dd>
          <dt>Key</dt><dd className="mono"><Name>{statement.key?.join(", ") || "–"}</Name></dd>
          <dt>Columns</dt><dd className="mono"><Name>{statement.columns?.map((column) => `${column.name} ${column.type ?? ""}`).join(", ") || "–"}</Name></dd>
          <dt>Checks</dt><dd className="mono"><Name>{statement.checks?.map((check) => check.name).join(", ") || "–"}</Name></dd>
          <dt>Description</dt><dd><Name>{statement.description || "–"}</Name></dd>
          <dt>Declared</dt><dd><Time at={declared_at} /><By who={declared_by} /></dd>
        </dl>
      </Panel>
      <Panel title="Breaches">
        {breaches.error ? <div className="body"><ProblemNote error={breaches.error} /></div> : breaches.isPending ? <Skeleton /> : breaches.items.length ? (
          <div className="table-wrap"><table className="table">
            <thead><tr><th>What</th><th>Columns</th><th>Outcome</th><th>Run</th><th className="num">When</th></tr></thead>
            <tbody>{breaches.items.map((breach) => (
              <tr key={breach.breach_id}>
                <td>{breach.ended_at ? <State state="APPROVED" text="Over" /> : <State state="FAILED" text="Open" />} <Name>{breach.message}</Name></td>
                <td className="mono muted"><Name>{breach.columns.join(", ")}</Name></td>
                <td>{breach.outcome}</td>
                <td>{breach.run_id ? <RunLink run={breach.run_id} /> : ""}</td>
                <td className="num muted"><Time at={breach.breached_at} /></td>
              </tr>))}</tbody>
          </table></div>
        ) : <Empty title="It was never broken" />}
      </Panel>
    </>
  );
}
