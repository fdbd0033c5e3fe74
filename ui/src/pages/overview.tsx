/** What failed, what is stale, what waits for a person, what runs. */
import { CircleCheck, Moon } from "lucide-react";
import { useList, useRead } from "../api/hooks";
import { useCan } from "../api/permissions";
import type { Schemas } from "../api/types";
import { Bar, Empty, Loaded, Page, Panel, ProblemNote, Skeleton } from "../design/parts";
import { State } from "../design/states";
import { count, duration, Name, plural, Time } from "../design/values";
import { AssetLink, PageLink, RunLink } from "../layout/link";
import { partitionText } from "./partition-text";
import { Materialize } from "./materialize";
import { runShares } from "./run-shares";

export function OverviewPage() {
  return (
    <Page title="Overview" actions={<Materialize />}>
      <Figures />
      <div className="columns">
        <Unhealthy />
        <Waiting />
        <Running />
        <Stale />
        <RecentRuns />
        <Changed />
      </div>
    </Page>
  );
}

function Figures() {
  const health = useRead("/health/summary", { at: "now" });
  const counts = health.data?.counts ?? {};
  const shown: [string, string][] = [
    ["UNHEALTHY", "Unhealthy"],
    ["WARNING", "With a warning"],
    ["HEALTHY", "Healthy"],
    ["UNKNOWN", "Never run"],
  ];
  return (
    <div className="figures">
      <PageLink to="/assets" className="figure">
        <span className="label">Assets</span>
        <span className="value">{health.data ? count(health.data.assets) : "–"}</span>
      </PageLink>
      {shown.map(([status, title]) => (
        <PageLink key={status} to="/assets" search={{ status }} className="figure">
          <span className="label">
            <State state={status} text={title} />
          </span>
          <span className="value">{health.data ? count((counts as Record<string, number>)[status] ?? 0) : "–"}</span>
        </PageLink>
      ))}
    </div>
  );
}

function Unhealthy() {
  const list = useList("/health", { at: "now", query: { status: ["UNHEALTHY"] }, pageSize: 8 });
  return (
    <Panel title="Unhealthy assets" actions={<PageLink to="/assets" search={{ status: "UNHEALTHY" }} className="link">All</PageLink>}>
      {list.error ? <div className="body"><ProblemNote error={list.error} /></div> : list.isPending ? (
        <Skeleton />
      ) : list.items.length ? (
        <Rows>
          {list.items.map((each) => (
            <tr key={each.asset}>
              <td>
                <div className="truncate">
                  <State state={each.status} bare /> <AssetLink asset={each.asset} />
                </div>
                <div className="small muted">
                  <Name>{each.reasons[0] ?? ""}</Name>
                </div>
              </td>
              <td className="num muted small">
                <Time at={each.freshness.last_materialized_at} none="never" />
              </td>
            </tr>
          ))}
        </Rows>
      ) : (
        <Empty title="No asset is unhealthy" icon={<CircleCheck size={22} strokeWidth={1.6} aria-hidden />} />
      )}
    </Panel>
  );
}

function Waiting() {
  const list = useList("/quarantine", { query: { decided: false }, pageSize: 8 });
  const mayDecide = useCan("quarantine.manage");
  return (
    <Panel title="Waits for a person">
      {list.error ? <div className="body"><ProblemNote error={list.error} /></div> : list.isPending ? (
        <Skeleton />
      ) : list.items.length ? (
        <Rows>
          {list.items.map((each) => (
            <tr key={each.materialization_id}>
              <td>
                <div className="truncate">
                  <State state={each.status} bare /> <AssetLink asset={each.asset} />{" "}
                  <span className="muted">{partitionText(each.partition)}</span>
                </div>
                <div className="small muted">
                  <Name>{each.reason}</Name>
                </div>
              </td>
              <td className="num small muted">{plural(each.rows, "row")}</td>
              <td className="num small muted">
                <Time at={each.held_at} />
              </td>
            </tr>
          ))}
        </Rows>
      ) : (
        <Empty title="Nothing waits for a decision">{mayDecide ? "Outputs that fail their checks would be listed here." : null}</Empty>
      )}
    </Panel>
  );
}

