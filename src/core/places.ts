/**
 * Lines of the user's code at which equations are made. Finding one reads the stack, so they are noted only while a function
 * is traced again to explain its error.
 */
import { callerPlace } from "../base/errors.ts";
import type { Eqn } from "./op.ts";

let places: WeakMap<Eqn, string> | undefined;

/** f's result, the places of its equations noted meanwhile. */
export function notingPlaces<T>(f: () => T): T {
  const outer = places;
  places = new WeakMap();
  try {
    return f();
  } finally {
    places = outer;
  }
}

export function notePlace(eqn: Eqn): void {
  if (places === undefined) return;
  const place = callerPlace();
  if (place !== undefined) places.set(eqn, place);
}

/** "file:line:column" */
export const placeOf = (eqn: Eqn): string | undefined => places?.get(eqn);
