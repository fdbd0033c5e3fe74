/** What the page of an asset reads first: asked for before its code is there. */
import { type EarlyRead, earlyRead } from "../api/hooks";

export const MOST_RANGES = 500;
const CELLS = 20_000;

export const rangesQuery = { limit: MOST_RANGES };
export const pictureQuery = { cells: CELLS };

export function earlyOfAsset({ asset = "" }: Record<string, string>, view: string | undefined): EarlyRead[] {
  const path = { asset };
  const reads = [earlyRead("/assets/{asset}", { path })];
  if (view === undefined || view === "partitions") reads.push(earlyRead("/assets/{asset}/partitions", { path, query: rangesQuery }));
  if (view === "partitions") reads.push(earlyRead("/assets/{asset}/partition-map", { path, query: pictureQuery }));
  return reads;
}
