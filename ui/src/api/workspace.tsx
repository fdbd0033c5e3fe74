/** Which workspace and generation a page is about. Both are in the URL, and read from it once for all parts of a page. */
import { useParams, useSearch } from "@tanstack/react-router";
import { createContext, type ReactNode, useContext, useMemo, useSyncExternalStore } from "react";
import { newestGeneration, subscribe } from "../live/generation";
import type { Workspace } from "./client";

interface Place {
  at: Workspace;
  /** Of the URL; undefined while the page follows the newest. */
  generation: number | undefined;
}

const PlaceContext = createContext<Place>({ at: { tenant: "", workspace: "" }, generation: undefined });

/** Lists have hundreds of parts that ask where they are: a context answers without a subscription for each. */
export function PlaceProvider({ children }: { children: ReactNode }) {
  const { tenant = "", workspace = "" } = useParams({ strict: false });
  const generation = useSearch({ strict: false, select: (search) => search.generation });
  const place = useMemo(() => ({ at: { tenant, workspace }, generation }), [tenant, workspace, generation]);
  return <PlaceContext value={place}>{children}</PlaceContext>;
}

export const usePlace = (): Place => useContext(PlaceContext);
export const useWorkspace = (): Workspace => usePlace().at;

export interface Moment {
  /** The generation of everything on the page; undefined until the first answer. */
  generation: number | undefined;
  /** The page follows the newest generation. */
  isLive: boolean;
}

export function useMoment(): Moment {
  const { at, generation } = usePlace();
  const newest = useSyncExternalStore(subscribe, () => newestGeneration(at));
  return generation === undefined ? { generation: newest, isLive: true } : { generation, isLive: false };
}
