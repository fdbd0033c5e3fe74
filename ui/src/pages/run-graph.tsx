/** The tasks of a run and what each waits for: a node for an asset, however many tasks it has, or for each task. */
import { useMemo } from "react";
import { useRead } from "../api/hooks";
import type { Answer } from "../api/types";
import { Choice, Empty, Panel, ProblemNote, Skeleton } from "../design/parts";
import { State } from "../design/states";
import { count, Name, plural } from "../design/values";
import { AssetLink, PageLink, useGo, useSetSearch } from "../layout/link";
import type { AssetGraph } from "./asset-graph";
import { AssetGraphView } from "./asset-graph-view";
import { partitionText } from "./partition-text";
import { runRoute } from "./run";

type Body = Answer<"/runs/{run_id}/graph">;
type Node = Body["nodes"][number];
const BY = [["asset", "A node for each asset"], ["task", "A node for each task"]] as const;

const labelOf = (node: Node): string => (node.partition ? `${node.asset} ${partitionText(node.partition)}` : node.tasks > 1 ? `${node.asset} ×${node.tasks}` : node.asset);

function graphOf(body: Body): AssetGraph {
  const [ups, downs] = [new Int32Array(body.nodes.length), new Int32Array(body.nodes.length)];
  for (const [source, target] of body.edges) {
    ups[target]! += 1;
    downs[source]! += 1;
  }
  return {
    assets: body.nodes.map(labelOf),
    states: body.nodes.map((node) => node.state),
    ups,
    downs,
    sources: Int32Array.from(body.edges, ([source]) => source),
    targets: Int32Array.from(body.edges, ([, target]) => target),
  };
}

export function RunGraph({ run }: { run: string }) {
  const { by = "asset", node: selected } = runRoute.useSearch();
  const set = useSetSearch();
  const go = useGo();
  const result = useRead("/runs/{run_id}/graph", { path: { run_id: run }, query: { by } });
  const body = result.data;
  const graph = useMemo(() => (body ? graphOf(body) : null), [body]);
  if (result.error && !body) return <ProblemNote error={result.error} />;
  if (!body || !graph) return <Skeleton rows={10} />;
  if (!body.nodes.length) return <Empty title="The plan has no tasks">Nothing had to run, or it is not planned yet.</Empty>;
  const at = selected === undefined ? -1 : graph.assets.indexOf(selected);
  const chosen = body.nodes[at];
  const tasksOf = (node: Node) => (node.task_id ? { task: node.task_id } : { q: node.asset });
  return (
    <>
      <div className="toolbar">
        <Choice label="Nodes" value={by} options={BY} onChange={(value) => set({ by: value === "asset" ? undefined : value, node: undefined })} />
        <span className="spring" />
        <span className="muted num" role="status">
          {body.truncated ? `the first ${count(body.nodes.length)} of ${count(body.node_count)} nodes` : `${plural(body.nodes.length, by)}, ${plural(body.edges.length, "edge")}`}
        </span>
      </div>
      <Panel fill>
        <div className="graph-bar" role="status">
          {chosen ? (
            <>
              <State state={chosen.state} />
              <AssetLink asset={chosen.asset} />
              {chosen.partition ? <Name mono>{partitionText(chosen.partition)}</Name> : null}
              {chosen.tasks > 1 ? <span className="muted">{count(chosen.finished)} of {plural(chosen.tasks, "task")} succeeded</span> : null}
              <span className="spring" />
              <PageLink to="/runs/$run" params={{ run }} search={tasksOf(chosen)} className="button">{chosen.task_id ? "Open the task" : "Its tasks"}</PageLink>
            </>
          ) : (
            <span className="muted">An edge is a task that waits for another. Drag to move, scroll to zoom, click to select; the tab “Tasks” has the same as a list.</span>
          )}
        </div>
        <AssetGraphView
          graph={graph}
          label={`Graph of ${plural(graph.assets.length, by)} of the run${chosen ? `, ${graph.assets[at]} is selected` : ""}`}
          selected={selected}
          found={null}
          onSelect={(label) => set({ node: label })}
          onOpen={(label) => go("/runs/$run", { run }, tasksOf(body.nodes[graph.assets.indexOf(label)]!))}
        />
      </Panel>
    </>
  );
}
