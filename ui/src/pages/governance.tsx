/** What people say of an asset: description, owners and tags, beside what code says. */
import { useQuery } from "@tanstack/react-query";
import { Pencil } from "lucide-react";
import { useState } from "react";
import { Problem, read } from "../api/client";
import { useWrite } from "../api/hooks";
import { useCan } from "../api/permissions";
import type { Schemas } from "../api/types";
import { useMoment, useWorkspace } from "../api/workspace";
import { Field, words } from "../design/action";
import { Dialog, Loaded, ProblemNote } from "../design/parts";
import { Name, Time } from "../design/values";

type Governance = Schemas["GovernanceBody"] & { generation: number };
type Value = Schemas["SourcedValue"];

/** Whoever may edit is offered this button; not while the page shows the past. */
export function EditGovernance({ asset }: { asset: string }) {
  const [isOpen, setOpen] = useState(false);
  const isLive = useMoment().isLive;
  if (!useCan("assets.edit") || !isLive) return null;
  return (
    <>
      <button type="button" className="button" onClick={() => setOpen(true)}><Pencil size={14} aria-hidden />Edit</button>
      <Dialog title={`What people say of ${asset}`} open={isOpen} onClose={() => setOpen(false)}>
        <Editor asset={asset} onDone={() => setOpen(false)} />
      </Dialog>
    </>
  );
}

function Editor({ asset, onDone }: { asset: string; onDone: () => void }) {
  const at = useWorkspace();
  const [opening] = useState(() => crypto.randomUUID());
  // Read anew each time: a form must start from what is there, not from what the page shows.
  const governance = useQuery({
    queryKey: ["governance", opening],
    queryFn: ({ signal }) => read(at, "/assets/{asset}/governance", { asset }, {}, undefined, signal),
    staleTime: Infinity,
    gcTime: 0,
  });
  return <Loaded result={governance}>{(data) => <Form asset={asset} governance={data} onDone={onDone} />}</Loaded>;
}

const ofPeople = (values: Value[], field: string): Value[] => values.filter((value) => value.source === "people" && value.field === field);
const ofOthers = (values: Value[]): Value[] => values.filter((value) => value.source !== "people" && ["description", "owners", "tags"].includes(value.field));
const tagsOf = (text: string): [string, string][] => words(text).map((word) => { const [name = "", ...value] = word.split("="); return [name, value.join("=")]; });

function Form({ asset, governance, onDone }: { asset: string; governance: Governance; onDone: () => void }) {
  const { values } = governance.governance;
  const before = {
    description: ofPeople(values, "description")[0]?.value ?? "",
    owners: ofPeople(values, "owners").map((value) => value.entry).join(" "),
    tags: ofPeople(values, "tags").map((value) => `${value.entry}=${value.value}`).join(" "),
  };
  const [description, setDescription] = useState(before.description);
  const [owners, setOwners] = useState(before.owners);
  const [tags, setTags] = useState(before.tags);
  const govern = useWrite("post", "/governance");
  const save = async () => {
    const set: Schemas["GovernedValue"][] = [];
    const withdraw: Schemas["ValueRef"][] = [];
    if (description !== before.description) {
      if (description.trim()) set.push({ field: "description", entry: "", value: description });
      else withdraw.push({ field: "description", entry: "" });
    }
    const named = new Set(words(owners));
    for (const owner of named) if (!words(before.owners).includes(owner)) set.push({ field: "owners", entry: owner, value: "" });
    for (const owner of words(before.owners)) if (!named.has(owner)) withdraw.push({ field: "owners", entry: owner });
    const old = new Map(tagsOf(before.tags));
    const fresh = new Map(tagsOf(tags));
    for (const [name, value] of fresh) if (old.get(name) !== value) set.push({ field: "tags", entry: name, value });
    for (const name of old.keys()) if (!fresh.has(name)) withdraw.push({ field: "tags", entry: name });
    if (set.length || withdraw.length)
      await govern.mutateAsync({ path: {}, body: { subject: asset, set, withdraw }, ifMatch: `"g${governance.generation}.v${governance.row_version}"` });
    onDone();
  };
  const isConflict = govern.error instanceof Problem && govern.error.status === 412;
  return (
    <form className="stack" onSubmit={(event) => { event.preventDefault(); void save().catch(() => undefined); }}>
      <label className="labelled">
        <span>Description (Markdown)</span>
        <textarea className="field" rows={5} value={description} autoFocus onChange={(event) => setDescription(event.target.value)} />
      </label>
      <Field label="Owners" value={owners} onChange={setOwners} placeholder="ann@example.com team:sales" hint="Added to the owners that code names" />
      <Field label="Tags" value={tags} onChange={setTags} placeholder="tier=gold domain=sales" hint="Of the same name, yours are in effect" />
      {ofOthers(values).length ? (
        <div className="table-wrap">
          <table className="table" aria-label="What code says">
            <tbody>
              {ofOthers(values).map((value) => (
                <tr key={`${value.source}/${value.field}/${value.entry}`} className={value.in_effect ? undefined : "muted"}>
                  <td className="muted">{value.source}</td><td>{value.field}</td>
                  <td><Name>{value.entry ? `${value.entry}${value.field === "tags" ? `=${value.value}` : ""}` : value.value}</Name></td>
                  <td className="num muted"><Time at={value.set_at} /></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : null}
      {isConflict ? <div className="notice" role="alert">Somebody has changed this asset since you opened the form. Close it and open it again to see what is there now.</div> : govern.error ? <ProblemNote error={govern.error} /> : null}
      <div className="actions">
        <button type="button" className="button" onClick={onDone}>Back</button>
        <button type="submit" className="button primary" disabled={govern.isPending || isConflict}>{govern.isPending ? "Saving…" : "Save"}</button>
      </div>
    </form>
  );
}
