/**
 * Lines of a generation in the page's own memory: a key in a filter asks nobody, and the answer is painted
 * with the key. Another generation takes a moment; until it is there the lines of the one before are shown.
 */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useCan } from "../api/permissions";
import { useMoment, useWorkspace } from "../api/workspace";
import type { ColumnTable } from "./columns";
import { readLines, useBrowserReady } from "./engine";
import type { Lines } from "./sql";

/** More rows stay with the engine. */
const MOST_ROWS = 300_000;
const FORGOTTEN_AFTER_MS = 5_000;

/** `make` makes of the rows what the page asks; null until they are there, or if they are too many. */
export function useKeptLines<T>(lines: Lines, make: (table: ColumnTable) => T): T | null {
  const at = useWorkspace();
  const { generation } = useMoment();
  const isReady = useBrowserReady();
  const mayReadFiles = useCan("metadata.read_all");
  const result = useQuery({
    queryKey: ["lines", at.tenant, at.workspace, lines.name, generation],
    queryFn: async ({ signal }) => {
      const table = await readLines(at, lines, generation!, MOST_ROWS, signal);
      return table ? make(table) : null;
    },
    enabled: isReady && mayReadFiles && generation !== undefined,
    staleTime: Infinity,
    gcTime: FORGOTTEN_AFTER_MS,
    structuralSharing: false,
    placeholderData: keepPreviousData,
    retry: false,
  });
  return result.data ?? null;
}
