/** A graph of assets that can be dragged, zoomed and walked through with keys. */
import { Maximize, Minus, Plus } from "lucide-react";
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import { Skeleton } from "../design/parts";
import { useDark } from "../layout/theme";
import { type AssetGraph, isSameShape, sidesOf } from "./asset-graph";
import { Painter } from "./graph-painter";
import { GraphScene } from "./graph-scene";
import type { Layout } from "./layered-layout";
import type { LayeredRequest } from "./layered-layout.worker";

const ZOOM = 1.4;
const MOVE_PX = 80;

interface PlacedGraph {
  graph: AssetGraph;
  layout: Layout;
}

/** The layout of a graph, worked out beside the page. A graph of the same shape keeps it. */
function usePlaces(graph: AssetGraph): PlacedGraph | null {
  const [placed, setPlaced] = useState<PlacedGraph | null>(null);
  const isPlaced = useMemo(() => placed !== null && isSameShape(placed.graph, graph), [placed, graph]);
  useEffect(() => {
    if (isPlaced) return;
    const worker = new Worker(new URL("./layered-layout.worker.ts", import.meta.url), { type: "module" });
    worker.onmessage = (message: MessageEvent<Layout>) => setPlaced({ graph, layout: message.data });
    worker.postMessage({ count: graph.assets.length, sources: graph.sources, targets: graph.targets } satisfies LayeredRequest);
    return () => worker.terminate();
  }, [graph, isPlaced]);
  return useMemo(() => (placed && isPlaced ? { graph, layout: placed.layout } : placed), [placed, isPlaced, graph]);
}

interface ViewProps {
  graph: AssetGraph;
  label: string;
  selected: string | undefined;
  /** By number, whether a search has found the asset; null if nothing is searched for. */
  found: Uint8Array | null;
  onSelect: (asset: string | undefined) => void;
  onOpen: (asset: string) => void;
}

export function AssetGraphView(props: ViewProps) {
  const placed = usePlaces(props.graph);
  return placed ? <Picture {...props} {...placed} found={placed.graph === props.graph ? props.found : null} /> : <Skeleton rows={10} />;
}

function Picture({ graph, layout, label, selected, found, onSelect, onOpen }: ViewProps & PlacedGraph) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const scene = useRef<GraphScene>(null);
  const isDark = useDark();
  const painter = useMemo(() => new Painter(graph, layout), [graph, layout, isDark]);
  const node = useMemo(() => (selected === undefined ? -1 : graph.assets.indexOf(selected)), [graph, selected]);
  useEffect(() => {
    const made = new GraphScene(canvas.current!);
    scene.current = made;
    const box = canvas.current!.parentElement!;
    const observer = new ResizeObserver(() => made.resize(box.clientWidth, box.clientHeight));
    observer.observe(box);
    return () => {
      observer.disconnect();
      made.close();
    };
  }, []);
  useEffect(() => {
    scene.current!.set(painter, layout, node, found);
  }, [painter, layout, node, found]);
  // What is selected elsewhere, by a search or a link, comes into sight.
  useEffect(() => {
    if (node >= 0) scene.current!.show(node);
  }, [node, layout]);
  useEffect(() => {
    scene.current!.onSelect = (each) => onSelect(graph.assets[each]);
    scene.current!.onOpen = (each) => onOpen(graph.assets[each]!);
    scene.current!.nameOf = (each) => graph.assets[each]!;
  });
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { key } = event;
    const arrow = ARROWS[key];
    const at = scene.current!;
    if (arrow && event.shiftKey) at.move(arrow[0] * MOVE_PX, arrow[1] * MOVE_PX);
    else if (arrow) onSelect(graph.assets[node < 0 ? at.nearest() : beside(graph, layout, node, key)]);
    else if (key === "+" || key === "=") at.zoom(ZOOM);
    else if (key === "-") at.zoom(1 / ZOOM);
    else if (key === "0") at.fitAll();
    else if (key === "Enter" && node >= 0) onOpen(graph.assets[node]!);
    else if (key === "Escape" && node >= 0) onSelect(undefined);
    else return;
    event.preventDefault();
  };
  return (
    <div className="asset-graph">
      {/* The list beside it has the same as a table, for who cannot see a picture. */}
      <canvas
        ref={canvas}
        role="application"
        aria-roledescription="graph"
        aria-label={label}
        tabIndex={0}
        onKeyDown={onKeyDown}
        onPointerDown={(event) => scene.current!.pointerDown(event.nativeEvent)}
        onPointerMove={(event) => scene.current!.pointerMove(event.nativeEvent)}
        onPointerUp={(event) => scene.current!.pointerUp(event.nativeEvent)}
        onPointerCancel={() => scene.current!.pointerCancel()}
        onDoubleClick={(event) => scene.current!.doubleClick(event.nativeEvent)}
      />
      <div className="graph-buttons">
        <button type="button" className="button icon" aria-label="Zoom in" title="Zoom in (+)" onClick={() => scene.current!.zoom(ZOOM)}><Plus size={15} /></button>
        <button type="button" className="button icon" aria-label="Zoom out" title="Zoom out (-)" onClick={() => scene.current!.zoom(1 / ZOOM)}><Minus size={15} /></button>
        <button type="button" className="button icon" aria-label="Show all of it" title="Show all of it (0)" onClick={() => scene.current!.fitAll()}><Maximize size={15} /></button>
      </div>
    </div>
  );
}

const ARROWS: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** What an arrow key leads to: an input, a user, or the next node of the same column; else the node itself. */
function beside(graph: AssetGraph, layout: Layout, node: number, key: string): number {
  const { x, y } = layout;
  const { inputs, users } = sidesOf(graph, node);
  const isBeyond = (each: number) => x[each] === x[node] && (key === "ArrowDown" ? y[each]! > y[node]! : y[each]! < y[node]!);
  const candidates = key === "ArrowLeft" ? inputs : key === "ArrowRight" ? users : [...graph.assets.keys()].filter(isBeyond);
  const distance = (each: number) => Math.abs(y[each]! - y[node]!);
  return candidates.reduce((best, each) => (best === node || distance(each) < distance(best) ? each : best), node);
}
