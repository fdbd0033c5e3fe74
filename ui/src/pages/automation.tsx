/** Who asks for runs: schedules with their next ticks, sensors, automation of assets, requests. */
import { getRouteApi } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useList } from "../api/hooks";
import { Empty, Page, Panel, ProblemNote, Skeleton } from "../design/parts";
import { State } from "../design/states";
import { Name, Time } from "../design/values";
import { AssetLink, PageLink, RunLink } from "../layout/link";
import { Tabs } from "../layout/tabs";
import { AutomationDetails, RequestDetails, ScheduleDetails, SensorDetails } from "./automation-details";

const route = getRouteApi("/w/$tenant/$workspace/automation");
const VIEWS = [["schedules", "Schedules"], ["sensors", "Sensors"], ["assets", "Assets"], ["requests", "Requests"]] as const;
export type AutomationView = (typeof VIEWS)[number][0];

export function AutomationPage() {
  const search = route.useSearch();
  const view = search.view ?? "schedules";
  return (
    <Page title="Automation" lead="Everything that asks for runs leaves a request, which an orchestrator plans or refuses with a reason.">
      <Tabs label="Automation">
        {VIEWS.map(([name, title]) => <PageLink key={name} to="/automation" search={{ view: name }} current={name === view}>{title}</PageLink>)}
      </Tabs>
      {view === "schedules" ? <Schedules chosen={search.name} project={search.project} /> : null}
      {view === "sensors" ? <Sensors chosen={search.name} project={search.project} /> : null}
      {view === "assets" ? <Automations chosen={search.name} /> : null}
      {view === "requests" ? <Requests chosen={search.request} /> : null}
    </Page>
  );
}

interface Listed { isPending: boolean; error: unknown; items: unknown[]; hasMore: boolean; more: () => void }

function Listing({ list, head, empty, details, children }: { list: Listed; head: ReactNode; empty: ReactNode; details: ReactNode; children: ReactNode }) {
  return (
    <>
      {list.error ? <ProblemNote error={list.error} /> : null}
      <div className={details ? "split" : "split alone"}>
        <Panel>
          {list.isPending && !list.error ? <Skeleton /> : list.items.length ? (
            <div className="table-wrap">
              <table className="table"><thead><tr>{head}</tr></thead><tbody>{children}</tbody></table>
              {list.hasMore ? <div className="body"><button type="button" className="button" onClick={list.more}>Show more</button></div> : null}
            </div>
          ) : empty}
        </Panel>
        {details}
      </div>
    </>
  );
}

interface Chosen { chosen: string | undefined; project: string | undefined }

function Schedules({ chosen, project }: Chosen) {
  const list = useList("/schedules", { at: "now" });
  const details = chosen && project ? <ScheduleDetails key={`${project}/${chosen}`} project={project} name={chosen} /> : null;
  return (
    <Listing list={list} details={details} empty={<Empty title="No schedule">Declare one in code: <code>schedule("nightly", cron="0 3 * * *", selection=["sales.*"])</code></Empty>}
      head={<><th>State</th><th>Schedule</th><th>Cron</th><th className="num">Last tick</th><th className="num">Next tick</th></>}>
      {list.items.map((each) => (
        <tr key={each.schedule_id} aria-selected={each.name === chosen && each.project === project}>
          <td><State state={each.state} /></td>
          <td>
            <PageLink to="/automation" search={{ view: "schedules", name: each.name, project: each.project }} className="row-link">
              <Name>{each.name}</Name> <span className="muted small"><Name>{each.project}</Name></span>
              <div className="small muted"><Name mono>{each.selection.join(" ")}</Name></div>
            </PageLink>
          </td>
          <td className="nowrap"><Name mono>{each.cron}</Name><div className="small muted">{each.timezone}</div></td>
          <td className="num muted"><Time at={each.last_scheduled_at} none="never" /></td>
          <td className="num"><Time at={each.next_tick} none="none" /></td>
        </tr>
      ))}
    </Listing>
  );
}

