/** A copy of a training state in host memory, which can be written while training goes on with the arrays themselves. */
import { setImmediate } from "node:timers/promises";
import { dtypeInfo, type TypedArray } from "../core/dtype.ts";
import {
  byteLength,
  type HostArray,
  type MapTree,
  type Spec,
  sizeOf,
  treeLeaves,
  treeUnflatten,
} from "../core/index.ts";
import type { DeviceArray } from "../pjrt/index.ts";

const pageBytes = 4096;

/** Memory for copies of one state after the other: a copy stays as it is until the next is taken. */
export class StateCopy {
  readonly bytes: number;
  readonly #specs: readonly Spec[];
  readonly #memory: (TypedArray | undefined)[] = [];

  /** @param state a tree of arrays, or of what they will look like; no memory is taken yet */
  constructor(state: unknown) {
    this.#specs = treeLeaves<Spec>(state).map(({ shape, dtype }) => ({ shape, dtype }));
    this.bytes = this.#specs.reduce((sum, spec) => sum + byteLength(spec), 0);
  }

  /**
   * Takes the memory ahead of the first copy, an array in a turn of the event loop. The system gives pages at their first
   * use, which takes several times as long as copying to them.
   */
  async prepare(): Promise<void> {
    for (let i = 0; i < this.#specs.length; i++) {
      // A copy may have come first.
      if (this.#memory[i] !== undefined) continue;
      const bytes = new Uint8Array(this.#memoryOf(i).buffer);
      for (let at = 0; at < bytes.length; at += pageBytes) bytes[at] = 0;
      await setImmediate();
    }
  }

  /** The values of the state's arrays when they are computed. Until it resolves they must not be donated or freed. */
  async take<T>(state: T): Promise<MapTree<T, DeviceArray, HostArray>> {
    const arrays = treeLeaves<DeviceArray>(state);
    const copies = await Promise.all(arrays.map((array, i) => array.toHostMemory(this.#memoryOf(i))));
    return treeUnflatten(state, copies);
  }

  #memoryOf(i: number): TypedArray {
    const { shape, dtype } = this.#specs[i]!;
    const memory = this.#memory[i] ?? new (dtypeInfo(dtype).array)(sizeOf(shape));
    this.#memory[i] = memory;
    return memory;
  }
}
