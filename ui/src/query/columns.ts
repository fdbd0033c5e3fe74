/** Tables as columns, in the form of Apache Arrow that the browser's engine answers with. */

/** What is used of Arrow's tables. */
export interface ColumnTable {
  numRows: number;
  getChild(name: string): Column | null;
}

export interface Column {
  length: number;
  get(index: number): unknown;
  data: readonly { length: number; offset: number; nullCount: number; valueOffsets?: ArrayLike<number>; values?: unknown }[];
}

const decoder = new TextDecoder();

/** All texts of a column. Those of a part are cut out of one text, if its bytes are its characters. */
export function texts(column: Column): string[] {
  const all: string[] = [];
  for (const part of column.data) {
    const bytes = part.values;
    const offsets = part.valueOffsets;
    const first = all.length;
    const whole = bytes instanceof Uint8Array && offsets && !part.nullCount ? decoder.decode(bytes.subarray(offsets[0], offsets[part.length])) : null;
    const isPlain = whole !== null && whole.length === offsets![part.length]! - offsets![0]!;
    for (let at = 0; at < part.length; at++)
      all.push(isPlain ? whole.slice(offsets![at]! - offsets![0]!, offsets![at + 1]! - offsets![0]!) : String(column.get(first + at) ?? ""));
  }
  return all;
}

/** All numbers of a column; NaN for none. */
export function numbers(column: Column): Float64Array {
  const all = new Float64Array(column.length);
  for (let at = 0; at < all.length; at++) {
    const value = column.get(at);
    all[at] = value === null || value === undefined ? NaN : Number(value);
  }
  return all;
}
