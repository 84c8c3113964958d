/**
 * What collectives need to know of the devices around them: the mesh while a per-device function is traced, and the other
 * devices' values while it is interpreted.
 */
import { invariant } from "../base/errors.ts";
import type { Mesh } from "../core/index.ts";
import type { Values } from "../core/values.ts";

let tracedMesh: Mesh | undefined;

/** The mesh of the `shardMap` whose function is being traced; undefined outside. */
export const perDeviceMesh = (): Mesh | undefined => tracedMesh;

/** Traces f as one device's part. */
export function tracePerDevice<R>(mesh: Mesh, f: () => R): R {
  const outer = tracedMesh;
  tracedMesh = mesh;
  try {
    return f();
  } finally {
    tracedMesh = outer;
  }
}

/** From the values that all devices bring to a collective to those they take from it, in device order. */
type Meeting = (all: readonly Values[]) => readonly Values[];

interface Interpreted {
  readonly device: number;
  readonly meet: (mine: Values, meeting: Meeting) => Values;
}

let interpreted: Interpreted | undefined;

function current(): Interpreted {
  invariant(interpreted !== undefined, "a collective is interpreted outside shardMap");
  return interpreted;
}

/** The device whose part is being interpreted. */
export const interpretedDevice = (): number => current().device;

/** This device's result of a collective to which it brings `mine`. */
export const meet = (mine: Values, meeting: Meeting): Values => current().meet(mine, meeting);

const waiting = Symbol("waits for the other devices");

/**
 * Runs `run` for every device. Where it comes to a collective it is broken off; when all devices have come there, the
 * collective is computed and all are run again, with its results known: JavaScript can't suspend a call.
 */
export function runOnDevices<R>(numDevices: number, run: (device: number) => R): R[] {
  const done: (readonly Values[])[] = [];
  const outer = interpreted;
  for (;;) {
    const brought: { readonly mine: Values; readonly meeting: Meeting }[] = [];
    const results: R[] = [];
    for (let device = 0; device < numDevices; device++) {
      let next = 0;
      interpreted = {
        device,
        meet: (mine, meeting) => {
          const known = done[next++];
          if (known !== undefined) return known[device]!;
          brought.push({ mine, meeting });
          throw waiting;
        },
      };
      try {
        results.push(run(device));
      } catch (error) {
        if (error !== waiting) throw error;
      } finally {
        interpreted = outer;
      }
    }
    if (results.length === numDevices) return results;
    invariant(brought.length === numDevices, "devices came to different collectives");
    done.push(brought[0]!.meeting(brought.map(({ mine }) => mine)));
  }
}
