/** What a task runs: its SQL as the engine gets it, its code, its configuration, and the versions that it reads. */
import type { Answer } from "../api/types";
import { Empty, ProblemNote } from "../design/parts";
import { count, Name, plural, shortId } from "../design/values";
import { AssetLink, PageLink } from "../layout/link";
import { partitionText } from "./partition-text";

type TaskPlan = Answer<"/runs/{run_id}/tasks/{task_id}/plan">;

/** Without the empty lines around it, which a text in three quotes has. */
export const CodeText = ({ text }: { text: string }) =>
  text.trim() ? <pre className="code-block" tabIndex={0}>{text.replace(/^(?:[ \t]*\n)+|\s+$/g, "")}</pre> : <p className="muted">The deployment has no text of it.</p>;

export function RenderedSql({ sql, problem }: { sql: string; problem: string }) {
  return (
    <>
      <p className="muted small">References, the partition and the configuration are filled in. <code>`@name`</code> is a view of exactly the versions that a task reads.</p>
      {problem ? <ProblemNote error={new Error(problem)} /> : <CodeText text={sql} />}
    </>
  );
}

export const Configuration = ({ config }: { config: Record<string, string> }) => (
  <dl className="properties">
    {Object.entries(config).map(([name, value]) => (
      <div key={name} style={{ display: "contents" }}>
        <dt className="mono"><Name>{name}</Name></dt>
        <dd className="mono"><Name>{value}</Name></dd>
      </div>
    ))}
  </dl>
);

export function TaskCode({ plan }: { plan: TaskPlan }) {
  return (
    <div className="body task-code">
      {plan.kind === "sql" ? (
        <section aria-label="Rendered SQL">
          <h3>What Spark is given</h3>
          <RenderedSql sql={plan.sql} problem={plan.sql_problem} />
        </section>
      ) : null}
      {Object.keys(plan.config).length ? (
        <section aria-label="Configuration">
          <h3>Configuration</h3>
          <Configuration config={plan.config} />
        </section>
      ) : null}
      <section aria-label="Code">
        <h3>{plan.kind === "sql" ? "As it was written" : "Python"} <span className="muted mono small"><Name>{plan.place}</Name></span></h3>
        <CodeText text={plan.code} />
      </section>
    </div>
  );
}

export function TaskInputs({ run, plan }: { run: string; plan: TaskPlan }) {
  if (!plan.inputs.length && !plan.hidden_inputs) return <Empty title="It reads no other asset" />;
  return (
    <div className="table-wrap">
      <table className="table">
        <thead><tr><th>Asset</th><th>Name in the code</th><th>Partition</th><th>Version</th><th>Written by</th></tr></thead>
        <tbody>
          {plan.inputs.flatMap((input) => input.versions.map((version, index) => (
            <tr key={`${input.asset} ${input.parameter} ${index}`}>
              <td>{index ? "" : <AssetLink asset={input.asset} />}</td>
              <td className="mono muted">{index ? "" : <Name>{input.parameter || "only waited for"}</Name>}</td>
              <td className="mono">{partitionText(version.partition) || "(whole)"}</td>
              <td className="mono" title={version.materialization_id}>{version.materialization_id ? shortId(version.materialization_id) : <span className="faint">not written yet</span>}</td>
              <td>{version.task_id ? <PageLink to="/runs/$run" params={{ run }} search={{ task: version.task_id }} className="link">this run</PageLink> : <span className="muted">before this run</span>}</td>
            </tr>
          )))}
        </tbody>
      </table>
      {plan.inputs.filter((input) => input.version_count > input.versions.length).map((input) => (
        <p key={input.asset} className="body muted">The first {count(input.versions.length)} of {plural(input.version_count, "version")} of <Name mono>{input.asset}</Name>.</p>
      ))}
      {plan.hidden_inputs ? <p className="body muted">{plural(plan.hidden_inputs, "input")} that you may not see.</p> : null}
    </div>
  );
}
