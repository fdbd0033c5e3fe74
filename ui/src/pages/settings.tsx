/** Keys, roles, limits and notifications of a workspace. */
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { Problem } from "../api/client";
import { useList, useRead, useWrite } from "../api/hooks";
import { type Permission, useCan, usePermissions, useSession } from "../api/permissions";
import type { Schemas } from "../api/types";
import { useMoment } from "../api/workspace";
import { Action, Field, words } from "../design/action";
import { Choice, Dialog, Empty, Loaded, Page, Panel, ProblemNote } from "../design/parts";
import { State } from "../design/states";
import { count, Name, Time } from "../design/values";
import { FaultPage } from "../layout/faults";
import { AssetLink, PageLink, RunLink } from "../layout/link";
import { Tabs } from "../layout/tabs";

const route = getRouteApi("/w/$tenant/$workspace/settings");
const VIEWS: readonly (readonly ["limits" | "notifications" | "keys" | "roles", string, Permission])[] = [
  ["limits", "Limits", "runs.read"],
  ["notifications", "Notifications", "runs.read"],
  ["keys", "API keys", "keys.manage"],
  ["roles", "Roles", "roles.manage"],
];
const ROLES = (["viewer", "operator", "editor", "admin", "owner"] as const).map((role) => [role, role] as const);

export function SettingsPage() {
  const search = route.useSearch();
  const permissions = usePermissions();
  const view = search.view ?? "limits";
  const needed = VIEWS.find(([name]) => name === view)![2];
  const session = useSession();
  if (session.data && !permissions.has(needed)) return <FaultPage error={new Problem(403, { detail: `This part of the settings needs the permission ${needed}.`, hint: "Somebody who manages roles can give you one that has it." })} />;
  return (
    <Page title="Settings">
      <Tabs label="Settings">
        {VIEWS.filter(([, , permission]) => permissions.has(permission)).map(([name, title]) => <PageLink key={name} to="/settings" search={{ view: name }} current={name === view}>{title}</PageLink>)}
      </Tabs>
      {view === "limits" && permissions.has("runs.read") ? <Limits /> : null}
      {view === "notifications" && permissions.has("runs.read") ? <Notifications /> : null}
      {view === "keys" && permissions.has("keys.manage") ? <Keys /> : null}
      {view === "roles" && permissions.has("roles.manage") ? <Roles /> : null}
    </Page>
  );
}

