/** What owners promise to consumers, and whether it holds. */
import { getRouteApi } from "@tanstack/react-router";
import { useList, useRead } from "../api/hooks";
import type { Schemas } from "../api/types";
import { Choice, Empty, Loaded, Page, Panel, ProblemNote, Skeleton } from "../design/parts";
import { State } from "../design/states";
import { By, count, duration, Name, plural, Time } from "../design/values";
import { AssetLink, PageLink, RunLink, useSetSearch } from "../layout/link";
import { partitionText } from "./partition-text";

const route = getRouteApi("/w/$tenant/$workspace/contracts");
const WHICH = [["", "Every contract"], ["breached", "Breached"]] as const;

export function ContractsPage() {
  const search = route.useSearch();
  const set = useSetSearch();
  const list = useList("/contracts", { query: { breached: search.which === "breached" ? true : undefined } });
  return (
    <Page title="Contracts" lead="A contract is checked at each deployment and at each output. An output that breaks it is held back.">
      <div className="toolbar">
        <Choice label="Which contracts" value={search.which ?? ""} options={WHICH} onChange={(which) => set({ which: which || undefined })} />
        <span className="spring" />
        <span className="muted num">{plural(list.items.length, "contract")}{list.hasMore ? " and more" : ""}</span>
      </div>
      {list.error ? <ProblemNote error={list.error} /> : null}
      <div className={search.asset ? "split" : "split alone"}>
        <Panel>
          {list.isPending && !list.error ? <Skeleton /> : list.items.length ? (
            <div className="table-wrap">
              <table className="table">
                <thead><tr><th>State</th><th>Asset</th><th>Version</th><th>Consumers</th><th className="num">Open breaches</th></tr></thead>
                <tbody>
                  {list.items.map((each) => (
                    <tr key={each.asset} aria-selected={each.asset === search.asset}>
                      <td><ContractStateMark state={each.state} /></td>
                      <td><PageLink to="/contracts" search={{ ...search, asset: each.asset }} className="row-link"><Name mono>{each.asset}</Name></PageLink></td>
                      <td><Name mono>{each.version}</Name></td>
                      <td className="muted"><Name>{(each.contract.consumers ?? []).join(", ")}</Name></td>
                      <td className="num">{each.open_breaches ? count(each.open_breaches) : ""}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
              {list.hasMore ? <div className="body"><button type="button" className="button" onClick={list.more}>Show more</button></div> : null}
            </div>
          ) : <Empty title="No contract">Declare one in code: <code>contract(asset, version="1.0", consumers=[…])</code></Empty>}
        </Panel>
        {search.asset ? <Contract asset={search.asset} /> : null}
      </div>
    </Page>
  );
}

const MARKS: Record<Schemas["ContractState"], [string, string]> = { KEPT: ["GOOD", "Kept"], BREACHED: ["FAILED", "Breached"], UNKNOWN: ["UNKNOWN", "No output yet"] };

export const ContractStateMark = ({ state }: { state: Schemas["ContractState"] }) => <State state={MARKS[state][0]} text={MARKS[state][1]} />;

export function Contract({ asset }: { asset: string }) {
  const contract = useRead("/assets/{asset}/contract", { path: { asset } });
  const check = useRead("/assets/{asset}/contract/check", { path: { asset }, at: "now" });
  const breaches = useList("/assets/{asset}/contract/breaches", { path: { asset }, pageSize: 20 });
  const versions = useList("/assets/{asset}/contract/versions", { path: { asset }, pageSize: 20 });
  return (
    <div className="stack">
      <Loaded result={contract}>{(data) => <Statement body={data} />}</Loaded>
      <Panel title="Promises, compared with the newest output">
        <Loaded result={check}>
          {(data) => (
            <div className="table-wrap">
              <table className="table">
                <tbody>
                  {data.promises.map((promise, at) => (
                    <tr key={at}>
                      <td><State state={promise.status === "kept" ? "PASSED" : promise.status === "broken" ? "FAILED" : "UNKNOWN"} text={promise.status} /></td>
                      <td><Name>{promise.promise}</Name></td>
                      <td className="muted"><Name>{promise.message ?? ""}</Name></td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </Loaded>
      </Panel>
      <Panel title="Breaches" count={count(breaches.items.length)}>
        {breaches.items.length ? (
          <div className="table-wrap">
            <table className="table">
              <tbody>
                {breaches.items.map((each) => (
                  <tr key={each.breach_id}>
                    <td><State state={each.ended_at ? "GOOD" : "FAILED"} text={each.ended_at ? "Ended" : "Open"} /></td>
                    <td><Name>{each.message}</Name><div className="small muted">{partitionText(each.partition)} <Name>{each.columns.join(", ")}</Name></div></td>
                    <td>{each.run_id ? <RunLink run={each.run_id} /> : null}</td>
                    <td className="num muted"><Time at={each.breached_at} /></td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        ) : <Empty title="It was never broken" />}
      </Panel>
      <Panel title="Versions">
        <div className="table-wrap">
          <table className="table">
            <tbody>
              {versions.items.map((each) => (
                <tr key={each.number}>
                  <td><Name mono>{each.version}</Name></td>
                  <td>{each.event}{each.breaking ? <> · <State state="WARNING" text="breaking" /></> : null}<div className="small muted"><Name>{each.changes.map((change) => change.text).join("; ") || each.reason}</Name></div></td>
                  <td className="muted"><Name>{each.changed_by}</Name></td>
                  <td className="num muted"><Time at={each.changed_at} /></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </Panel>
    </div>
  );
}

function Statement({ body }: { body: Schemas["ContractBody"] }) {
  const { contract } = body;
  const freshness = contract.freshness;
  return (
    <Panel title={<>{contract.name} <span className="muted">{contract.version}</span></>}>
      <dl className="properties">
        <dt>State</dt><dd><ContractStateMark state={body.state} /></dd>
        <dt>Asset</dt><dd><AssetLink asset={body.asset} /></dd>
        {contract.owner ? <><dt>Owner</dt><dd><Name>{contract.owner}</Name></dd></> : null}
        <dt>Consumers</dt><dd><Name>{(contract.consumers ?? []).join(", ") || "none named"}</Name></dd>
        {contract.description ? <><dt>About</dt><dd><Name>{contract.description}</Name></dd></> : null}
        {contract.key?.length ? <><dt>Key</dt><dd><Name mono>{contract.key.join(", ")}</Name></dd></> : null}
        {freshness ? <><dt>Freshness</dt><dd>at most {duration(freshness.max_age_s * 1000)} old</dd></> : null}
        <dt>Declared</dt><dd>in {body.source === "code" ? "code" : "the catalog"}<By who={body.declared_by} />, <Time at={body.declared_at} /></dd>
        {contract.terms ? <><dt>Terms</dt><dd><Name>{contract.terms}</Name></dd></> : null}
      </dl>
      {contract.columns?.length ? (
        <div className="table-wrap">
          <table className="table">
            <thead><tr><th>Column</th><th>Type</th><th>Nulls</th><th>Description</th></tr></thead>
            <tbody>
              {contract.columns.map((column) => (
                <tr key={column.name}><td><Name mono>{column.name}</Name></td><td><Name mono>{column.type ?? ""}</Name></td><td>{column.nullable === false ? "no" : "yes"}</td><td className="muted"><Name>{column.description ?? ""}</Name></td></tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : null}
    </Panel>
  );
}
