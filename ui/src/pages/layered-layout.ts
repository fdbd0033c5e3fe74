/**
 * Places of a graph's nodes in layers, in time that grows with nodes and edges (times the logarithm of the nodes,
 * for a few sorts): a graph of 10,000 takes a moment, and no depth or shape is refused.
 *
 * 1. Rank: the longest way from a node without inputs. In a cycle the first node is ranked as if its way back
 *    were not there. Nodes without inputs move next to their first user.
 * 2. Order within a rank: parts of the graph that are not connected stay together; then a few passes put each
 *    node at the mean place of its neighbours.
 * 3. Places: a rank is one or more columns, so that the picture is about as wide as a screen. Nodes without any
 *    edge are a block below.
 */

export interface Layout {
  x: Float32Array;
  y: Float32Array;
  width: number;
  height: number;
}

export const NODE_WIDTH = 200;
export const NODE_HEIGHT = 26;
const STEP_X = NODE_WIDTH + 24;
const STEP_Y = NODE_HEIGHT + 10;
const RANK_GAP = 70;
const BLOCK_GAP = 80;
const SHAPE = 1.8;
const PASSES = 4;

/** Neighbours of each node, as one list: those of `n` are at `starts[n]` to `starts[n + 1]`. */
interface Neighbours {
  starts: Int32Array;
  nodes: Int32Array;
}

function neighbours(count: number, from: Int32Array, to: Int32Array): Neighbours {
  const starts = new Int32Array(count + 1);
  for (const node of from) starts[node + 1]! += 1;
  for (let node = 0; node < count; node++) starts[node + 1]! += starts[node]!;
  const next = starts.slice();
  const nodes = new Int32Array(from.length);
  from.forEach((node, edge) => (nodes[next[node]!++] = to[edge]!));
  return { starts, nodes };
}

function ranksOf(count: number, ins: Neighbours, outs: Neighbours): Int32Array {
  const rank = new Int32Array(count);
  const waits = new Int32Array(count);
  const isDone = new Uint8Array(count);
  const queue = new Int32Array(count);
  let end = 0;
  for (let node = 0; node < count; node++) {
    waits[node] = ins.starts[node + 1]! - ins.starts[node]!;
    if (waits[node] === 0) queue[end++] = node;
  }
  for (let at = 0, unranked = 0; at < count; at++) {
    if (at === end) {
      while (isDone[unranked] || waits[unranked] === 0) unranked += 1;
      waits[unranked] = 0;
      queue[end++] = unranked; // of a cycle
    }
    const node = queue[at]!;
    isDone[node] = 1;
    for (let edge = outs.starts[node]!; edge < outs.starts[node + 1]!; edge++) {
      const user = outs.nodes[edge]!;
      if (isDone[user] || waits[user] === 0) continue;
      rank[user] = Math.max(rank[user]!, rank[node]! + 1);
      if (--waits[user]! === 0) queue[end++] = user;
    }
  }
  for (let node = 0; node < count; node++) {
    if (ins.starts[node] !== ins.starts[node + 1] || outs.starts[node] === outs.starts[node + 1]) continue;
    let nearest = Infinity;
    for (let edge = outs.starts[node]!; edge < outs.starts[node + 1]!; edge++) nearest = Math.min(nearest, rank[outs.nodes[edge]!]!);
    rank[node] = Math.max(0, nearest - 1);
  }
  return rank;
}

/** Nodes with edges, each with those that it is connected to. */
function connected(count: number, ins: Neighbours, outs: Neighbours): Int32Array {
  const order = new Int32Array(count);
  const isSeen = new Uint8Array(count);
  let end = 0;
  for (let first = 0; first < count; first++) {
    const isAlone = ins.starts[first] === ins.starts[first + 1] && outs.starts[first] === outs.starts[first + 1];
    if (isSeen[first] || isAlone) continue;
    isSeen[first] = 1;
    let at = end;
    order[end++] = first;
    for (; at < end; at++) {
      for (const side of [ins, outs])
        for (let edge = side.starts[order[at]!]!; edge < side.starts[order[at]! + 1]!; edge++) {
          const node = side.nodes[edge]!;
          if (isSeen[node]) continue;
          isSeen[node] = 1;
          order[end++] = node;
        }
    }
  }
  return order.subarray(0, end);
}

