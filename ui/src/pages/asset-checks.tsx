/** Checks of an asset: their newest results, and each over time. */
import historySql from "../../sql/check_history.sql?raw";
import { useList } from "../api/hooks";
import { Empty, Panel, ProblemNote, Skeleton } from "../design/parts";
import { State } from "../design/states";
import { count, Name, plural, Time } from "../design/values";
import { RunLink } from "../layout/link";
import { useQuestion } from "../query/engine";
import { partitionText } from "./partition-text";

interface Day {
  check_name: string;
  day: string;
  passed: number;
  failed: number;
}

export function AssetChecks({ asset }: { asset: string }) {
  const [namespace = "", name = ""] = asset.split(".");
  const history = useQuestion<Day>("check_history", historySql, { namespace, name }, { maxRows: 10_000 });
  const newest = useList("/assets/{asset}/checks", { path: { asset }, query: { failing: true } });
  const byCheck = Map.groupBy(history.data ?? [], (day) => day.check_name);
  return (
    <>
      <Panel title="Failing now" count={newest.isPending ? undefined : `${count(newest.items.length)}${newest.hasMore ? "+" : ""}`}>
        {newest.error ? <div className="body"><ProblemNote error={newest.error} /></div> : newest.isPending ? <Skeleton /> : newest.items.length ? (
          <div className="table-wrap"><table className="table">
            <thead><tr><th>Check</th><th>Partition</th><th>Severity</th><th>What is wrong</th><th className="num">Rows</th><th>Since</th><th>Run</th></tr></thead>
            <tbody>{newest.items.map((each) => (
              <tr key={`${each.check_id}/${each.partition}`}>
                <td><State state={each.status} bare /> <Name mono>{each.check_name}</Name></td>
                <td className="mono muted">{partitionText(each.partition)}</td>
                <td>{each.severity}</td>
                <td><Name>{each.message}</Name></td>
                <td className="num">{each.failing === null ? "" : count(each.failing)}</td>
                <td className="muted"><Time at={each.failing_since} /></td>
                <td><RunLink run={each.run_id} /></td>
              </tr>))}</tbody>
          </table></div>
        ) : <Empty title={byCheck.size ? "Every check passes" : "No check has run yet"} />}
      </Panel>
      <Panel title="Over time" count={count(byCheck.size)}>
        {history.error ? <div className="body"><ProblemNote error={history.error} /></div> : history.data === undefined ? <Skeleton /> : byCheck.size ? (
          <div className="table-wrap"><table className="table">
            <thead><tr><th>Check</th><th>Days</th><th className="num">Passed</th><th className="num">Failed</th></tr></thead>
            <tbody>{[...byCheck].map(([check, days]) => {
              const passed = days.reduce((sum, day) => sum + Number(day.passed), 0);
              const failed = days.reduce((sum, day) => sum + Number(day.failed), 0);
              return (
                <tr key={check}>
                  <td><Name mono>{check}</Name></td>
                  <td>
                    <div className="strip" role="img" aria-label={`${plural(days.length, "day")}: ${count(passed)} passed, ${count(failed)} failed`}>
                      {days.slice(-60).map((day) => <span key={day.day} className={day.failed ? "bad" : "good"} title={`${day.day}: ${day.passed} passed, ${day.failed} failed`} />)}
                    </div>
                  </td>
                  <td className="num">{count(passed)}</td>
                  <td className="num">{failed ? <State state="FAILED" text={count(failed)} /> : "0"}</td>
                </tr>
              );
            })}</tbody>
          </table></div>
        ) : <Empty title="No check has run yet">Checks are declared with the asset: <code>checks=[not_null("id")]</code></Empty>}
      </Panel>
    </>
  );
}
