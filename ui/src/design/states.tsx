/** Every state of the platform as a shape, a word and a colour. */
import {
  Ban,
  Check,
  CircleDashed,
  CircleDot,
  CircleHelp,
  Clock,
  History,
  LoaderCircle,
  type LucideIcon,
  Pause,
  Recycle,
  ShieldAlert,
  ShieldX,
  SkipForward,
  TriangleAlert,
  X,
} from "lucide-react";

export type Tone = "good" | "bad" | "warn" | "busy" | "held" | "idle";

const STATES: Record<string, [Tone, LucideIcon, string?]> = {
  // runs and tasks
  SUCCEEDED: ["good", Check],
  FAILED: ["bad", X],
  TIMED_OUT: ["bad", Clock, "Timed out"],
  RUNNING: ["busy", LoaderCircle],
  PLANNING: ["busy", LoaderCircle],
  CANCELLING: ["warn", Ban],
  CANCELLED: ["idle", Ban],
  PLANNED: ["idle", CircleDashed],
  READY: ["idle", CircleDot],
  DISPATCHED: ["busy", CircleDot],
  RETRY_WAIT: ["warn", Clock, "Waits for retry"],
  BLOCKED: ["held", ShieldX],
  SKIPPED: ["idle", SkipForward],
  REUSED: ["good", Recycle],
  PENDING: ["idle", CircleDashed],
  // partitions
  MATERIALIZED: ["good", Check],
  MATERIALIZING: ["busy", LoaderCircle],
  MISSING: ["idle", CircleDashed],
  STALE: ["warn", History],
  FRESH: ["good", Check],
  // quality and versions
  PASSED: ["good", Check],
  WARNED: ["warn", TriangleAlert],
  QUARANTINED: ["held", ShieldAlert],
  REJECTED: ["bad", ShieldX],
  APPROVED: ["good", Check],
  GOOD: ["good", Check],
  LATE: ["idle", History, "Not current"],
  EXPIRED: ["idle", History],
  ERROR: ["bad", TriangleAlert],
  // health
  HEALTHY: ["good", Check],
  WARNING: ["warn", TriangleAlert],
  UNHEALTHY: ["bad", X],
  UNKNOWN: ["idle", CircleHelp],
  // automation
  ACTIVE: ["good", Check],
  PAUSED: ["warn", Pause],
  REMOVED: ["idle", Ban],
  TRIGGERED: ["good", Check],
  FIRED: ["good", Check],
  MISSED: ["warn", Clock],
  REFUSED: ["bad", X],
  MERGED: ["idle", Recycle],
  DELIVERED: ["good", Check],
  SENDING: ["busy", LoaderCircle],
};

export const toneOf = (state: string): Tone => STATES[state.toUpperCase()]?.[0] ?? "idle";

const words = (state: string): string => {
  const text = state.toLowerCase().replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
};

export const stateText = (state: string): string => STATES[state.toUpperCase()]?.[2] ?? words(state);

export function State({ state, pill = false, text, bare = false }: { state: string; pill?: boolean; text?: string; bare?: boolean }) {
  const [tone, Icon] = STATES[state.toUpperCase()] ?? ["idle", CircleHelp];
  const label = text ?? stateText(state);
  return (
    <span className={`state ${tone}${pill ? " pill" : ""}`} title={bare ? label : undefined}>
      <Icon size={13} strokeWidth={2.4} aria-hidden className={Icon === LoaderCircle ? "spin" : undefined} />
      {bare ? <span className="visually-hidden">{label}</span> : label}
    </span>
  );
}
