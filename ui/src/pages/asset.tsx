/** One asset: what it is, and all that is known of it. */
import { getRouteApi } from "@tanstack/react-router";
import { Waypoints } from "lucide-react";
import { useRead } from "../api/hooks";
import type { Answer } from "../api/types";
import { Empty, Page, Panel, ProblemNote, Skeleton } from "../design/parts";
import { Prose } from "../design/prose";
import { State } from "../design/states";
import { By, bytes, count, Name, plural, Time } from "../design/values";
import { FaultPage } from "../layout/faults";
import { AssetLink, PageLink, RunLink } from "../layout/link";
import { Tabs } from "../layout/tabs";
import type { AssetView } from "../router";
import { AssetChecks } from "./asset-checks";
import { AssetCode } from "./asset-code";
import { AssetColumns } from "./asset-columns";
import { AssetContract } from "./asset-contract";
import { AssetCosts } from "./asset-costs";
import { AssetExplain, Causes } from "./asset-explain";
import { AssetPartitions } from "./asset-partitions";
import { AssetRuns } from "./asset-runs";
import { AssetVersions } from "./asset-versions";
import { partitionText } from "./partition-text";
import { EditGovernance } from "./governance";
import { Materialize } from "./materialize";

export const assetRoute = getRouteApi("/w/$tenant/$workspace/assets/$asset");

const VIEWS: [AssetView | undefined, string][] = [
  [undefined, "Overview"],
  ["partitions", "Partitions"],
  ["versions", "Versions"],
  ["columns", "Columns"],
  ["checks", "Checks"],
  ["contract", "Contract"],
  ["runs", "Runs"],
  ["costs", "Costs"],
  ["code", "Code"],
  ["explain", "Explain"],
];
/** Of those that code declares only. */
const DECLARED: (AssetView | undefined)[] = ["partitions", "runs", "costs", "code", "explain"];

export function AssetPage() {
  const { asset } = assetRoute.useParams();
  const { view } = assetRoute.useSearch();
  const body = useRead("/assets/{asset}", { path: { asset } });
  const isDeclared = Boolean(body.data?.project) && body.data?.active !== false;
  const health = useRead("/assets/{asset}/health", { path: { asset }, at: "now", enabled: isDeclared });
  if (body.error && !body.data) return <FaultPage error={body.error} what="asset" />;
  return (
    <Page
      title={
        <>
          <Name>{asset}</Name> {health.data ? <State state={health.data.status} pill /> : null}
          {body.data && !isDeclared ? <State state="REMOVED" text={body.data.project ? "No longer declared" : "Not declared by code"} pill /> : null}
        </>
      }
      lead={health.data?.reasons.length ? <Name>{health.data.reasons.join("; ")}</Name> : null}
      actions={
        <>
          <EditGovernance asset={asset} />
          <PageLink to="/lineage" search={{ asset }} className="button">
            <Waypoints size={14} aria-hidden /> Lineage
          </PageLink>
          {isDeclared ? <Materialize selection={asset} /> : null}
        </>
      }
    >
      <Tabs label="Parts of the asset">
        {VIEWS.filter(([each]) => isDeclared || !body.data || !DECLARED.includes(each)).map(([each, title]) => (
          <PageLink key={title} to="/assets/$asset" params={{ asset }} search={{ view: each }} current={view === each}>
            {title}
          </PageLink>
        ))}
      </Tabs>
      <View asset={asset} view={view} body={body.data} />
    </Page>
  );
}

function View({ asset, view, body }: { asset: string; view: AssetView | undefined; body: Answer<"/assets/{asset}"> | undefined }) {
  switch (view) {
    case "partitions":
      return <AssetPartitions asset={asset} />;
    case "versions":
      return <AssetVersions asset={asset} />;
    case "columns":
      return <AssetColumns asset={asset} />;
    case "checks":
      return <AssetChecks asset={asset} />;
    case "contract":
      return <AssetContract asset={asset} />;
    case "runs":
      return <AssetRuns asset={asset} />;
    case "costs":
      return <AssetCosts asset={asset} />;
    case "code":
      return <AssetCode asset={asset} />;
    case "explain":
      return <AssetExplain asset={asset} />;
    default:
      return <AssetOverview asset={asset} body={body} />;
  }
}

