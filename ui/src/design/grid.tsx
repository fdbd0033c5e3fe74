/**
 * A list of any length: only rows in sight are elements. Rows come by index, so a list of 100,000
 * needs no array of 100,000. Arrow keys, Home, End and Page keys move; Enter opens.
 */
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type ReactNode, useEffect, useRef, useState } from "react";

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

export function Grid<T>(props: GridProps<T>) {
  const { columns, count, row, rowKey, onRange, onOpen, label, rowHeight = 32 } = props;
  const scroll = useRef<HTMLDivElement>(null);
  const [active, setActive] = useState(0);
  const virtual = useVirtualizer({
    count,
    getScrollElement: () => scroll.current,
    estimateSize: () => rowHeight,
    overscan: 12,
    scrollMargin: 34,
  });
  const shown = virtual.getVirtualItems();
  const first = shown[0]?.index ?? 0;
  const last = shown[shown.length - 1]?.index ?? 0;
  useEffect(() => onRange?.(first, last), [first, last, onRange]);
  const template = { gridTemplateColumns: columns.map((column) => column.width).join(" ") };
  const onKeyDown = (event: KeyboardEvent) => {
    const page = Math.max(1, last - first - 24);
    const moves: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -count, End: count };
    const move = moves[event.key];
    if (move !== undefined) {
      event.preventDefault();
      const next = Math.min(count - 1, Math.max(0, active + move));
      setActive(next);
      virtual.scrollToIndex(next);
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
      style={{ "--grid-width": `${props.minWidth ?? 640}px` } as React.CSSProperties}
    >
      <div className="grid-head" role="row" style={template}>
        {columns.map((column) => (
          <div key={column.name} role="columnheader" aria-sort={column.sort ?? undefined} className={column.num ? "num" : undefined}>
            {column.onSort ? <button type="button" onClick={column.onSort}>{column.title}</button> : column.title}
          </div>
        ))}
      </div>
      <div role="rowgroup" style={{ height: virtual.getTotalSize(), minWidth: props.minWidth ?? 640 }}>
        {shown.map(({ index, start }) => {
          const value = row(index);
          const key = value === undefined ? `empty-${index}` : rowKey(value);
          return (
            <div
              key={key}
              id={`${label}-${index}`}
              className="grid-row"
              role="row"
              aria-rowindex={index + 2}
              aria-selected={index === active || (props.selectedKey !== undefined && key === props.selectedKey)}
              style={{ ...template, transform: `translateY(${start - 34}px)`, top: 34, height: rowHeight }}
              onClick={() => setActive(index)}
              onDoubleClick={() => value !== undefined && onOpen?.(value)}
            >
              {columns.map((column) => (
                <div key={column.name} role="gridcell" className={column.num ? "num cell" : "cell"}>
                  {value === undefined ? <span className="skeleton" style={{ width: "70%" }} /> : column.cell(value)}
                </div>
              ))}
            </div>
          );
        })}
      </div>
    </div>
  );
}
