/** The newest generation of each workspace that the page has heard of. It only grows. */
import type { Workspace } from "../api/client";

const newest = new Map<string, number>();
const listeners = new Set<() => void>();
const name = (at: Workspace): string => `${at.tenant}/${at.workspace}`;

export const newestGeneration = (at: Workspace): number | undefined => newest.get(name(at));

export function learnGeneration(at: Workspace, generation: number | undefined): void {
  if (generation === undefined || generation <= (newest.get(name(at)) ?? -1)) return;
  newest.set(name(at), generation);
  for (const listener of listeners) listener();
}

export function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
