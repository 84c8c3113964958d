/** Clients with several virtual devices, one a number of devices, for all tests of this folder. */
import { Client } from "../../src/pjrt/index.ts";

const clients = new Map<number, Client>();

export function clientOf(devices: number): Client {
  const known = clients.get(devices) ?? new Client({ devices });
  clients.set(devices, known);
  return known;
}
