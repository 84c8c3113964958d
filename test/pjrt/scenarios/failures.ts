import assert from "node:assert/strict";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { hostArray } from "../../../src/core/hostArray.ts";
import { type Client, isOutOfMemory, put } from "../../../src/pjrt/index.ts";
import type { Scenario } from "../scenarios.ts";
import { loop, ones } from "./programs.ts";

const scalar = (client: Client, value = 1) => put(hostArray([], "float32", Float32Array.of(value)), client);

const refusals: Scenario = {
  name: "the plugin's refusals are PjrtErrors with status and message",
  async run(world) {
    const client = world.client();
    const text = `module @pair { func.func public @main(%a: tensor<2xf32>, %b: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.add %a, %b : tensor<2xf32>
      return %0 : tensor<2xf32> } }`;
    await assert.rejects(client.compile("module { func.func @main( }"), { name: "PjrtError", code: "E_PJRT" });
    await assert.rejects(client.compile(text, { envOverrides: { xla_nope: true } }), {
      status: 3,
      message: /No such compile option: 'xla_nope'/,
    });
    const program = await client.compile(text);
    const [two, three] = [2, 3].map((n) => put(hostArray([n], "float32", new Float32Array(n)), client));
    await assert.rejects(program.execute([two!]), { status: 3, message: /supplied 1/ });
    await assert.rejects(program.execute([two!, three!]), { name: "PjrtError" });
    const { outputs } = await program.execute([two!, two!]);
    assert.deepEqual((await outputs[0]!.toHost()).data, new Float32Array(2));
    const other = world.ownClient();
    const foreign = put(hostArray([2], "float32", new Float32Array(2)), other);
    await assert.rejects(program.execute([two!, foreign]), /input 1 of pair belongs to another client/);
    await other.destroy();
    for (const owner of [two!, three!, ...outputs, program]) owner.dispose();
  },
};

const foreignDtype: Scenario = {
  name: "a program whose output has no dtype here is refused at compile",
  async run(world) {
    const text = `module { func.func public @main(%a: tensor<2xf32>) -> tensor<2xcomplex<f32>> {
      %0 = stablehlo.complex %a, %a : tensor<2xcomplex<f32>>
      return %0 : tensor<2xcomplex<f32>> } }`;
    await assert.rejects(world.client().compile(text), {
      code: "E_DTYPE",
      message: /output 0 has PJRT element type 14/,
    });
  },
};

const options: Scenario = {
  name: "typed option overrides reach the compiler",
  async run(world) {
    const client = world.client();
    const text = loop(2);
    const compiled = await client.compile(text, {
      envOverrides: {
        xla_cpu_enable_fast_math: false,
        xla_cpu_prefer_vector_width: 256,
        xla_dump_to: "",
        xla_gpu_redzone_padding_bytes: 8388608n,
      },
    });
    compiled.dispose();
    // A wrong type is the plugin's clean error, not an abort.
    await assert.rejects(client.compile(text, { envOverrides: { xla_cpu_enable_fast_math: "false" } }), {
      name: "PjrtError",
    });
    await assert.rejects(client.compile(text, { envOverrides: { xla_cpu_prefer_vector_width: { float: 1 } } }), {
      name: "PjrtError",
    });
  },
};

/** 32 TiB: more than any machine of today has. */
const elements = 2 ** 43;

const outputMemory: Scenario = {
  name: "outputs that don't fit are an out-of-memory error of the call",
  async run(world) {
    const client = world.client();
    const program = await client.compile(`module { func.func public @main(%a: tensor<f32>) -> tensor<${elements}xf32> {
      %0 = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> tensor<${elements}xf32>
      return %0 : tensor<${elements}xf32> } }`);
    const input = scalar(client);
    const error = await program.execute([input]).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    assert.ok(isOutOfMemory(error), String(error));
    assert.equal(client.stepsInFlight, 0);
    for (const owner of [input, program]) owner.dispose();
  },
};

/** Compiles and dispatches, then fails while it runs: its temporary memory can't be had. */
const greedy = `module @greedy { func.func public @main(%a: tensor<f32>) -> tensor<f32> {
  %i = stablehlo.iota dim = 0 : tensor<${elements}xf32>
  %b = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> tensor<${elements}xf32>
  %p = stablehlo.multiply %i, %b : tensor<${elements}xf32>
  %s = stablehlo.sine %p : tensor<${elements}xf32>
  %o = "stablehlo.sort"(%s) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %c = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
  }) : (tensor<${elements}xf32>) -> tensor<${elements}xf32>
  %f = stablehlo.slice %o [5:6] : (tensor<${elements}xf32>) -> tensor<1xf32>
  %r = stablehlo.reshape %f : (tensor<1xf32>) -> tensor<f32>
  return %r : tensor<f32> } }`;

