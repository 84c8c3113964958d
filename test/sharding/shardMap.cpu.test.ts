import { describe, expect, it } from "vitest";
import { cond, grad, remat, scan, valueAndGrad, vjp, whileLoop } from "../../src/autodiff/index.ts";
import {
  argMax,
  constant,
  dot,
  type HostArray,
  hostArray,
  interpret,
  type Shape,
  showProgram,
  sizeOf,
  spec,
  type Tensor,
  trace,
} from "../../src/core/index.ts";
import { jit } from "../../src/jit/index.ts";
import { probeOneDnn } from "../../src/pjrt/index.ts";
import {
  allGather,
  allReduce,
  allToAll,
  axisIndex,
  collectivePermute,
  mesh,
  partition,
  reduceScatter,
  replicated,
  shardMap,
  withSharding,
} from "../../src/sharding/index.ts";
import { fetchAndFree } from "../fetchAndFree.ts";
import { clientOf } from "./devices.ts";

const random = (shape: Shape, seed: number) =>
  hostArray(
    shape,
    "float32",
    Float32Array.from({ length: sizeOf(shape) }, (_, i) => Math.sin(12.9898 * (i + 1) + 78.233 * seed)),
  );

function expectClose(got: HostArray, wanted: HostArray, tolerance = 2e-6): void {
  expect(got.shape).toEqual(wanted.shape);
  const scale = Math.max(1, ...(wanted.data as Float32Array).map(Math.abs));
  (wanted.data as Float32Array).forEach((w, i) => {
    expect(Math.abs(Number(got.data[i]) - w) / scale).toBeLessThan(tolerance);
  });
}

