/** What a PJRT error means to its catcher. */
import { PjrtError } from "../base/errors.ts";

/** Canonical status codes that Halfbyte tells apart. */
export const pjrtStatus = {
  invalidArgument: 3,
  resourceExhausted: 8,
  unimplemented: 12,
  internal: 13,
} as const;

/**
 * Whether a device ran out of memory: at dispatch, while running, or in a step this one's inputs come from (which the
 * plugin reports as an internal error with the first one's message).
 */
export function isOutOfMemory(error: unknown): boolean {
  if (!(error instanceof PjrtError)) return false;
  return error.status === pjrtStatus.resourceExhausted || /out of memory/i.test(error.message);
}
