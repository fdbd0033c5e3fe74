/** The graph around an asset: click selects, the numbers at the sides open what is hidden. */
import { Background, Controls, Handle, type Node, type NodeProps, Position, ReactFlow } from "@xyflow/react";
import "@xyflow/react/dist/style.css";
import { memo, useEffect, useState } from "react";
import { State } from "../design/states";
import { Name } from "../design/values";
import { Empty, Skeleton } from "../design/parts";
import { useTheme } from "../layout/theme";
import type { LayoutAnswer, LayoutRequest } from "./lineage-layout.worker";

export interface GraphNode {
  asset: string;
  state: string;
  isCenter: boolean;
  hiddenUp: number;
  hiddenDown: number;
}

type Data = GraphNode & { onOpen: (asset: string) => void } & Record<string, unknown>;
const WIDTH = 236;
const HEIGHT = 62;
export const MOST_NODES = 300;

const AssetNode = memo(({ data }: NodeProps<Node<Data>>) => (
  <div className={data.isCenter ? "graph-node center" : "graph-node"}>
    <Handle type="target" position={Position.Left} isConnectable={false} />
    <div className="truncate" title={data.asset}>
      <State state={data.state} bare /> <Name mono>{data.asset}</Name>
    </div>
    <div className="sides">
      {data.hiddenUp ? <More asset={data.asset} text={`‹ ${data.hiddenUp} more`} title={`${data.hiddenUp} inputs are hidden: show them`} onOpen={data.onOpen} /> : <span />}
      {data.hiddenDown ? <More asset={data.asset} text={`${data.hiddenDown} more ›`} title={`${data.hiddenDown} users are hidden: show them`} onOpen={data.onOpen} /> : <span />}
    </div>
    <Handle type="source" position={Position.Right} isConnectable={false} />
  </div>
));

function More({ asset, text, title, onOpen }: { asset: string; text: string; title: string; onOpen: (asset: string) => void }) {
  return (
    <button type="button" className="more nodrag" title={title} onClick={(event) => (event.stopPropagation(), onOpen(asset))}>
      {text}
    </button>
  );
}

const TYPES = { asset: AssetNode };

/** Places of nodes, worked out beside the page; null until they are there. */
export function usePlaces(nodes: string[], edges: [string, string][], width: number, heights: number[]): LayoutAnswer | null {
  const [places, setPlaces] = useState<LayoutAnswer | null>(null);
  const key = JSON.stringify([nodes, edges, heights]);
  useEffect(() => {
    const worker = new Worker(new URL("./lineage-layout.worker.ts", import.meta.url), { type: "module" });
    worker.onmessage = (message: MessageEvent<LayoutAnswer>) => setPlaces(message.data);
    worker.postMessage({ nodes, edges, width, heights } satisfies LayoutRequest);
    return () => worker.terminate();
    // eslint-disable-next-line react-hooks/exhaustive-deps -- `key` is the content of all
  }, [key]);
  return places;
}

export function LineageGraph({ nodes, edges, onOpen, onCenter }: { nodes: GraphNode[]; edges: [string, string][]; onOpen: (asset: string) => void; onCenter: (asset: string) => void }) {
  const theme = useTheme();
  const placed = nodes.length > MOST_NODES ? [] : nodes;
  const places = usePlaces(placed.map((node) => node.asset), edges, WIDTH, placed.map(() => HEIGHT));
  if (nodes.length > MOST_NODES) return <Empty title={`${nodes.length} assets are too many for a picture`}>Open fewer of them, or look at the list.</Empty>;
  if (!places) return <Skeleton />;
  const drawn = nodes.filter((node) => places[node.asset]);
  return (
    <div className="graph">
      <ReactFlow
        key={drawn.length}
        colorMode={theme}
        nodes={drawn.map((node) => ({ id: node.asset, type: "asset", position: places[node.asset]!, data: { ...node, onOpen }, ariaLabel: node.asset }))}
        edges={edges.map(([source, target]) => ({ id: `${source}>${target}`, source, target }))}
        nodeTypes={TYPES}
        nodesConnectable={false}
        deleteKeyCode={null}
        fitView
        fitViewOptions={{ minZoom: 0.55, maxZoom: 1, padding: 0.15 }}
        minZoom={0.1}
        onNodeDoubleClick={(_, node) => onCenter(node.id)}
        proOptions={{ hideAttribution: true }}
      >
        <Background gap={20} color="var(--line)" />
        <Controls showInteractive={false} />
      </ReactFlow>
    </div>
  );
}
