/** Why an asset or one of its partitions is as it is, and what to do. */
import { useRead } from "../api/hooks";
import type { Answer, Schemas } from "../api/types";
import { Loaded, Panel, SearchField } from "../design/parts";
import { State } from "../design/states";
import { Name, Time } from "../design/values";
import { AssetLink, useSetSearch } from "../layout/link";
import { assetRoute } from "./asset";
import { partitionText } from "./partition-text";

export function AssetExplain({ asset }: { asset: string }) {
  const { partition } = assetRoute.useSearch();
  const set = useSetSearch();
  const result = useRead("/assets/{asset}/explain", { path: { asset }, query: { partition: partition ? [partition] : undefined }, at: "now" });
  return (
    <>
      <div className="toolbar">
        <SearchField label="Partition, for example date=2026-01-31" value={partition ?? ""} onChange={(text) => set({ partition: text || undefined })} />
      </div>
      <Panel title="Explanation">
        <Loaded result={result}>{(body) => <Causes explanation={body} />}</Loaded>
      </Panel>
      {result.data?.recommendations.length ? (
        <Panel title="What to do">
          {result.data.recommendations.map((each, index) => (
            <div key={index} className="cause">
              <div><State state={each.priority === "High" ? "FAILED" : each.priority === "Medium" ? "WARNED" : "UNKNOWN"} text={each.priority} /> <strong><Name>{each.action}</Name></strong></div>
              <div className="muted"><Name>{each.reason}</Name></div>
              {each.command ? <code><Name>{each.command}</Name></code> : null}
            </div>
          ))}
        </Panel>
      ) : null}
    </>
  );
}

export function Causes({ explanation }: { explanation: Answer<"/assets/{asset}/explain"> }) {
  const all = [...explanation.causes, ...explanation.observations];
  return (
    <>
      <div className="cause">
        <div>
          <State state={explanation.status} pill /> <strong><Name>{explanation.summary}</Name></strong>
          {explanation.partition ? <span className="muted"> {partitionText(explanation.partition)}</span> : null}
        </div>
      </div>
      {all.map((cause, index) => <CauseLine key={index} cause={cause} />)}
      {all.length ? null : <div className="cause muted">No cause of a problem was found.</div>}
    </>
  );
}

export function CauseLine({ cause }: { cause: Schemas["CauseBody"] }) {
  return (
    <div className="cause">
      <div>
        <Name>{cause.text}</Name> <span className="muted small"><Time at={cause.at} none="" /></span>
      </div>
      {cause.asset ? <div className="small muted"><AssetLink asset={cause.asset} /> {partitionText(cause.partition)}</div> : null}
      {cause.remedies.map((remedy, index) => (
        <div key={index} className="small">
          <span className="muted"><Name>{remedy.action}</Name></span> {remedy.command ? <code><Name>{remedy.command}</Name></code> : null}
        </div>
      ))}
    </div>
  );
}
