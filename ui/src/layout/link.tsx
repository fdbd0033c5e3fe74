/** A link to a page of this workspace, at the same generation. `to` is relative to the workspace. */
import { Link, useNavigate, type RegisteredRouter } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useWorkspace } from "../api/workspace";

/** Paths of pages, below the workspace. */
export type PagePath = keyof RegisteredRouter["routesByPath"] extends infer P ? (P extends `/w/$tenant/$workspace${infer R}` ? R : never) : never;

export interface PageLinkProps {
  to: PagePath;
  params?: Record<string, string>;
  search?: Record<string, unknown>;
  className?: string;
  title?: string;
  tabIndex?: number;
  current?: boolean;
  children: ReactNode;
}

export function PageLink({ to, params, search, current, children, ...rest }: PageLinkProps) {
  const at = useWorkspace();
  return (
    <Link
      to={`/w/$tenant/$workspace${to}` as never}
      params={{ ...at, ...params } as never}
      search={((old: { generation?: number }) => ({ generation: old.generation, ...search })) as never}
      aria-current={current ? "page" : undefined}
      activeOptions={{ exact: true }}
      {...rest}
    >
      {children}
    </Link>
  );
}

/** The same as a function. */
export function useGo(): (to: PagePath, params?: Record<string, string>, search?: Record<string, unknown>) => void {
  const at = useWorkspace();
  const navigate = useNavigate();
  return (to, params, search) =>
    void navigate({
      to: `/w/$tenant/$workspace${to}` as never,
      params: { ...at, ...params } as never,
      search: ((old: { generation?: number }) => ({ generation: old.generation, ...search })) as never,
    });
}

/** Change what the URL says of this page; `undefined` removes. */
export function useSetSearch(): (change: Record<string, unknown>) => void {
  const navigate = useNavigate();
  return (change) => void navigate({ to: ".", search: ((old: object) => ({ ...old, ...change })) as never, replace: true });
}

export const AssetLink = ({ asset, children }: { asset: string; children?: ReactNode }) => (
  <PageLink to="/assets/$asset" params={{ asset }} title={asset}>
    {children ?? <bdi className="name mono">{asset}</bdi>}
  </PageLink>
);

export const RunLink = ({ run, children }: { run: string; children?: ReactNode }) => (
  <PageLink to="/runs/$run" params={{ run }} title={run}>
    {children ?? <bdi className="name mono">{run.slice(-8)}</bdi>}
  </PageLink>
);
