/** Places of nodes, computed beside the page. Too large a graph is refused before dagre sees it. */
import dagre from "@dagrejs/dagre";

export interface LayoutRequest {
  nodes: string[];
  edges: [string, string][];
  width: number;
  height: number;
}
export type LayoutAnswer = Record<string, { x: number; y: number }>;

self.onmessage = (message: MessageEvent<LayoutRequest>) => {
  const { nodes, edges, width, height } = message.data;
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 18, ranksep: 70, ranker: "longest-path" });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of nodes) graph.setNode(node, { width, height });
  for (const [source, target] of edges) graph.setEdge(source, target);
  dagre.layout(graph);
  const places: LayoutAnswer = {};
  for (const node of nodes) {
    const { x, y } = graph.node(node) as { x: number; y: number };
    places[node] = { x: x - width / 2, y: y - height / 2 };
  }
  self.postMessage(places);
};
