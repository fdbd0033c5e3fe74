/** What an asset took and cost, by day. */
import { useRead } from "../api/hooks";
import { Empty, Loaded, Panel } from "../design/parts";
import { bytes, count, duration, money } from "../design/values";

export function AssetCosts({ asset }: { asset: string }) {
  const result = useRead("/costs", { at: "now", query: { by: "day", days: 365, asset } });
  return (
    <Panel title="Costs by day, of the last year">
      <Loaded result={result}>
        {(body) => {
          if (!body.lines.length) return <Empty title="Nothing ran in the last year" />;
          const most = Math.max(...body.lines.map((line) => line.cpu_ms + line.executor_cpu_ms), 1);
          return (
            <>
              <div className="chart" role="img" aria-label={`Processor time of ${body.lines.length} days`}>
                {body.lines.map((line) => <span key={line.day} style={{ height: `${(100 * (line.cpu_ms + line.executor_cpu_ms)) / most}%` }} title={`${line.day}: ${duration(line.cpu_ms + line.executor_cpu_ms)}`} />)}
              </div>
              <div className="table-wrap"><table className="table">
                <thead><tr><th>Day</th><th className="num">Tasks</th><th className="num">Failed attempts</th><th className="num">Processor</th><th className="num">Read</th><th className="num">Written</th><th className="num">Cost</th></tr></thead>
                <tbody>{[...body.lines].reverse().map((line) => (
                  <tr key={line.day}>
                    <td>{line.day}</td><td className="num">{count(line.tasks)}</td><td className="num">{count(line.failed_attempts)}</td>
                    <td className="num">{duration(line.cpu_ms + line.executor_cpu_ms)}</td><td className="num">{bytes(line.bytes_read)}</td><td className="num">{bytes(line.bytes_written)}</td><td className="num">{money(line.cost_nanos)}</td>
                  </tr>))}</tbody>
              </table></div>
            </>
          );
        }}
      </Loaded>
    </Panel>
  );
}