describe.each([2, 4])("shardMap on %i devices", (devices) => {
  const client = clientOf(devices);
  const data = mesh({ data: devices });
  const rows = partition("data");
  const ring = Array.from({ length: devices }, (_, i) => [i, (i + 1) % devices] as const);
  const [x, w] = [random([8, 4], 1), random([4, 8], 2)];
  const mixer = () => constant(random([8, 8], 3));

  /** Functions of x and w by their per-device parts, and the same of whole arrays. */
  const pairs: Record<string, { spread: (x: Tensor, w: Tensor) => Tensor; plain: (x: Tensor, w: Tensor) => Tensor }> = {
    "data parallel": {
      spread: shardMap((x: Tensor, w: Tensor) => allReduce(dot(x, w).tanh().sum(), "data"), {
        mesh: data,
        in: [rows, replicated],
        out: replicated,
      }),
      plain: (x, w) => dot(x, w).tanh().sum(),
    },
    "fully sharded weights": {
      spread: shardMap(
        (x: Tensor, w: Tensor) =>
          allReduce(
            dot(x, allGather(w, "data", 1))
              .tanh()
              .sum(),
            "data",
          ),
        { mesh: data, in: [rows, partition(null, "data")], out: replicated },
      ),
      plain: (x, w) => dot(x, w).tanh().sum(),
    },
    "a contracted dim, scattered": {
      spread: (x, w) =>
        shardMap((x: Tensor, w: Tensor) => reduceScatter(dot(x, w), "data").tanh(), {
          mesh: data,
          in: [partition(null, "data"), rows],
          out: rows,
        })(x, w).sum(),
      plain: (x, w) => dot(x, w).tanh().sum(),
    },
    "an exchange of rows for columns": {
      spread: (x, w) =>
        shardMap((y: Tensor) => allToAll(y, "data", { split: 1, concat: 0 }).sum(0, { keepDims: true }).exp(), {
          mesh: data,
          in: [rows],
          out: partition(null, "data"),
        })(dot(x, w)).sum(),
      plain: (x, w) => dot(x, w).sum(0).exp().sum(),
    },
    "a ring and positions": {
      spread: (x, w) =>
        shardMap(
          (y: Tensor) => collectivePermute(y.mul(axisIndex("data").astype("float32").add(1)), "data", ring).tanh(),
          { mesh: data, in: [rows], out: rows },
        )(dot(x, w))
          .mul(mixer())
          .sum(),
      plain: (x, w) => {
        const piece = 8 / devices;
        const y = dot(x, w);
        const parts = Array.from({ length: devices }, (_, i) => {
          const from = (i + devices - 1) % devices;
          const mine = mixer().narrow(0, i * piece, piece);
          return y
            .narrow(0, from * piece, piece)
            .mul(from + 1)
            .tanh()
            .mul(mine)
            .sum();
        });
        return parts.reduce((a, b) => a.add(b));
      },
    },
    "maxima, a loop, remat and a captured tensor": {
      spread: (x, w) => {
        const scaled = w.mul(0.5);
        const step = remat((h: Tensor) => {
          const y = dot(h, scaled).tanh();
          return dot(y, scaled, { contract: [[1], [1]] }).div(allReduce(y.abs().maxOver(), "data", "max"));
        });
        return shardMap(
          (x: Tensor) =>
            allReduce(scan((h: Tensor) => ({ carry: step(h), y: h.sum() }), x, null, { length: 3 }).ys.sum(), "data"),
          { mesh: data, in: [rows], out: replicated },
        )(x);
      },
      plain: (x, w) => {
        const scaled = w.mul(0.5);
        let [h, sum] = [x, x.sum().mul(0)];
        for (let i = 0; i < 3; i++) {
          sum = sum.add(h.sum());
          const y = dot(h, scaled).tanh();
          h = dot(y, scaled, { contract: [[1], [1]] }).div(y.abs().maxOver());
        }
        return sum;
      },
    },
  };
  it.each(Object.entries(pairs))(
    "%s: value and gradient are those of the whole function",
    async (_, { spread, plain }) => {
      const both = (f: (x: Tensor, w: Tensor) => Tensor) => (x: Tensor, w: Tensor) =>
        valueAndGrad(([x, w]: readonly [Tensor, Tensor]) => f(x, w))([x, w]);
      const compiled = jit(both(spread), { client, mesh: data });
      const got = await fetchAndFree<{ value: HostArray; grad: HostArray[] }>(compiled(x, w));
      compiled.dispose();
      for (const wanted of [interpret(both(plain), x, w), interpret(both(spread), x, w)]) {
        expectClose(got.value, wanted.value);
        wanted.grad.forEach((g, i) => expectClose(got.grad[i]!, g as HostArray));
      }
    },
  );

  it("has second derivatives", async () => {
    const spread = shardMap((x: Tensor) => allReduce(x.mul(x).mul(x).sum(), "data"), {
      mesh: data,
      in: [rows],
      out: replicated,
    });
    const second = (x: Tensor) => grad((x: Tensor) => grad(spread)(x).mul(x).sum())(x);
    const compiled = jit(second, { client, mesh: data });
    const got = await fetchAndFree(compiled(x));
    compiled.dispose();
    const wanted = (x.data as Float32Array).map((v) => 9 * v * v);
    expectClose(got, hostArray(x.shape, "float32", wanted));
  });

  it("meets in loops and branches, and is pulled back twice", async () => {
    const halved = (x: Tensor) =>
      whileLoop(
        ({ h }) => allReduce(h.abs().sum(), "data").gt(1),
        ({ h }) => ({ h: h.mul(0.5) }),
        { h: x },
      ).h;
    const branch = (x: Tensor) =>
      cond(
        axisIndex("data").eq(0),
        (x: Tensor) => x.mul(2),
        (x: Tensor) => x.neg(),
        x,
      );
    const two = shardMap(
      (x: Tensor) => ({ total: allReduce(x.exp().tanh().sum(), "data"), rows: branch(halved(x)).add(x.exp().tanh()) }),
      { mesh: data, in: [rows], out: { total: replicated, rows } },
    );
    const f = (x: Tensor) => {
      const { out, pullback } = vjp((x: Tensor) => two(x).total, x);
      const [slope] = pullback(out);
      const [twice] = pullback(out.mul(2));
      return { ...two(x), slope, twice };
    };
    const compiled = jit(f, { client, mesh: data });
    const got = await fetchAndFree<Record<string, HostArray>>(compiled(x));
    compiled.dispose();
    for (const [name, wanted] of Object.entries(interpret(f, x))) expectClose(got[name]!, wanted as HostArray);
  });

  it("runs library calls and reductions on its pieces alone", async () => {
    const f = shardMap((x: Tensor, w: Tensor) => dot(x.astype("bfloat16"), w.astype("bfloat16")), {
      mesh: data,
      in: [rows, replicated],
      out: rows,
    });
    const inside = await jit(f, { client, mesh: data }).lower(x, w);
    const around = await jit((x: Tensor, w: Tensor) => dot(x.astype("bfloat16"), w.astype("bfloat16")), {
      client,
      mesh: data,
    }).lower(x, w);
    expect(around.stablehlo).not.toContain("__onednn$matmul");
    expect(inside.stablehlo.includes("__onednn$matmul")).toBe((await probeOneDnn(client)).bfloat16);
  });

  it("a maximum over a split dim keeps a NaN of any device", async () => {
    const extremes = (x: Tensor) => ({ max: x.maxOver(0), min: x.minOver(0), at: argMax(x, 0) });
    const compiled = jit(extremes, { client, mesh: data, inShardings: [rows] });
    for (const row of [0, 3, 7]) {
      const host = random([8, 4], row);
      (host.data as Float32Array)[4 * row + 1] = Number.NaN;
      const got = await fetchAndFree<Record<string, HostArray>>(compiled(host));
      expect(got).toEqual(interpret(extremes, host));
      expect(got.max!.data[1]).toBeNaN();
    }
    compiled.dispose();
  });
});

