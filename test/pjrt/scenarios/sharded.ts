import assert from "node:assert/strict";
import { hostArray } from "../../../src/core/hostArray.ts";
import { type Client, put, putReplicated, putSharded } from "../../../src/pjrt/index.ts";
import type { Scenario } from "../scenarios.ts";

const f32 = (shape: readonly number[], value: (i: number) => number) =>
  hostArray(
    shape,
    "float32",
    Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => value(i)),
  );

/** Rows and columns [from, to) of a row-major matrix of `columns` columns. */
function block(
  matrix: Float32Array,
  columns: number,
  rows: readonly [number, number],
  cols: readonly [number, number],
) {
  const out = new Float32Array((rows[1] - rows[0]) * (cols[1] - cols[0]));
  let next = 0;
  for (let i = rows[0]; i < rows[1]; i++)
    for (let j = cols[0]; j < cols[1]; j++) out[next++] = matrix[i * columns + j]!;
  return out;
}

/** x[8,16] over (dp, tp) times w[16,4] over (tp, -): partial products meet in an all-reduce over tp. */
const product = (dp: number, tp: number, donate = "") => `module @product {
  sdy.mesh @mesh = <["dp"=${dp}, "tp"=${tp}]>
  func.func public @main(
      %x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {"tp"}]>},
      %w: tensor<16x4xf32> {${donate}sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}]>})
    -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}]>},
        tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, []>},
        tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}]>}) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %s = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
    %v = stablehlo.add %w, %w : tensor<16x4xf32>
    return %y, %s, %v : tensor<8x4xf32>, tensor<f32>, tensor<16x4xf32> } }`;

const full = {
  x: f32([8, 16], (i) => (i % 7) - 3).data as Float32Array,
  w: f32([16, 4], (i) => (i % 5) - 2).data as Float32Array,
};

function expected() {
  const y = new Float32Array(32);
  for (let i = 0; i < 8; i++) {
    for (let j = 0; j < 4; j++) for (let l = 0; l < 16; l++) y[i * 4 + j]! += full.x[i * 16 + l]! * full.w[l * 4 + j]!;
  }
  return { y, sum: y.reduce((a, b) => a + b, 0) };
}

function inputs(client: Client, dp: number, tp: number) {
  const devices = Array.from({ length: dp * tp }, (_, d) => ({ row: Math.floor(d / tp), column: d % tp }));
  const [rows, inner] = [8 / dp, 16 / tp];
  const range = (at: number, length: number) => [at * length, (at + 1) * length] as const;
  const x = putSharded(
    devices.map(({ row, column }) =>
      hostArray([rows, inner], "float32", block(full.x, 16, range(row, rows), range(column, inner))),
    ),
    client,
  );
  const w = putSharded(
    devices.map(({ column }) => hostArray([inner, 4], "float32", block(full.w, 4, range(column, inner), [0, 4]))),
    client,
  );
  return { x, w, devices, rows };
}

const partitioned: Scenario = {
  name: "Shardy programs on 2 and 4 devices agree with one device's mathematics",
  async run(world) {
    const { y, sum } = expected();
    for (const [dp, tp] of [
      [2, 1],
      [1, 2],
      [2, 2],
    ] as const) {
      const client = world.client(dp * tp);
      const program = await client.compile(product(dp, tp), { numPartitions: dp * tp });
      assert.equal(program.numDevices, dp * tp);
      const { x, w, devices, rows } = inputs(client, dp, tp);
      assert.deepEqual(
        program.outputs.map(({ shape }) => shape),
        [[rows, 4], [], [16 / tp, 4]],
      );
      const { outputs, done } = await program.execute([x, w]);
      await done;
      const pieces = await outputs[0]!.toHostPieces();
      devices.forEach(({ row }, d) => {
        assert.deepEqual(
          pieces[d]!.data,
          block(y, 4, [row * rows, (row + 1) * rows], [0, 4]),
          `dp${dp} tp${tp} piece ${d}`,
        );
      });
      for (const piece of await outputs[1]!.toHostPieces()) assert.deepEqual(piece.data, Float32Array.of(sum));
      for (const owner of [x, w, ...outputs, program]) owner.dispose();
    }
  },
};

