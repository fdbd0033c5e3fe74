/** What the caller may do: nothing else is offered. The server says it, and decides again on each request. */
import { useQuery } from "@tanstack/react-query";
import { readSession, type Session, type Workspace } from "./client";
import type { Schemas } from "./types";
import { useWorkspace } from "./workspace";

export type Permission = Schemas["Permission"];

/** Permissions of a caller in a workspace: everywhere in it, or in one of its namespaces. */
function permissionsOf(session: Session, at: Workspace): Set<Permission> {
  const here = session.workspaces?.find((each) => each.tenant === at.tenant && each.workspace === at.workspace);
  return new Set(here ? [...here.permissions, ...Object.values(here.namespaces).flat()] : []);
}

export const sessionQuery = { queryKey: ["session"], queryFn: readSession, staleTime: 60_000, retry: false };
export const useSession = () => useQuery(sessionQuery);

export function usePermissions(): Set<Permission> {
  const at = useWorkspace();
  const session = useSession();
  return session.data ? permissionsOf(session.data, at) : new Set();
}

export const useCan = (permission: Permission): boolean => usePermissions().has(permission);
