/** Requests to the API: typed by path, errors as `Problem`. Nothing else of the page calls `fetch`. */
import type { Answer, PathParameters, ReadPath, ReadQuery, Schemas } from "./types";

export interface Workspace {
  tenant: string;
  workspace: string;
}

type ProblemDetails = Partial<Schemas["ProblemDetails"]>;

/** A request that was not carried out. Status 0: no answer came. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly details: ProblemDetails,
  ) {
    super(details.detail ?? "The server cannot be reached.");
  }
  get hint(): string {
    return this.details.hint ?? "";
  }
  get code(): string {
    return this.details.code ?? "";
  }
}

export const base = (at: Workspace): string =>
  `/api/v1/workspaces/${encodeURIComponent(at.tenant)}/${encodeURIComponent(at.workspace)}`;

type Value = string | number | boolean | readonly (string | number)[] | null | undefined;

export function address(path: string, parameters: object = {}, query: object = {}): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(String((parameters as Record<string, unknown>)[name])),
  );
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query) as [string, Value][]) {
    if (value === undefined || value === null || value === "") continue;
    for (const each of Array.isArray(value) ? value : [value]) search.append(name, String(each));
  }
  const text = search.toString();
  return text ? `${filled}?${text}` : filled;
}

/** An answer that was asked for before the page's code was there; each is given once. */
function takeEarly(url: string): Promise<Response> | undefined {
  const answer = window.arcoEarly?.get(url);
  window.arcoEarly?.delete(url);
  return answer;
}

/** The same for a read: only if it is of the generation that the page is about. */
async function takeEarlyRead(url: string, generation: number | undefined): Promise<Response | undefined> {
  const response = await takeEarly(url)?.catch(() => undefined);
  const isRight = generation === undefined || response?.headers.get("Arco-Generation") === String(generation);
  return response?.ok && isRight ? response : undefined;
}

export async function request(url: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await ((init.method ? undefined : takeEarly(url)) ?? fetch(url, { credentials: "same-origin", ...init }));
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, { hint: "Check that the server runs, then try again." });
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

async function problemOf(response: Response): Promise<Problem> {
  try {
    return new Problem(response.status, (await response.json()) as ProblemDetails);
  } catch {
    return new Problem(response.status, { detail: response.statusText || "The request failed." });
  }
}

/** A read by its path; `read` has the types. */
export async function readPlain(at: Workspace, path: string, parameters: object, query: object, generation: number | undefined, signal?: AbortSignal): Promise<unknown> {
  const response =
    (await takeEarlyRead(base(at) + address(path, parameters, query), generation)) ??
    (await request(base(at) + address(path, parameters, { ...query, generation }), { signal, headers: { Accept: "application/json" } }));
  return response.json();
}

export const read = readPlain as <R extends ReadPath>(
  at: Workspace,
  path: R,
  parameters: PathParameters<"get", R>,
  query: ReadQuery<R>,
  generation: number | undefined,
  signal?: AbortSignal,
) => Promise<Answer<R>>;

export interface WriteOptions {
  /** The ETag of what was read: the write fails if it has changed since. */
  ifMatch?: string;
  /** The same key with the same request has its effect once. */
  key?: string;
}

/** A write. Answers with the generation in which its effect can be seen. `useWrite` has the types. */
export async function writePlain(at: Workspace, method: string, path: string, parameters: object, body: unknown, options: WriteOptions = {}): Promise<{ answer: unknown; generation: number | undefined }> {
  const headers: Record<string, string> = {
    "Content-Type": "application/json",
    "X-Arco-Csrf": "1",
    "Idempotency-Key": options.key ?? crypto.randomUUID(),
  };
  if (options.ifMatch) headers["If-Match"] = options.ifMatch;
  const url = base(at) + address(path, parameters);
  const response = await request(url, { method: method.toUpperCase(), headers, body: JSON.stringify(body ?? {}) });
  const generation = response.headers.get("Arco-Generation");
  return {
    answer: await response.json(),
    generation: generation === null ? undefined : Number(generation),
  };
}

/** Who asks, and what he may do. `caller` is null for nobody; the request itself is never a 401. */
export interface Session {
  caller: { kind: string; id: string; name: string } | null;
  /** Where to log in, if this server has a login. */
  login: string | null;
  /** Under `servo dev`: the route that says what became of the last save. */
  development?: string;
  workspaces?: (Workspace & { permissions: Schemas["Permission"][]; namespaces: Record<string, Schemas["Permission"][]> })[];
}

export interface DevelopmentState {
  state: "DEPLOYING" | "DEPLOYED" | "BROKEN";
  deployment: number | null;
  message: string;
  hint: string;
  problems: { file: string; line: number; message: string; hint: string }[];
}

export const readSession = async (): Promise<Session> => (await request("/auth/session")).json() as Promise<Session>;
export const readDevelopment = async (path: string): Promise<DevelopmentState> => (await request(path)).json() as Promise<DevelopmentState>;
export const readWorkspaces = async (): Promise<{ items: Workspace[] }> =>
  (await request("/api/v1/workspaces")).json() as Promise<{ items: Workspace[] }>;