function Running() {
  const canRead = useCan("runs.read");
  const list = useList("/runs", { at: "now", query: { state: ["RUNNING", "PLANNING", "CANCELLING"] }, pageSize: 8, enabled: canRead });
  if (!canRead) return null;
  return (
    <Panel title="Running now">
      {list.error ? <div className="body"><ProblemNote error={list.error} /></div> : list.isPending ? <Skeleton /> : list.items.length ? <RunRows runs={list.items} /> : (
        <Empty title="Nothing runs" icon={<Moon size={22} strokeWidth={1.6} aria-hidden />}>
          <code>servo run NAME</code>
        </Empty>
      )}
    </Panel>
  );
}

function Stale() {
  const list = useList("/freshness", { at: "now", query: { stale: true }, pageSize: 8 });
  return (
    <Panel title="Stale">
      {list.error ? <div className="body"><ProblemNote error={list.error} /></div> : list.isPending ? (
        <Skeleton />
      ) : list.items.length ? (
        <Rows>
          {list.items.map((each) => (
            <tr key={`${each.asset}/${each.series}`}>
              <td>
                <div className="truncate">
                  <State state="STALE" bare /> <AssetLink asset={each.asset} /> <Name>{each.series}</Name>
                </div>
                <div className="small muted">
                  <Name>{each.reason}</Name>
                </div>
              </td>
              <td className="num small muted">
                due <Time at={each.due_at} />
              </td>
            </tr>
          ))}
        </Rows>
      ) : (
        <Empty title="Everything with a freshness policy is fresh" icon={<CircleCheck size={22} strokeWidth={1.6} aria-hidden />} />
      )}
    </Panel>
  );
}

function RecentRuns() {
  const canRead = useCan("runs.read");
  const list = useList("/runs", { pageSize: 8, enabled: canRead });
  if (!canRead) return null;
  return (
    <Panel title="Recent runs" actions={<PageLink to="/runs" className="link">All</PageLink>}>
      {list.error ? <div className="body"><ProblemNote error={list.error} /></div> : list.isPending ? <Skeleton /> : list.items.length ? <RunRows runs={list.items.slice(0, 8)} /> : (
        <Empty title="Nothing has run yet">
          <code>servo deploy && servo run '*'</code>
        </Empty>
      )}
    </Panel>
  );
}

export function RunRows({ runs }: { runs: Schemas["RunBody"][] }) {
  return (
    <Rows>
      {runs.map((run) => (
        <tr key={run.run_id}>
          <td>
            <State state={run.state} />
          </td>
          <td className="truncate">
            <RunLink run={run.run_id}>
              <Name mono>{runTitle(run)}</Name>
            </RunLink>
          </td>
          <td>
            <Bar shares={runShares(run)} />
          </td>
          <td className="num small muted">{run.finished_at && run.started_at ? duration(Date.parse(run.finished_at) - Date.parse(run.started_at)) : ""}</td>
          <td className="num small muted">
            <Time at={run.created_at} />
          </td>
        </tr>
      ))}
    </Rows>
  );
}

export function runTitle(run: Schemas["RunBody"]): string {
  if (run.is_partial) return "(partly hidden)";
  const [first = "(all)", ...others] = run.selection;
  const more = (run.selection_total || run.selection.length) - 1;
  return others.length ? `${first} +${more}` : first;
}

function Changed() {
  const deployments = useList("/deployments", { pageSize: 5, enabled: useCan("runs.read") });
  return (
    <Panel title="Deployments">
      <Loaded result={{ data: deployments.isPending ? undefined : deployments.items, error: deployments.error, isPending: deployments.isPending }}>
        {(items) =>
          items.length ? (
            <Rows>
              {items.map((each) => (
                <tr key={each.deployment_id}>
                  <td className="truncate">
                    <Name>{each.project}</Name> <span className="muted">#{each.number}</span>
                    <div className="small muted">
                      <Name>{each.message || plural(each.assets, "asset")}</Name>
                    </div>
                  </td>
                  <td className="small muted">
                    <Name>{each.created_by}</Name>
                  </td>
                  <td className="num small muted">
                    <Time at={each.created_at} />
                  </td>
                </tr>
              ))}
            </Rows>
          ) : (
            <Empty title="Nothing was deployed yet">
              <code>servo deploy</code>
            </Empty>
          )
        }
      </Loaded>
    </Panel>
  );
}

const Rows = ({ children }: { children: React.ReactNode }) => (
  <div className="table-wrap">
    <table className="table">
      <tbody>{children}</tbody>
    </table>
  </div>
);
