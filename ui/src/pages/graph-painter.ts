/**
 * Draws a graph of assets on a canvas. How much is drawn depends on how near it is: from afar coloured
 * marks and lines, names when there is room for them. While the picture moves, a part of the edges stands for all.
 */
import { toneOf } from "../design/states";
import { colour } from "../layout/theme";
import { type AssetGraph, hiddenSides } from "./asset-graph";
import { type Layout, NODE_HEIGHT, NODE_WIDTH } from "./layered-layout";

/** What is in sight: the point of the graph at the upper left corner, and pixels for a unit of it. */
export interface Sight {
  x: number;
  y: number;
  scale: number;
}

export interface Marks {
  selected: number;
  hovered: number;
  /** Nodes that a search has found; null if there is none. */
  found: Uint8Array | null;
}

const NAMES_FROM = 0.5;
const CARDS_FROM = 0.28;
const CURVES_UP_TO = 1_500;
/** More edges than these are paler, the more there are: nodes must be seen among them. */
const FULL_EDGES = 500;
/** Edges that are drawn while the picture moves. */
const MOVING_EDGES = 2_500;
/** Edges of one path: a long path of see-through lines is slow to fill in. */
const PATH_EDGES = 200;
const CHARACTER = 6.05;
const MARGIN = 24;
const LARGEST = 1.25;

export const SMALLEST_SCALE = 0.01;
export const LARGEST_SCALE = 2.5;

/** The whole graph in a window of this size. */
export function fit(layout: Layout, width: number, height: number): Sight {
  const scale = Math.max(SMALLEST_SCALE, Math.min(LARGEST, (width - 2 * MARGIN) / Math.max(1, layout.width), (height - 2 * MARGIN) / Math.max(1, layout.height)));
  return { x: layout.width / 2 - width / 2 / scale, y: layout.height / 2 - height / 2 / scale, scale };
}

/** The node at a point of the graph, or -1. */
export function nodeAt(layout: Layout, x: number, y: number, slack: number): number {
  for (let node = layout.x.length - 1; node >= 0; node--) {
    const [dx, dy] = [x - layout.x[node]!, y - layout.y[node]!];
    if (dx >= -slack && dx <= NODE_WIDTH + slack && dy >= -slack && dy <= NODE_HEIGHT + slack) return node;
  }
  return -1;
}

interface Colours {
  tones: Map<string, string>;
  surface: string;
  line: string;
  edge: string;
  text: string;
  muted: string;
  accent: string;
  font: string;
}

function readColours(states: Iterable<string>): Colours {
  return {
    tones: new Map([...states].map((state) => [state, colour(state === "MISSING" ? "line-strong" : toneOf(state))])),
    surface: colour("surface"),
    line: colour("line-strong"),
    edge: colour("edge"),
    text: colour("text"),
    muted: colour("muted"),
    accent: colour("accent"),
    font: getComputedStyle(document.documentElement).getPropertyValue("--mono"),
  };
}

export class Painter {
  private readonly colours: Colours;
  private readonly hidden: { ups: Int32Array; downs: Int32Array };
  /** Nodes of each state: one change of colour for all of them. */
  private readonly byState = new Map<string, number[]>();

  constructor(
    private readonly graph: AssetGraph,
    private readonly layout: Layout,
  ) {
    graph.states.forEach((state, node) => {
      const nodes = this.byState.get(state);
      if (nodes) nodes.push(node);
      else this.byState.set(state, [node]);
    });
    this.colours = readColours(this.byState.keys());
    this.hidden = hiddenSides(graph);
  }

