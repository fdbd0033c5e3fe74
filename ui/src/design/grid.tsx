/**
 * A list of any length: only rows in sight are elements. Rows come by index, so a list of 100,000
 * needs no array of 100,000. Arrow keys, Home, End and Page keys move; Enter opens.
 */
import { type CSSProperties, type KeyboardEvent, memo, type ReactNode, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useRowsInSight } from "./rows-in-sight";

export interface GridColumn<T> {
  name: string;
  title: ReactNode;
  /** A track of CSS grid: `minmax(160px, 2fr)`. */
  width: string;
  num?: boolean;
  sort?: "ascending" | "descending" | undefined;
  onSort?: () => void;
  cell: (row: T) => ReactNode;
}

interface GridProps<T> {
  label: string;
  /** Rows are drawn again when this array is another one. */
  columns: GridColumn<T>[];
  count: number;
  row: (index: number) => T | undefined;
  rowKey: (row: T) => string;
  /** The rows that are in sight, to be fetched. */
  onRange?: (first: number, last: number) => void;
  onOpen?: (row: T) => void;
  selectedKey?: string;
  minWidth?: number;
  rowHeight?: number;
}

const HEAD = 34;
const OVERSCAN = 8;

export function Grid<T>(props: GridProps<T>) {
  const { columns, count, row, rowKey, onRange, onOpen, label, rowHeight = 32 } = props;
  const scroll = useRef<HTMLDivElement>(null);
  const [active, setActive] = useState(0);
  const { first, last, scrollTo } = useRowsInSight(scroll, count, rowHeight, HEAD, OVERSCAN);
  useEffect(() => onRange?.(first, last), [first, last, onRange]);
  const template = useMemo(() => ({ gridTemplateColumns: columns.map((column) => column.width).join(" ") }), [columns]);
  const open = useRef(onOpen);
  useEffect(() => {
    open.current = onOpen;
  });
  const openRow = useCallback((value: T) => open.current?.(value), []);
  const onKeyDown = (event: KeyboardEvent) => {
    const page = Math.max(1, last - first - 2 * OVERSCAN);
    const moves: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -count, End: count };
    const move = moves[event.key];
    if (move !== undefined) {
      event.preventDefault();
      const next = Math.min(count - 1, Math.max(0, active + move));
      setActive(next);
      scrollTo(next);
    } else if (event.key === "Enter" && event.target === event.currentTarget) {
      const opened = row(active);
      if (opened !== undefined) onOpen?.(opened);
    }
  };
  return (
    <div
      ref={scroll}
      className="grid-list"
      role="grid"
      aria-label={label}
      aria-rowcount={count + 1}
      aria-activedescendant={count ? `${label}-${active}` : undefined}
      tabIndex={0}
      onKeyDown={onKeyDown}
      style={{ "--grid-width": `${props.minWidth ?? 640}px` } as CSSProperties}
    >
      <div className="grid-head" role="row" style={template}>
        {columns.map((column) => (
          <div key={column.name} role="columnheader" aria-sort={column.sort ?? undefined} className={column.num ? "num" : undefined}>
            {column.onSort ? <button type="button" onClick={column.onSort}>{column.title}</button> : column.title}
          </div>
        ))}
      </div>
      <div role="rowgroup" style={{ height: count * rowHeight, minWidth: props.minWidth ?? 640 }}>
        {Array.from({ length: last - first + 1 }, (_, at) => {
          const index = first + at;
          const value = row(index);
          const key = value === undefined ? undefined : rowKey(value);
          // By the place: a filter changes what rows say, and no row is made anew.
          return (
            <GridRow
              key={index}
              id={`${label}-${index}`}
              index={index}
              top={index * rowHeight}
              height={rowHeight}
              value={value}
              columns={columns}
              template={template}
              isSelected={index === active || (props.selectedKey !== undefined && key === props.selectedKey)}
              onActivate={setActive}
              onOpen={openRow}
            />
          );
        })}
      </div>
    </div>
  );
}

interface RowProps<T> {
  id: string;
  index: number;
  top: number;
  height: number;
  value: T | undefined;
  columns: GridColumn<T>[];
  template: CSSProperties;
  isSelected: boolean;
  onActivate: (index: number) => void;
  onOpen: (value: T) => void;
}

/** Drawn again only if something of it has changed. */
const GridRow = memo(Row) as typeof Row;

function Row<T>({ id, index, top, height, value, columns, template, isSelected, onActivate, onOpen }: RowProps<T>) {
  return (
    <div
      id={id}
      className="grid-row"
      role="row"
      aria-rowindex={index + 2}
      aria-selected={isSelected}
      style={{ ...template, transform: `translateY(${top}px)`, top: HEAD, height }}
      onClick={() => onActivate(index)}
      onDoubleClick={() => value !== undefined && onOpen(value)}
    >
      {columns.map((column) => (
        <div key={column.name} role="gridcell" className={column.num ? "num cell" : "cell"}>
          {value === undefined ? <span className="skeleton" style={{ width: "70%" }} /> : column.cell(value)}
        </div>
      ))}
    </div>
  );
}
