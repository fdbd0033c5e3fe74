/**
 * Partitions on a canvas: a cell is a partition, or as many as must share one. A calendar for one dimension of
 * days, else rows in the order of the keys. Few ranges of the same state are drawn as they are; of many the server
 * makes the cells. A million partitions are as quick as a thousand: nothing lists their keys.
 */
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { useRead } from "../api/hooks";
import type { Schemas } from "../api/types";
import { State, stateText, toneOf } from "../design/states";
import { count, plural } from "../design/values";
import { colour, useDark } from "../layout/theme";
import { partitionText } from "./partition-text";

type Range = Schemas["StatusRange"];
type Picture = Schemas["PartitionMapBody"];
const WORST = ["FAILED", "QUARANTINED", "BLOCKED", "REJECTED", "STALE", "MATERIALIZING", "WARNED", "MISSING", "MATERIALIZED"];

/** Held or failed quality says more than "materialized". */
export const shownState = (range: { state: string; quality: string }): string =>
  ["QUARANTINED", "BLOCKED", "REJECTED", "WARNED"].includes(range.quality) && range.state !== "FAILED" ? range.quality : range.state;

const swatch = (state: string): string => (state === "MISSING" ? "idle" : toneOf(state));

interface Cells {
  columns: number;
  rows: number;
  size: number;
  gap: number;
  /** Partitions of one cell. */
  share: number;
  /** Cells before the first partition: days of the week before the first day. */
  lead: number;
  byColumn: boolean;
}

function layout(total: number, width: number, firstDay: number | null): Cells {
  if (firstDay !== null && total <= 1_500) {
    const columns = Math.ceil((total + firstDay) / 7);
    const size = Math.max(4, Math.min(15, Math.floor(width / columns) - 2));
    if (columns * (size + 2) <= width) return { columns, rows: 7, size, gap: 2, share: 1, lead: firstDay, byColumn: true };
  }
  for (const [size, gap] of [[14, 2], [9, 1], [5, 1], [3, 0]] as const) {
    const columns = Math.max(1, Math.floor(width / (size + gap)));
    const rows = Math.ceil(total / columns);
    if (rows * (size + gap) <= 260) return { columns, rows, size, gap, share: 1, lead: 0, byColumn: false };
  }
  const columns = Math.max(1, Math.floor(width / 3));
  const rows = 80;
  return { columns, rows, size: 3, gap: 0, share: Math.ceil(total / (columns * rows)), lead: 0, byColumn: false };
}

/** Cells that the server made. */
function pictureLayout(picture: Picture, width: number): Cells {
  const count = Math.ceil(picture.partitions / picture.share);
  const [size, gap] = ([[9, 1], [5, 1], [3, 0]] as const).find(([each, between]) => Math.ceil(count / Math.floor(width / (each + between))) * (each + between) <= 260) ?? [3, 0];
  const columns = Math.max(1, Math.floor(width / (size + gap)));
  return { columns, rows: Math.ceil(count / columns), size, gap, share: picture.share, lead: 0, byColumn: false };
}

const rankOf = (look: { state: string; quality: string }): number => Math.max(0, WORST.indexOf(shownState(look)));

/** The place in `WORST` of each cell; 255 for none. */
function worstOf(cells: Cells, total: number, ranges: Range[], starts: number[]): Uint8Array {
  const worst = new Uint8Array(Math.ceil(total / cells.share)).fill(255);
  ranges.forEach((range, index) => {
    const rank = rankOf(range);
    const from = Math.floor(starts[index]! / cells.share);
    const to = Math.floor((starts[index]! + range.partitions - 1) / cells.share);
    for (let cell = from; cell <= to; cell++) if (rank < worst[cell]!) worst[cell] = rank;
  });
  return worst;
}

function worstOfPicture(picture: Picture): Uint8Array {
  const worst = new Uint8Array(Math.ceil(picture.partitions / picture.share)).fill(255);
  const ranks = picture.looks.map(rankOf);
  for (let at = 0, cell = 0; at < picture.runs.length; at += 2) {
    worst.fill(ranks[picture.runs[at]!]!, cell, cell + picture.runs[at + 1]!);
    cell += picture.runs[at + 1]!;
  }
  return worst;
}

/** Monday is 0; null if the keys are not days. */
function weekday(first: string | undefined): number | null {
  const match = first && /^[^=|,]+=d:(\d{4}-\d{2}-\d{2})$/.exec(first);
  return match ? (new Date(`${match[1]}T00:00Z`).getUTCDay() + 6) % 7 : null;
}

interface HeatMapProps {
  asset: string;
  total: number;
  counts: Schemas["StatusCount"][];
  /** All of them; or the first, if there is a picture. */
  ranges: Range[];
  picture: Picture | undefined;
}

