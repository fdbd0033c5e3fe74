/** Partitions of an asset as ranges: a picture, and a table of the ranges. */
import { useEffect, useState } from "react";
import { useRead } from "../api/hooks";
import { Empty, Panel, ProblemNote, Skeleton } from "../design/parts";
import { State } from "../design/states";
import { count } from "../design/values";
import { PageLink } from "../layout/link";
import { MOST_RANGES, pictureQuery, rangesQuery } from "./asset-reads";
import { HeatMap, shownState } from "./heat-map";
import { partitionText } from "./partition-text";

const SHOWN_RANGES = 200;

export function AssetPartitions({ asset, brief = false }: { asset: string; brief?: boolean }) {
  // Ranges, if they are few; else the server makes a picture of them, whatever their number. Both are asked for at once.
  const result = useRead("/assets/{asset}/partitions", { path: { asset }, query: rangesQuery });
  const data = result.data;
  const hasMore = data !== undefined && data.next_offset !== null;
  const picture = useRead("/assets/{asset}/partition-map", { path: { asset }, query: pictureQuery, enabled: hasMore || !brief });
  const error = result.error ?? (hasMore ? picture.error : null);
  // The picture is painted first; the table, when the browser is at rest.
  const isAtRest = useRestAfter(data !== undefined);
  const ranges = isAtRest ? data?.ranges : undefined;
  return (
    <>
      <Panel
        title="Partitions"
        count={data ? count(data.partitions) : undefined}
        actions={brief ? <PageLink to="/assets/$asset" params={{ asset }} search={{ view: "partitions" }} className="link">All</PageLink> : null}
      >
        {error ? (
          <div className="body"><ProblemNote error={error} /></div>
        ) : data && (!hasMore || picture.data) ? (
          data.partitions ? <HeatMap asset={asset} ranges={data.ranges} total={data.partitions} counts={data.counts} picture={hasMore ? picture.data : undefined} /> : <Empty title="There are no partitions yet" />
        ) : (
          <Skeleton />
        )}
      </Panel>
      {!brief && data?.partitions && ranges ? (
        <Panel title="Ranges" count={hasMore ? `${MOST_RANGES}+` : count(ranges.length)}>
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
                {ranges.slice(0, SHOWN_RANGES).map((range) => (
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
          {data.ranges.length > SHOWN_RANGES ? <p className="body muted">The first {SHOWN_RANGES} ranges. All of them: <code>servo partitions status {asset} --json</code></p> : null}
        </Panel>
      ) : null}
    </>
  );
}

/** True once the browser has had nothing else to do after something was there. */
function useRestAfter(isThere: boolean): boolean {
  const [isAtRest, setAtRest] = useState(false);
  useEffect(() => {
    if (!isThere) return;
    const rest = () => setAtRest(true);
    if (!("requestIdleCallback" in window)) return void setTimeout(rest, 200);
    const waiting = requestIdleCallback(rest, { timeout: 500 });
    return () => cancelIdleCallback(waiting);
  }, [isThere]);
  return isAtRest;
}