  /** Answers whether edges were left out. */
  paint(canvas: HTMLCanvasElement, sight: Sight, marks: Marks, isMoving: boolean): boolean {
    const context = canvas.getContext("2d")!;
    const ratio = devicePixelRatio;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.scale(sight.scale, sight.scale);
    context.translate(-sight.x, -sight.y);
    const bounds = { left: sight.x, top: sight.y, right: sight.x + canvas.width / ratio / sight.scale, bottom: sight.y + canvas.height / ratio / sight.scale };
    const isMarked = marks.selected >= 0 || marks.found !== null;
    const isPartial = this.paintEdges(context, sight, bounds, isMarked ? 0.25 : 1, isMoving);
    context.globalAlpha = isMarked ? 0.3 : 1;
    this.paintNodes(context, sight, bounds);
    context.globalAlpha = 1;
    this.paintMarks(context, sight, bounds, marks);
    return isPartial;
  }

  private paintEdges(context: CanvasRenderingContext2D, sight: Sight, bounds: Bounds, alpha: number, isMoving: boolean): boolean {
    const { sources, targets } = this.graph;
    const { x, y } = this.layout;
    const inSight: number[] = [];
    for (let edge = 0; edge < sources.length; edge++) {
      const [from, to] = [sources[edge]!, targets[edge]!];
      const [x1, x2, y1, y2] = [x[from]! + NODE_WIDTH, x[to]!, y[from]!, y[to]!];
      if ((x1 < bounds.left && x2 < bounds.left) || (x1 > bounds.right && x2 > bounds.right)) continue;
      if ((y1 < bounds.top - NODE_HEIGHT && y2 < bounds.top - NODE_HEIGHT) || (y1 > bounds.bottom && y2 > bounds.bottom)) continue;
      inSight.push(edge);
    }
    const step = isMoving ? Math.max(1, Math.ceil(inSight.length / MOVING_EDGES)) : 1;
    const isCurved = inSight.length <= CURVES_UP_TO;
    context.strokeStyle = this.colours.edge;
    context.globalAlpha = alpha * Math.min(1, Math.sqrt(FULL_EDGES / Math.max(1, inSight.length)));
    context.lineWidth = 1 / sight.scale;
    for (let first = 0; first < inSight.length; first += step * PATH_EDGES) {
      context.beginPath();
      const end = Math.min(inSight.length, first + step * PATH_EDGES);
      for (let at = first; at < end; at += step) this.traceEdge(context, inSight[at]!, isCurved);
      context.stroke();
    }
    return step > 1;
  }

  private traceEdge(context: CanvasRenderingContext2D, edge: number, isCurved: boolean): void {
    const [from, to] = [this.graph.sources[edge]!, this.graph.targets[edge]!];
    const { x, y } = this.layout;
    const [x1, y1, x2, y2] = [x[from]! + NODE_WIDTH, y[from]! + NODE_HEIGHT / 2, x[to]!, y[to]! + NODE_HEIGHT / 2];
    context.moveTo(x1, y1);
    const bend = Math.max(30, Math.abs(x2 - x1) / 2);
    if (isCurved) context.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
    else context.lineTo(x2, y2);
  }

  private paintNodes(context: CanvasRenderingContext2D, sight: Sight, bounds: Bounds): void {
    for (const [state, nodes] of this.byState) {
      context.fillStyle = this.colours.tones.get(state)!;
      for (const node of nodes) {
        if (!this.isInSight(node, bounds)) continue;
        if (sight.scale < CARDS_FROM) context.fillRect(this.layout.x[node]!, this.layout.y[node]!, NODE_WIDTH, NODE_HEIGHT);
        else this.paintCard(context, sight, node, this.colours.line, 1);
      }
    }
  }

  private isInSight(node: number, bounds: Bounds): boolean {
    const [x, y] = [this.layout.x[node]!, this.layout.y[node]!];
    return x + NODE_WIDTH >= bounds.left && x <= bounds.right && y + NODE_HEIGHT >= bounds.top && y <= bounds.bottom;
  }

