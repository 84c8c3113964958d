/** What a compiled function does besides computing: ownership, errors, compiling anew, calls at the same time. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { scan, valueAndGrad } from "../../src/autodiff/index.ts";
import { type HalfbyteError, ShapeError, UserError } from "../../src/base/errors.ts";
import { dot, full, type HostArray, hostArray, spec, type Tensor } from "../../src/core/index.ts";
import { disposeTree, fetchTree, jit, putTree } from "../../src/jit/index.ts";
import { type DeviceArray, defaultClient, put } from "../../src/pjrt/index.ts";
import { fetchAndFree } from "../fetchAndFree.ts";

const f32 = (shape: number[], f: (i: number) => number = (i) => i): HostArray =>
  hostArray(
    shape,
    "float32",
    Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => f(i)),
  );

const numbers = async (array: DeviceArray): Promise<number[]> =>
  Array.from((await array.toHost()).data as Float32Array);
const liveArrays = () => defaultClient().liveBuffers.arrays;
const errorOf = (promise: Promise<unknown>): Promise<HalfbyteError> =>
  promise.then(
    () => Promise.reject(new Error("nothing was thrown")),
    (error: HalfbyteError) => error,
  );

interface State {
  readonly w: Tensor;
  readonly step: Tensor;
}

/** One step of gradient descent; the state's successor is donated into. */
function train(state: State, x: Tensor) {
  const { value, grad } = valueAndGrad((w: Tensor) => dot(x, w).tanh().sum())(state.w);
  return { loss: value, state: { w: state.w.sub(grad.mul(0.1)), step: state.step.add(1) } };
}

const newState = () => putTree({ w: f32([4, 4], Math.sin), step: hostArray([], "int32", Int32Array.of(0)) });

afterEach(() => vi.restoreAllMocks());

describe("what a call is given", () => {
  it("are told apart by the structure of their trees, not by the paths to their leaves", async () => {
    type Nested = { a: { b: Tensor } };
    type Flat = { "a.b": Tensor };
    const f = jit((t: Nested | Flat) => ("a" in t ? t.a.b.mul(2) : t["a.b"].mul(3)));
    const x = f32([1], () => 1);
    const values = [
      await f({ a: { b: x } } as never),
      await f({ "a.b": x } as never),
      await f({ a: { b: x } } as never),
    ];
    expect(await Promise.all((values as DeviceArray[]).map(numbers))).toEqual([[2], [3], [2]]);
    disposeTree(values);
    const same = jit((t: readonly Tensor[] | { readonly 0: Tensor }) => t);
    const [list, record] = [await same([x] as never), await same({ 0: x } as never)];
    expect([Array.isArray(list), Array.isArray(record)]).toEqual([true, false]);
    disposeTree([list, record]);
    f.dispose();
    same.dispose();
  });

  it("are read when the call is made: the caller may change a host array at once", async () => {
    const f = jit((x: Tensor) => x.mul(2));
    const x = f32([1], () => 21);
    const running = f(x);
    (x.data as Float32Array)[0] = 99;
    const result = await running;
    expect(await numbers(result)).toEqual([42]);
    result.dispose();
    f.dispose();
  });

  it("options that do not exist, and lists that are none, are refused", () => {
    const f = (x: Tensor) => x;
    expect(() => jit(f, { donateArgs: [0] } as never)).toThrow("no option is called donateArgs");
    expect(() => jit(f, { donat: [0] } as never)).toThrow("did you mean donate?");
    expect(() => jit(f, { donate: 0 } as never)).toThrow("donate is a list, one entry an argument: { donate: [0] }");
  });
});

