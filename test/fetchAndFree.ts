/** Results of a compiled function as host arrays, their device memory freed. */
import type { HostArray } from "../src/core/index.ts";
import { disposeTree, fetchTree } from "../src/jit/index.ts";

/** `Host` is the tree's type with a HostArray at each leaf. */
export async function fetchAndFree<Host = HostArray>(results: Promise<unknown>): Promise<Host> {
  const onDevice = await results;
  try {
    return (await fetchTree(onDevice)) as Host;
  } finally {
    disposeTree(onDevice);
  }
}
