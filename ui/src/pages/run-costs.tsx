/** What a run took and cost, failed attempts included, by asset. */
import costsSql from "../../sql/run_costs.sql?raw";
import { Empty, Loaded, Panel } from "../design/parts";
import { bytes, count, duration, money, plural } from "../design/values";
import { AssetLink } from "../layout/link";
import { useQuestion } from "../query/engine";

interface Line {
  asset: string;
  /** Empty if there were no prices. */
  currency: string;
  tasks: number;
  attempts: number;
  failed: number;
  cpu_ms: number;
  peak_memory_kib: number;
  bytes_read: number;
  bytes_written: number;
  cost_nanos: number;
}
const MOST = 1_000;

export function RunCosts({ run }: { run: string }) {
  const result = useQuestion<Line>("run_costs", costsSql, { run }, { maxRows: MOST + 1 });
  return <Loaded result={result} rows={8}>{(lines) => (lines.length ? <Costs lines={lines} /> : <Empty title="Nothing was measured yet">What a task took is known when it ends. Tasks that are reused cost nothing.</Empty>)}</Loaded>;
}

const costOf = (line: Line): string => (line.currency ? money({ [line.currency]: Number(line.cost_nanos) }) : "–");

function Costs({ lines }: { lines: Line[] }) {
  const sum = (name: "attempts" | "failed" | "tasks" | "cpu_ms" | "bytes_read" | "bytes_written") => lines.reduce((total, line) => total + Number(line[name]), 0);
  const nanos: Record<string, number> = {};
  for (const line of lines) if (line.currency) nanos[line.currency] = (nanos[line.currency] ?? 0) + Number(line.cost_nanos);
  const isPriced = Object.keys(nanos).length > 0;
  const weight = (line: Line) => Number(isPriced ? line.cost_nanos : line.cpu_ms);
  const largest = Math.max(1, ...lines.map(weight));
  return (
    <>
      <div className="figures">
        <div className="figure"><span className="label">Cost</span><span className="value">{isPriced ? money(nanos) : "no prices"}</span></div>
        <div className="figure"><span className="label">CPU time</span><span className="value">{duration(sum("cpu_ms"))}</span></div>
        <div className="figure"><span className="label">Attempts</span><span className="value">{count(sum("attempts"))}</span></div>
        <div className="figure"><span className="label">Failed attempts</span><span className="value">{count(sum("failed"))}</span></div>
        <div className="figure"><span className="label">Read</span><span className="value">{bytes(sum("bytes_read"))}</span></div>
        <div className="figure"><span className="label">Written</span><span className="value">{bytes(sum("bytes_written"))}</span></div>
      </div>
      {isPriced ? null : <div className="notice"><span>No prices were configured when these tasks ran, so that lines are ordered by CPU time.</span></div>}
      <Panel title="By asset" count={plural(Math.min(lines.length, MOST), "line")}>
        <div className="table-wrap">
          <table className="table">
            <thead><tr><th>Asset</th><th aria-label="Share" /><th className="num">Cost</th><th className="num">CPU</th><th className="num">Peak memory</th><th className="num">Tasks</th><th className="num">Failed attempts</th><th className="num">Read</th><th className="num">Written</th></tr></thead>
            <tbody>
              {lines.slice(0, MOST).map((line) => (
                <tr key={`${line.asset} ${line.currency}`}>
                  <td><AssetLink asset={line.asset} /></td>
                  <td><svg width="120" height="8" role="img" aria-label={`${Math.round((100 * weight(line)) / largest)} percent of the largest`}><rect width={(120 * weight(line)) / largest} height="8" rx="2" fill="var(--busy)" /></svg></td>
                  <td className="num">{costOf(line)}</td>
                  <td className="num">{duration(Number(line.cpu_ms))}</td>
                  <td className="num">{bytes(Number(line.peak_memory_kib) * 1024)}</td>
                  <td className="num">{count(Number(line.tasks))}</td>
                  <td className="num">{Number(line.failed) ? count(Number(line.failed)) : ""}</td>
                  <td className="num">{bytes(Number(line.bytes_read))}</td>
                  <td className="num">{bytes(Number(line.bytes_written))}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        {lines.length > MOST ? <p className="body muted">The first {count(MOST)} lines; the figures above are of those.</p> : null}
      </Panel>
    </>
  );
}
