/** What tasks took and cost, by asset, day or run. */
import { getRouteApi } from "@tanstack/react-router";
import { useRead } from "../api/hooks";
import type { Schemas } from "../api/types";
import { Choice, Empty, Loaded, Page, Panel } from "../design/parts";
import { bytes, count, duration, money } from "../design/values";
import { AssetLink, RunLink, useSetSearch } from "../layout/link";

const route = getRouteApi("/w/$tenant/$workspace/costs");
const BY = [["asset", "By asset"], ["day", "By day"], ["run", "By run"], ["asset,day", "By asset and day"]] as const;
const DAYS = [["7", "7 days"], ["30", "30 days"], ["90", "90 days"], ["365", "A year"]] as const;
type Line = Schemas["CostLine"];

const nanos = (line: Line): number => Object.values(line.cost_nanos).reduce((sum, value) => sum + value, 0);
const cpu = (line: Line): number => line.cpu_ms + line.executor_cpu_ms;

export function CostsPage() {
  const search = route.useSearch();
  const set = useSetSearch();
  const by = search.by ?? "asset";
  const days = search.days ?? "30";
  const costs = useRead("/costs", { at: "now", query: { by, days: Number(days), asset: search.asset } });
  return (
    <Page title="Costs" lead="Measured for each attempt, failed ones included; priced with the prices of the configuration.">
      <div className="toolbar">
        <Choice label="Group" value={by} options={BY} onChange={(chosen) => set({ by: chosen })} />
        <Choice label="Time" value={days} options={DAYS} onChange={(chosen) => set({ days: chosen })} />
      </div>
      <Loaded result={costs} rows={8}>{(data) => <Costs body={data} by={by} />}</Loaded>
    </Page>
  );
}

function Costs({ body, by }: { body: Schemas["CostBody"]; by: string }) {
  const { total } = body;
  const isPriced = Object.keys(total.cost_nanos).length > 0;
  const weight = isPriced ? nanos : cpu;
  const largest = Math.max(1, ...body.lines.map(weight));
  const lines = by === "day" ? body.lines : [...body.lines].sort((a, b) => weight(b) - weight(a));
  return (
    <>
      <div className="figures">
        <div className="figure"><span className="label">Cost</span><span className="value">{isPriced ? money(total.cost_nanos) : "no prices"}</span></div>
        <div className="figure"><span className="label">CPU time</span><span className="value">{duration(cpu(total))}</span></div>
        <div className="figure"><span className="label">Tasks</span><span className="value">{count(total.tasks)}</span></div>
        <div className="figure"><span className="label">Failed attempts</span><span className="value">{count(total.failed_attempts)}</span></div>
        <div className="figure"><span className="label">Read</span><span className="value">{bytes(total.bytes_read)}</span></div>
        <div className="figure"><span className="label">Written</span><span className="value">{bytes(total.bytes_written)}</span></div>
      </div>
      {isPriced ? null : <div className="notice">No prices are configured, so that lines are ordered by CPU time. Set <code>[pricing]</code> in <code>arco.toml</code>.</div>}
      <Panel>
        {lines.length ? (
          <div className="table-wrap">
            <table className="table">
              <thead><tr><th>{by === "run" ? "Run" : by === "day" ? "Day" : "Asset"}</th><th aria-label="Share" /><th className="num">Cost</th><th className="num">CPU</th><th className="num">Tasks</th><th className="num">Failed attempts</th><th className="num">Read</th><th className="num">Written</th></tr></thead>
              <tbody>
                {lines.slice(0, 500).map((line, at) => (
                  <tr key={at}>
                    <td>{line.asset ? <AssetLink asset={line.asset} /> : null} {line.run_id ? <RunLink run={line.run_id} /> : null} {line.day ? <span className="num">{line.day}</span> : null}</td>
                    <td><svg width="120" height="8" role="img" aria-label={`${Math.round((100 * weight(line)) / largest)} percent of the largest`}><rect width={(120 * weight(line)) / largest} height="8" rx="2" fill="var(--busy)" /></svg></td>
                    <td className="num">{money(line.cost_nanos)}</td>
                    <td className="num">{duration(cpu(line))}</td>
                    <td className="num">{count(line.tasks)}</td>
                    <td className="num">{line.failed_attempts ? count(line.failed_attempts) : ""}</td>
                    <td className="num">{bytes(line.bytes_read)}</td>
                    <td className="num">{bytes(line.bytes_written)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        ) : <Empty title="No task ran in this time">Choose a longer time.</Empty>}
      </Panel>
      {body.truncated || lines.length > 500 ? <p className="muted small">The largest lines are shown. <code>servo costs --json</code> prints all.</p> : null}
    </>
  );
}
