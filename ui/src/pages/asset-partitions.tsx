/** Partitions of an asset as ranges: a picture, and a table of the ranges. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Problem, read } from "../api/client";
import type { Schemas } from "../api/types";
import { useMoment, useWorkspace } from "../api/workspace";
import { Empty, Panel, ProblemNote, Skeleton } from "../design/parts";
import { State } from "../design/states";
import { count, plural } from "../design/values";
import { PageLink } from "../layout/link";
import { HeatMap, shownState } from "./heat-map";
import { partitionText } from "./partition-text";

const MOST_RANGES = 10_000;

/** All ranges of an asset, by pages; more than `MOST_RANGES` are cut, which is said. */
function useRanges(asset: string) {
  const at = useWorkspace();
  const { generation } = useMoment();
  return useQuery<{ body: Schemas["PartitionsBody"]; ranges: Schemas["StatusRange"][]; isCut: boolean }, Problem>({
    queryKey: ["ranges", at.tenant, at.workspace, asset, generation],
    queryFn: async ({ signal }) => {
      const ranges: Schemas["StatusRange"][] = [];
      for (let offset = 0; ; ) {
        const body = await read(at, "/assets/{asset}/partitions", { asset }, { limit: 500, offset }, generation, signal);
        ranges.push(...body.ranges);
        if (body.next_offset === null || ranges.length >= MOST_RANGES) return { body, ranges, isCut: body.next_offset !== null };
        offset = body.next_offset;
      }
    },
    enabled: generation !== undefined,
    staleTime: Infinity,
    placeholderData: keepPreviousData,
    retry: false,
  });
}

export function AssetPartitions({ asset, brief = false }: { asset: string; brief?: boolean }) {
  const result = useRanges(asset);
  const data = result.data;
  const drawn = data ? data.ranges.reduce((sum, range) => sum + range.partitions, 0) : 0;
  return (
    <>
      <Panel
        title="Partitions"
        count={data ? count(data.body.partitions) : undefined}
        actions={brief ? <PageLink to="/assets/$asset" params={{ asset }} search={{ view: "partitions" }} className="link">All</PageLink> : null}
      >
        {result.error ? (
          <div className="body"><ProblemNote error={result.error} /></div>
        ) : data ? (
          drawn ? <HeatMap ranges={data.ranges} total={drawn} /> : <Empty title="There are no partitions yet" />
        ) : (
          <Skeleton />
        )}
        {data?.isCut ? <div className="notice">The picture has the first {plural(data.ranges.length, "range")}.</div> : null}
      </Panel>
      {!brief && data && drawn ? (
        <Panel title="Ranges" count={count(data.ranges.length)}>
          <div className="table-wrap">
            <table className="table">
              <thead>
                <tr>
                  <th>State</th>
                  <th>Quality</th>
                  <th>First</th>
                  <th>Last</th>
                  <th className="num">Partitions</th>
                  <th />
                </tr>
              </thead>
              <tbody>
                {data.ranges.slice(0, 200).map((range) => (
                  <tr key={range.first}>
                    <td><State state={range.state} /></td>
                    <td>{range.quality === "UNKNOWN" ? <span className="faint">–</span> : <State state={shownState(range) === range.state ? range.quality : shownState(range)} />}</td>
                    <td className="mono">{partitionText(range.first) || "(whole)"}</td>
                    <td className="mono">{range.first === range.last ? "" : partitionText(range.last)}</td>
                    <td className="num">{count(range.partitions)}</td>
                    <td className="num">
                      <PageLink to="/assets/$asset" params={{ asset }} search={{ view: "explain", partition: partitionText(range.last) || undefined }} className="link">Explain</PageLink>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          {data.ranges.length > 200 ? <p className="body muted">The first 200 ranges. All of them: <code>servo partitions status {asset} --json</code></p> : null}
        </Panel>
      ) : null}
    </>
  );
}
