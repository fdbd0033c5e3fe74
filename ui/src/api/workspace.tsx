/** Which workspace and generation a page is about. Both are in the URL. */
import { useParams, useSearch } from "@tanstack/react-router";
import { useSyncExternalStore } from "react";
import { newestGeneration, subscribe } from "../live/generation";
import type { Workspace } from "./client";

export function useWorkspace(): Workspace {
  const { tenant, workspace } = useParams({ strict: false });
  return { tenant: tenant ?? "", workspace: workspace ?? "" };
}

export interface Moment {
  /** The generation of everything on the page; undefined until the first answer. */
  generation: number | undefined;
  /** The page follows the newest generation. */
  isLive: boolean;
}

export function useMoment(): Moment {
  const at = useWorkspace();
  const { generation } = useSearch({ strict: false });
  const newest = useSyncExternalStore(subscribe, () => newestGeneration(at));
  return generation === undefined ? { generation: newest, isLive: true } : { generation, isLive: false };
}
