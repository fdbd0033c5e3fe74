/** The lines of all assets, filtered and sorted in memory as the question `assets` does it. */
import { type Column, type ColumnTable, numbers, texts } from "../query/columns";

export interface AssetLine {
  asset: string;
  namespace: string;
  description: string;
  owners: string;
  kinds: string;
  state: string;
  materialized_ms: number | null;
  last_rows: number | null;
  last_wall_ms: number | null;
  total: number;
}

export interface AssetFilter {
  q: string;
  namespace: string;
  state: string;
  sort: "name" | "updated" | "rows";
}

const NAMES = ["asset", "namespace", "description", "owners", "kinds", "state", "materialized_ms", "last_rows", "last_wall_ms"] as const;
const SORTED_BY = { updated: "materialized_ms", rows: "last_rows" } as const;

const MOST_ANSWERS = 16;

export class AssetIndex {
  private readonly words: string[];
  private readonly namespaces: string[];
  private readonly states: string[];
  private readonly orders = new Map<string, Int32Array>();
  /** What was asked before, the newest last: a key that is taken back asks for the same again. */
  private answers: { filter: AssetFilter; text: string; rows: Int32Array }[] = [];

  /** `table` has the lines in the order of their names. */
  constructor(private readonly table: ColumnTable) {
    this.words = texts(this.column("words"));
    this.namespaces = texts(this.column("namespace"));
    this.states = texts(this.column("state"));
  }

  private column(name: string): Column {
    const column = this.table.getChild(name);
    if (!column) throw new Error(`the lines of assets have no column ${name}`);
    return column;
  }

  line(row: number): AssetLine {
    return { ...(Object.fromEntries(NAMES.map((name) => [name, this.column(name).get(row)])) as unknown as AssetLine), total: 0 };
  }

  /** Numbers of the lines that match, in order. What a longer text matches is looked for among what a shorter one did. */
  matching(filter: AssetFilter): Int32Array {
    const { q, namespace, state, sort } = filter;
    const text = q.toLowerCase();
    const alike = this.answers.filter(({ filter: each }) => each.namespace === namespace && each.state === state && each.sort === sort);
    const same = alike.find((each) => each.text === text);
    if (same) return same.rows;
    const wider = alike.filter((each) => text.includes(each.text)).map((each) => each.rows);
    const among = wider.reduce((least, rows) => (rows.length < least.length ? rows : least), this.order(sort));
    const rows = among.filter((row) => (!text || this.words[row]!.includes(text)) && (!namespace || this.namespaces[row] === namespace) && (!state || this.states[row] === state));
    this.answers = [...this.answers.slice(1 - MOST_ANSWERS), { filter, text, rows }];
    return rows;
  }

  /** All lines by name, or the largest number first and lines without one last. */
  private order(sort: AssetFilter["sort"]): Int32Array {
    let order = this.orders.get(sort);
    if (order === undefined) {
      order = Int32Array.from({ length: this.table.numRows }, (_, row) => row);
      if (sort !== "name") {
        const values = numbers(this.column(SORTED_BY[sort]));
        const value = (row: number) => (Number.isNaN(values[row]!) ? -Infinity : values[row]!);
        order.sort((a, b) => value(b) - value(a) || a - b);
      }
      this.orders.set(sort, order);
    }
    return order;
  }
}