describe("shardMap", () => {
  const two = mesh({ data: 2 });
  const rows = partition("data");
  const over = (f: (x: Tensor) => Tensor, out: object | null = rows) => shardMap(f, { mesh: two, in: [rows], out });
  const x = spec([4, 3], "float32");

  it("prints its body under the partitions", () => {
    const program = showProgram(
      trace(
        over((x) => allReduce(x, "data"), null),
        x,
      ),
    );
    expect(program).toContain("shard_map[data=2 devices: [data] → replicated]");
    expect(program).toContain("= all_reduce[data sum]");
  });

  it.each([
    [
      "an argument that can't be cut",
      () =>
        trace(
          over((x) => x),
          spec([3], "float32"),
        ),
      "shardMap: argument 0: dim 0 of float32[3] can't be split over data=2: 3 / 2 = 1 remainder 1",
    ],
    [
      "a collective outside",
      () => trace((x: Tensor) => allReduce(x, "data"), x),
      "allReduce: devices meet only inside shardMap",
    ],
    [
      "an unknown axis",
      () =>
        trace(
          over((x) => allGather(x, "dta")),
          x,
        ),
      'allGather: the mesh has no axis "dta", but "data"; did you mean "data"?',
    ],
    [
      "a dim that is none",
      () =>
        trace(
          over((x) => allGather(x, "data", 2)),
          x,
        ),
      "allGather: dim 2 is outside float32[2,3]",
    ],
    [
      "parts that don't divide",
      () =>
        trace(
          over((x) => reduceScatter(x, "data", 1)),
          x,
        ),
      "reduceScatter: dim 1 of float32[2,3] can't be split over data=2: 3 / 2 = 1 remainder 1",
    ],
    [
      "a sum of codes",
      () =>
        trace(
          over((x) => allReduce(x.astype("float8_e4m3fn"), "data")),
          x,
        ),
      "allReduce: cannot reduce float8_e4m3fn[2,3]; cast it first",
    ],
    [
      "a device that receives twice",
      () =>
        trace(
          over((x) =>
            collectivePermute(x, "data", [
              [0, 1],
              [1, 1],
            ]),
          ),
          x,
        ),
      "each device can send once and receive once",
    ],
    [
      "a place that is none",
      () =>
        trace(
          over((x) => collectivePermute(x, "data", [[0, 2]])),
          x,
        ),
      "positions on data are 0 to 1",
    ],
    [
      "one in another",
      () =>
        trace(
          over((x) => over((y) => y)(x)),
          x,
        ),
      "shardMap: one can't stand inside another",
    ],
    [
      "a constraint inside",
      () =>
        trace(
          over((x) => withSharding(x, two, rows)),
          x,
        ),
      "withSharding: inside shardMap",
    ],
  ])("refuses %s at the user's line", (_, f, message) => {
    expect(f).toThrow(message);
    expect(f).toThrow(/shardMap\.cpu\.test\.ts:\d+/);
  });

  it("needs jit on its mesh", async () => {
    const f = over((x) => x);
    const host = random([4, 3], 0);
    await expect(jit(f, { client: clientOf(1) })(host)).rejects.toThrow(
      "shardMap is over a mesh of data=2 devices; the program is compiled for one device; give jit the same mesh",
    );
  });

  it("interpreted, finds results that are no copies", () => {
    const host = random([4, 3], 0);
    expect(() =>
      interpret(
        over((x) => x.sum(), null),
        host,
      ),
    ).toThrow(/shardMap: result 0 is .* on device 0 and .* on another/);
  });
});
