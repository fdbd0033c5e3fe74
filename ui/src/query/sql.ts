/** Questions are files of `sql/`; `$name` in them is replaced by a literal, the same for both engines. */

export type Literal = string | number | boolean | null;

export const literal = (value: Literal): string => {
  if (value === null) return "NULL";
  if (typeof value === "string") return `'${value.replaceAll("\0", "").replaceAll("'", "''")}'`;
  if (typeof value === "number" && !Number.isFinite(value)) throw new Error("not a number");
  return String(value);
};

/** The text of a question with its parameters filled in. Throws if one is missing. */
export function fill(sql: string, parameters: Record<string, Literal>): string {
  return sql.replace(/\$([a-z_]+)/g, (_, name: string) => {
    const value = parameters[name];
    if (value === undefined) throw new Error(`the question needs ${name}`);
    return literal(value);
  });
}

/** Rows that other questions are asked over. The browser's engine makes them a table once for each generation. */
export interface Lines {
  name: string;
  /** Without parameters. */
  sql: string;
}

/** A question with the rows that it is over, as one text. */
export function over(lines: Lines, sql: string): string {
  const question = sql.replace(/^(?:\s*--[^\n]*\n)*\s*/, "");
  const rest = /^with\s/i.test(question) ? `, ${question.slice("with ".length)}` : `\n${question}`;
  return `WITH ${lines.name} AS (\n${lines.sql}\n)${rest}`;
}

/** Names of tables in a SELECT: `catalog.assets`. */
export function tablesOf(sql: string): string[] {
  // In one pass: a comment may have an apostrophe, and a text two dashes.
  const plain = sql.replace(/--[^\n]*|'(?:[^']|'')*'/g, " ");
  return [...new Set([...plain.matchAll(/\b(?:from|join)\s+"?([a-z]\w*)"?\."?([a-z]\w*)"?/gi)].map((match) => `${match[1]}.${match[2]}`.toLowerCase()))];
}
