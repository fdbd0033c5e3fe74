/** Runs that had a task of an asset. */
import { useList } from "../api/hooks";
import { Empty, Panel, ProblemNote, Skeleton } from "../design/parts";
import { RunRows } from "./overview";

export function AssetRuns({ asset }: { asset: string }) {
  const list = useList("/runs", { query: { asset }, pageSize: 50 });
  return (
    <Panel title="Runs" actions={list.hasMore ? <button type="button" className="button" onClick={list.more}>More</button> : null}>
      {list.error ? <div className="body"><ProblemNote error={list.error} /></div> : list.isPending ? <Skeleton /> : list.items.length ? <RunRows runs={list.items} /> : <Empty title="It was never part of a run"><code>servo run {asset}</code></Empty>}
    </Panel>
  );
}
