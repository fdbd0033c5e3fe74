/** The code of an asset as it was deployed. */
import codeSql from "../../sql/asset_code.sql?raw";
import { Empty, Panel, ProblemNote, Skeleton } from "../design/parts";
import { useQuestion } from "../query/engine";

export function AssetCode({ asset }: { asset: string }) {
  const [namespace = "", name = ""] = asset.split(".");
  const result = useQuestion<{ kind: string; code: string }>("asset_code", codeSql, { namespace, name });
  const found = result.data?.[0];
  return (
    <Panel title={found ? (found.kind === "sql" ? "SQL" : "Python") : "Code"}>
      {result.error ? <div className="body"><ProblemNote error={result.error} /></div> : result.data === undefined ? <Skeleton /> : found ? <pre className="code-block" tabIndex={0}>{found.code}</pre> : <Empty title="No code declares this asset" />}
    </Panel>
  );
}