function Sensors({ chosen, project }: Chosen) {
  const list = useList("/sensors", { at: "now" });
  const details = chosen && project ? <SensorDetails key={`${project}/${chosen}`} project={project} name={chosen} /> : null;
  return (
    <Listing list={list} details={details} empty={<Empty title="No sensor">Declare one in code: <code>@sensor</code>, <code>webhook_sensor</code>, <code>file_sensor</code> or <code>asset_sensor</code></Empty>}
      head={<><th>State</th><th>Sensor</th><th>Kind</th><th className="num">Waiting</th><th className="num">Evaluated</th></>}>
      {list.items.map((each) => (
        <tr key={each.sensor_id} aria-selected={each.name === chosen && each.project === project}>
          <td><State state={each.status} /></td>
          <td>
            <PageLink to="/automation" search={{ view: "sensors", name: each.name, project: each.project }} className="row-link">
              <Name>{each.name}</Name> <span className="muted small"><Name>{each.project}</Name></span>
              {each.error ? <div className="small bad-text"><Name>{each.error}</Name></div> : each.skip_reason ? <div className="small muted"><Name>{each.skip_reason}</Name></div> : null}
            </PageLink>
          </td>
          <td>{each.kind}</td>
          <td className="num">{each.waiting || ""}</td>
          <td className="num muted"><Time at={each.last_evaluation_at} none="never" /></td>
        </tr>
      ))}
    </Listing>
  );
}

function Automations({ chosen }: { chosen: string | undefined }) {
  const list = useList("/automations");
  return (
    <Listing list={list} details={chosen ? <AutomationDetails key={chosen} asset={chosen} /> : null} empty={<Empty title="No asset runs by itself">Declare it in code: <code>@asset(automation=eager())</code></Empty>}
      head={<><th>State</th><th>Asset</th><th>When</th><th className="num">Last request</th></>}>
      {list.items.map((each) => (
        <tr key={each.asset} aria-selected={each.asset === chosen}>
          <td><State state={each.state} /></td>
          <td><PageLink to="/automation" search={{ view: "assets", name: each.asset }} className="row-link"><Name mono>{each.asset}</Name></PageLink></td>
          <td>{WHEN[each.when] ?? each.when} <Name mono>{each.cron}</Name></td>
          <td className="num muted"><Time at={each.requested_at} none="never" /></td>
        </tr>
      ))}
    </Listing>
  );
}

const WHEN: Record<string, string> = { eager: "when an input has a new version", on_missing: "when it is missing", on_cron: "at times:" };

function Requests({ chosen }: { chosen: string | undefined }) {
  const list = useList("/requests", { at: "now", pageSize: 50 });
  return (
    <Listing list={list} details={chosen ? <RequestDetails key={chosen} request={chosen} /> : null} empty={<Empty title="Nobody asked for a run yet" />}
      head={<><th>State</th><th>Selection</th><th>Asked by</th><th>Run</th><th className="num">When</th></>}>
      {list.items.map((each) => (
        <tr key={each.request_key} aria-selected={each.request_key === chosen}>
          <td><State state={each.state} /></td>
          <td>
            <PageLink to="/automation" search={{ view: "requests", request: each.request_key }} className="row-link">
              <Name mono>{each.request.selection.join(" ")}</Name>
              {each.reason ? <div className="small muted"><Name>{each.reason}</Name></div> : null}
            </PageLink>
          </td>
          <td className="muted">{each.kind} <Name>{each.requested_by}</Name></td>
          <td>{each.run_id && each.state === "TRIGGERED" ? <RunLink run={each.run_id} /> : ""}</td>
          <td className="num muted"><Time at={each.requested_at} /></td>
        </tr>
      ))}
    </Listing>
  );
}

export const AssetNames = ({ selection }: { selection: string[] }) => (
  <>{selection.map((name) => (/^[a-z]\w*\.[a-z]\w*$/.test(name) ? <AssetLink key={name} asset={name} /> : <Name key={name} mono>{name}</Name>))}</>
);
