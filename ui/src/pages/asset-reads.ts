/** What the page of an asset reads first: asked for before its code is there. */
import { type EarlyRead, earlyRead } from "../api/hooks";

export const MOST_RANGES = 500;
const CELLS = 20_000;

export const rangesQuery = { limit: MOST_RANGES };
export const pictureQuery = { cells: CELLS };

export function earlyOfAsset({ asset = "" }: Record<string, string>, view: string | undefined): EarlyRead[] {
  const path = { asset };
  const asked = earlyRead("/assets/{asset}", { path });
  if (view !== "partitions") return [asked];
  return [asked, earlyRead("/assets/{asset}/partitions", { path, query: rangesQuery }), earlyRead("/assets/{asset}/partition-map", { path, query: pictureQuery })];
}
