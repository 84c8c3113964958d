/** Clients with several virtual devices, one a number of devices, for all tests of this folder; what programs exchange. */
import { Client, type Executable } from "../../src/pjrt/index.ts";

const clients = new Map<number, Client>();

export function clientOf(devices: number): Client {
  const known = clients.get(devices) ?? new Client({ devices });
  clients.set(devices, known);
  return known;
}

/** Which collectives the optimized program has. */
export function collectivesIn(executable: Executable): string[] {
  const hlo = Buffer.from(executable.optimizedHlo()).toString("latin1");
  const names = ["all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter"];
  return names.filter((name) => hlo.includes(name));
}
