/** Reads and writes of the API as hooks. Every read of a page is of one generation. */
import {
  keepPreviousData,
  useInfiniteQuery,
  useMutation,
  useQuery,
  type UseQueryResult,
} from "@tanstack/react-query";
import { learnGeneration } from "../live/generation";
import { Problem, read, write, type WriteOptions } from "./client";
import type { Answer, Item, PathParameters, PathsOf, ReadPath, ReadQuery, WriteAnswer, WriteBody } from "./types";
import { useMoment, useWorkspace } from "./workspace";

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

export function useRead<R extends ReadPath>(path: R, options: ReadOptions<R> = {}): UseQueryResult<Answer<R>, Problem> {
  const at = useWorkspace();
  const moment = useMoment();
  const isNow = options.at === "now" && moment.isLive;
  const parameters = (options.path ?? {}) as PathParameters<"get", R>;
  const query = (options.query ?? {}) as ReadQuery<R>;
  return useQuery<Answer<R>, Problem>({
    queryKey: [at.tenant, at.workspace, path, parameters, query, moment.generation, isNow],
    queryFn: async ({ signal }) => {
      const answer = await read(at, path, parameters, query, isNow ? undefined : moment.generation, signal);
      if (isNow) learnGeneration(at, (answer as { generation?: number }).generation);
      return answer;
    },
    enabled: moment.generation !== undefined && (options.enabled ?? true),
    staleTime: isNow ? 15_000 : Infinity,
    placeholderData: keepPreviousData,
    refetchInterval: options.refetchInterval ?? false,
    retry: isWorthRepeating,
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
export function useList<R extends ReadPath>(path: R, options: ReadOptions<R> & { pageSize?: number } = {}): ListResult<Item<R>> {
  const at = useWorkspace();
  const moment = useMoment();
  const parameters = (options.path ?? {}) as PathParameters<"get", R>;
  const query = (options.query ?? {}) as ReadQuery<R>;
  const isNow = options.at === "now" && moment.isLive;
  const result = useInfiniteQuery({
    queryKey: ["list", at.tenant, at.workspace, path, parameters, query, moment.generation, options.pageSize ?? 100],
    queryFn: async ({ pageParam, signal }) =>
      (await read(
        at,
        path,
        parameters,
        { ...query, page_size: options.pageSize ?? 100, page_token: pageParam } as ReadQuery<R>,
        isNow || pageParam ? undefined : moment.generation,
        signal,
      )) as { items: Item<R>[]; next_page_token?: string },
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

/** A write. When it is done the page moves to a generation in which its effect is visible. */
export function useWrite<M extends Writing, R extends PathsOf<M>>(method: M, path: R) {
  const at = useWorkspace();
  return useMutation<
    WriteAnswer<M, R>,
    Problem,
    { path: PathParameters<M, R>; body: WriteBody<M, R> } & WriteOptions
  >({
    mutationFn: async ({ path: parameters, body, ...options }) => {
      const { answer, generation } = await write(at, method, path, parameters, body, options);
      learnGeneration(at, generation);
      return answer;
    },
  });
}