describe("donation", () => {
  it("updates a state in place", async () => {
    const step = jit(train, { donate: [0] });
    const executable = await step.compile(
      { w: spec([4, 4], "float32"), step: spec([], "int32") },
      spec([2, 4], "float32"),
    );
    expect(executable.memoryStats().aliasBytes).toBe(4 * 16 + 4);
    const x = put(f32([2, 4], Math.cos));
    let state = await newState();
    const before = liveArrays();
    for (let i = 0; i < 5; i++) {
      const { loss, state: next } = await step(state, x);
      expect([state.w.isLive, state.step.isLive, x.isLive]).toEqual([false, false, true]);
      loss.dispose();
      state = next;
    }
    expect(liveArrays()).toBe(before);
    expect((await state.step.toHost()).data[0]).toBe(5);
    disposeTree([state, x]);
    step.dispose();
  });

  it("gives the numbers that the same program without donation gives", async () => {
    const [donating, borrowing] = [jit(train, { donate: [0] }), jit(train)];
    const x = put(f32([2, 4], Math.cos));
    const results = [];
    for (const step of [donating, borrowing]) {
      let state = await newState();
      for (let i = 0; i < 3; i++) {
        const { loss, state: next } = await step(state, x);
        disposeTree([loss, state]);
        state = next;
      }
      results.push(await numbers(state.w));
      disposeTree(state);
    }
    expect(results[0]).toEqual(results[1]);
    x.dispose();
  });

  it("says which argument was donated, and to what", async () => {
    const step = jit(train, { donate: [0], name: "train_step" });
    const state = await newState();
    const x = put(f32([2, 4]));
    disposeTree(await step(state, x));
    const error = await errorOf(step(state, x));
    expect(error.code).toBe("E_DELETED");
    expect(error.message).toBe("train_step: argument 0.w: float32[4,4] can't be used: it was donated to train_step");
    await expect(state.w.toHost()).rejects.toThrow("it was donated to train_step");
    x.dispose();
    expect((await errorOf(step(await newState(), x))).message).toContain(
      "argument 1: float32[2,4] can't be used: it was disposed",
    );
  });

  it("frees what no output can take over", async () => {
    const total = jit((x: Tensor) => x.sum(), { donate: [0] });
    const x = put(f32([10]));
    const before = liveArrays();
    expect(await numbers(await total(x))).toEqual([45]);
    expect(x.isLive).toBe(false);
    expect(liveArrays()).toBe(before);
  });

  it("takes host arrays, and refuses a position that no argument has", async () => {
    const twice = jit((x: Tensor) => x.mul(2), { donate: [0], name: "twice" });
    expect(await fetchAndFree(twice(f32([2]) as never))).toMatchObject({ data: Float32Array.of(0, 2) });
    const wrong = jit((x: Tensor) => x.mul(2), { donate: [1], name: "twice" });
    expect((await errorOf(wrong(f32([2]) as never))).message).toBe("twice: donate names argument 1; the call has 1");
  });

  it("refuses one array donated and read by the same call, and computes nothing", async () => {
    const x = put(f32([2]));
    for (const donate of [[0], [1], [0, 1]]) {
      const sum = jit((a: Tensor, b: Tensor) => a.add(b), { donate, name: "sum" });
      expect((await errorOf(sum(x, x))).message).toBe(
        "sum: arguments 0 and 1 are the same array, which is donated; a donated array can be passed only once",
      );
    }
    expect(x.isLive).toBe(true);
    x.dispose();
  });
});

