/** Why an asset or one of its partitions is as it is, and what to do. */
import { useRead } from "../api/hooks";
import type { Answer, Schemas } from "../api/types";
import { Loaded, Panel, ProblemNote } from "../design/parts";
import { State } from "../design/states";
import { Name, Time } from "../design/values";
import { AssetLink } from "../layout/link";
import { assetRoute } from "./asset";
import { PartitionField } from "./partition-field";
import { partitionText } from "./partition-text";

export function AssetExplain({ asset }: { asset: string }) {
  const { partition } = assetRoute.useSearch();
  const result = useRead("/assets/{asset}/explain", { path: { asset }, query: { partition: partition ? [partition] : undefined }, at: "now" });
  return (
    <>
      <Panel title="Explanation" actions={partition || result.data?.partition ? <PartitionField shown={partitionText(result.data?.partition ?? "")} /> : null}>
        {result.error ? <div className="body"><ProblemNote error={result.error} /></div> : <Loaded result={result}>{(body) => <Causes explanation={body} />}</Loaded>}
      </Panel>
      {!result.error && result.data?.recommendations.length ? (
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
