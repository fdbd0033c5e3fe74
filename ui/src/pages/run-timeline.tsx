/** When the tasks of each asset ran. One lane for an asset, however many tasks it has. */
import timelineSql from "../../sql/run_timeline.sql?raw";
import type { Schemas } from "../api/types";
import { Empty, Panel, ProblemNote, Skeleton } from "../design/parts";
import { duration, plural } from "../design/values";
import { AssetLink } from "../layout/link";
import { useQuestion } from "../query/engine";
import { ACTIVE } from "./run";

interface Lane {
  asset: string;
  tasks: number;
  succeeded: number;
  reused: number;
  failed: number;
  skipped: number;
  running: number;
  ready_ms: number | null;
  started_ms: number | null;
  finished_ms: number | null;
}
const MOST = 500;

export function RunTimeline({ run, body }: { run: string; body: Schemas["RunBody"] }) {
  const result = useQuestion<Lane>("run_timeline", timelineSql, { run }, { maxRows: 5_000 });
  if (result.error) return <ProblemNote error={result.error} />;
  if (!result.data) return <Skeleton rows={10} />;
  const lanes = result.data.map((lane) => ({ ...lane, ready_ms: num(lane.ready_ms), started_ms: num(lane.started_ms), finished_ms: num(lane.finished_ms) }));
  const begins = lanes.map((lane) => lane.ready_ms ?? lane.started_ms).filter((ms) => ms !== null);
  if (!begins.length) return <Empty title="No task has started">Tasks that are reused take no time.</Empty>;
  const from = Math.min(...begins);
  const ends = lanes.map((lane) => lane.finished_ms ?? 0);
  const to = ACTIVE.includes(body.state) ? Math.max(Date.now(), ...ends) : Math.max(from + 1, ...ends);
  const at = (ms: number) => `${(100 * (ms - from)) / (to - from)}%`;
  return (
    <Panel title="Timeline" count={duration(to - from)}>
      <div className="timeline">
        {lanes.slice(0, MOST).map((lane) => (
          <div key={lane.asset} className="lane">
            <span className="truncate"><AssetLink asset={lane.asset} /></span>
            <div className="track" role="img" aria-label={words(lane)} title={words(lane)}>
              {lane.ready_ms !== null && lane.started_ms !== null && lane.started_ms > lane.ready_ms ? <span className="wait" style={{ left: at(lane.ready_ms), width: at(from + lane.started_ms - lane.ready_ms) }} /> : null}
              {lane.started_ms !== null ? <span className={tone(lane)} style={{ left: at(lane.started_ms), width: at(from + Math.max(0, (lane.running ? to : (lane.finished_ms ?? to)) - lane.started_ms)) }} /> : null}
            </div>
            <span className="num muted small">{lane.started_ms !== null && lane.finished_ms !== null ? duration(lane.finished_ms - lane.started_ms) : lane.reused ? "reused" : ""}</span>
          </div>
        ))}
      </div>
      {lanes.length > MOST ? <p className="body muted">The first {MOST} assets.</p> : null}
    </Panel>
  );
}

const num = (value: number | null): number | null => (value === null ? null : Number(value));
const tone = (lane: Lane): string => (lane.failed ? "bad" : lane.running ? "busy" : lane.succeeded || lane.reused ? "good" : "idle");
const words = (lane: Lane): string =>
  [plural(Number(lane.tasks), "task"), ...(["succeeded", "reused", "failed", "skipped", "running"] as const).filter((name) => lane[name]).map((name) => `${lane[name]} ${name}`)].join(", ");
