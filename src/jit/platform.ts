/** Which lowerings a client's platform prefers, found once for each client. */
import { cpuLowering, type LoweringTable } from "../lower/index.ts";
import { type Client, nativeKernels, probeOneDnn } from "../pjrt/index.ts";

const tables = new WeakMap<Client, Promise<LoweringTable | undefined>>();

export function loweringFor(client: Client): Promise<LoweringTable | undefined> {
  let table = tables.get(client);
  if (table === undefined) {
    table = client.platformName === "cpu" ? cpuTable(client) : Promise.resolve(undefined);
    tables.set(client, table);
  }
  return table;
}

async function cpuTable(client: Client): Promise<LoweringTable> {
  const [oneDnn, native] = [await probeOneDnn(client), await nativeKernels(client)];
  return cpuLowering({ oneDnn, nativeInstructions: native.used ? native.instructions : undefined });
}
