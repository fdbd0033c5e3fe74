/** Versions that a run wrote or reused. */
import { useCallback } from "react";
import { useList } from "../api/hooks";
import type { Item } from "../api/types";
import { Grid, type GridColumn } from "../design/grid";
import { Empty, Panel, ProblemNote, Skeleton } from "../design/parts";
import { State } from "../design/states";
import { bytes, count, Time } from "../design/values";
import { AssetLink } from "../layout/link";
import { partitionText } from "./partition-text";

type Output = Item<"/runs/{run_id}/outputs">;
const COLUMNS: GridColumn<Output>[] = [
  { name: "status", title: "Status", width: "130px", cell: (row) => (row.reused ? <State state="REUSED" /> : <State state={row.version.status} />) },
  { name: "asset", title: "Asset", width: "minmax(160px, 2fr)", cell: (row) => <AssetLink asset={row.asset} /> },
  { name: "partition", title: "Partition", width: "minmax(130px, 1.5fr)", cell: (row) => <span className="mono muted">{partitionText(row.version.partition)}</span> },
  { name: "version", title: "Version", width: "70px", num: true, cell: (row) => row.version.version },
  { name: "rows", title: "Rows", width: "100px", num: true, cell: (row) => count(row.version.rows) },
  { name: "size", title: "Size", width: "90px", num: true, cell: (row) => bytes(row.version.bytes) },
  { name: "files", title: "Files", width: "60px", num: true, cell: (row) => count(row.version.files) },
  { name: "created", title: "Created", width: "90px", num: true, cell: (row) => <Time at={row.version.created_at} /> },
];

export function RunOutputs({ run }: { run: string }) {
  const list = useList("/runs/{run_id}/outputs", { path: { run_id: run } });
  const { items, hasMore, more } = list;
  const onRange = useCallback((_: number, last: number) => { if (hasMore && last > items.length - 60) more(); }, [hasMore, items.length, more]);
  if (list.error) return <ProblemNote error={list.error} />;
  return (
    <Panel fill>
      {list.isPending ? <Skeleton rows={10} /> : items.length ? <Grid label="Outputs" columns={COLUMNS} count={items.length} row={(at) => items[at]} rowKey={(row) => `${row.asset}/${row.version.materialization_id}`} onRange={onRange} minWidth={820} /> : <Empty title="It has written nothing yet" />}
    </Panel>
  );
}