function orderRanks(ranks: number[][], rank: Int32Array, ins: Neighbours, outs: Neighbours): void {
  const place = new Float64Array(rank.length);
  const mean = new Float64Array(rank.length);
  const number = (nodes: number[]) => nodes.forEach((node, at) => (place[node] = (at + 0.5) / nodes.length));
  ranks.forEach(number);
  for (let pass = 0; pass < PASSES; pass++) {
    const isDown = pass % 2 === 0;
    const side = isDown ? ins : outs;
    for (let at = 0; at < ranks.length; at++) {
      const nodes = ranks[isDown ? at : ranks.length - 1 - at]!;
      for (const node of nodes) {
        const [first, last] = [side.starts[node]!, side.starts[node + 1]!];
        let sum = 0;
        for (let edge = first; edge < last; edge++) sum += place[side.nodes[edge]!]!;
        mean[node] = last > first ? sum / (last - first) : place[node]!;
      }
      nodes.sort((a, b) => mean[a]! - mean[b]! || place[a]! - place[b]!);
      number(nodes);
    }
  }
}

/** How many rows a column has at most, so that the picture gets its shape. */
function rowsOf(sizes: number[]): number {
  const largest = Math.max(1, ...sizes);
  let best = largest;
  let bestDistance = Infinity;
  for (let rows = 1; ; rows = Math.min(largest, Math.ceil(rows * 1.3))) {
    const width = sizes.reduce((sum, size) => sum + Math.ceil(size / rows) * STEP_X + RANK_GAP, 0);
    const distance = Math.abs(Math.log(width / (rows * STEP_Y) / SHAPE));
    if (distance < bestDistance) [best, bestDistance] = [rows, distance];
    if (rows === largest) return best;
  }
}

export function layered(count: number, sources: Int32Array, targets: Int32Array): Layout {
  const outs = neighbours(count, sources, targets);
  const ins = neighbours(count, targets, sources);
  const rank = ranksOf(count, ins, outs);
  const ranks: number[][] = [];
  const order = connected(count, ins, outs);
  for (const node of order) (ranks[rank[node]!] ??= []).push(node);
  for (let at = 0; at < ranks.length; at++) ranks[at] ??= [];
  orderRanks(ranks, rank, ins, outs);
  const x = new Float32Array(count);
  const y = new Float32Array(count);
  const rows = rowsOf(ranks.map((nodes) => nodes.length));
  const height = Math.min(rows, Math.max(0, ...ranks.map((nodes) => nodes.length))) * STEP_Y;
  let left = 0;
  for (const nodes of ranks) {
    const columns = Math.max(1, Math.ceil(nodes.length / rows));
    const used = Math.ceil(nodes.length / columns);
    const step = Math.min(3 * STEP_Y, height / Math.max(1, used));
    const top = (height - used * step) / 2;
    nodes.forEach((node, at) => {
      x[node] = left + (at % columns) * STEP_X;
      y[node] = top + Math.floor(at / columns) * step + (step - STEP_Y) / 2;
    });
    left += columns * STEP_X + RANK_GAP;
  }
  return block(count, order, { x, y, width: Math.max(0, left - RANK_GAP), height });
}

/** Puts nodes without edges below the others. */
function block(count: number, order: Int32Array, layout: Layout): Layout {
  const alone = count - order.length;
  if (!alone) return layout;
  const { x, y } = layout;
  const isPlaced = new Uint8Array(count);
  for (const node of order) isPlaced[node] = 1;
  const wide = Math.round(Math.sqrt((alone * STEP_Y * SHAPE) / STEP_X));
  const columns = Math.max(1, wide, Math.floor(layout.width / STEP_X));
  const top = order.length ? layout.height + BLOCK_GAP : 0;
  let at = 0;
  for (let node = 0; node < count; node++) {
    if (isPlaced[node]) continue;
    x[node] = (at % columns) * STEP_X;
    y[node] = top + Math.floor(at / columns) * STEP_Y;
    at += 1;
  }
  return { x, y, width: Math.max(layout.width, Math.min(alone, columns) * STEP_X), height: top + Math.ceil(alone / columns) * STEP_Y };
}
