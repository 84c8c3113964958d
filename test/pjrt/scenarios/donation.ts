import assert from "node:assert/strict";
import { hostArray } from "../../../src/core/hostArray.ts";
import { type Client, type DeviceArray, put } from "../../../src/pjrt/index.ts";
import type { Scenario } from "../scenarios.ts";

const size = 1 << 16;
const step = (attribute: string, name: string) => `module @${name} {
  func.func public @main(%p: tensor<${size}xf32> {${attribute}}, %g: tensor<${size}xf32>) -> tensor<${size}xf32> {
    %0 = stablehlo.subtract %p, %g : tensor<${size}xf32>
    return %0 : tensor<${size}xf32> } }`;

const filled = (value: number, client: Client) =>
  put(hostArray([size], "float32", new Float32Array(size).fill(value)), client);

const address = (array: DeviceArray) =>
  array.client.api.call("Buffer_UnsafePointer", { buffer: array.buffers[0]! }).buffer_pointer;

const attributes = { aliased: "tf.aliasing_output = 0 : i32", donor: "jax.buffer_donor = true" } as const;

const inPlace: Scenario = {
  name: "a donated input's memory becomes the output, and the input says who took it",
  async run(world) {
    const client = world.client();
    for (const [name, attribute] of Object.entries(attributes)) {
      const program = await client.compile(step(attribute, name));
      assert.equal(program.memoryStats().aliasBytes, 4 * size);
      const gradient = filled(1, client);
      let parameter = filled(100, client);
      const before = client.liveBuffers;
      const start = address(parameter);
      for (let i = 0; i < 20; i++) {
        const given = parameter;
        const call = program.execute([given, gradient]);
        if (i === 0) assert.equal(given.isLive, false, "taken before the call returns");
        parameter = (await call).outputs[0]!;
        assert.equal(given.isLive, false);
        assert.throws(() => given.buffers, new RegExp(`float32\\[65536\\] can't be used: it was donated to ${name}`));
        given.dispose();
      }
      assert.equal(address(parameter), start);
      assert.equal((await parameter.toHost()).data[size - 1], 80);
      assert.equal(gradient.isLive, true);
      assert.deepEqual(client.liveBuffers, before);
      for (const owner of [parameter, gradient, program]) owner.dispose();
    }
  },
};

const twice: Scenario = {
  name: "an array can't be both donated and borrowed by one call, and survives the attempt",
  async run(world) {
    const client = world.client();
    const program = await client.compile(step(attributes.aliased, "aliased"));
    const array = filled(3, client);
    await assert.rejects(program.execute([array, array]), /donated/);
    assert.equal((await array.toHost()).data[0], 3);
    for (const owner of [array, program]) owner.dispose();
  },
};

const kept: Scenario = {
  name: "nonDonatable keeps an input",
  async run(world) {
    const client = world.client();
    const program = await client.compile(step(attributes.aliased, "aliased"));
    const [parameter, gradient] = [filled(5, client), filled(2, client)];
    const { outputs } = await program.execute([parameter, gradient], { nonDonatable: [0] });
    assert.equal((await outputs[0]!.toHost()).data[0], 3);
    assert.equal((await parameter.toHost()).data[0], 5);
    for (const owner of [parameter, gradient, ...outputs, program]) owner.dispose();
  },
};

const reloaded: Scenario = {
  name: "donation survives serialization",
  async run(world) {
    const client = world.client();
    const program = await client.compile(step(attributes.aliased, "aliased"));
    const loaded = await client.deserialize(program.serialize());
    const [parameter, gradient] = [filled(5, client), filled(2, client)];
    const { outputs } = await loaded.execute([parameter, gradient]);
    assert.equal(parameter.isLive, false);
    assert.equal((await outputs[0]!.toHost()).data[0], 3);
    for (const owner of [gradient, ...outputs, program, loaded]) owner.dispose();
  },
};

export const donationScenarios: readonly Scenario[] = [inPlace, twice, kept, reloaded];
