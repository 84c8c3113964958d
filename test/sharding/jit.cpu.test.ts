import { describe, expect, it } from "vitest";
import { grad } from "../../src/autodiff/index.ts";
import { dot, hostArray, type Shape, sizeOf, spec, type Tensor } from "../../src/core/index.ts";
import { disposeTree, fetchTree, jit, putTree, reshard } from "../../src/jit/index.ts";
import { put } from "../../src/pjrt/index.ts";
import { mesh, partition, replicated, withSharding } from "../../src/sharding/index.ts";
import { fetchAndFree } from "../fetchAndFree.ts";
import { clientOf } from "./devices.ts";

/** Whole numbers: sums are exact in any order. */
const whole = (shape: Shape, seed = 0) =>
  hostArray(
    shape,
    "float32",
    Float32Array.from({ length: sizeOf(shape) }, (_, i) => ((i * 7 + seed) % 11) - 5),
  );

const product = (x: Tensor, w: Tensor) => ({ y: dot(x, w), sum: dot(x, w).sum() });

describe.each([1, 2, 4])("a function on a mesh of %i devices", (devices) => {
  const client = clientOf(devices);
  const data = mesh({ data: devices });
  const [x, w] = [whole([8, 16]), whole([16, 12], 3)];

  it.each([
    ["rows of x", [partition("data"), replicated], { y: partition("data"), sum: replicated }],
    ["columns of w", [replicated, partition(null, "data")], { y: partition(null, "data"), sum: null }],
    ["the contracted dim", [partition(null, "data"), partition("data")], null],
    ["nothing", undefined, undefined],
  ] as const)("splits %s and gives one device's answer", async (_, inShardings, outShardings) => {
    const one = jit(product, { client: clientOf(1) });
    const spread = jit(product, { client, mesh: data, ...(inShardings && { inShardings }), outShardings });
    const [wanted, got] = [await fetchAndFree(one(x, w)), await fetchAndFree(spread(x, w))];
    expect(got).toEqual(wanted);
    for (const compiled of [one, spread]) compiled.dispose();
  });

  it("keeps arrays in pieces between calls, and assembles them", async () => {
    const grow = jit((state: { m: Tensor; v: Tensor }) => ({ m: state.m.add(state.v), v: state.v.mul(2) }), {
      client,
      mesh: data,
      donate: [0],
      inShardings: [{ m: partition("data"), v: partition(null, "data") }],
      outShardings: { m: partition("data"), v: partition(null, "data") },
    });
    let state = await putTree({ m: whole([4, 8]), v: whole([4, 8], 1) }, client, {
      mesh: data,
      shardings: { m: partition("data"), v: partition(null, "data") },
    });
    const before = state.m;
    for (let i = 0; i < 3; i++) state = await grow(state);
    expect(before.isLive).toBe(false);
    expect(state.m.shape).toEqual([4, 8]);
    expect(state.m.deviceBytes).toBe(4 * 8 * 4);
    expect((await state.m.toHost(0)).shape).toEqual([4 / devices, 8]);
    expect((await state.v.toHostPieces()).map(({ shape }) => shape)).toEqual(
      Array.from({ length: devices }, () => [4, 8 / devices]),
    );
    const [m, v] = [whole([4, 8]).data, whole([4, 8], 1).data];
    expect([...(await state.m.toHost()).data]).toEqual([...m].map((x, i) => Number(x) + 7 * Number(v[i])));
    expect([...(await state.v.toHost()).data]).toEqual([...v].map((x) => 8 * Number(x)));
    disposeTree(state);
    grow.dispose();
    expect(client.liveBuffers.arrays).toBe(0);
  });

  it("constrains a value inside, and its cotangent", async () => {
    const f = (x: Tensor) => withSharding(x.mul(2), data, partition(null, "data")).add(1);
    const rows = partition("data");
    const compiled = jit(f, { client, mesh: data, inShardings: [rows], outShardings: rows });
    expect((await compiled.lower(spec([8, 16], "float32"))).stablehlo).toContain("sdy.sharding_constraint");
    expect((await fetchAndFree(compiled(x))).data).toEqual((x.data as Float32Array).map((v) => 2 * v + 1));
    const slope = jit(
      grad((x: Tensor) => f(x).mul(x).sum()),
      { client, mesh: data, inShardings: [rows] },
    );
    expect((await slope.lower(x)).stablehlo.match(/sdy\.sharding_constraint/g)).toHaveLength(2);
    expect((await fetchAndFree(slope(x))).data).toEqual((x.data as Float32Array).map((v) => 4 * v + 1));
    for (const each of [compiled, slope]) each.dispose();
  });

  it("runs two programs that exchange in turns, none waited for", async () => {
    const sharded = { client, mesh: data, inShardings: [partition("data")] };
    const up = jit((x: Tensor) => x.sum(0), { ...sharded, outShardings: replicated });
    const down = jit((x: Tensor) => x.maxOver(1), { ...sharded, outShardings: replicated });
    const held = put(x, client, { mesh: data, partition: partition("data") });
    const results = await Promise.all(Array.from({ length: 60 }, (_, i) => (i % 2 === 0 ? up : down)(held)));
    const values = await fetchTree(results);
    values.forEach((value, i) => expect(value).toEqual(values[i % 2]));
    disposeTree([held, results]);
    for (const each of [up, down]) each.dispose();
  });

  it("moves arrays between shardings", async () => {
    const rows = put(x, client, { mesh: data, partition: partition("data") });
    const columns = await reshard({ rows }, { mesh: data, shardings: partition(null, "data") });
    const plain = put(x, client);
    const spread = await reshard(plain, { mesh: data, shardings: replicated });
    expect((await columns.rows.toHost(devices - 1)).shape).toEqual([8, 16 / devices]);
    expect(await fetchTree([columns.rows, spread])).toEqual([x, x]);
    disposeTree([rows, columns, plain, spread]);
  });
});
