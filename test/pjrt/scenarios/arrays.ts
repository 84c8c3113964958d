import assert from "node:assert/strict";
import { type DType, dtypeInfo, dtypes } from "../../../src/core/dtype.ts";
import { type HostArray, hostArray, type Shape, sizeOf } from "../../../src/core/hostArray.ts";
import { put } from "../../../src/pjrt/index.ts";
import type { Scenario } from "../scenarios.ts";

/** Every bit pattern of narrow types, extremes and NaN payloads of wide ones, among pseudo-random patterns. */
export function patterns(shape: Shape, dtype: DType): HostArray {
  const { array, bits, kind } = dtypeInfo(dtype);
  const data = new array(sizeOf(shape));
  const bytes = new Uint8Array(data.buffer);
  let state = 12345;
  for (let i = 0; i < bytes.length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    bytes[i] = state >>> 24;
  }
  if (kind === "bool")
    bytes.forEach((byte, i) => {
      bytes[i] = byte & 1;
    });
  else if (dtype === "int4")
    (data as Int8Array).forEach((_, i) => {
      data[i] = (i % 16) - 8;
    });
  else if (bits === 4)
    bytes.forEach((_, i) => {
      bytes[i] = i % 16;
    });
  else if (bits === 8)
    bytes.forEach((_, i) => {
      bytes[i] = i;
    });
  else bytes.fill(255, 0, data.BYTES_PER_ELEMENT);
  return hostArray(shape, dtype, data);
}

export function assertSameBits(actual: HostArray, expected: HostArray, what: string): void {
  assert.equal(actual.dtype, expected.dtype, what);
  assert.deepEqual(actual.shape, expected.shape, what);
  const bytes = ({ data }: HostArray) => Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  assert.ok(bytes(actual).equals(bytes(expected)), `${what}: bits differ`);
}

const roundTrip: Scenario = {
  name: "transfers of every dtype and of empty and scalar shapes keep every bit",
  async run(world) {
    const client = world.client();
    for (const dtype of dtypes) {
      for (const shape of [[16, 16], [3, 5], [7], [], [0, 3], [2, 1, 3]]) {
        const host = patterns(shape, dtype);
        const array = put(host, client);
        assertSameBits(await array.toHost(), host, `${dtype}[${shape}]`);
        array.dispose();
      }
    }
  },
};

const onDevice: Scenario = {
  name: "values of every dtype are in their places on the device",
  async run(world) {
    const client = world.client();
    for (const dtype of dtypes) {
      const { mlir, array } = dtypeInfo(dtype);
      const host = patterns([5, 3], dtype);
      const program =
        await client.compile(`module { func.func public @main(%a: tensor<5x3x${mlir}>) -> tensor<3x5x${mlir}> {
        %t = stablehlo.transpose %a, dims = [1, 0] : (tensor<5x3x${mlir}>) -> tensor<3x5x${mlir}>
        return %t : tensor<3x5x${mlir}> } }`);
      const input = put(host, client);
      const { outputs } = await program.execute([input]);
      const expected = new array(15);
      for (let i = 0; i < 5; i++) for (let j = 0; j < 3; j++) expected[j * 5 + i] = host.data[i * 3 + j] as never;
      assert.deepEqual(program.outputs, [{ shape: [3, 5], dtype }]);
      assertSameBits(await outputs[0]!.toHost(), hostArray([3, 5], dtype, expected), dtype);
      for (const owner of [input, ...outputs, program]) owner.dispose();
    }
  },
};

const packed: Scenario = {
  name: "four-bit values are packed on the device, low half first",
  async run(world) {
    const client = world.client();
    const codes = put(hostArray([2, 2], "float4_e2m1fn", Uint8Array.of(1, 2, 3, 15)), client);
    assert.equal(codes.deviceBytes, 2);
    const { on_device_size_in_bytes } = client.api.call("Buffer_OnDeviceSizeInBytes", { buffer: codes.buffers[0]! });
    assert.equal(on_device_size_in_bytes, 2);
    const program = await client.compile(`module { func.func public @main(%a: tensor<2x2xf4E2M1FN>) -> tensor<2xui8> {
      %b = stablehlo.bitcast_convert %a : (tensor<2x2xf4E2M1FN>) -> tensor<2xui8>
      return %b : tensor<2xui8> } }`);
    const { outputs } = await program.execute([codes]);
    assert.deepEqual((await outputs[0]!.toHost()).data, Uint8Array.of(0x21, 0xf3));
    for (const owner of [codes, ...outputs, program]) owner.dispose();
  },
};

const host: Scenario = {
  name: "an upload copies: the host array may change at once",
  async run(world) {
    const data = new Float32Array(1 << 20).fill(3);
    const array = put(hostArray([1 << 20], "float32", data), world.client());
    data.fill(7);
    assert.ok((await array.toHost()).data.every((value) => value === 3));
    array.dispose();
  },
};

const badHost: Scenario = {
  name: "host arrays that don't fit are refused before native code sees them",
  async run(world) {
    const client = world.client();
    const before = client.liveBuffers;
    const short = { shape: [1000, 1000], dtype: "float32", data: new Float32Array(3) } as const;
    assert.throws(() => put(short, client), /float32\[1000,1000\] needs a Float32Array of 1000000 values/);
    assert.throws(() => put(hostArray([2], "bool", Uint8Array.of(0, 2)), client), /values from 0 to 1; got 2/);
    assert.throws(() => put(hostArray([2], "float4_e2m1fn", Uint8Array.of(0, 16)), client), /from 0 to 15; got 16/);
    assert.throws(() => put(hostArray([2], "int4", Int8Array.of(0, -9)), client), /from -8 to 7; got -9/);
    assert.deepEqual(client.liveBuffers, before);
  },
};

const lifetime: Scenario = {
  name: "dispose frees once and says later what was used too late",
  async run(world) {
    const client = world.client();
    const before = client.liveBuffers;
    const array = put(hostArray([4, 2], "bfloat16", new Uint16Array(8)), client);
    assert.deepEqual(client.liveBuffers, { arrays: before.arrays + 1, bytes: before.bytes + 16 });
    array.dispose();
    array.dispose();
    array[Symbol.dispose]();
    assert.equal(array.isLive, false);
    assert.deepEqual(client.liveBuffers, before);
    await assert.rejects(array.toHost(), /bfloat16\[4,2\] can't be used: it was disposed/);
    const program = await client.compile(
      "module { func.func public @main(%a: tensor<4x2xbf16>) -> tensor<4x2xbf16> { return %a : tensor<4x2xbf16> } }",
    );
    await assert.rejects(program.execute([array]), /bfloat16\[4,2\] can't be used: it was disposed/);
    program.dispose();
    program.dispose();
    await assert.rejects(program.execute([]), /the program main can't be used: it was disposed/);
  },
};

export const arrayScenarios: readonly Scenario[] = [roundTrip, onDevice, packed, host, badHost, lifetime];