describe("arguments", () => {
  const scaled = ({ x, by }: { x: Tensor[]; by: Tensor }) => x.map((t) => ({ scaled: t.mul(by), same: t }));

  it("are trees of device and host arrays; results have the function's tree", async () => {
    const run = jit(scaled);
    const before = liveArrays();
    const onDevice = put(f32([2]));
    const results = await fetchAndFree<{ scaled: HostArray; same: HostArray }[]>(
      run({ x: [onDevice, f32([3])], by: f32([], () => 3) } as never),
    );
    expect(results.map(({ scaled, same }) => [scaled.data, same.data])).toEqual([
      [Float32Array.of(0, 3), Float32Array.of(0, 1)],
      [Float32Array.of(0, 3, 6), Float32Array.of(0, 1, 2)],
    ]);
    expect(liveArrays()).toBe(before + 1);
    onDevice.dispose();
  });

  it("are checked by name before anything is compiled", async () => {
    const compile = vi.spyOn(defaultClient(), "compile");
    const run = jit(scaled, { name: "scaled" });
    const error = await errorOf(run({ x: [3], by: f32([]) } as never));
    expect(error).toBeInstanceOf(UserError);
    expect(error.message).toBe("scaled: argument 0.x.0 must be a DeviceArray or a HostArray; got number");
    expect((await errorOf(run({ x: [f32([2])] } as never))).message).toMatch(
      /^mul: expected a Tensor or a number, got undefined/,
    );
    expect(await errorOf(run({ x: [f32([2])], by: f32([3]) } as never))).toBeInstanceOf(ShapeError);
    expect(compile).not.toHaveBeenCalled();
  });

  it("leave nothing on the device where one of them cannot be uploaded", async () => {
    const before = liveArrays();
    const bad = { shape: [4], dtype: "float32", data: new Float32Array(3) };
    await expect(jit((a: Tensor, b: Tensor) => a.add(b))(f32([4]) as never, bad as never)).rejects.toThrow(
      "float32[4] needs a Float32Array of 4 values; got a Float32Array of 3",
    );
    expect(liveArrays()).toBe(before);
  });

  it("may be none, and so may results; null stands for nothing", async () => {
    expect(await fetchAndFree(jit(() => full([2], 7, "float32"))())).toMatchObject({ data: Float32Array.of(7, 7) });
    expect(await jit((x: Tensor) => ({ nothing: null, also: [] as Tensor[], x }))(f32([1]) as never)).toMatchObject({
      nothing: null,
      also: [],
    });
    expect(await jit((_: Tensor) => ({ nothing: null }))(f32([1]) as never)).toEqual({ nothing: null });
    const optional = jit((p: { a: Tensor; b: Tensor | null }) => (p.b ? p.a.add(p.b) : p.a.mul(10)));
    expect(await fetchAndFree(optional({ a: f32([2]), b: null } as never))).toMatchObject({
      data: Float32Array.of(0, 10),
    });
    expect(await fetchAndFree(optional({ a: f32([2]), b: f32([2]) } as never))).toMatchObject({
      data: Float32Array.of(0, 2),
    });
  });

  it("give back the same values where the function returns them, as arrays of their own", async () => {
    const x = put(f32([2]));
    const [a, b] = await jit((x: Tensor) => [x, x])(x);
    x.dispose();
    expect([await numbers(a!), await numbers(b!)]).toEqual([
      [0, 1],
      [0, 1],
    ]);
    a!.dispose();
    expect(await numbers(b!)).toEqual([0, 1]);
    b!.dispose();
  });
});

describe("compiling", () => {
  // What compiles here must not come from the cache on disk.
  beforeEach(() => void vi.stubEnv("HALFBYTE_COMPILE_CACHE", "off"));
  afterEach(() => void vi.unstubAllEnvs());

  it("happens once for each combination of shapes and dtypes, also for calls at the same time", async () => {
    const compile = vi.spyOn(defaultClient(), "compile");
    const traced = vi.fn((x: Tensor) => x.mul(2));
    const twice = jit(traced);
    const sizes = [2, 3, 2, 2, 3];
    const results = await Promise.all(sizes.map((n) => fetchAndFree(twice(f32([n]) as never))));
    expect(results.map((r) => r.data.length)).toEqual(sizes);
    expect([compile.mock.calls.length, traced.mock.calls.length]).toEqual([2, 2]);
    await twice.compile(spec([2], "float32"));
    await fetchAndFree(twice(hostArray([2], "int32", Int32Array.of(1, 2)) as never));
    expect(compile).toHaveBeenCalledTimes(3);
  });

  it("is tried again after a failure, and every waiting call hears of it", async () => {
    const client = defaultClient();
    const compile = vi.spyOn(client, "compile");
    compile.mockRejectedValueOnce(new Error("out of luck"));
    const twice = jit((x: Tensor) => x.mul(2));
    const outcomes = await Promise.allSettled([twice(f32([2]) as never), twice(f32([2]) as never)]);
    expect(outcomes.map((o) => (o.status === "rejected" ? o.reason.message : "fine"))).toEqual([
      "out of luck",
      "out of luck",
    ]);
    expect(await fetchAndFree(twice(f32([2]) as never))).toMatchObject({ data: Float32Array.of(0, 2) });
    expect(compile).toHaveBeenCalledTimes(2);
  });

  it("is undone by dispose, also while it runs, and done again by the next call", async () => {
    const { executables } = defaultClient();
    const before = executables.size;
    const twice = jit((x: Tensor) => x.mul(2));
    await fetchAndFree(twice(f32([2]) as never));
    expect(executables.size).toBe(before + 1);
    twice.dispose();
    twice.dispose();
    await vi.waitFor(() => expect(executables.size).toBe(before));
    const running = twice.compile(spec([5], "float32"));
    twice.dispose();
    await running;
    await vi.waitFor(() => expect(executables.size).toBe(before));
    expect(await fetchAndFree(twice(f32([2]) as never))).toMatchObject({ data: Float32Array.of(0, 2) });
    twice.dispose();
  });

  it("that fails leaves dispose without an unhandled rejection", async () => {
    vi.spyOn(defaultClient(), "compile").mockRejectedValueOnce(new Error("out of luck"));
    const twice = jit((x: Tensor) => x.mul(2));
    const call = twice(f32([2]) as never);
    twice.dispose();
    await expect(call).rejects.toThrow("out of luck");
    await new Promise((resolve) => setTimeout(resolve, 10));
  });

  it("names the program for messages and dumps, whatever characters the name has", async () => {
    const { stablehlo } = await jit((x: Tensor) => x, { name: "a step/2" }).lower(spec([2], "float32"));
    expect(stablehlo).toContain("module @a_step_2 {");
    expect(await fetchAndFree(jit((x: Tensor) => x.mul(2), { name: "2x" })(f32([1]) as never))).toBeDefined();
    expect(
      (await jit(train).lower({ w: spec([4, 4], "float32"), step: spec([], "int32") }, spec([2, 4], "float32")))
        .stablehlo,
    ).toContain("module @train {");
  });
});

