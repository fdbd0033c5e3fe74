/** A list of any length by windows: only those in sight are asked for. */
import { keepPreviousData, useQueries, useQuery } from "@tanstack/react-query";
import { useCallback, useState } from "react";
import { useCan } from "../api/permissions";
import { useMoment, useWorkspace } from "../api/workspace";
import { ask, objects } from "./engine";
import { fill, type Lines, type Literal } from "./sql";

const SIZE = 200;

export interface Windows<T> {
  count: number;
  row: (index: number) => T | undefined;
  onRange: (first: number, last: number) => void;
  error: Error | null;
  /** No window has come yet. */
  isPending: boolean;
  isFetching: boolean;
}

export interface WindowsOptions {
  /** What the question is asked over. */
  lines?: Lines;
  enabled?: boolean;
}

/** `sql` has `$limit` and `$offset`, and `total` in each row. */
export function useWindows<T extends { total: number }>(name: string, sql: string, parameters: Record<string, Literal>, { lines, enabled = true }: WindowsOptions = {}): Windows<T> {
  const at = useWorkspace();
  const moment = useMoment();
  const inBrowser = useCan("metadata.read_all");
  const [range, setRange] = useState<[number, number]>([0, 0]);
  const first = Math.floor(range[0] / SIZE);
  const last = Math.min(first + 2, Math.floor(range[1] / SIZE));
  const places = Array.from({ length: last - first + 1 }, (_, index) => first + index).filter((place) => place > 0);
  const query = (place: number) => ({
    queryKey: ["window", at.tenant, at.workspace, name, parameters, moment.generation, place],
    queryFn: async ({ signal }: { signal: AbortSignal }) => {
      const text = fill(sql, { ...parameters, limit: SIZE, offset: place * SIZE });
      return objects<T>(await ask(at, text, moment.generation, SIZE, inBrowser, { lines, signal }));
    },
    enabled: enabled && moment.generation !== undefined,
    staleTime: Infinity,
    retry: false,
  });
  // By itself: `useQueries` has no previous data for a key that it has not seen, and the list would blink.
  const top = useQuery({ ...query(0), placeholderData: keepPreviousData });
  const results = useQueries({ queries: places.map(query) });
  const windows = new Map([[0, top.data], ...places.map((place, index) => [place, results[index]?.data] as const)]);
  const onRange = useCallback((from: number, to: number) => setRange([from, to]), []);
  return {
    count: windows.get(0)?.[0]?.total ?? 0,
    row: (index) => windows.get(Math.floor(index / SIZE))?.[index % SIZE],
    onRange,
    error: [top, ...results].find((each) => each.error)?.error ?? null,
    isPending: top.data === undefined,
    isFetching: [top, ...results].some((each) => each.isFetching),
  };
}
