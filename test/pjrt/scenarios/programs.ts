import assert from "node:assert/strict";
import { hostArray } from "../../../src/core/hostArray.ts";
import { probeOneDnn, put } from "../../../src/pjrt/index.ts";
import type { Scenario } from "../scenarios.ts";

const f32 = (values: readonly number[], shape: readonly number[] = [values.length]) =>
  hostArray(shape, "float32", Float32Array.from(values));

/** `steps` products of a matrix with itself, scaled: work that takes time and no memory. */
export const loop = (steps: number, edge = 256) => {
  const matrix = `tensor<${edge}x${edge}xf32>`;
  return `module @loop { func.func public @main(%a: ${matrix}) -> ${matrix} {
    %n = stablehlo.constant dense<${steps}> : tensor<i32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %scale = stablehlo.constant dense<${1 / edge}> : ${matrix}
    %r:2 = stablehlo.while(%i = %zero, %x = %a) : tensor<i32>, ${matrix} cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %d = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (${matrix}, ${matrix}) -> ${matrix}
      %e = stablehlo.multiply %d, %scale : ${matrix}
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %e : tensor<i32>, ${matrix}
    }
    return %r#1 : ${matrix} } }`;
};

export const ones = (edge = 256) => hostArray([edge, edge], "float32", new Float32Array(edge * edge).fill(1));

const several: Scenario = {
  name: "a program with several inputs and outputs, run again and again",
  async run(world) {
    const client = world.client();
    const program =
      await client.compile(`module @two { func.func public @main(%a: tensor<3xf32>, %b: tensor<3xf32>) -> (tensor<3xf32>, tensor<f32>) {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %p = stablehlo.multiply %a, %b : tensor<3xf32>
      %s = stablehlo.reduce(%p init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
      return %p, %s : tensor<3xf32>, tensor<f32> } }`);
    assert.equal(program.name, "two");
    assert.equal(program.numDevices, 1);
    assert.deepEqual(program.outputs, [
      { shape: [3], dtype: "float32" },
      { shape: [], dtype: "float32" },
    ]);
    const a = put(f32([1, 2, 3]), client);
    const b = put(f32([10, 20, 30]), client);
    for (let i = 0; i < 3; i++) {
      const { outputs, done } = await program.execute([a, b]);
      await done;
      assert.deepEqual((await outputs[0]!.toHost()).data, Float32Array.of(10, 40, 90));
      assert.deepEqual((await outputs[1]!.toHost()).data, Float32Array.of(140));
      for (const output of outputs) output.dispose();
    }
    for (const owner of [a, b, program]) owner.dispose();
  },
};

const lowPrecision: Scenario = {
  name: "conversions round as the formats say",
  async run(world) {
    const client = world.client();
    const through = async (mlir: string, values: readonly number[]) => {
      const n = values.length;
      const program = await client.compile(`module { func.func public @main(%a: tensor<${n}xf32>) -> tensor<${n}xf32> {
        %q = stablehlo.convert %a : (tensor<${n}xf32>) -> tensor<${n}x${mlir}>
        %d = stablehlo.convert %q : (tensor<${n}x${mlir}>) -> tensor<${n}xf32>
        return %d : tensor<${n}xf32> } }`);
      const input = put(f32(values), client);
      const { outputs } = await program.execute([input]);
      const { data } = await outputs[0]!.toHost();
      for (const owner of [input, ...outputs, program]) owner.dispose();
      return [...(data as Float32Array)];
    };
    assert.deepEqual(await through("f4E2M1FN", [0.25, 0.75, 2.5, 3.5, 5, -7]), [0, 1, 2, 4, 4, -6]);
    assert.deepEqual(await through("f8E4M3FN", [1.0625, 464, 465, -0.001953125]), [1, 448, Number.NaN, -0.001953125]);
    assert.deepEqual(await through("f8E8M0FNU", [1.4, 1.5, 6]), [1, 2, 8]);
    assert.deepEqual(await through("bf16", [1 + 1 / 256, 1 + 3 / 256]), [1, 1 + 1 / 64]);
  },
};

