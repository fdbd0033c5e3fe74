/** What the caller may do: nothing else is offered. The server decides again on each request. */
import { useQuery } from "@tanstack/react-query";
import { type Me, readMe, type Workspace } from "./client";
import type { Schemas } from "./types";
import { useWorkspace } from "./workspace";

export type Permission = Schemas["Permission"];

const ADDED: [string, Permission[]][] = [
  ["viewer", ["assets.read", "runs.read", "query.run", "metadata.read_all"]],
  ["operator", ["runs.trigger", "runs.cancel", "runs.retry", "automation.manage", "sensors.push", "notifications.manage"]],
  ["editor", ["data.read", "assets.deploy", "assets.edit", "partitions.edit", "backfills.create", "backfills.manage", "facts.ingest"]],
  ["admin", ["assets.delete", "contracts.manage", "quarantine.manage", "limits.manage", "audit.read", "workers.work", "workspace.maintain"]],
  ["owner", ["keys.manage", "roles.manage"]],
];
const OF_WORKSPACES = new Set<Permission>(["metadata.read_all", "limits.manage", "workspace.maintain"]);

/** Permissions of a caller in a workspace; in one of its namespaces is enough, unless it concerns all. */
export function permissionsOf(me: Me, at: Workspace): Set<Permission> {
  const granted = new Set<Permission>();
  for (const { role, scope } of me.grants) {
    const [tenant, workspace, namespace] = scope.split("/");
    if (tenant !== at.tenant || (workspace && workspace !== "*" && workspace !== at.workspace)) continue;
    const last = ADDED.findIndex(([name]) => name === role);
    for (const permission of ADDED.slice(0, last + 1).flatMap(([, added]) => added)) {
      if (!namespace || !OF_WORKSPACES.has(permission)) granted.add(permission);
    }
  }
  return granted;
}

export const useMe = () => useQuery({ queryKey: ["me"], queryFn: readMe, staleTime: 60_000, retry: false });

export function usePermissions(): Set<Permission> {
  const at = useWorkspace();
  const me = useMe();
  return me.data ? permissionsOf(me.data, at) : new Set();
}

export const useCan = (permission: Permission): boolean => usePermissions().has(permission);
