/** One asset: what it is, and all that is known of it. */
import { getRouteApi } from "@tanstack/react-router";
import { useRead } from "../api/hooks";
import { Page, Panel, Skeleton } from "../design/parts";
import { State } from "../design/states";
import { Name, Time } from "../design/values";
import { FaultPage } from "../layout/faults";

const route = getRouteApi("/w/$tenant/$workspace/assets/$asset");

export function AssetPage() {
  const { asset } = route.useParams();
  const body = useRead("/assets/{asset}", { path: { asset } });
  const health = useRead("/assets/{asset}/health", { path: { asset }, at: "now" });
  if (body.error) return <FaultPage error={body.error} what="asset" />;
  return (
    <Page title={<Name>{asset}</Name>} lead={body.data ? <Name>{body.data.description}</Name> : null}>
      <Panel title="About">
        {body.data ? (
          <dl className="properties body">
            <dt>Health</dt>
            <dd>{health.data ? <State state={health.data.status} pill /> : "–"}</dd>
            <dt>Owners</dt>
            <dd><Name>{body.data.owners.join(", ")}</Name></dd>
            <dt>Changed</dt>
            <dd><Time at={body.data.updated_at} /></dd>
          </dl>
        ) : <Skeleton />}
      </Panel>
    </Page>
  );
}
