/** The plan of a run: each task, whether it runs, and why. */
import { useCallback } from "react";
import { useList } from "../api/hooks";
import type { Item } from "../api/types";
import { Grid, type GridColumn } from "../design/grid";
import { Empty, Panel, ProblemNote, Skeleton } from "../design/parts";
import { State } from "../design/states";
import { count, Name } from "../design/values";
import { AssetLink } from "../layout/link";
import { partitionText } from "./partition-text";

type Planned = Item<"/runs/{run_id}/plan">;
const COLUMNS: GridColumn<Planned>[] = [
  { name: "stage", title: "Stage", width: "56px", num: true, cell: (task) => task.stage },
  { name: "action", title: "Decision", width: "110px", cell: (task) => <State state={task.action === "run" ? "TRIGGERED" : "REUSED"} text={task.action} /> },
  { name: "asset", title: "Asset", width: "minmax(160px, 2fr)", cell: (task) => <AssetLink asset={task.asset} /> },
  { name: "partition", title: "Partition", width: "minmax(120px, 1.5fr)", cell: (task) => <span className="mono muted">{partitionText(task.partition)}</span> },
  { name: "reason", title: "Why", width: "minmax(200px, 4fr)", cell: (task) => <Name>{task.reason}</Name> },
  { name: "after", title: "After", width: "70px", num: true, cell: (task) => (task.depends_on.length ? count(task.depends_on.length) : "") },
];

export function RunPlan({ run }: { run: string }) {
  const list = useList("/runs/{run_id}/plan", { path: { run_id: run } });
  const { items, hasMore, more } = list;
  const onRange = useCallback((_: number, last: number) => { if (hasMore && last > items.length - 60) more(); }, [hasMore, items.length, more]);
  if (list.error) return <ProblemNote error={list.error} />;
  return (
    <Panel fill>
      {list.isPending ? <Skeleton rows={10} /> : items.length ? <Grid label="Plan" columns={COLUMNS} count={items.length} row={(at) => items[at]} rowKey={(task) => task.task_id} onRange={onRange} minWidth={820} /> : <Empty title="The plan has no tasks">Nothing had to run, or it is not planned yet.</Empty>}
    </Panel>
  );
}
