/**
 * DuckDB in this browser, over the Parquet files of a generation (ADR 45). For those who may read the
 * whole metadata: the server signs a URL for each file, and answers nothing else.
 *
 * Tables are views over files, made when a query first names them at a generation. Queries run one
 * after the other, so none sees the views of another generation. Rows that many questions are asked over
 * (`Lines`) become a table, so that a keystroke in a filter reads no file; those of two generations are kept.
 */
import * as duckdb from "@duckdb/duckdb-wasm";
import workerUrl from "@duckdb/duckdb-wasm/dist/duckdb-browser-eh.worker.js?url";
import wasmUrl from "@duckdb/duckdb-wasm/dist/duckdb-eh.wasm?url";
import { address, base, request, type Workspace } from "../api/client";
import type { Schemas } from "../api/types";
import type { ColumnTable } from "./columns";
import type { Rows } from "./engine";
import { type Lines, over, tablesOf } from "./sql";

let database: duckdb.AsyncDuckDB;
let connection: duckdb.AsyncDuckDBConnection;
let queue: Promise<unknown> = Promise.resolve();
let shown = "";
const made = new Set<string>();
const registered = new Set<string>();
const MOST_KEPT = 2;
/** Names of tables by the generation and the rows that they have, the least used first. */
const kept = new Map<string, string>();
let keptBefore = 0;

export async function start(): Promise<void> {
  database = new duckdb.AsyncDuckDB(new duckdb.VoidLogger(), new Worker(workerUrl));
  await database.instantiate(wasmUrl);
  await database.open({
    query: { castBigIntToDouble: true, castDecimalToDouble: true },
    filesystem: { reliableHeadRequests: true, allowFullHTTPReads: false, forceFullHTTPReads: false },
  });
  connection = await database.connect();
  // Extensions are ours, of the same version as the engine; nothing comes from elsewhere.
  await connection.query(`SET custom_extension_repository='${location.origin}/duckdb'`);
  await connection.query("INSTALL parquet; LOAD parquet");
  await connection.query("SET autoinstall_known_extensions=false; SET allow_community_extensions=false");
}

export interface BrowserOptions {
  lines?: Lines | undefined;
  /** A query that nobody waits for any more does not run. */
  signal?: AbortSignal | undefined;
}

export function queryBrowser(at: Workspace, sql: string, generation: number, maxRows: number, options: BrowserOptions = {}): Promise<Rows> {
  return inTurn(options.signal, () => run(at, sql, generation, maxRows, options.lines));
}

/** Does something after all that was asked for before. */
function inTurn<T>(signal: AbortSignal | undefined, task: () => Promise<T>): Promise<T> {
  const answer = queue.then(() => {
    signal?.throwIfAborted();
    return task();
  });
  queue = answer.catch(() => undefined);
  return answer;
}

async function run(at: Workspace, sql: string, generation: number, maxRows: number, lines?: Lines): Promise<Rows> {
  const began = performance.now();
  const plainText = sql.trim().replace(/;\s*$/, "");
  await show(at, tablesOf(sql), generation);
  const text = lines ? over({ name: lines.name, sql: `SELECT * FROM ${await keep(at, lines, generation)}` }, plainText) : plainText;
  const result = await connection.query(`SELECT * FROM (\n${text}\n) LIMIT ${maxRows + 1}`);
  const columns = result.schema.fields.map((field) => ({ name: field.name, type: String(field.type) }));
  const isTime = columns.map((column) => /^(Timestamp|Date)/.test(column.type));
  const rows = result.toArray().map((row) => (Object.values(row.toJSON()) as unknown[]).map((value, index) => plain(value, isTime[index]!)));
  return { columns, rows: rows.slice(0, maxRows), truncated: rows.length > maxRows, engine: "browser", ms: performance.now() - began };
}

/** All rows of `lines`, as columns. Undefined if they are more than `most`. */
export function readLines(at: Workspace, lines: Lines, generation: number, most: number, signal: AbortSignal): Promise<ColumnTable | undefined> {
  return inTurn(signal, async () => {
    const table = await keep(at, lines, generation);
    const counted = await connection.query(`SELECT CAST(count(*) AS INTEGER) AS rows FROM ${table}`);
    return Number(counted.get(0)?.rows) > most ? undefined : ((await connection.query(`SELECT * FROM ${table}`)) as unknown as ColumnTable);
  });
}

/** The name of a table that has these rows. */
async function keep(at: Workspace, lines: Lines, generation: number): Promise<string> {
  const key = `${at.tenant}/${at.workspace}/${generation}/${lines.name}`;
  let table = kept.get(key);
  if (table === undefined) {
    await show(at, tablesOf(lines.sql), generation);
    table = `kept_${++keptBefore}`;
    await connection.query(`CREATE TABLE ${table} AS ${lines.sql}`);
  }
  kept.delete(key);
  kept.set(key, table);
  for (const [oldest, name] of [...kept].slice(0, -MOST_KEPT)) {
    kept.delete(oldest);
    await connection.query(`DROP TABLE ${name}`);
  }
  return table;
}

/** Make views of tables at a generation. */
async function show(at: Workspace, tables: string[], generation: number): Promise<void> {
  const place = `${at.tenant}/${at.workspace}/${generation}`;
  if (place !== shown) {
    made.clear();
    shown = place;
  }
  const wanted = tables.filter((table) => !made.has(table));
  if (!wanted.length) return;
  const response = await request(base(at) + address("/files", {}, { table: wanted, generation }));
  const listed = (await response.json()) as Schemas["FilesAnswer"];
  const absent = wanted.filter((table) => !listed.tables.some((each) => each.table === table));
  if (absent.length) throw new Error(`${absent.join(", ")} has no files: it has no rows, or is not a table of files`);
  for (const table of listed.tables) {
    for (const file of table.files) {
      if (registered.has(file.path)) continue;
      await database.registerFileURL(file.path, `${location.origin}${base(at)}${file.url}`, duckdb.DuckDBDataProtocol.HTTP, false);
      registered.add(file.path);
    }
    await connection.query(`CREATE SCHEMA IF NOT EXISTS ${table.table.split(".")[0]}`);
    await connection.query(`CREATE OR REPLACE VIEW ${table.table} AS ${table.sql}`);
    made.add(table.table);
  }
}

/** Values as JSON of the server has them. */
function plain(value: unknown, isTime: boolean): unknown {
  if (value === null || value === undefined) return null;
  if (typeof value === "bigint") return Number(value);
  if (isTime && typeof value === "number") return new Date(value).toISOString();
  if (typeof value === "object") {
    if ("toArray" in value) return Array.from((value as { toArray(): Iterable<unknown> }).toArray(), (each) => plain(each, false));
    if ("toJSON" in value) return Object.fromEntries(Object.entries((value as { toJSON(): object }).toJSON()).map(([key, each]) => [key, plain(each, false)]));
  }
  return value;
}
