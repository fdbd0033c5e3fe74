/** The newest generation of each workspace that the page has heard of. It only grows. */
import { base, request, type Workspace } from "../api/client";

const newest = new Map<string, number>();
const listeners = new Set<() => void>();
const name = (at: Workspace): string => `${at.tenant}/${at.workspace}`;

export const newestGeneration = (at: Workspace): number | undefined => newest.get(name(at));

export function learnGeneration(at: Workspace, generation: number | undefined): void {
  if (generation === undefined || generation <= (newest.get(name(at)) ?? -1)) return;
  newest.set(name(at), generation);
  for (const listener of listeners) listener();
}

/** Of who asked first, while the code of the page was loading. */
const early = new Map<string, Promise<number>>();

/** Asks the server, before a page is there that will ask the same. */
export function askEarly(at: Workspace): Promise<number> {
  const answer = early.get(name(at)) ?? ask(at);
  early.set(name(at), answer);
  answer.catch(() => undefined);
  return answer;
}

/** The newest generation, from the server. */
export function askNewest(at: Workspace, signal: AbortSignal): Promise<number> {
  const answer = early.get(name(at)) ?? ask(at, signal);
  early.delete(name(at));
  return answer;
}

async function ask(at: Workspace, signal?: AbortSignal): Promise<number> {
  const { generation } = (await (await request(base(at), { signal })).json()) as { generation: number };
  learnGeneration(at, generation);
  return generation;
}

export function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
