/** The addresses of the page. What a page shows is in its address: a link shows somebody else the same. */
import { useQuery } from "@tanstack/react-query";
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Navigate,
  Outlet,
} from "@tanstack/react-router";
import { cache } from "./api/cache";
import { readWorkspaces } from "./api/client";
import { type EarlyRead, startReads } from "./api/hooks";
import { Empty, Skeleton } from "./design/parts";
import { Fault, FaultPage, NotFoundPage } from "./layout/faults";
import { Shell } from "./layout/shell";
import { earlyOfAsset } from "./pages/asset-reads";

/** Reads of a URL's search: anything unexpected is left out. */
export const text = (value: unknown): string | undefined => (typeof value === "string" && value ? value : undefined);
export const oneOf = <T extends string>(value: unknown, options: readonly T[]): T | undefined => options.find((each) => each === value);
export const natural = (value: unknown): number | undefined => (Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined);

const root = createRootRoute({
  component: Outlet,
  notFoundComponent: () => <NotFoundPage />,
  errorComponent: ({ error }) => <FaultPage error={error} />,
});

function FirstWorkspace() {
  const workspaces = useQuery({ queryKey: ["workspaces"], queryFn: readWorkspaces, retry: false });
  if (workspaces.error) return <FaultPage error={workspaces.error} />;
  if (!workspaces.data) return <Skeleton />;
  const first = workspaces.data.items[0];
  if (!first)
    return (
      <Fault title="You see no workspace">
        <Empty title="You have no role in a workspace of this server">
          Somebody who manages roles can give you one. <code>servo roles grant user:ann@example.com viewer</code>
        </Empty>
      </Fault>
    );
  return <Navigate to="/w/$tenant/$workspace" params={first} replace />;
}

const home = createRoute({ getParentRoute: () => root, path: "/", component: FirstWorkspace });

export const workspaceRoute = createRoute({
  getParentRoute: () => root,
  path: "/w/$tenant/$workspace",
  component: Shell,
  validateSearch: (search: Record<string, unknown>): { generation?: number | undefined } => ({ generation: natural(search.generation) }),
  notFoundComponent: () => <NotFoundPage />,
  errorComponent: ({ error }) => <FaultPage error={error} />,
});

/** `early`: what the page reads first. It is asked for while the code of the page loads, and when a link to it is pointed at. */
const page = <const P extends string, S extends object>(
  path: P,
  load: () => Promise<Record<string, unknown>>,
  name: string,
  validateSearch: (search: Record<string, unknown>) => S,
  early: (params: Record<string, string>, view: string | undefined) => EarlyRead[] = () => [],
) =>
  createRoute({
    getParentRoute: () => workspaceRoute,
    path,
    component: lazyRouteComponent(load as never, name as never) as never,
    validateSearch,
    loaderDeps: ({ search }) => {
      const { generation, view } = search as { generation?: number; view?: string };
      return { generation, view };
    },
    loader: ({ params, deps }) => {
      const { tenant, workspace, ...others } = params as { tenant: string; workspace: string } & Record<string, string>;
      // Nobody waits for it: the page shows what became of each read.
      startReads(cache, { tenant, workspace }, deps.generation, early(others, deps.view)).catch(() => undefined);
    },
    errorComponent: ({ error }) => <FaultPage error={error} />,
  });

const RUN_VIEWS = ["timeline", "graph", "plan", "outputs", "costs", "explain"] as const;
export type RunView = (typeof RUN_VIEWS)[number];
const ASSET_VIEWS = ["partitions", "versions", "columns", "checks", "contract", "runs", "costs", "code", "explain"] as const;
export type AssetView = (typeof ASSET_VIEWS)[number];

const pages = [
  page("/", () => import("./pages/overview"), "OverviewPage", () => ({})),
  page("/assets", () => import("./pages/assets"), "AssetsPage", (search) => ({
    q: text(search.q),
    namespace: text(search.namespace),
    status: oneOf(search.status, ["HEALTHY", "WARNING", "UNHEALTHY", "UNKNOWN"]),
    state: text(search.state),
    sort: oneOf(search.sort, ["name", "updated", "rows"]),
  })),
  page("/lineage", () => import("./pages/lineage"), "LineagePage", (search) => ({
    asset: text(search.asset),
    column: text(search.column),
    open: text(search.open),
    view: oneOf(search.view, ["graph", "list", "near"]),
    namespace: text(search.namespace),
    q: text(search.q),
    node: text(search.node),
  })),
  page("/sql", () => import("./pages/sql"), "SqlPage", (search) => ({ sql: text(search.sql), engine: oneOf(search.engine, ["server", "browser"]) })),
  page("/runs", () => import("./pages/runs"), "RunsPage", (search) => ({
    state: text(search.state),
    asset: text(search.asset),
    since: text(search.since),
  })),
  page("/assets/$asset", () => import("./pages/asset"), "AssetPage", (search) => ({
    view: oneOf(search.view, ASSET_VIEWS),
    partition: text(search.partition),
    version: text(search.version),
    before: text(search.before),
    column: text(search.column),
  }), earlyOfAsset),
  page("/runs/$run", () => import("./pages/run"), "RunPage", (search) => ({
    view: oneOf(search.view, RUN_VIEWS),
    task: text(search.task),
    show: oneOf(search.show, ["code", "inputs"]),
    by: oneOf(search.by, ["asset", "task"]),
    node: text(search.node),
    state: text(search.state),
    q: text(search.q),
  })),
  page("/quarantine", () => import("./pages/quarantine"), "QuarantinePage", (search) => ({
    id: text(search.id),
    asset: text(search.asset),
    which: oneOf(search.which, ["all"]),
  })),
  page("/backfills", () => import("./pages/backfills"), "BackfillsPage", (search) => ({ id: text(search.id) })),
  page("/automation", () => import("./pages/automation"), "AutomationPage", (search) => ({
    view: oneOf(search.view, ["schedules", "sensors", "assets", "requests"]),
    name: text(search.name),
    project: text(search.project),
    request: text(search.request),
  })),
  page("/contracts", () => import("./pages/contracts"), "ContractsPage", (search) => ({
    asset: text(search.asset),
    which: oneOf(search.which, ["breached"]),
  })),
  page("/costs", () => import("./pages/costs"), "CostsPage", (search) => ({
    by: oneOf(search.by, ["asset", "day", "run", "asset,day"]),
    days: oneOf(String(search.days), ["7", "30", "90", "365"]),
    asset: text(search.asset),
  })),
  page("/audit", () => import("./pages/audit"), "AuditPage", (search) => ({
    actor: text(search.actor),
    action: text(search.action),
    outcome: oneOf(search.outcome, ["applied", "refused", "denied"]),
    resource: text(search.resource),
    since: text(search.since),
    record: text(search.record),
  })),
  page("/settings", () => import("./pages/settings"), "SettingsPage", (search) => ({
    view: oneOf(search.view, ["limits", "notifications", "keys", "roles"]),
  })),
];

export const router = createRouter({
  routeTree: root.addChildren([home, workspaceRoute.addChildren(pages)]),
  defaultPreload: "intent",
  defaultPendingMs: 150,
  defaultPendingComponent: () => <Skeleton rows={8} />,
  defaultNotFoundComponent: () => <NotFoundPage />,
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