export function HeatMap({ asset, ranges, total, counts: counted, picture }: HeatMapProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [tip, setTip] = useState<{ x: number; y: number; range: Range | null; place: number } | null>(null);
  const isDark = useDark();
  const starts = useMemo(() => {
    let at = 0;
    return ranges.map((range) => ((at += range.partitions), at - range.partitions));
  }, [ranges]);
  const cells = useMemo(() => (picture ? pictureLayout(picture, Math.max(60, width)) : layout(Math.max(1, total), Math.max(60, width), weekday(ranges[0]?.first))), [total, width, ranges, picture]);
  // Measured and drawn before the browser paints: the first frame has the picture.
  useLayoutEffect(() => {
    const element = canvas.current?.parentElement;
    if (!element) return;
    const measure = () => setWidth(element.clientWidth - 32);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    const element = canvas.current;
    if (!element || !width) return;
    const scale = devicePixelRatio;
    const height = cells.rows * (cells.size + cells.gap);
    element.width = width * scale;
    element.height = height * scale;
    element.style.height = `${height}px`;
    const context = element.getContext("2d")!;
    context.scale(scale, scale);
    const colours = new Map<string, string>(WORST.map((state) => [state, colour(state === "MISSING" ? "line-strong" : toneOf(state))]));
    const worst = picture ? worstOfPicture(picture) : worstOf(cells, total, ranges, starts);
    for (let cell = 0; cell < worst.length; cell++) {
      const state = WORST[worst[cell]!];
      if (state === undefined) continue;
      const place = cell + cells.lead;
      const column = cells.byColumn ? Math.floor(place / cells.rows) : place % cells.columns;
      const row = cells.byColumn ? place % cells.rows : Math.floor(place / cells.columns);
      context.fillStyle = colours.get(state)!;
      context.fillRect(column * (cells.size + cells.gap), row * (cells.size + cells.gap), cells.size, cells.size);
    }
  }, [cells, ranges, starts, total, width, isDark, picture]);
  const find = (event: React.MouseEvent): { range: Range | null; place: number } | null => {
    const box = canvas.current!.getBoundingClientRect();
    const step = cells.size + cells.gap;
    const column = Math.floor((event.clientX - box.left) / step);
    const row = Math.floor((event.clientY - box.top) / step);
    const cell = (cells.byColumn ? column * cells.rows + row : row * cells.columns + column) - cells.lead;
    const place = cell * cells.share;
    if (column >= cells.columns || place < 0 || place >= total) return null;
    if (picture) return { range: null, place };
    let low = 0;
    for (let high = starts.length - 1; low < high; ) {
      const middle = (low + high + 1) >> 1;
      if (starts[middle]! <= place) low = middle;
      else high = middle - 1;
    }
    const range = ranges[low];
    return range ? { range, place: place - starts[low]! } : null;
  };
  const counts = new Map<string, number>();
  for (const each of counted) counts.set(shownState(each), (counts.get(shownState(each)) ?? 0) + each.partitions);
  const words = [...counts].map(([state, value]) => `${count(value)} ${stateText(state).toLowerCase()}`).join(", ");
  return (
    <>
      <div className="legend">
        {[...counts].map(([state, value]) => (
          <span key={state}>
            <span className={`swatch ${swatch(state)}`} aria-hidden />
            {stateText(state)} <strong className="num">{count(value)}</strong>
          </span>
        ))}
        {cells.share > 1 ? <span>A cell is {plural(cells.share, "partition")}, in the colour of the worst</span> : null}
      </div>
      <div className="heat">
        <canvas
          ref={canvas}
          role="img"
          aria-label={`Partitions: ${words}`}
          onMouseMove={(event) => {
            const found = find(event);
            setTip(found && { x: Math.min(event.clientX + 14, innerWidth - 250), y: Math.min(event.clientY + 16, innerHeight - 90), ...found });
          }}
          onMouseLeave={() => setTip(null)}
        />
        {tip ? (
          <div className="tip" style={{ left: tip.x, top: tip.y }}>
            {tip.range ? <RangeTip range={tip.range} place={tip.place} /> : <PlaceTip asset={asset} place={tip.place} share={cells.share} />}
          </div>
        ) : null}
      </div>
    </>
  );
}

function RangeTip({ range, place }: { range: Range; place: number }) {
  return (
    <>
      <State state={shownState(range)} />
      <div>{dayAt(range, place) ?? (range.first === range.last ? partitionText(range.first) : `${partitionText(range.first)} … ${partitionText(range.last)}`)}</div>
      {range.partitions > 1 ? <div className="muted">in a range of {plural(range.partitions, "partition")}</div> : null}
    </>
  );
}

const HOVER_MS = 120;

/** What is at a place of a picture: asked for when the pointer rests there. */
function PlaceTip({ asset, place, share }: { asset: string; place: number; share: number }) {
  const [rested, setRested] = useState(-1);
  useEffect(() => {
    const timer = setTimeout(() => setRested(place), HOVER_MS);
    return () => clearTimeout(timer);
  }, [place]);
  const result = useRead("/assets/{asset}/partition-map/{place}", { path: { asset, place: rested }, enabled: rested === place });
  const found = result.data?.place === place ? result.data : undefined;
  return (
    <>
      {found ? <><State state={shownState(found.range)} /><div>{partitionText(found.partition)}</div></> : <div className="muted">…</div>}
      {share > 1 ? <div className="muted">the first of {plural(share, "partition")}</div> : null}
    </>
  );
}

/** The key of a day within a range of days. */
function dayAt(range: Range, place: number): string | null {
  const match = /^([^=|,]+)=d:(\d{4}-\d{2}-\d{2})$/.exec(range.first);
  const last = /=d:(\d{4}-\d{2}-\d{2})$/.exec(range.last);
  if (!match || !last) return null;
  const begin = Date.parse(`${match[2]}T00:00Z`);
  if (Math.round((Date.parse(`${last[1]}T00:00Z`) - begin) / 86_400_000) + 1 !== range.partitions) return null;
  return `${match[1]}=${new Date(begin + place * 86_400_000).toISOString().slice(0, 10)}`;
}
