/** Collectives compiled against interpreted, by property over the dtypes, on meshes of one and two axes. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { hostArray, interpret, type Mesh, trace } from "../../src/core/index.ts";
import { jit } from "../../src/jit/index.ts";
import { mesh, meshSize, showMesh } from "../../src/sharding/index.ts";
import { operationsIn } from "../core/properties/families.ts";
import { differencesOf } from "../core/properties/opCase.ts";
import { fetchAndFree } from "../fetchAndFree.ts";
import { collectiveCases, positions } from "./collectiveCases.ts";
import { clientOf } from "./devices.ts";

const places: readonly (readonly [Mesh, string])[] = [
  [mesh({ data: 1 }), "data"],
  [mesh({ data: 2 }), "data"],
  [mesh({ data: 4 }), "data"],
  [mesh({ data: 2, model: 2 }), "data"],
  [mesh({ data: 2, model: 2 }), "model"],
];

it("all collectives are tried", () => {
  const cases = collectiveCases(mesh({ data: 2 }), "data");
  const used = cases.flatMap(({ f, inputs }) => operationsIn(trace(f, ...inputs))).map(({ name }) => name);
  const source = readFileSync(new URL("../../src/sharding/collectives.ts", import.meta.url), "utf8");
  const defined = [...source.matchAll(/\bname: "(\w+)"/g)].map(([, name]) => name!);
  expect(defined).toHaveLength(6);
  // Positions have a test of their own.
  expect(defined.filter((name) => !used.includes(name))).toEqual(["axis_index"]);
});

describe.each(places.map(([on, axis]) => ({ on, axis, name: showMesh(on) })))(
  "along $axis of $name",
  ({ on, axis }) => {
    const client = clientOf(meshSize(on));

    it("compiled collectives equal interpreted ones", async () => {
      // All dtypes on one axis; elsewhere only the groups of devices differ.
      const all = on.axes.length === 1 && meshSize(on) > 1;
      const cases = collectiveCases(on, axis).filter(({ label }) => all || /float32|uint8/.test(label));
      expect(cases.length).toBeGreaterThan(all ? 100 : 12);
      expect(await differencesOf(cases, { client, mesh: on })).toEqual([]);
    });

    it("each device knows its position", async () => {
      const x = hostArray([4], "float32", Float32Array.of(0, 10, 20, 30));
      const f = positions(on, axis);
      const compiled = jit(f, { client, mesh: on });
      const got = await fetchAndFree(compiled(x));
      expect(got).toEqual(interpret(f, x));
      const stride = on.axes.length === 2 && axis === "data" ? 2 : 1;
      const size = on.axes.find(({ name }) => name === axis)!.size;
      const device = (i: number) => Math.floor((i * meshSize(on)) / 4);
      expect([...got.data]).toEqual([0, 1, 2, 3].map((i) => 10 * i + (Math.floor(device(i) / stride) % size)));
      compiled.dispose();
    });
  },
);