function Limits() {
  const limits = useRead("/limits", { at: "now" });
  const mayManage = useCan("limits.manage");
  const pause = useWrite("post", "/dispatch/pause");
  const resume = useWrite("post", "/dispatch/resume");
  return (
    <Loaded result={limits}>
      {({ limits: lines, paused }) => (
        <>
          {paused ? <div className="notice" role="status">All dispatch is paused by <Name>{paused.by}</Name>, <Time at={paused.at} />. <Name>{paused.reason}</Name></div> : null}
          <Panel
            title="Limits"
            actions={mayManage ? (
              <span className="actions">
                <SetLimit />
                {paused
                  ? <Action label="Resume dispatch" primary title="Resume dispatch?" confirm="Resume" run={(reason, key) => resume.mutateAsync({ path: {}, body: { reason }, key })} />
                  : <Action label="Pause dispatch" danger title="Pause all dispatch?" confirm="Pause" reason="required" run={(reason, key) => pause.mutateAsync({ path: {}, body: { reason }, key })}><p>No task and no run of the workspace starts until it is resumed. What runs goes on.</p></Action>}
              </span>
            ) : null}
          >
            <div className="table-wrap">
              <table className="table">
                <thead><tr><th>Of</th><th>Limit</th><th className="num">Value</th><th className="num">In use</th><th>Set by</th></tr></thead>
                <tbody>
                  {lines.map((line) => (
                    <tr key={`${line.scope}/${line.name}`}>
                      <td><Name>{line.scope}</Name></td>
                      <td>{line.name.replaceAll("_", " ")}{line.note ? <div className="small muted"><Name>{line.note}</Name></div> : null}</td>
                      <td className="num">{line.value === null ? "none" : count(line.value)}</td>
                      <td className="num">{line.use === null ? "" : count(line.use)}</td>
                      <td className="muted">{line.is_default ? "default" : <><Name>{line.changed_by ?? ""}</Name> <Time at={line.changed_at} /> <Name>{line.reason ?? ""}</Name></>}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          </Panel>
        </>
      )}
    </Loaded>
  );
}

function SetLimit() {
  const set = useWrite("put", "/limits");
  const [scope, setScope] = useState("workspace");
  const [name, setName] = useState("max_concurrent_tasks");
  const [value, setValue] = useState("");
  const isPool = scope.startsWith("pool:");
  return (
    <Action label="Set a limit" title="Set a limit" confirm="Set" run={(reason, key) => set.mutateAsync({ path: {}, body: { scope, name: isPool ? "" : name, value: value.trim() || null, new_pool: isPool, reason }, key })}>
      <Field label="Of" value={scope} onChange={setScope} hint="workspace, tenant:NAME or pool:NAME" />
      {isPool ? null : <label className="labelled"><span>Limit</span><Choice label="Limit" value={name} options={LIMITS} onChange={setName} /></label>}
      <Field label="Value" value={value} onChange={setValue} hint="Empty: back to the default" />
    </Action>
  );
}

const LIMITS = ["max_concurrent_tasks", "max_concurrent_runs", "max_queued_tasks", "max_daily_runs", "max_run_duration", "max_tasks_per_run", "max_backfill_concurrency", "fairness_weight"].map((name) => [name, name.replaceAll("_", " ")] as const);

function Notifications() {
  const alerts = useList("/notifications/alerts");
  const rules = useList("/notifications/rules");
  const sent = useList("/notifications", { pageSize: 30 });
  const mayManage = useCan("notifications.manage");
  const retry = useWrite("post", "/notifications/{notification_id}/retry");
  return (
    <div className="stack">
      <Panel title="Open alerts" count={count(alerts.items.length)}>
        {alerts.items.length ? (
          <div className="table-wrap"><table className="table"><tbody>
            {alerts.items.map((each) => (
              <tr key={`${each.rule_id}/${each.subject}`}>
                <td><State state="FAILED" text={each.events.join(", ")} /></td>
                <td>{each.asset ? <AssetLink asset={each.asset} /> : <Name>{each.subject}</Name>}</td>
                <td>{each.last_run_id ? <RunLink run={each.last_run_id} /> : null}</td>
                <td className="num muted">{count(each.occurrences)} ×</td>
                <td className="num muted"><Time at={each.raised_at} /></td>
              </tr>
            ))}
          </tbody></table></div>
        ) : <Empty title="No alert is open" />}
      </Panel>
      <Panel title="Rules" count={count(rules.items.length)}>
        {rules.items.length ? (
          <div className="table-wrap"><table className="table"><tbody>
            {rules.items.map((each) => (
              <tr key={each.rule_id}><td><Name>{each.name}</Name></td><td>on {each.events.join(", ")}</td><td><Name mono>{each.selection.join(" ")}</Name></td><td className="muted"><Name>{each.channels.join(", ")}</Name></td></tr>
            ))}
          </tbody></table></div>
        ) : <Empty title="No rule"><code>notify(on="failure", select="sales.*", to=["slack"])</code></Empty>}
      </Panel>
      <Panel title="Messages">
        {sent.items.length ? (
          <div className="table-wrap"><table className="table"><tbody>
            {sent.items.map((each) => (
              <tr key={each.notification_id}>
                <td><State state={each.state} /></td>
                <td><Name>{each.receiver}</Name>{each.detail ? <div className="small muted"><Name>{each.detail}</Name></div> : null}</td>
                <td className="num muted">{each.attempts} of {each.max_attempts} attempts</td>
                <td className="num muted"><Time at={each.created_at} /></td>
                <td>{mayManage && each.state === "FAILED" ? <Action label="Send again" title="Send this message again?" confirm="Send" reason="none" run={(_, key) => retry.mutateAsync({ path: { notification_id: each.notification_id }, body: undefined as never, key })} /> : null}</td>
              </tr>
            ))}
          </tbody></table></div>
        ) : <Empty title="No message was sent" />}
      </Panel>
    </div>
  );
}

function Keys() {
  const keys = useList("/keys");
  const revoke = useWrite("post", "/keys/{key_id}/revoke");
  return (
    <Panel title="API keys" actions={<NewKey />}>
      {keys.error ? <ProblemNote error={keys.error} /> : null}
      {keys.items.length ? (
        <div className="table-wrap"><table className="table">
          <thead><tr><th>Key</th><th>Role</th><th>Namespaces</th><th className="num">Last used</th><th className="num">Expires</th><th /></tr></thead>
          <tbody>
            {keys.items.map((each) => (
              <tr key={each.key_id}>
                <td><Name>{each.name}</Name> <span className="muted small"><Name mono>{each.prefix}</Name></span></td>
                <td>{each.role}{each.scopes.length ? <span className="muted small"> only {each.scopes.join(", ")}</span> : null}</td>
                <td className="muted"><Name>{each.namespaces.join(", ") || "all"}</Name></td>
                <td className="num muted"><Time at={each.last_used_at} none="never" /></td>
                <td className="num muted"><Time at={each.expires_at} none="never" /></td>
                <td className="num">{each.revoked_at ? <State state="CANCELLED" text="revoked" /> : <Action label="Revoke" danger title={`Revoke the key ${each.name}?`} confirm="Revoke" run={(reason, key) => revoke.mutateAsync({ path: { key_id: each.key_id }, body: { reason }, key })}><p>Programs that use it are refused at once.</p></Action>}</td>
              </tr>
            ))}
          </tbody>
        </table></div>
      ) : <Empty title="No API key"><code>servo auth keys create ci --role operator</code></Empty>}
    </Panel>
  );
}

function NewKey() {
  const create = useWrite("post", "/keys");
  const isLive = useMoment().isLive;
  const [isOpen, setOpen] = useState(false);
  const [name, setName] = useState("");
  const [role, setRole] = useState<Schemas["Role"]>("viewer");
  const [namespaces, setNamespaces] = useState("");
  const [days, setDays] = useState("90");
  if (!isLive) return null;
  const close = () => { setOpen(false); setName(""); create.reset(); };
  const submit = () => {
    const expires_at = Number(days) > 0 ? new Date(Date.now() + Number(days) * 86_400_000).toISOString() : null;
    create.mutate({ path: {}, body: { name: name.trim(), role, namespaces: words(namespaces), expires_at } });
  };
  const made = create.data;
  return (
    <>
      <button type="button" className="button primary" onClick={() => setOpen(true)}>New key</button>
      <Dialog title={made ? "This is the only time that the key is shown" : "New API key"} open={isOpen} onClose={close}>
        {made ? (
          <div className="stack">
            <code className="secret">{made.secret}</code>
            <div className="actions"><button type="button" className="button" onClick={() => void navigator.clipboard.writeText(made.secret)}>Copy</button><button type="button" className="button primary" onClick={close}>Done</button></div>
          </div>
        ) : (
          <form className="stack" onSubmit={(event) => { event.preventDefault(); submit(); }}>
            <Field label="Name" value={name} onChange={setName} autoFocus />
            <label className="labelled"><span>Role</span><Choice label="Role" value={role} options={ROLES} onChange={setRole} /></label>
            <Field label="Namespaces" value={namespaces} onChange={setNamespaces} hint="Empty: the whole workspace" />
            <Field label="Expires after days" value={days} onChange={setDays} type="number" hint="Empty: never" />
            {create.error ? <ProblemNote error={create.error} /> : null}
            <div className="actions"><button type="submit" className="button primary" disabled={!name.trim() || create.isPending}>Create</button></div>
          </form>
        )}
      </Dialog>
    </>
  );
}

function Roles() {
  const roles = useList("/roles");
  const grant = useWrite("post", "/roles");
  const revoke = useWrite("post", "/roles/revoke");
  const [subject, setSubject] = useState("");
  const [role, setRole] = useState<Schemas["Role"]>("viewer");
  const [namespace, setNamespace] = useState("");
  return (
    <Panel
      title="Roles"
      actions={
        <Action label="Grant a role" primary title="Grant a role" confirm="Grant" run={(reason, key) => grant.mutateAsync({ path: {}, body: { subject: subject.trim(), role, namespace: namespace.trim(), reason }, key })}>
          <Field label="Who" value={subject} onChange={setSubject} placeholder="user:ann@example.com" hint="user:ADDRESS, group:NAME, subject:ID or key:ID" />
          <label className="labelled"><span>Role</span><Choice label="Role" value={role} options={ROLES} onChange={setRole} /></label>
          <Field label="Namespace" value={namespace} onChange={setNamespace} hint="Empty: the whole workspace" />
        </Action>
      }
    >
      {roles.error ? <ProblemNote error={roles.error} /> : null}
      {roles.items.length ? (
        <div className="table-wrap"><table className="table">
          <thead><tr><th>Who</th><th>Role</th><th>Where</th><th>Granted by</th><th className="num">When</th><th /></tr></thead>
          <tbody>
            {roles.items.map((each) => (
              <tr key={`${each.subject}/${each.namespace}`}>
                <td><Name>{each.subject}</Name></td>
                <td>{each.role}</td>
                <td><Name>{each.namespace || "the workspace"}</Name></td>
                <td className="muted"><Name>{each.granted_by}</Name> <Name>{each.reason}</Name></td>
                <td className="num muted"><Time at={each.granted_at} /></td>
                <td className="num"><Action label="Revoke" danger title={`Take the role ${each.role} from ${each.subject}?`} confirm="Revoke" run={(reason, key) => revoke.mutateAsync({ path: {}, body: { subject: each.subject, namespace: each.namespace, reason }, key })} /></td>
              </tr>
            ))}
          </tbody>
        </table></div>
      ) : <Empty title="Nobody has a role here"><code>servo roles grant user:ann@example.com owner</code></Empty>}
    </Panel>
  );
}