describe("many calls", () => {
  it("leave no array behind", async () => {
    const step = jit(train, { donate: [0] });
    const x = f32([2, 4], Math.cos);
    let state = await newState();
    const run = async () => {
      const { loss, state: next } = await step(state, x as never);
      loss.dispose();
      state = next;
    };
    await run();
    const { arrays, bytes } = defaultClient().liveBuffers;
    for (let i = 0; i < 200; i++) await run();
    expect(defaultClient().liveBuffers).toEqual({ arrays, bytes });
    disposeTree(state);
  });

  it("at the same time get their own results", async () => {
    const power = jit((x: Tensor) => dot(x, x).mul(0.5));
    const inputs = Array.from({ length: 40 }, (_, i) => f32([2, 2], (j) => i + j));
    const results = await Promise.all(inputs.map((x) => fetchAndFree(power(x as never))));
    results.forEach(({ data }, i) => {
      expect(data[0]).toBe((i * i + (i + 1) * (i + 2)) / 2);
    });
    expect(defaultClient().stepsInFlight).toBeLessThanOrEqual(8);
  });

  it("in a chain wait for each other on the device, not in the program", async () => {
    const next = jit((x: Tensor) => x.add(1), { donate: [0] });
    let x = put(twoZeros());
    for (let i = 0; i < 50; i++) x = await next(x);
    expect(await numbers(x)).toEqual([50, 50]);
    x.dispose();
  });
});

const twoZeros = () => f32([2], () => 0);

it("keeps the event loop alive while a long loop runs", async () => {
  const { ticks, milliseconds } = await longLoop(200);
  // A blocked event loop would not tick at all; on a busy machine it may miss most of its turns.
  expect(ticks).toBeGreaterThan(Math.min(5, milliseconds / 100));
});

/**
 * Runs a loop of enough dependent steps to take 200 ms, and counts a 5 ms timer's ticks meanwhile. Its body is no trifle:
 * programs of fewer than 1,000 operations, a loop's body counted once, the plugin runs on the calling thread.
 */
async function longLoop(steps: number): Promise<{ ticks: number; milliseconds: number }> {
  const body = (c: Tensor) => ({ carry: dot(c, c).sin(), y: null });
  const run = jit((x: Tensor) => scan(body, x, null, { length: steps }).carry);
  const x = put(f32([64, 64], Math.sin));
  await run.compile(x);
  let ticks = 0;
  const timer = setInterval(() => ticks++, 5);
  const start = performance.now();
  const result = await run(x);
  await fetchTree(result);
  const milliseconds = performance.now() - start;
  clearInterval(timer);
  disposeTree([result, x]);
  run.dispose();
  return milliseconds < 200 ? longLoop(steps * 4) : { ticks, milliseconds };
}
