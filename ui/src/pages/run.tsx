/** One run. */
import { getRouteApi } from "@tanstack/react-router";
import { useRead } from "../api/hooks";
import { Page, Panel, Skeleton } from "../design/parts";
import { State } from "../design/states";
import { Time } from "../design/values";
import { FaultPage } from "../layout/faults";

const route = getRouteApi("/w/$tenant/$workspace/runs/$run");

export function RunPage() {
  const { run } = route.useParams();
  const details = useRead("/runs/{run_id}", { path: { run_id: run }, at: "now" });
  if (details.error) return <FaultPage error={details.error} what="run" />;
  return (
    <Page title={`Run ${run.slice(-8)}`}>
      <Panel title="State">
        {details.data ? (
          <dl className="properties body">
            <dt>State</dt>
            <dd><State state={details.data.run.state} pill /></dd>
            <dt>Created</dt>
            <dd><Time at={details.data.run.created_at} /></dd>
          </dl>
        ) : <Skeleton />}
      </Panel>
    </Page>
  );
}