const excessPrecision: Scenario = {
  name: "a BF16 result is rounded although a convert to F32 follows",
  async run(world) {
    const client = world.client();
    const program = await client.compile(`module { func.func public @main(%a: tensor<4xbf16>) -> tensor<4xf32> {
      %p = stablehlo.multiply %a, %a : tensor<4xbf16>
      %w = stablehlo.convert %p : (tensor<4xbf16>) -> tensor<4xf32>
      return %w : tensor<4xf32> } }`);
    const input = put(hostArray([4], "bfloat16", new Uint16Array(4).fill(0x3f81)), client);
    const { outputs } = await program.execute([input]);
    // (1 + 1/128)^2 = 1 + 1/64 + 1/16384: the last term is beyond BF16's eight bits.
    assert.deepEqual((await outputs[0]!.toHost()).data, new Float32Array(4).fill(1 + 1 / 64));
    for (const owner of [input, ...outputs, program]) owner.dispose();
  },
};

const description: Scenario = {
  name: "memory stats, fingerprint and optimized program describe the executable",
  async run(world) {
    const client = world.client();
    const text = loop(3);
    const [program, again, other] = [
      await client.compile(text),
      await client.compile(text),
      await client.compile(loop(4)),
    ];
    const stats = program.memoryStats();
    const bytes = 256 * 256 * 4;
    assert.equal(stats.argumentBytes, bytes);
    assert.equal(stats.outputBytes, bytes);
    assert.equal(stats.aliasBytes, 0);
    assert.ok(stats.peakBytes >= 2 * bytes, `peak ${stats.peakBytes}`);
    assert.match(program.fingerprint(), /^[0-9a-f]+$/);
    assert.equal(program.fingerprint(), again.fingerprint());
    assert.notEqual(program.fingerprint(), other.fingerprint());
    const hlo = Buffer.from(program.optimizedHlo()).toString("latin1");
    assert.ok(hlo.includes("loop") && hlo.includes("while"), "names of the module and of its while");
    for (const owner of [program, again, other]) owner.dispose();
  },
};

const serialization: Scenario = {
  name: "a serialized program loads and computes the same",
  async run(world) {
    const client = world.client();
    const program = await client.compile(loop(5));
    const bytes = program.serialize();
    const loaded = await client.deserialize(bytes);
    assert.equal(loaded.name, "loop");
    assert.deepEqual(loaded.outputs, program.outputs);
    const input = put(ones(), client);
    const results = [];
    for (const each of [program, loaded]) {
      const { outputs } = await each.execute([input]);
      results.push((await outputs[0]!.toHost()).data);
      outputs[0]!.dispose();
    }
    assert.deepEqual(results[1], results[0]);
    assert.equal(results[0]![0], 1);
    await assert.rejects(client.deserialize(bytes.map((byte, i) => (i > 20 ? byte ^ 255 : byte))), {
      name: "PjrtError",
    });
    for (const owner of [input, program, loaded]) owner.dispose();
  },
};

const nesting: Scenario = {
  name: "a program of 50 nested regions compiles on its thread's stack",
  async run(world) {
    const client = world.client();
    const depth = 50;
    const open = Array.from({ length: depth }, (_, d) => `%r${d} = "stablehlo.if"(%p) ({`);
    const close = Array.from({ length: depth }, (_, i) => {
      const inner = i === 0 ? "%leaf" : `%r${depth - i}`;
      return `stablehlo.return ${inner} : tensor<f32> }, { stablehlo.return %x : tensor<f32> }) : (tensor<i1>) -> tensor<f32>`;
    });
    const program =
      await client.compile(`module { func.func public @main(%x: tensor<f32>, %p: tensor<i1>) -> tensor<f32> {
      ${open.join("\n")}
      %leaf = stablehlo.add %x, %x : tensor<f32>
      ${close.join("\n")}
      return %r0 : tensor<f32> } }`);
    const inputs = [put(f32([3], []), client), put(hostArray([], "bool", Uint8Array.of(1)), client)];
    const { outputs } = await program.execute(inputs);
    assert.deepEqual((await outputs[0]!.toHost()).data, Float32Array.of(6));
    for (const owner of [...inputs, ...outputs, program]) owner.dispose();
  },
};

