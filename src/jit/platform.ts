/** Which lowerings a client's platform prefers, found once for each client. */
import type { LoweringTable } from "../lower/index.ts";
import type { Client } from "../pjrt/index.ts";

const tables = new WeakMap<Client, Promise<LoweringTable | undefined>>();

export function loweringFor(client: Client): Promise<LoweringTable | undefined> {
  let table = tables.get(client);
  if (table === undefined) {
    table = Promise.resolve(undefined);
    tables.set(client, table);
  }
  return table;
}
