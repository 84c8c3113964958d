/** Which lowerings a client's platform prefers, found once for each client. */
import { cpuLowering, type LoweringTable } from "../lower/index.ts";
import { type Client, probeOneDnn } from "../pjrt/index.ts";

const tables = new WeakMap<Client, Promise<LoweringTable | undefined>>();

export function loweringFor(client: Client): Promise<LoweringTable | undefined> {
  let table = tables.get(client);
  if (table === undefined) {
    table =
      client.platformName === "cpu"
        ? probeOneDnn(client).then((oneDnn) => cpuLowering({ oneDnn }))
        : Promise.resolve(undefined);
    tables.set(client, table);
  }
  return table;
}
