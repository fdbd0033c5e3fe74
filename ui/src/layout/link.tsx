/**
 * A link to a page of this workspace, at the same generation. `to` is relative to the workspace.
 *
 * Lists have many links, and each `Link` of the router works its address out anew whenever anything in the URL
 * changes, as with each key in a filter. These depend on the workspace and the generation alone.
 */
import { defaultStringifySearch, type RegisteredRouter, useNavigate, useRouter } from "@tanstack/react-router";
import type { MouseEvent, ReactNode } from "react";
import { usePlace, useWorkspace } from "../api/workspace";

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
  const { at, generation } = usePlace();
  const router = useRouter();
  const path = `/w/$tenant/$workspace${to}`;
  const values: Record<string, string> = { ...at, ...params };
  const kept = { generation, ...search };
  const target = { to: path, params: values, search: kept } as never;
  const onClick = (event: MouseEvent) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    void router.navigate(target);
  };
  const preload = () => void router.preloadRoute(target).catch(() => undefined);
  const address = path.replace(/\$(\w+)/g, (_, name: string) => encodeURIComponent(values[name] ?? ""));
  return (
    <a href={address + defaultStringifySearch(kept)} aria-current={current ? "page" : undefined} onClick={onClick} onMouseEnter={preload} onTouchStart={preload} {...rest}>
      {children}
    </a>
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
