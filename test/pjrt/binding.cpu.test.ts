/** The binding on the plugin of this machine, in this process. */
import { afterAll, describe, expect, it } from "vitest";
import { Client } from "../../src/pjrt/index.ts";
import { scenarios } from "./scenarios.ts";

const clients = new Map<number, Client>();
const world = {
  client(devices = 1) {
    const made = clients.get(devices) ?? new Client({ devices });
    clients.set(devices, made);
    return made;
  },
  ownClient: (devices = 1) => new Client({ devices }),
};

describe("the default plugin", () => {
  for (const { name, run } of scenarios) it(name, () => run(world));

  it("holds nothing after its tests", () => {
    for (const client of clients.values()) expect(client.liveBuffers).toEqual({ arrays: 0, bytes: 0 });
  });

  afterAll(async () => {
    for (const client of clients.values()) await client.destroy();
  });
});
