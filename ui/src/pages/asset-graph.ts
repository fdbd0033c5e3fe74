/** The graph of assets as arrays: nodes are numbers, edges are pairs of them. */

export interface AssetGraph {
  assets: string[];
  states: string[];
  /** Inputs and users of each asset, also of those that are not in this graph. */
  ups: Int32Array;
  downs: Int32Array;
  sources: Int32Array;
  targets: Int32Array;
}

/** How many inputs and users of each node are not in the graph. */
export function hiddenSides(graph: AssetGraph): { ups: Int32Array; downs: Int32Array } {
  const [ups, downs] = [graph.ups.slice(), graph.downs.slice()];
  for (const node of graph.targets) ups[node]! -= 1;
  for (const node of graph.sources) downs[node]! -= 1;
  return { ups, downs };
}

/** Inputs and users of a node, in the order of the edges. */
export function sidesOf(graph: AssetGraph, node: number): { inputs: number[]; users: number[] } {
  const inputs: number[] = [];
  const users: number[] = [];
  graph.targets.forEach((target, edge) => {
    if (target === node) inputs.push(graph.sources[edge]!);
    else if (graph.sources[edge] === node) users.push(target);
  });
  return { inputs, users };
}

/** A node with its inputs and users, and the edges among them. */
export function around(graph: AssetGraph, node: number): AssetGraph {
  const { inputs, users } = sidesOf(graph, node);
  const kept = [...new Set([node, ...inputs, ...users])].sort((a, b) => a - b);
  const places = new Map(kept.map((each, place) => [each, place]));
  const sources: number[] = [];
  const targets: number[] = [];
  graph.sources.forEach((source, edge) => {
    const [from, to] = [places.get(source), places.get(graph.targets[edge]!)];
    if (from === undefined || to === undefined) return;
    sources.push(from);
    targets.push(to);
  });
  const pick = (values: Int32Array) => Int32Array.from(kept, (each) => values[each]!);
  return {
    assets: kept.map((each) => graph.assets[each]!),
    states: kept.map((each) => graph.states[each]!),
    ups: pick(graph.ups),
    downs: pick(graph.downs),
    sources: Int32Array.from(sources),
    targets: Int32Array.from(targets),
  };
}

const isEqual = (a: ArrayLike<unknown>, b: ArrayLike<unknown>): boolean => {
  if (a.length !== b.length) return false;
  for (let at = 0; at < a.length; at++) if (a[at] !== b[at]) return false;
  return true;
};

/** Whether two graphs have the same places. */
export const isSameShape = (a: AssetGraph, b: AssetGraph): boolean =>
  a === b || (isEqual(a.assets, b.assets) && isEqual(a.sources, b.sources) && isEqual(a.targets, b.targets));
