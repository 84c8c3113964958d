/**
 * What every plugin must do, as named checks over a client maker: run in this process on the default plugin and in child
 * processes on others. A check fails by throwing.
 */
import type { Client } from "../../src/pjrt/index.ts";
import { arrayScenarios } from "./scenarios/arrays.ts";
import { donationScenarios } from "./scenarios/donation.ts";
import { failureScenarios } from "./scenarios/failures.ts";
import { programScenarios } from "./scenarios/programs.ts";
import { shardedScenarios } from "./scenarios/sharded.ts";

export interface World {
  /** A client with so many virtual devices, shared by all checks. */
  client(devices?: number): Client;
  /** A client of the check's own, which it destroys. */
  ownClient(devices?: number): Client;
}

export interface Scenario {
  readonly name: string;
  readonly run: (world: World) => Promise<void>;
}

export const scenarios: readonly Scenario[] = [
  ...arrayScenarios,
  ...programScenarios,
  ...donationScenarios,
  ...shardedScenarios,
  ...failureScenarios,
];
