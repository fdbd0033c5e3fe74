/**
 * Runs before the rest of the page's code has come, and asks for what the first page will read: the answers come
 * while the code is loaded. It imports nothing, so that nothing is loaded before it.
 *
 * Reads are of the newest generation, and say which one that is; `takeEarly` in `api/client.ts` hands them out. One
 * of another generation than the page's is not used.
 */
const KEPT_MS = 10_000;
const early = new Map<string, Promise<Response>>();
window.arcoEarly = early;
setTimeout(() => early.clear(), KEPT_MS);

const ask = (url: string): void => {
  const answer = fetch(url, { credentials: "same-origin", headers: { Accept: "application/json" } });
  answer.catch(() => undefined);
  early.set(url, answer);
};

/** Below the workspace; the same addresses as the pages ask for. */
function reads([page, name]: string[], search: URLSearchParams): string[] {
  const isPlain = search.size === 0;
  if (page === "assets" && name) {
    const path = `/assets/${name}`;
    return search.get("view") === "partitions" ? [path, `${path}/partitions?limit=500`, `${path}/partition-map?cells=20000`] : [path];
  }
  if (page === "assets" && isPlain) return ["/assets?page_size=50"];
  if (page === "runs" && name) return [`/runs/${name}?waiting=false`, ...(isPlain ? [`/runs/${name}/tasks?page_size=50`] : [])];
  return [];
}

const [place, tenant, workspace, ...page] = location.pathname.slice(1).split("/").map((part) => encodeURIComponent(decodeURIComponent(part)));
ask("/auth/session");
if (place === "w" && tenant && workspace) {
  const search = new URLSearchParams(location.search);
  const base = `/api/v1/workspaces/${tenant}/${workspace}`;
  ask(base);
  if (!search.has("generation")) for (const path of reads(page, search)) ask(base + path);
}

declare global {
  interface Window {
    arcoEarly?: Map<string, Promise<Response>>;
  }
}

export {};
