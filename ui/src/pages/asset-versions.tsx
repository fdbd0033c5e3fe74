/** Versions of an asset's partitions, and how two of them differ. */
import { useCallback } from "react";
import { useList, useRead } from "../api/hooks";
import { useCan } from "../api/permissions";
import type { Item } from "../api/types";
import { Grid, type GridColumn } from "../design/grid";
import { Empty, Loaded, Panel, ProblemNote, Skeleton } from "../design/parts";
import { State } from "../design/states";
import { bytes, count, Name, Time } from "../design/values";
import { PageLink, RunLink } from "../layout/link";
import { assetRoute } from "./asset";
import { partitionText } from "./partition-text";

type Version = Item<"/assets/{asset}/versions">;

export function AssetVersions({ asset }: { asset: string }) {
  const { version, before } = assetRoute.useSearch();
  const mayCompare = useCan("data.read");
  const list = useList("/assets/{asset}/versions", { path: { asset } });
  const { items, hasMore, more } = list;
  const onRange = useCallback((_: number, last: number) => { if (hasMore && last > items.length - 60) more(); }, [hasMore, items.length, more]);
  const columns: GridColumn<Version>[] = [
    { name: "status", title: "Status", width: "120px", cell: (row) => <State state={row.status} /> },
    { name: "partition", title: "Partition", width: "minmax(130px, 2fr)", cell: (row) => <span className="mono">{partitionText(row.partition) || "(whole)"}</span> },
    { name: "version", title: "Version", width: "70px", num: true, cell: (row) => count(row.version) },
    { name: "rows", title: "Rows", width: "100px", num: true, cell: (row) => count(row.rows) },
    { name: "bytes", title: "Size", width: "90px", num: true, cell: (row) => bytes(row.bytes) },
    { name: "reason", title: "Why", width: "minmax(120px, 2fr)", cell: (row) => <span className="muted"><Name>{row.reason}</Name></span> },
    { name: "run", title: "Run", width: "90px", cell: (row) => (row.run_id ? <RunLink run={row.run_id} /> : "") },
    { name: "created", title: "Created", width: "90px", num: true, cell: (row) => <Time at={row.created_at} /> },
    {
      name: "compare",
      title: "",
      width: "118px",
      cell: (row) => {
        const previous = items.find((each) => each.partition === row.partition && each.version < row.version);
        return previous && mayCompare ? (
          <PageLink to="/assets/$asset" params={{ asset }} search={{ view: "versions", version: row.materialization_id, before: previous.materialization_id }} className="link">
            Compare with {previous.version}
          </PageLink>
        ) : null;
      },
    },
  ];
  return (
    <>
      {version && before ? <Comparison asset={asset} before={before} after={version} /> : null}
      {list.error ? <ProblemNote error={list.error} /> : null}
      <Panel fill title="Versions" count={`${count(items.length)}${hasMore ? "+" : ""}`}>
        <div style={{ height: 480, display: "flex" }}>
          {list.isPending && !list.error ? <Skeleton rows={10} /> : items.length ? (
            <Grid label="Versions" columns={columns} count={items.length} row={(at) => items[at]} rowKey={(row) => row.materialization_id} selectedKey={version} onRange={onRange} minWidth={960} />
          ) : <Empty title="Nothing was materialized yet"><code>servo run {asset}</code></Empty>}
        </div>
      </Panel>
    </>
  );
}

function Comparison({ asset, before, after }: { asset: string; before: string; after: string }) {
  const result = useRead("/assets/{asset}/compare", { path: { asset }, query: { before, after } });
  return (
    <Panel title="How the two versions differ" actions={<PageLink to="/assets/$asset" params={{ asset }} search={{ view: "versions" }} className="link">Close</PageLink>}>
      <Loaded result={result}>
        {(body) => (
          <div className="table-wrap">
            <table className="table">
              <thead>
                <tr><th /><th className="num">Version {body.before.version}</th><th className="num">Version {body.after.version}</th><th className="num">Change</th></tr>
              </thead>
              <tbody>
                <tr><td>Rows</td><td className="num">{count(body.before.rows)}</td><td className="num">{count(body.after.rows)}</td><td className="num">{signed(body.after.rows - body.before.rows)}</td></tr>
                <tr><td>Size</td><td className="num">{bytes(body.before.bytes)}</td><td className="num">{bytes(body.after.bytes)}</td><td className="num">{signed(body.after.bytes - body.before.bytes)} B</td></tr>
                {body.keys ? <tr><td>Rows by key</td><td className="num" colSpan={3}>{count(body.keys.added)} added, {count(body.keys.removed)} removed, {count(body.keys.changed)} changed, {count(body.keys.same)} the same</td></tr> : null}
                {body.columns.filter((column) => column.change !== "same").map((column) => (
                  <tr key={column.name}>
                    <td><Name mono>{column.name}</Name> <span className="muted">{column.change}</span></td>
                    <td className="num"><Name>{columnText(column.before)}</Name></td>
                    <td className="num"><Name>{columnText(column.after)}</Name></td>
                    <td />
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Loaded>
    </Panel>
  );
}

const signed = (value: number): string => (value > 0 ? `+${count(value)}` : count(value));
const columnText = (column: { type: string; min?: string | null; max?: string | null; nulls?: number | null } | null | undefined): string =>
  column ? [column.type, column.min != null ? `${column.min} … ${column.max}` : "", column.nulls ? `${column.nulls} nulls` : ""].filter(Boolean).join(", ") : "–";
