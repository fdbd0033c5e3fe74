/** SQL over the metadata at the page's generation. Reads only. */
import { useMutation } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { Download, Play } from "lucide-react";
import { lazy, Suspense, useMemo, useState } from "react";
import { useRead } from "../api/hooks";
import { Problem } from "../api/client";
import { useCan } from "../api/permissions";
import { useMoment, useWorkspace } from "../api/workspace";
import { csv, download } from "../design/csv";
import { Grid } from "../design/grid";
import { Choice, Empty, Page, Panel, ProblemNote, Skeleton } from "../design/parts";
import { count, duration } from "../design/values";
import { useSetSearch } from "../layout/link";
import { ask, MOST_ROWS, queryServer, type Rows, useBrowserReady } from "../query/engine";

const Editor = lazy(async () => ({ default: (await import("./sql-editor")).SqlEditor }));
const route = getRouteApi("/w/$tenant/$workspace/sql");
const FIRST = `SELECT state, count(*) AS runs, max(finished_at) AS last
FROM orchestration.runs
GROUP BY state
ORDER BY runs DESC`;

export function SqlPage() {
  const search = route.useSearch();
  const set = useSetSearch();
  const at = useWorkspace();
  const { generation } = useMoment();
  const mayReadFiles = useCan("metadata.read_all");
  const isBrowserReady = useBrowserReady();
  const [text, setText] = useState(search.sql ?? FIRST);
  const snapshot = useRead("/snapshot");
  const tables = useMemo(() => Object.fromEntries((snapshot.data?.tables ?? []).map((table) => [table.table, [] as string[]])), [snapshot.data]);
  const running = useMutation<Rows, Problem, string>({
    mutationFn: (sql) => (search.engine === "browser" ? ask(at, sql, generation, MOST_ROWS, mayReadFiles) : queryServer(at, sql, generation, MOST_ROWS)),
  });
  const run = () => {
    set({ sql: text });
    running.mutate(text);
  };
  return (
    <Page
      full
      title="SQL"
      lead={`One SELECT over the tables of generation ${generation ?? "…"}. It cannot change anything.`}
      actions={
        <>
          {mayReadFiles ? <Choice label="Engine" value={search.engine ?? "server"} options={[["server", "On the server"], ["browser", isBrowserReady ? "In this browser" : "In this browser (loading)"]]} onChange={(engine) => set({ engine: engine === "server" ? undefined : engine })} /> : null}
          <button type="button" className="button primary" onClick={run} disabled={running.isPending}>
            <Play size={14} aria-hidden /> Run <kbd>Ctrl ↵</kbd>
          </button>
        </>
      }
    >
      <div className="question">
        <Suspense fallback={<div className="editor"><Skeleton rows={3} /></div>}>
          <Editor value={text} tables={tables} onChange={setText} onRun={run} />
        </Suspense>
        <Panel title="Tables" count={snapshot.data ? count(snapshot.data.tables.length) : undefined}>
          <div style={{ height: 190, overflow: "auto" }} tabIndex={0} role="region" aria-label="Tables">
            <table className="table fixed">
              <tbody>
                {snapshot.data?.tables.map((table) => (
                  <tr key={table.table}>
                    <td className="truncate">
                      <button type="button" className="linklike mono" title={`Ask for rows of ${table.table}`} onClick={() => setText(`SELECT *\nFROM ${table.table}\nLIMIT 100`)}>{table.table}</button>
                    </td>
                    <td className="num muted small" style={{ width: 64 }}>{count(table.rows)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </Panel>
      </div>
      {running.error ? <ProblemNote error={running.error} /> : null}
      <Panel
        fill
        title="Rows"
        count={running.data ? `${count(running.data.rows.length)}${running.data.truncated ? "+" : ""} in ${duration(running.data.ms)}, ${running.data.engine === "server" ? "on the server" : "in this browser"}` : undefined}
        actions={running.data?.rows.length ? <button type="button" className="button" onClick={() => download("rows.csv", csv(running.data!.columns.map((column) => column.name), running.data!.rows))}><Download size={14} aria-hidden /> CSV</button> : null}
      >
        {running.isPending ? <Skeleton /> : running.data ? <ResultRows result={running.data} /> : <Empty title="Nothing was asked yet">Ctrl and Enter run the statement.</Empty>}
      </Panel>
    </Page>
  );
}

function ResultRows({ result }: { result: Rows }) {
  if (!result.rows.length) return <Empty title="No row matches" />;
  const isNumber = (type: string) => /int|float|double|decimal/i.test(type) && !/list/i.test(type);
  return (
    <Grid<{ row: unknown[]; at: number }>
      label="Result"
      count={result.rows.length}
      row={(at) => ({ row: result.rows[at]!, at })}
      rowKey={(each) => String(each.at)}
      minWidth={result.columns.length * 130}
      columns={result.columns.map((column, place) => ({
        name: `${place}`,
        title: column.name,
        width: "minmax(110px, 1fr)",
        num: isNumber(column.type),
        cell: ({ row }) => <Value value={row[place]} />,
      }))}
    />
  );
}

function Value({ value }: { value: unknown }) {
  if (value === null || value === undefined) return <span className="faint">null</span>;
  const text = typeof value === "object" ? JSON.stringify(value) : typeof value === "number" && Number.isInteger(value) ? count(value) : String(value);
  return <bdi className="mono" title={text}>{text}</bdi>;
}
