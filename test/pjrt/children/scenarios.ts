/** Runs every scenario on the plugin at argv[2] and prints one line of JSON each. */
import { Client } from "../../../src/pjrt/index.ts";
import { scenarios } from "../scenarios.ts";

const plugin = process.argv[2]!;
const clients = new Map<number, Client>();
const world = {
  client(devices = 1) {
    const made = clients.get(devices) ?? new Client({ plugin, devices });
    clients.set(devices, made);
    return made;
  },
  ownClient: (devices = 1) => new Client({ plugin, devices }),
};
for (const { name, run } of scenarios) {
  let failure: string | undefined;
  try {
    await run(world);
  } catch (error) {
    failure = String((error as Error).stack ?? error);
  }
  console.log(JSON.stringify({ name, failure }));
}
