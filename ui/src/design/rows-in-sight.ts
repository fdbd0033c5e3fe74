/**
 * Which rows of a list are in sight, if all have one height: a division. A library that measures rows keeps a place
 * for each of them, and makes 100,000 places anew when a key in a filter changes their number.
 */
import { type RefObject, useLayoutEffect, useState } from "react";

interface RowsInSight {
  first: number;
  last: number;
  /** Moves the list as little as is needed to bring a row into sight. */
  scrollTo: (index: number) => void;
}

/** `head` is the height of what covers the first rows; rows before and after those in sight are there too (`overscan`). */
export function useRowsInSight(scroll: RefObject<HTMLElement | null>, count: number, height: number, head: number, overscan: number): RowsInSight {
  // Before the list was measured it may be as high as the window.
  const [[top, rows], setSight] = useState<readonly [number, number]>(() => [0, Math.ceil(innerHeight / height)]);
  useLayoutEffect(() => {
    const element = scroll.current!;
    const look = () => {
      const now: readonly [number, number] = [Math.floor(element.scrollTop / height), Math.ceil(element.clientHeight / height) + 1];
      setSight((old) => (old[0] === now[0] && old[1] === now[1] ? old : now));
    };
    look();
    element.addEventListener("scroll", look, { passive: true });
    const observer = new ResizeObserver(look);
    observer.observe(element);
    return () => {
      element.removeEventListener("scroll", look);
      observer.disconnect();
    };
  }, [scroll, height]);
  // A list that became shorter is scrolled back by the browser, a moment later.
  const begin = Math.max(0, Math.min(top, count - rows));
  const scrollTo = (index: number) => {
    const element = scroll.current!;
    const least = (index + 1) * height + head - element.clientHeight;
    element.scrollTop = Math.max(least, Math.min(element.scrollTop, index * height));
  };
  return { first: Math.max(0, begin - overscan), last: Math.min(count, begin + rows + overscan) - 1, scrollTo };
}
