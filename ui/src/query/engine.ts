/** One interface, two engines: the server's SQL with row filters, and DuckDB in this browser. */
import { useQuery, keepPreviousData, type UseQueryResult } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";
import { base, Problem, request, type Workspace } from "../api/client";
import { isWorthRepeating } from "../api/hooks";
import { useCan } from "../api/permissions";
import { useMoment, useWorkspace } from "../api/workspace";
import type { ColumnTable } from "./columns";
import { fill, type Lines, type Literal, over } from "./sql";

export interface Rows {
  columns: { name: string; type: string }[];
  rows: unknown[][];
  truncated: boolean;
  engine: "server" | "browser";
  ms: number;
}

export const MOST_ROWS = 10_000;

export async function queryServer(at: Workspace, sql: string, generation: number | undefined, maxRows: number, signal?: AbortSignal): Promise<Rows> {
  const began = performance.now();
  const suffix = generation === undefined ? "" : `?generation=${generation}`;
  const response = await request(`${base(at)}/query${suffix}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Arco-Csrf": "1" },
    body: JSON.stringify({ sql, max_rows: Math.min(maxRows, MOST_ROWS) }),
    signal,
  });
  const answer = (await response.json()) as Omit<Rows, "engine" | "ms">;
  return { ...answer, engine: "server", ms: performance.now() - began };
}

type BrowserEngine = typeof import("./browser");
let browserEngine: Promise<BrowserEngine> | undefined;
let isReady = false;
const listeners = new Set<() => void>();

/** Load DuckDB when the page has nothing else to do. Queries go to the server until it is there. */
export function warmBrowserEngine(): void {
  if (browserEngine) return;
  browserEngine = import("./browser").then(async (engine) => {
    await engine.start();
    isReady = true;
    for (const listener of listeners) listener();
    return engine;
  });
  browserEngine.catch(() => undefined);
}

/** Whether the browser's engine can be asked. */
export const useBrowserReady = (): boolean =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => isReady,
  );

/** All rows of `lines` from the browser's engine, which must be ready; undefined if they are more than `most`. */
export const readLines = async (at: Workspace, lines: Lines, generation: number, most: number, signal: AbortSignal): Promise<ColumnTable | undefined> =>
  (await browserEngine!).readLines(at, lines, generation, most, signal);

/** Asks the browser's engine if it may and can, else the server. */
export async function ask(at: Workspace, sql: string, generation: number | undefined, maxRows: number, inBrowser: boolean, options: { lines?: Lines | undefined; signal?: AbortSignal | undefined } = {}): Promise<Rows> {
  const { lines, signal } = options;
  if (inBrowser && isReady && browserEngine && generation !== undefined) {
    try {
      return await (await browserEngine).queryBrowser(at, sql, generation, maxRows, options);
    } catch (error) {
      if (signal?.aborted) throw error;
      console.info("the query runs on the server:", error instanceof Error ? error.message : error);
    }
  }
  return queryServer(at, lines ? over(lines, sql) : sql, generation, maxRows, signal);
}

export interface QuestionOptions {
  maxRows?: number;
  enabled?: boolean;
  /** Show rows of the previous parameters until those of the new ones are there. */
  keep?: boolean;
  /** What the question is asked over. */
  lines?: Lines;
}

/** The rows of a question at the page's generation, as objects. */
export function useQuestion<T>(name: string, sql: string, parameters: Record<string, Literal>, options: QuestionOptions = {}): UseQueryResult<T[], Problem> {
  const at = useWorkspace();
  const moment = useMoment();
  const mayReadFiles = useCan("metadata.read_all");
  return useQuery<T[], Problem>({
    queryKey: ["sql", at.tenant, at.workspace, name, parameters, moment.generation],
    queryFn: async ({ signal }) => {
      const result = await ask(at, fill(sql, parameters), moment.generation, options.maxRows ?? 1_000, mayReadFiles, { lines: options.lines, signal });
      return objects<T>(result);
    },
    enabled: moment.generation !== undefined && (options.enabled ?? true),
    staleTime: Infinity,
    placeholderData: (options.keep ?? true) ? keepPreviousData : undefined,
    retry: isWorthRepeating,
  });
}

export function objects<T>(result: Rows): T[] {
  const names = result.columns.map((column) => column.name);
  return result.rows.map((row) => Object.fromEntries(row.map((value, at) => [names[at], value])) as T);
}
