/** Reads and writes of the API as hooks. Every read of a page is of one generation. */
import {
  keepPreviousData,
  type QueryClient,
  useInfiniteQuery,
  useMutation,
  useQuery,
  type UseMutationResult,
  type UseQueryResult,
} from "@tanstack/react-query";
import { askEarly, learnGeneration, newestGeneration } from "../live/generation";
import { Problem, readPlain, type Workspace, type WriteOptions, writePlain } from "./client";
import type { Answer, Item, PathParameters, PathsOf, ReadPath, ReadQuery, WriteAnswer, WriteBody } from "./types";
import { type Moment, useMoment, useWorkspace } from "./workspace";

interface ReadOptions<R extends string> {
  path?: PathParameters<"get", R>;
  query?: ReadQuery<R>;
  enabled?: boolean;
  /**
   * `now`: the answer depends on the time of day, or on processes, so while the page is live it is
   * asked for without a generation. `generation` (the default) is exact, and never asked for twice.
   */
  at?: "generation" | "now";
  refetchInterval?: number | false;
}

/** Whether a request may succeed when it is repeated. */
export const isWorthRepeating = (count: number, error: unknown): boolean =>
  count < 2 && (!(error instanceof Problem) || error.status === 0 || error.status === 503);

/** The options without their types: the compiler would compute those of all paths at once. */
interface PlainOptions {
  path?: object;
  query?: object;
  enabled?: boolean;
  at?: "generation" | "now";
  refetchInterval?: number | false;
  pageSize?: number;
}

/** A read as the cache knows it. */
function cachedRead(at: Workspace, moment: Moment, path: string, options: PlainOptions) {
  const isNow = options.at === "now" && moment.isLive;
  const parameters = options.path ?? {};
  const query = options.query ?? {};
  return {
    queryKey: [at.tenant, at.workspace, path, parameters, query, moment.generation, isNow],
    queryFn: async ({ signal }: { signal: AbortSignal }) => {
      const answer = await readPlain(at, path, parameters, query, isNow ? undefined : moment.generation, signal);
      if (isNow) learnGeneration(at, (answer as { generation?: number }).generation);
      return answer;
    },
    staleTime: isNow ? 15_000 : Infinity,
    retry: isWorthRepeating,
  };
}

/** A read that a page will make, with the same options: it is under way while the page's code loads. */
export interface EarlyRead {
  path: string;
  options: PlainOptions;
}

export const earlyRead = <R extends ReadPath>(path: R, options: ReadOptions<R>): EarlyRead => ({ path, options });

export async function startReads(client: QueryClient, at: Workspace, generation: number | undefined, reads: EarlyRead[]): Promise<void> {
  const isLive = generation === undefined;
  const moment = { isLive, generation: generation ?? newestGeneration(at) ?? (await askEarly(at)) };
  for (const { path, options } of reads) void client.prefetchQuery(cachedRead(at, moment, path, options));
}

export function useRead<R extends ReadPath>(path: R, options?: ReadOptions<R>): UseQueryResult<Answer<R>, Problem>;
export function useRead(path: string, options: PlainOptions = {}): UseQueryResult<unknown, Problem> {
  const at = useWorkspace();
  const moment = useMoment();
  return useQuery<unknown, Problem>({
    ...cachedRead(at, moment, path, options),
    enabled: moment.generation !== undefined && (options.enabled ?? true),
    placeholderData: keepPreviousData,
    refetchInterval: options.refetchInterval ?? false,
  });
}

export interface ListResult<T> {
  items: T[];
  isPending: boolean;
  isFetching: boolean;
  error: Problem | null;
  hasMore: boolean;
  more: () => void;
}

/** A list by its pages, all of one generation. */
export function useList<R extends ReadPath>(path: R, options?: ReadOptions<R> & { pageSize?: number }): ListResult<Item<R>>;
export function useList(path: string, options: PlainOptions = {}): ListResult<unknown> {
  const at = useWorkspace();
  const moment = useMoment();
  const parameters = options.path ?? {};
  const query = options.query ?? {};
  const isNow = options.at === "now" && moment.isLive;
  const result = useInfiniteQuery({
    queryKey: ["list", at.tenant, at.workspace, path, parameters, query, moment.generation, options.pageSize ?? 100],
    queryFn: async ({ pageParam, signal }) => {
      const page = { ...query, page_size: options.pageSize ?? 100, page_token: pageParam };
      const generation = isNow || pageParam ? undefined : moment.generation;
      return (await readPlain(at, path, parameters, page, generation, signal)) as { items: unknown[]; next_page_token?: string };
    },
    initialPageParam: "",
    getNextPageParam: (page) => page.next_page_token || undefined,
    enabled: moment.generation !== undefined && (options.enabled ?? true),
    staleTime: isNow ? 15_000 : Infinity,
    placeholderData: keepPreviousData,
    retry: isWorthRepeating,
  });
  return {
    items: result.data?.pages.flatMap((page) => page.items) ?? [],
    isPending: result.isPending,
    isFetching: result.isFetching,
    error: result.error as Problem | null,
    hasMore: result.hasNextPage,
    more: () => void (result.isFetchingNextPage || result.fetchNextPage()),
  };
}

type Writing = "post" | "put" | "patch" | "delete";

type WriteInput<M extends Writing, R extends string> = { path: PathParameters<M, R>; body: WriteBody<M, R> } & WriteOptions;

/** A write. When it is done the page moves to a generation in which its effect is visible. */
export function useWrite<M extends Writing, R extends PathsOf<M>>(method: M, path: R): UseMutationResult<WriteAnswer<M, R>, Problem, WriteInput<M, R>>;
export function useWrite(method: Writing, path: string): UseMutationResult<any, Problem, any> {
  const at = useWorkspace();
  return useMutation<unknown, Problem, { path: object; body: unknown } & WriteOptions>({
    mutationFn: async ({ path: parameters, body, ...options }) => {
      const { answer, generation } = await writePlain(at, method, path, parameters, body, options);
      learnGeneration(at, generation);
      return answer;
    },
  });
}
