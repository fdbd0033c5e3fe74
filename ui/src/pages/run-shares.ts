/** How far a run is, as parts of a bar. */
import type { Schemas } from "../api/types";
import type { Share } from "../design/parts";

export function runShares(run: Schemas["RunBody"]): Share[] {
  const done = run.tasks_succeeded + run.tasks_reused + run.tasks_failed + run.tasks_skipped + run.tasks_cancelled;
  const held = run.tasks_held ?? 0;
  return [
    { tone: "good", value: run.tasks_succeeded - held, label: "succeeded" },
    { tone: "good", value: run.tasks_reused, label: "reused" },
    { tone: "held", value: held, label: "held" },
    { tone: "bad", value: run.tasks_failed, label: "failed" },
    { tone: "warn", value: run.tasks_skipped, label: "skipped" },
    { tone: "idle", value: run.tasks_cancelled, label: "cancelled" },
    { tone: "busy", value: run.state === "RUNNING" ? Math.max(0, run.tasks_total - done) : 0, label: "to do" },
  ];
}