  private paintCard(context: CanvasRenderingContext2D, sight: Sight, node: number, border: string, width: number): void {
    const [x, y] = [this.layout.x[node]!, this.layout.y[node]!];
    context.fillStyle = this.colours.surface;
    context.fillRect(x, y, NODE_WIDTH, NODE_HEIGHT);
    context.fillStyle = this.colours.tones.get(this.graph.states[node]!)!;
    context.fillRect(x, y, 5, NODE_HEIGHT);
    context.strokeStyle = border;
    context.lineWidth = width;
    context.strokeRect(x, y, NODE_WIDTH, NODE_HEIGHT);
    if (sight.scale >= NAMES_FROM) this.paintName(context, node);
  }

  private paintName(context: CanvasRenderingContext2D, node: number): void {
    const [x, y] = [this.layout.x[node]!, this.layout.y[node]!];
    const [ups, downs] = [this.hidden.ups[node]!, this.hidden.downs[node]!];
    const sides = [ups ? `‹${ups}` : "", downs ? `${downs}›` : ""].filter(Boolean).join(" ");
    context.font = `10px ${this.colours.font}`;
    context.textBaseline = "middle";
    context.fillStyle = this.colours.text;
    const room = Math.floor((NODE_WIDTH - 20) / CHARACTER) - (sides ? sides.length + 1 : 0);
    context.textAlign = "left";
    context.fillText(shortened(this.graph.assets[node]!, room), x + 11, y + NODE_HEIGHT / 2 + 0.5);
    if (!sides) return;
    context.fillStyle = this.colours.muted;
    context.textAlign = "right";
    context.fillText(sides, x + NODE_WIDTH - 6, y + NODE_HEIGHT / 2 + 0.5);
  }

  /** What is selected with its neighbours, and what a search has found, above all else. */
  private paintMarks(context: CanvasRenderingContext2D, sight: Sight, bounds: Bounds, marks: Marks): void {
    const { accent, line, tones } = this.colours;
    const { selected, hovered, found } = marks;
    const border = 2 / Math.min(1, sight.scale);
    if (found)
      for (let node = 0; node < found.length; node++) {
        if (!found[node] || !this.isInSight(node, bounds)) continue;
        if (sight.scale >= CARDS_FROM) this.paintCard(context, sight, node, accent, border / 2);
        else this.paintSpot(context, sight, node, tones.get(this.graph.states[node]!)!);
      }
    if (selected >= 0) {
      const near = new Set<number>();
      context.strokeStyle = accent;
      context.lineWidth = 1.5 / sight.scale;
      context.beginPath();
      this.graph.sources.forEach((source, edge) => {
        const target = this.graph.targets[edge]!;
        if (source !== selected && target !== selected) return;
        near.add(source).add(target);
        this.traceEdge(context, edge, true);
      });
      context.stroke();
      for (const node of near) {
        if (sight.scale >= CARDS_FROM) this.paintCard(context, sight, node, line, 1);
        else this.paintSpot(context, sight, node, tones.get(this.graph.states[node]!)!);
      }
      if (sight.scale >= CARDS_FROM) this.paintCard(context, sight, selected, accent, border);
      else this.paintSpot(context, sight, selected, accent);
    }
    if (hovered >= 0 && hovered !== selected && sight.scale >= CARDS_FROM) this.paintCard(context, sight, hovered, accent, border / 2);
  }

  /** A mark that is seen from afar. */
  private paintSpot(context: CanvasRenderingContext2D, sight: Sight, node: number, fill: string): void {
    const width = Math.max(NODE_WIDTH, 7 / sight.scale);
    const height = Math.max(NODE_HEIGHT, 7 / sight.scale);
    context.fillStyle = fill;
    context.fillRect(this.layout.x[node]! + (NODE_WIDTH - width) / 2, this.layout.y[node]! + (NODE_HEIGHT - height) / 2, width, height);
  }
}

interface Bounds {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

/** The end of a name says more than its beginning. */
const shortened = (name: string, room: number): string => (name.length <= room ? name : `…${name.slice(name.length - room + 1)}`);
