import { expect, it } from "vitest";
import { hostArray, type Tensor } from "../../src/core/index.ts";
import { jit } from "../../src/jit/index.ts";
import { put } from "../../src/pjrt/index.ts";
import { mesh, partition, withSharding } from "../../src/sharding/index.ts";
import { clientOf } from "./devices.ts";

const client = clientOf(2);
const data = mesh({ data: 2 });
const rows = partition("data");
const array = (...shape: number[]) =>
  hostArray(shape, "float32", new Float32Array(shape.reduce((a, b) => a * b, 1)).fill(1));

let traced = 0;
const double = ({ tokens }: { tokens: Tensor }) => {
  traced++;
  return tokens.add(tokens);
};
const onMesh = (options: object) => jit(double, { name: "step", client, mesh: data, ...options });

it.each([
  [
    "a batch of 3 on 2 devices",
    () => onMesh({ inShardings: [{ tokens: rows }] })({ tokens: array(3, 4) }),
    "step: argument 0.tokens: dim 0 of float32[3,4] can't be split over data=2: 3 / 2 = 1 remainder 1; make it a multiple of 2",
  ],
  [
    "a mesh of more devices than there are",
    () => onMesh({ mesh: mesh({ data: 4 }) })({ tokens: array(4) }),
    "the mesh has data=4 devices, the client 2: they must be equal",
  ],
  [
    "a mesh of fewer",
    () => onMesh({ mesh: mesh({ data: 1 }) })({ tokens: array(4) }),
    "the mesh has data=1 device, the client 2",
  ],
  [
    "shardings without a mesh",
    () => jit(double, { name: "step", client, inShardings: [rows] })({ tokens: array(4) }),
    "step: inShardings and outShardings need a mesh",
  ],
  [
    "an axis that is none",
    () => onMesh({ inShardings: [partition("dta")] })({ tokens: array(4) }),
    'the mesh has no axis "dta", but "data"; did you mean "data"?',
  ],
  [
    "a device array of one device",
    () => onMesh({ inShardings: [rows] })({ tokens: put(array(4), client) }),
    "step: argument 0.tokens, float32[4], is on 1 device(s) without a sharding; the function takes it [data] over data=2 devices. Move it by reshard, or give a host array",
  ],
  [
    "a device array that lies otherwise",
    () => onMesh({})({ tokens: put(array(4), client, { mesh: data, partition: rows }) }),
    "is [data] over data=2 devices; the function takes it replicated over data=2 devices",
  ],
])("refuses %s before tracing", async (_, call, message) => {
  traced = 0;
  await expect(call()).rejects.toThrow(message);
  await expect(call()).rejects.toMatchObject({ name: "UserError" });
  expect(traced).toBe(0);
});

it("refuses a result that can't be split, and a constraint over another mesh", async () => {
  const f = jit((x: Tensor) => x.narrow(0, 0, 3), { name: "f", client, mesh: data, outShardings: rows });
  await expect(f(array(4))).rejects.toThrow("f: result: dim 0 of float32[3] can't be split over data=2");
  const g = (x: Tensor) => withSharding(x, mesh({ data: 4 }), rows);
  await expect(jit(g, { client, mesh: data })(array(4))).rejects.toThrow(
    "withSharding is over a mesh of data=4 devices; the program is compiled for data=2 devices",
  );
  await expect(jit(g, { client })(array(6))).rejects.toThrow(/6 \/ 4 = 1 remainder 2.*refusals\.cpu\.test\.ts:\d+/);
});

it("refuses a sharded array where a function is for one device", async () => {
  const spread = put(array(4), client, { mesh: data, partition: rows });
  await expect(jit(double, { client })({ tokens: spread })).rejects.toThrow("is on 2 device(s); the program runs on 1");
});