/** Longest silence of a 5 ms timer while `work` runs, and how often it fired. */
async function listen(work: () => Promise<void>): Promise<{ ticks: number; seconds: number }> {
  let ticks = 0;
  const timer = setInterval(() => ticks++, 5);
  const started = performance.now();
  await work();
  clearInterval(timer);
  return { ticks, seconds: (performance.now() - started) / 1000 };
}

const alive: Scenario = {
  name: "timers and file reads go on while programs compile and run",
  async run(world) {
    const client = world.client();
    const { readFile } = await import("node:fs/promises");
    const input = put(ones(), client);
    const program = await client.compile(loop(400));
    const running = await listen(async () => {
      const steps = await Promise.all(Array.from({ length: 4 }, () => program.execute([input])));
      assert.ok(client.stepsInFlight > 0, "dispatch does not wait for the result");
      assert.ok((await readFile("/proc/self/status", "utf8")).length > 0);
      await steps[3]!.outputs[0]!.toHost();
      await Promise.all(steps.map(({ done }) => done));
      for (const { outputs } of steps) outputs[0]!.dispose();
    });
    // A blocked loop would fire once or twice.
    assert.ok(running.ticks >= Math.min(20, running.seconds * 20), `run: ${JSON.stringify(running)}`);
    const branches = Array.from({ length: 60 }, (_, i) => {
      const from = i === 0 ? "%a" : `%x${i - 1}`;
      return `%s${i} = stablehlo.sine ${from} : tensor<64x${64 + i}xf32>
      %d${i} = stablehlo.slice %s${i} [0:64, 0:${64 + i}] : (tensor<64x${64 + i}xf32>) -> tensor<64x${64 + i}xf32>
      %z${i} = stablehlo.constant dense<${i}.5> : tensor<f32>
      %x${i} = stablehlo.pad %d${i}, %z${i}, low = [0, 0], high = [0, 1], interior = [0, 0] : (tensor<64x${64 + i}xf32>, tensor<f32>) -> tensor<64x${65 + i}xf32>`;
    });
    const compiling = await listen(async () => {
      const big = await client.compile(`module { func.func public @main(%a: tensor<64x64xf32>) -> tensor<64x124xf32> {
      ${branches.join("\n")}
      return %x59 : tensor<64x124xf32> } }`);
      big.dispose();
    });
    assert.ok(compiling.ticks >= Math.min(20, compiling.seconds * 20), `compile: ${JSON.stringify(compiling)}`);
    for (const owner of [input, program]) owner.dispose();
  },
};

const pressure: Scenario = {
  name: "thousands of calls under allocation pressure keep the memory they point to",
  async run(world) {
    const client = world.client();
    const program =
      await client.compile(`module { func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.subtract %a, %b : tensor<4xf32>
      return %0 : tensor<4xf32> } }`);
    const [a, b] = [put(f32([5, 6, 7, 8]), client), put(f32([1, 2, 3, 4]), client)];
    const before = client.liveBuffers;
    for (let i = 0; i < 8000; i++) {
      const { outputs, done } = await program.execute([a, b]);
      if (i % 2 === 0) await done;
      else assert.deepEqual((await outputs[0]!.toHost()).data, Float32Array.of(4, 4, 4, 4));
      outputs[0]!.dispose();
    }
    assert.deepEqual(client.liveBuffers, before);
    for (const owner of [a, b, program]) owner.dispose();
  },
};

const oneDnn: Scenario = {
  name: "oneDNN's matrix product is there and right, plain and transposed",
  async run(world) {
    const client = world.client();
    const before = client.liveBuffers;
    assert.deepEqual(await probeOneDnn(client), { bfloat16: true, float32: true });
    assert.deepEqual(client.liveBuffers, before);
  },
};

export const programScenarios: readonly Scenario[] = [
  several,
  lowPrecision,
  excessPrecision,
  description,
  serialization,
  nesting,
  oneDnn,
  alive,
  pressure,
];