function AssetOverview({ asset, body }: { asset: string; body: Answer<"/assets/{asset}"> | undefined }) {
  const isDeclared = Boolean(body?.project) && body?.active !== false;
  const explained = useRead("/assets/{asset}/explain", { path: { asset }, at: "now", enabled: isDeclared });
  return (
    <div className="side">
      <div style={{ display: "grid", gap: 16, minWidth: 0 }}>
        {body?.description ? (
          <Panel>
            <div className="body">
              <Prose>{body.description}</Prose>
            </div>
          </Panel>
        ) : null}
        {isDeclared ? <AssetPartitions asset={asset} brief /> : null}
        {body && !isDeclared ? (
          <Panel>
            <Empty title="No deployed code declares this asset">Somebody has created or imported it. What is known of it is in its columns, lineage and versions.</Empty>
          </Panel>
        ) : null}
        {isDeclared ? <Panel title="Why it is as it is">
          {explained.error ? <div className="body"><ProblemNote error={explained.error} /></div> : explained.data ? <Causes explanation={explained.data} /> : <Skeleton />}
        </Panel> : null}
        {explained.error || !isDeclared ? null : <Panel title="Recent activity">
          {explained.data && !explained.data.recent_activity.length ? (
            <Empty title="Nothing has happened yet" />
          ) : explained.data ? (
            <div className="table-wrap">
              <table className="table">
                <tbody>
                  {explained.data.recent_activity.map((event, index) => (
                    <tr key={index}>
                      <td>{event.run_id ? <RunLink run={event.run_id} /> : null}</td>
                      <td>
                        <Name>{event.text}</Name> <span className="muted">{partitionText(event.partition ?? "")}</span>
                      </td>
                      <td className="num muted small">
                        <Time at={event.at} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          ) : (
            <Skeleton />
          )}
        </Panel>}
      </div>
      <Panel title="About">
        {body ? <About body={body} /> : <Skeleton rows={8} />}
        {explained.data ? (
          <dl className="properties body" style={{ paddingTop: 0 }}>
            <dt>Reads</dt>
            <dd>
              {explained.data.lineage.upstream.map((each) => (
                <div key={each.asset}>
                  <State state={each.status} bare /> <AssetLink asset={each.asset} />
                </div>
              ))}
              {explained.data.lineage.upstream.length ? null : <span className="faint">nothing</span>}
            </dd>
            <dt>Used by</dt>
            <dd>
              {explained.data.lineage.downstream.map((each) => (
                <div key={each}>
                  <AssetLink asset={each} />
                </div>
              ))}
              {explained.data.lineage.downstream_count ? null : <span className="faint">nothing</span>}
            </dd>
          </dl>
        ) : null}
      </Panel>
    </div>
  );
}

function About({ body }: { body: Answer<"/assets/{asset}"> }) {
  const rows: [string, React.ReactNode][] = [
    ["Kind", [body.kind, body.format].filter(Boolean).join(" · ")],
    ["Owners", body.owners.length ? <Name>{body.owners.join(", ")}</Name> : <span className="faint">nobody</span>],
    ["Project", body.project ? <Name>{body.project}</Name> : null],
    ["Tags", Object.keys(body.tags).length ? <span className="tags">{Object.entries(body.tags).map(([key, value]) => <span key={key} className="tag" title={`${key}=${value}`}><Name>{`${key}=${value}`}</Name></span>)}</span> : null],
    ["Terms", body.terms?.length ? <span className="tags">{body.terms.map((term) => <span key={term} className="tag"><Name>{term}</Name></span>)}</span> : null],
    ["SLA", body.sla ? <Name>{body.sla}</Name> : null],
    ["Location", body.location ? <Name mono>{body.location}</Name> : null],
    ["Size", body.stats ? `${plural(body.stats.row_count, "row")}, ${bytes(body.stats.size_bytes)}` : null],
    ["Columns", count(body.columns.length)],
    ["Links", Object.keys(body.links ?? {}).length ? Object.entries(body.links ?? {}).map(([name, url]) => <div key={name}><SafeLink url={url}>{name}</SafeLink></div>) : null],
    ["Deprecated", body.deprecated ? <Name>{body.deprecated}</Name> : null],
    ["Before", body.previous_names.length ? <Name mono>{body.previous_names.join(", ")}</Name> : null],
    ["Created", <><Time at={body.created_at} /><By who={body.created_by} /></>],
    ["Changed", <><Time at={body.updated_at} /><By who={body.updated_by} /></>],
  ];
  return (
    <dl className="properties body">
      {rows.filter(([, value]) => value !== null && value !== "").map(([name, value]) => (
        <div key={name} style={{ display: "contents" }}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Addresses that people wrote: only of the web and of mail. */
export function SafeLink({ url, children }: { url: string; children: string }) {
  return /^(https?:\/\/|mailto:)/i.test(url) ? (
    <a className="link" href={url} rel="noopener noreferrer nofollow" target="_blank">
      <Name>{children}</Name>
    </a>
  ) : (
    <Name>{`${children}: ${url}`}</Name>
  );
}
