/** The path of a column: the columns that it comes from and those that come from it, across assets. */
import { Background, Controls, type Edge, Handle, type Node, type NodeProps, Position, ReactFlow } from "@xyflow/react";
import "@xyflow/react/dist/style.css";
import { memo, useMemo } from "react";
import { useRead } from "../api/hooks";
import type { Schemas } from "../api/types";
import { Empty, Panel, ProblemNote, Skeleton } from "../design/parts";
import { count, Name, plural } from "../design/values";
import { AssetLink, PageLink, useSetSearch } from "../layout/link";
import { useTheme } from "../layout/theme";
import { MOST_NODES, usePlaces } from "./lineage-graph";

type Link = Schemas["LinkBody"];
const WIDTH = 232;
const HEAD = 34;
const ROW = 26;
const DEPTH = 20;
/** Stands for the rows of an asset, where a column decides which there are. */
const ROWS = "";

interface AssetColumns {
  asset: string;
  columns: string[];
}
type Data = AssetColumns & { chosen: string | undefined; onChoose: (asset: string, column: string) => void } & Record<string, unknown>;

/** The assets on the path, each with its columns on it. */
export function columnsOnPath(asset: string, column: string, links: Link[]): AssetColumns[] {
  const found = new Map<string, Set<string>>([[asset, new Set([column])]]);
  for (const end of links.flatMap((link) => [link.source, link.target])) {
    const columns = found.get(end.asset);
    if (columns) columns.add(end.column);
    else found.set(end.asset, new Set([end.column]));
  }
  return [...found].map(([name, columns]) => ({ asset: name, columns: [...columns].sort() }));
}

/** An empty id would be none. */
const handleOf = (column: string): string => `column ${column}`;

const ColumnsNode = memo(({ data }: NodeProps<Node<Data>>) => (
  <div className={data.chosen === undefined ? "graph-node of-columns" : "graph-node of-columns center"}>
    <div className="truncate head"><AssetLink asset={data.asset} /></div>
    {data.columns.map((column) => (
      <div key={column} className="column">
        <Handle id={handleOf(column)} type="target" position={Position.Left} isConnectable={false} />
        {column === ROWS ? (
          <span className="muted">which rows there are</span>
        ) : (
          <button type="button" className="linklike nodrag truncate" aria-pressed={column === data.chosen} title={`Path of ${data.asset}.${column}`} onClick={() => data.onChoose(data.asset, column)}>
            <Name mono>{column}</Name>
          </button>
        )}
        <Handle id={handleOf(column)} type="source" position={Position.Right} isConnectable={false} />
      </div>
    ))}
  </div>
));
const TYPES = { columns: ColumnsNode };

const words = (link: Link): string => [link.kind.replaceAll("_", " "), link.masked ? "masked" : "", link.confidence ? `confidence ${link.confidence}` : ""].filter(Boolean).join(", ");
const end = (each: Link["source"]): string => (each.column === ROWS ? `rows of ${each.asset}` : `${each.asset}.${each.column}`);

export function ColumnPath({ asset, column }: { asset: string; column: string }) {
  const parameters = { path: { asset }, query: { column, depth: DEPTH } };
  const up = useRead("/assets/{asset}/upstream", parameters);
  const down = useRead("/assets/{asset}/downstream", parameters);
  const error = up.error ?? down.error;
  if (error) return <ProblemNote error={error} />;
  if (!up.data || !down.data) return <Skeleton rows={10} />;
  const links = [...up.data.links, ...down.data.links];
  const nodes = columnsOnPath(asset, column, links);
  const isCut = up.data.truncated || down.data.truncated;
  const hidden = up.data.hidden + down.data.hidden;
  return (
    <Panel
      fill
      title={<>Path of <Name mono>{column}</Name></>}
      count={`${plural(nodes.length, "asset")}, ${plural(links.length, "link")}`}
      actions={
        <>
          <span className="muted small">
            {hidden ? `${count(hidden)} that you may not see · ` : ""}
            {isCut ? "the nearest part of it · " : ""}a dashed line decides about values or rows
          </span>
          <PageLink to="/assets/$asset" params={{ asset }} search={{ view: "columns", column }} className="button">As a list</PageLink>
        </>
      }
    >
      {nodes.length > MOST_NODES ? <Empty title={`${count(nodes.length)} assets are too many for a picture`}>The list has them.</Empty> : links.length ? <Picture asset={asset} column={column} nodes={nodes} links={links} /> : <Empty title="It comes from no other column, and no other comes from it">Lineage of columns is known when the asset was materialized, or when code declares it.</Empty>}
    </Panel>
  );
}

function Picture({ asset, column, nodes, links }: { asset: string; column: string; nodes: AssetColumns[]; links: Link[] }) {
  const theme = useTheme();
  const set = useSetSearch();
  const sizes = nodes.map((node) => HEAD + ROW * node.columns.length);
  const pairs = useMemo(() => [...new Map(links.map((link) => [`${link.source.asset} ${link.target.asset}`, [link.source.asset, link.target.asset] as [string, string]])).values()], [links]);
  const places = usePlaces(nodes.map((node) => node.asset), pairs, WIDTH, sizes);
  if (!places) return <Skeleton />;
  const onChoose = (name: string, chosen: string) => set({ asset: name, column: chosen, open: undefined });
  const edges = new Map<string, Edge>();
  for (const link of links) {
    const id = `${end(link.source)} > ${end(link.target)} ${link.direct}`;
    edges.set(id, {
      id,
      source: link.source.asset,
      target: link.target.asset,
      sourceHandle: handleOf(link.source.column),
      targetHandle: handleOf(link.target.column),
      className: link.direct ? undefined : "indirect",
      ariaLabel: `${end(link.source)} to ${end(link.target)}: ${words(link)}`,
    });
  }
  return (
    <div className="graph">
      <ReactFlow
        key={nodes.map((node) => node.asset).join(" ")}
        colorMode={theme}
        nodes={nodes.flatMap((node, at) => (places[node.asset] ? [{ id: node.asset, type: "columns", position: places[node.asset]!, width: WIDTH, height: sizes[at]!, data: { ...node, chosen: node.asset === asset ? column : undefined, onChoose }, ariaLabel: node.asset }] : []))}
        edges={[...edges.values()]}
        nodeTypes={TYPES}
        nodesConnectable={false}
        deleteKeyCode={null}
        fitView
        fitViewOptions={{ minZoom: 0.55, maxZoom: 1, padding: 0.15 }}
        minZoom={0.1}
        proOptions={{ hideAttribution: true }}
      >
        <Background gap={20} color="var(--line)" />
        <Controls showInteractive={false} />
      </ReactFlow>
    </div>
  );
}