const collectives: Scenario = {
  name: "a manual computation sums over four devices",
  async run(world) {
    const client = world.client(4);
    const program = await client.compile(
      `module {
      sdy.mesh @mesh = <["dp"=4]>
      func.func public @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}]>}) -> (tensor<2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
        %m = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"dp"}]>] out_shardings=[<@mesh, [{}]>] manual_axes={"dp"} (%l: tensor<2xf32>) {
          %r = "stablehlo.all_reduce"(%l) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0,1,2,3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
            ^bb0(%a: tensor<f32>, %b: tensor<f32>):
              %s = stablehlo.add %a, %b : tensor<f32>
              stablehlo.return %s : tensor<f32>
          }) : (tensor<2xf32>) -> tensor<2xf32>
          sdy.return %r : tensor<2xf32>
        } : (tensor<8xf32>) -> tensor<2xf32>
        return %m : tensor<2xf32> } }`,
      { numPartitions: 4 },
    );
    const x = putSharded(
      [0, 1, 2, 3].map((d) => f32([2], (i) => 10 * d + i)),
      client,
    );
    const { outputs } = await program.execute([x]);
    for (const piece of await outputs[0]!.toHostPieces()) assert.deepEqual(piece.data, Float32Array.of(60, 64));
    for (const owner of [x, ...outputs, program]) owner.dispose();
  },
};

const bounded: Scenario = {
  name: "hundreds of partitioned steps without a wait stay within eight in flight and end",
  async run(world) {
    const client = world.client(4);
    const program = await client.compile(product(2, 2), { numPartitions: 4 });
    const { x, w } = inputs(client, 2, 2);
    let most = 0;
    for (let i = 0; i < 300; i++) {
      const { outputs } = await program.execute([x, w]);
      most = Math.max(most, client.stepsInFlight);
      for (const output of outputs) output.dispose();
    }
    await client.synchronize();
    assert.ok(most <= 8, `${most} in flight`);
    assert.equal(client.stepsInFlight, 0);
    const together = await Promise.all(Array.from({ length: 40 }, () => program.execute([x, w])));
    assert.ok(client.stepsInFlight <= 8);
    for (const { outputs, done } of together) {
      await done;
      for (const output of outputs) output.dispose();
    }
    for (const owner of [x, w, program]) owner.dispose();
  },
};

const reloaded: Scenario = {
  name: "a partitioned program serializes, and donates on every device",
  async run(world) {
    const client = world.client(4);
    const program = await client.compile(product(2, 2, "tf.aliasing_output = 2 : i32, "), { numPartitions: 4 });
    const loaded = await client.deserialize(program.serialize());
    assert.equal(loaded.numDevices, 4);
    const { x, w } = inputs(client, 2, 2);
    const { outputs } = await loaded.execute([x, w]);
    assert.equal(w.isLive, false);
    assert.equal(x.isLive, true);
    const doubled = await outputs[2]!.toHostPieces();
    assert.deepEqual(
      doubled[1]!.data,
      block(full.w, 4, [8, 16], [0, 4]).map((value) => 2 * value),
    );
    for (const owner of [x, ...outputs, program, loaded]) owner.dispose();
  },
};

const placement: Scenario = {
  name: "a program runs on the device it is compiled for, and inputs must be there in number",
  async run(world) {
    const client = world.client(4);
    const text = `module { func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.add %a, %a : tensor<2xf32>
      return %0 : tensor<2xf32> } }`;
    const device = client.devices[2]!;
    const program = await client.compile(text, { deviceIds: [device.id] });
    const there = put(
      f32([2], (i) => i + 1),
      client,
      device,
    );
    const { outputs } = await program.execute([there]);
    assert.deepEqual((await outputs[0]!.toHost()).data, Float32Array.of(2, 4));
    const everywhere = putReplicated(
      f32([2], (i) => i),
      client,
    );
    assert.equal(everywhere.buffers.length, 4);
    await assert.rejects(
      program.execute([everywhere]),
      /input 0 of main, float32\[2\], is on 4 device\(s\); the program runs on 1/,
    );
    await assert.rejects(everywhere.toHost(4), /has 4 pieces; there is no piece 4/);
    await assert.rejects(client.compile(text, { deviceIds: [99] }), /there is no device 99/);
    await assert.rejects(
      client.compile(text, { numPartitions: 5 }),
      /5 partitions need as many devices; the client has 4/,
    );
    const uneven = [f32([2], () => 0), f32([3], () => 0)];
    assert.throws(() => putSharded(uneven, client), /pieces must have one shape and dtype/);
    for (const owner of [there, everywhere, ...outputs, program]) owner.dispose();
  },
};

export const shardedScenarios: readonly Scenario[] = [partitioned, collectives, bounded, reloaded, placement];
