/** All assets: a list that stays quick with 100,000. */
import { getRouteApi } from "@tanstack/react-router";
import { useCallback } from "react";
import { useList } from "../api/hooks";
import type { Item } from "../api/types";
import { Grid, type GridColumn } from "../design/grid";
import { Empty, Page, Panel, ProblemNote, SearchField, Skeleton } from "../design/parts";
import { Name, Time } from "../design/values";
import { AssetLink } from "../layout/link";

const route = getRouteApi("/w/$tenant/$workspace/assets");
type Row = Item<"/assets">;

const COLUMNS: GridColumn<Row>[] = [
  { name: "name", title: "Asset", width: "minmax(200px, 2fr)", cell: (row) => <AssetLink asset={`${row.namespace}.${row.name}`} /> },
  { name: "description", title: "Description", width: "minmax(160px, 3fr)", cell: (row) => <span className="muted"><Name>{row.description}</Name></span> },
  { name: "owners", title: "Owners", width: "minmax(110px, 1fr)", cell: (row) => <span className="muted"><Name>{row.owners.join(", ")}</Name></span> },
  { name: "updated", title: "Changed", width: "100px", num: true, cell: (row) => <Time at={row.updated_at} /> },
];

export function AssetsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const list = useList("/assets", { query: { namespace: search.namespace } });
  const { items, hasMore, more } = list;
  const onRange = useCallback((_: number, last: number) => { if (hasMore && last > items.length - 60) more(); }, [hasMore, items.length, more]);
  return (
    <Page full title="Assets">
      <div className="toolbar">
        <SearchField label="Namespace" value={search.namespace ?? ""} onChange={(namespace) => void navigate({ search: (old) => ({ ...old, namespace: namespace || undefined }), replace: true })} />
      </div>
      {list.error ? <ProblemNote error={list.error} /> : null}
      <Panel fill>
        {list.isPending && !list.error ? <Skeleton rows={12} /> : items.length ? (
          <Grid label="Assets" columns={COLUMNS} count={items.length} row={(at) => items[at]} rowKey={(row) => row.asset_id} onRange={onRange} />
        ) : <Empty title="No asset matches" />}
      </Panel>
    </Page>
  );
}
