/** Places of nodes, computed beside the page. Too large a graph is refused before dagre sees it. */
import dagre from "@dagrejs/dagre";

export interface LayoutRequest {
  nodes: string[];
  edges: [string, string][];
  width: number;
  /** Of each node. */
  heights: number[];
}
export type LayoutAnswer = Record<string, { x: number; y: number }>;

self.onmessage = (message: MessageEvent<LayoutRequest>) => {
  const { nodes, edges, width, heights } = message.data;
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 18, ranksep: 70, ranker: "longest-path" });
  graph.setDefaultEdgeLabel(() => ({}));
  nodes.forEach((node, at) => graph.setNode(node, { width, height: heights[at]! }));
  for (const [source, target] of edges) graph.setEdge(source, target);
  dagre.layout(graph);
  const places: LayoutAnswer = {};
  nodes.forEach((node, at) => {
    const { x, y } = graph.node(node) as { x: number; y: number };
    places[node] = { x: x - width / 2, y: y - heights[at]! / 2 };
  });
  self.postMessage(places);
};
