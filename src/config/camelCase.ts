/** From command-line names (snake_case) to names in code, mechanically. */

export type CamelCase<S extends string> = S extends `${infer Head}_${infer Rest}`
  ? `${Head}${Capitalize<CamelCase<Rest>>}`
  : S;

export type CamelKeys<T> = { readonly [K in keyof T as CamelCase<K & string>]: T[K] };

export function camelCase(key: string): string {
  return key.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

export function camelKeys<T extends object>(record: T): CamelKeys<T> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [camelCase(key), value])) as CamelKeys<T>;
}
