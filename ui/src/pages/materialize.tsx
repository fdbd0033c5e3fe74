/** Ask for a run: what, which partitions, and the plan with its reasons before it starts. */
import { Play } from "lucide-react";
import { useState } from "react";
import { useWrite } from "../api/hooks";
import { useCan } from "../api/permissions";
import type { Schemas } from "../api/types";
import { useMoment } from "../api/workspace";
import { Field, words } from "../design/action";
import { Dialog, ProblemNote } from "../design/parts";
import { count, Name, plural } from "../design/values";
import { useGo } from "../layout/link";
import { partitionText } from "./partition-text";

type Preview = Schemas["PlanPreview"];
type Selection = Partial<Schemas["SelectionBody"]>;

/** A button that opens the dialog. It is not there for those who may not ask for runs, nor in the past. */
export function Materialize({ selection = "", partitions = "", label = "Materialize" }: { selection?: string; partitions?: string; label?: string }) {
  const [isOpen, setOpen] = useState(false);
  const isLive = useMoment().isLive;
  if (!useCan("runs.trigger") || !isLive) return null;
  return (
    <>
      <button type="button" className="button primary" onClick={() => setOpen(true)}><Play size={14} aria-hidden />{label}</button>
      <Dialog title="Materialize" open={isOpen} onClose={() => setOpen(false)}>
        <MaterializeForm selection={selection} partitions={partitions} onDone={() => setOpen(false)} />
      </Dialog>
    </>
  );
}

function MaterializeForm({ selection: given, partitions: range, onDone }: { selection: string; partitions: string; onDone: () => void }) {
  const go = useGo();
  const preview = useWrite("post", "/runs/preview");
  const trigger = useWrite("post", "/runs");
  const [selection, setSelection] = useState(given);
  const [partitions, setPartitions] = useState(range);
  const [force, setForce] = useState(false);
  const [shown, setShown] = useState<{ plan: Preview; body: Selection; key: string } | null>(null);
  const body: Selection & { selection: string[] } = { selection: words(selection), partitions: words(partitions), force };
  const change = <T,>(set: (value: T) => void) => (value: T) => { setShown(null); set(value); };
  const look = async () => {
    setShown({ plan: await preview.mutateAsync({ path: {}, body }), body, key: crypto.randomUUID() });
  };
  const start = async () => {
    if (!shown) return;
    const asked = await trigger.mutateAsync({ path: {}, body: shown.body, key: shown.key });
    onDone();
    go("/automation", {}, { view: "requests", request: asked.request_key });
  };
  const error = preview.error ?? trigger.error;
  const isEmpty = body.selection.length === 0;
  return (
    <form className="stack" onSubmit={(event) => { event.preventDefault(); void (shown ? start() : look()).catch(() => undefined); }}>
      <Field label="Assets" value={selection} onChange={change(setSelection)} autoFocus placeholder="sales.orders+" hint="Names, +name with what it reads, name+ with what reads it, tag:gold, or *" />
      <Field label="Partitions" value={partitions} onChange={change(setPartitions)} placeholder="date=2026-11-01..2026-11-17" hint="Empty: those that are complete now" />
      <label className="check-field"><input type="checkbox" checked={force} onChange={(event) => change(setForce)(event.target.checked)} /> Run also what is up to date</label>
      {error ? <ProblemNote error={error} /> : null}
      {shown ? <Plan plan={shown.plan} /> : null}
      <div className="actions">
        <button type="button" className="button" onClick={onDone}>Back</button>
        {shown ? (
          <button type="submit" className="button primary" disabled={trigger.isPending || shown.plan.tasks === 0}>
            {trigger.isPending ? "Asking…" : shown.plan.runs ? `Start ${plural(shown.plan.runs, "task")}` : "Start, although all is up to date"}
          </button>
        ) : (
          <button type="submit" className="button primary" disabled={isEmpty || preview.isPending}>{preview.isPending ? "Planning…" : "Show the plan"}</button>
        )}
      </div>
    </form>
  );
}

function Plan({ plan }: { plan: Preview }) {
  const rest = plan.tasks - plan.first_tasks.length;
  return (
    <section aria-label="Plan" className="stack">
      <p><strong>{plural(plan.runs, "task")}</strong> of {plural(plan.assets.length, "asset")} would run; {count(plan.tasks - plan.runs)} would be reused.</p>
      <div className="table-wrap plan-preview">
        <table className="table">
          <thead><tr><th>Task</th><th>Partition</th><th>Why</th></tr></thead>
          <tbody>
            {plan.first_tasks.map((task) => (
              <tr key={`${task.asset} ${task.partition}`}>
                <td><span className={task.action === "run" ? undefined : "muted"}><Name mono>{task.asset}</Name></span></td>
                <td className="muted">{partitionText(task.partition)}</td>
                <td className="small"><Name>{task.reason}</Name></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rest > 0 ? <p className="muted small">and {plural(rest, "other task")}</p> : null}
    </section>
  );
}
