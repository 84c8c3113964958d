import { describe, expect, it, vi } from "vitest";
import { HalfbyteError } from "../../src/base/errors.ts";
import { type HostArray, hostArray, type Spec, treeLeaves } from "../../src/core/index.ts";
import type { RunEvent } from "../../src/metrics/index.ts";
import { makeSaver, type SaverInput } from "../../src/train/saver.ts";
import type { TrainState } from "../../src/train/state.ts";

/** A state of one array that a step overwrites, and what is written of it when its save goes on. */
function scene(changes: Partial<SaverInput> = {}) {
  const device = Float32Array.of(1, 2, 3);
  const spec: Spec = { shape: [3], dtype: "float32" };
  const array = {
    ...spec,
    toHostMemory: async (data: Float32Array) => {
      data.set(device);
      return hostArray([3], "float32", data);
    },
  };
  const state = { params: { w: array } } as never as TrainState<never>;
  const events: RunEvent[] = [];
  const written: { step: number; values: number[] }[] = [];
  const waiting: ((error?: Error) => void)[] = [];
  const saver = makeSaver({
    write: async (arrays, { step }) => {
      const error = await new Promise<Error | undefined>((resolve) => waiting.push(resolve));
      if (error) throw error;
      const [leaf] = treeLeaves<HostArray>(arrays);
      written.push({ step, values: [...((leaf!.data as Float32Array | undefined) ?? device)] });
      return { step, path: `step-${step}` };
    },
    placeOf: (step) => ({ step, path: `step-${step}` }),
    emit: (event) => events.push(event),
    copies: true,
    stepBytes: () => 0,
    ...changes,
  });
  const doneAt = (step: number) => ({
    step,
    ...{ skippedInARow: 0, skippedSteps: 0, overflowSteps: 0, stepsByPrecision: {} },
  });
  /** Lets the oldest write go on, or fail. */
  const goOn = async (error?: Error) => {
    await vi.waitFor(() => expect(waiting.length).toBeGreaterThan(0));
    waiting.shift()!(error);
  };
  return { device, state, saver, events, written, waiting, doneAt, goOn };
}

const turns = () => new Promise((resolve) => setTimeout(resolve, 5));

describe("a saver", () => {
  it("writes the state as it was, while training overwrites it", async () => {
    const { device, state, saver, events, written, doneAt, goOn } = scene();
    expect(await saver.saveCopy(state, doneAt(5))).toEqual({ step: 5, path: "step-5" });
    device.fill(9);
    expect(events).toEqual([]);
    await goOn();
    await saver.finish();
    expect(written).toEqual([{ step: 5, values: [1, 2, 3] }]);
    expect(events).toMatchObject([{ type: "checkpoint", step: 5, path: "step-5" }]);
    const { seconds, blockedSeconds } = events[0] as { seconds: number; blockedSeconds: number };
    expect(blockedSeconds).toBeLessThan(seconds);
  });

  it("writes one checkpoint at a time: the second waits before it copies", async () => {
    const { device, state, saver, written, waiting, doneAt, goOn } = scene();
    await saver.saveCopy(state, doneAt(5));
    let copied = false;
    const second = saver.saveCopy(state, doneAt(6)).then(() => {
      copied = true;
    });
    await turns();
    expect([copied, waiting.length]).toEqual([false, 1]);
    device.fill(6);
    await goOn();
    await second;
    device.fill(9);
    await goOn();
    await saver.finish();
    expect(written).toEqual([
      { step: 5, values: [1, 2, 3] },
      { step: 6, values: [6, 6, 6] },
    ]);
  });

  it("waits for the last one, of which no copy is made", async () => {
    const { state, saver, written, doneAt, goOn } = scene();
    let saved = false;
    const last = saver.save(state, doneAt(7)).then(() => {
      saved = true;
    });
    await turns();
    expect(saved).toBe(false);
    await goOn();
    await last;
    expect(written).toEqual([{ step: 7, values: [1, 2, 3] }]);
  });

  it.each(["afterStep", "saveCopy", "save", "finish"] as const)("tells a failure once, by %s", async (by) => {
    const { state, saver, doneAt, goOn } = scene();
    await saver.saveCopy(state, doneAt(5));
    await goOn(new HalfbyteError("E_WRITE", "no space"));
    await turns();
    await expect((async () => saver[by](state, doneAt(6)))()).rejects.toThrow("no space");
    await saver.finish();
  });

  it.each(["before", "while", "after"])("offers a step as the best one, validated %s it is saved", async (when) => {
    const offered: number[] = [];
    const best = new Set<number>();
    const { state, saver, written, doneAt, goOn } = scene({
      offerBest: async ({ step }) => {
        // As a checkpoint that is not on disk never is the best.
        if (written.some((save) => save.step === step)) best.add(step);
        offered.push(step);
      },
    });
    const validate = (step: number) => saver.validated({ step, loss: 1, validTokens: 1 });
    validate(4);
    if (when === "before") validate(5);
    await saver.saveCopy(state, doneAt(5));
    if (when === "while") validate(5);
    await goOn();
    await saver.finish();
    if (when === "after") validate(5);
    await saver.finish();
    expect([...best]).toEqual([5]);
    expect(offered.at(-1)).toBe(5);
  });

  it("waits for a save where memory for a copy is not free", async () => {
    const { state, saver, events, written, doneAt, goOn } = scene({ stepBytes: () => 2 ** 60 });
    saver.afterStep(state, doneAt(1));
    let saved = false;
    const save = saver.saveCopy(state, doneAt(5)).then(() => {
      saved = true;
    });
    await turns();
    expect(saved).toBe(false);
    await goOn();
    await save;
    expect(written).toMatchObject([{ step: 5 }]);
    const { seconds, blockedSeconds } = events[0] as { seconds: number; blockedSeconds: number };
    expect(blockedSeconds).toBe(seconds);
  });
});