const deviceFailure: Scenario = {
  name: "a failure on the device reaches whoever waits, or else the next call",
  async run(world) {
    const client = world.client();
    const program = await client.compile(greedy);
    const input = scalar(client);
    const seen = await program.execute([input]);
    await assert.rejects(seen.done, isOutOfMemory);
    await client.synchronize();
    await assert.rejects(seen.outputs[0]!.toHost(), isOutOfMemory);

    const unseen = await program.execute([input]);
    await assert.rejects(client.synchronize(), isOutOfMemory);
    await client.synchronize();

    const dependent = await program.execute([unseen.outputs[0]!]);
    await assert.rejects(dependent.done, isOutOfMemory);

    const forgotten = await program.execute([input]);
    await new Promise((resolve) => setTimeout(resolve, 100));
    await assert.rejects(program.execute([input]), isOutOfMemory);
    const healthy = await client.compile(
      "module { func.func public @main(%a: tensor<f32>) -> tensor<f32> { %0 = stablehlo.add %a, %a : tensor<f32> return %0 : tensor<f32> } }",
    );
    const after = await healthy.execute([input]);
    assert.deepEqual((await after.outputs[0]!.toHost()).data, Float32Array.of(2));
    for (const { outputs } of [seen, unseen, dependent, forgotten, after]) outputs[0]!.dispose();
    for (const owner of [input, program, healthy]) owner.dispose();
  },
};

const destruction: Scenario = {
  name: "destroy waits for work in flight, frees everything, and later uses say so",
  async run(world) {
    const client = world.ownClient();
    const program = await client.compile(loop(50));
    const input = put(ones(), client);
    const { outputs } = await program.execute([input]);
    const compiling = client.compile(loop(7));
    const copying = outputs[0]!.toHost();
    await Promise.all([client.destroy(), compiling]);
    assert.equal((await copying).data[0], 1);
    await client.destroy();
    assert.deepEqual(client.liveBuffers, { arrays: 0, bytes: 0 });
    assert.equal(client.stepsInFlight, 0);
    input.dispose();
    await assert.rejects(outputs[0]!.toHost(), /it was freed when its client was destroyed/);
    await assert.rejects(client.compile(loop(1)), /the client can't be used: it was destroyed/);
    await assert.rejects(program.execute([input]), /destroyed/);
    assert.throws(() => scalar(client), /destroyed/);
    const next = world.ownClient(2);
    assert.equal(next.devices.length, 2);
    await next.destroy();
  },
};

const deviceCounts: Scenario = {
  name: "clients have the devices asked for, and no other number is let through",
  async run(world) {
    for (const devices of [1, 3, 16]) {
      const client = world.ownClient(devices);
      assert.deepEqual(
        client.devices.map(({ id }) => id),
        Array.from({ length: devices }, (_, i) => i),
      );
      assert.equal(client.platformName, "cpu");
      await client.destroy();
    }
    for (const devices of [0, -1, 1.5, 65, Number.NaN]) {
      assert.throws(() => world.ownClient(devices), { code: "E_DEVICES", message: /whole number from 1 to 64/ });
    }
  },
};

const leaks: Scenario = {
  name: "an array dropped without dispose is counted and reported",
  async run(world) {
    const client = world.ownClient();
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const warnings: Error[] = [];
    const onWarning = (warning: Error) => warnings.push(warning);
    process.on("warning", onWarning);
    (() => {
      put(hostArray([1000], "float32", new Float32Array(1000)), client);
    })();
    for (let i = 0; i < 20 && client.leaked.arrays === 0; i++) {
      collect();
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    await new Promise((resolve) => setImmediate(resolve));
    process.off("warning", onWarning);
    assert.deepEqual(client.leaked, { arrays: 1, bytes: 4000 });
    // Reported once a process, by whichever array was first.
    assert.ok(warnings.every(({ name }) => name === "HalfbyteLeakWarning"));
    await client.destroy();
  },
};

export const failureScenarios: readonly Scenario[] = [
  refusals,
  foreignDtype,
  options,
  outputMemory,
  deviceFailure,
  destruction,
  deviceCounts,
  leaks,
];
