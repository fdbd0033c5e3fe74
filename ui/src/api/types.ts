/** Types of the API, from its OpenAPI document (`npm run types`). */
import type { components, paths } from "./schema.gen";

export type Schemas = components["schemas"];
export type Prefix = "/api/v1/workspaces/{tenant}/{workspace}";

type Method = "get" | "post" | "put" | "patch" | "delete";
type Operation<M extends Method, R extends string> = `${Prefix}${R}` extends keyof paths
  ? paths[`${Prefix}${R}`][M]
  : never;

/** Paths below a workspace that have a method. */
export type PathsOf<M extends Method> = {
  [K in keyof paths]: K extends `${Prefix}${infer R}` ? (paths[K][M] extends object ? R : never) : never;
}[keyof paths];

export type ReadPath = Exclude<PathsOf<"get">, "/events">;
type Json<T> = T extends { content: { "application/json": infer A } } ? A : never;
type Responses<M extends Method, R extends string> =
  Operation<M, R> extends { responses: infer A } ? A : never;

/** What a read answers. */
export type Answer<R extends string> = Json<Responses<"get", R>[200 & keyof Responses<"get", R>]>;
/** One item of a list. */
export type Item<R extends string> = Answer<R> extends { items: (infer I)[] } ? I : never;

export type ReadQuery<R extends string> =
  Operation<"get", R> extends { parameters: { query?: infer Q } } ? Omit<NonNullable<Q>, "generation" | "as_of" | "as_of_run"> : never;
export type PathParameters<M extends Method, R extends string> =
  Operation<M, R> extends { parameters: { path: infer P } } ? Omit<P, "tenant" | "workspace"> : never;

/** Fields with a default may be left out; the generated types do not tell which, the server does. */
export type WriteBody<M extends Method, R extends string> =
  Operation<M, R> extends { requestBody?: infer B } ? Partial<Json<NonNullable<B>>> : undefined;
type Written<T> = T extends Record<number, unknown> ? Json<T[(200 | 201 | 202) & keyof T]> : never;
export type WriteAnswer<M extends Method, R extends string> = Written<Responses<M, R>>;
