/** The code of an asset as it was deployed, and its SQL as Spark gets it for a partition. */
import { useRead } from "../api/hooks";
import { Loaded, Panel, ProblemNote } from "../design/parts";
import { Name } from "../design/values";
import { assetRoute } from "./asset";
import { partitionText } from "./partition-text";
import { PartitionField } from "./partition-field";
import { CodeText, Configuration, RenderedSql } from "./task-plan";

export function AssetCode({ asset }: { asset: string }) {
  const { partition } = assetRoute.useSearch();
  const result = useRead("/assets/{asset}/code", { path: { asset }, query: { partition: partition ? [partition] : undefined } });
  const body = result.data;
  const isOfPartitions = Boolean(partition || body?.partition);
  if (!body && !(result.error && partition)) return <Panel title="Code"><Loaded result={result}>{() => null}</Loaded></Panel>;
  return (
    <>
      {body?.kind === "python" ? null : (
        <Panel title="What Spark is given" actions={isOfPartitions ? <PartitionField shown={partitionText(body?.partition ?? "")} /> : null}>
          <div className="body">{body ? <RenderedSql sql={body.sql} problem={body.sql_problem} /> : <ProblemNote error={result.error} />}</div>
        </Panel>
      )}
      {body ? (
        <Panel title={body.kind === "python" ? "Python" : "As it was written"} actions={<span className="muted mono small"><Name>{body.place}</Name></span>}>
          <div className="body"><CodeText text={body.code} /></div>
        </Panel>
      ) : null}
      {body && Object.keys(body.config).length ? (
        <Panel title="Configuration">
          <div className="body"><Configuration config={body.config} /></div>
        </Panel>
      ) : null}
    </>
  );
}
