import { describe, expect, it } from "vitest";
import { grad, remat, scan, valueAndGrad } from "../../src/autodiff/index.ts";
import {
  dot,
  type HostArray,
  hostArray,
  interpret,
  type Tensor,
  take,
  treeLeaves,
  where,
} from "../../src/core/index.ts";
import { fetchTree, jit } from "../../src/jit/index.ts";

const f32 = (shape: number[], f: (i: number) => number): HostArray =>
  hostArray(
    shape,
    "float32",
    Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => f(i)),
  );

/** Runs f compiled and interpreted and compares every output to 1e-5 of its largest value. */
async function bothWays(f: (...args: never[]) => unknown, ...args: unknown[]): Promise<void> {
  const compiled = jit(f as (...args: unknown[]) => unknown);
  const got = treeLeaves<HostArray>(await fetchTree(await compiled(...(args as never[]))));
  const wanted = treeLeaves<HostArray>(interpret(f as (...args: unknown[]) => unknown, ...(args as never[])));
  expect(got.length).toBe(wanted.length);
  got.forEach((array, i) => {
    const [a, b] = [array.data as Float32Array, wanted[i]!.data as Float32Array];
    const scale = Math.max(...Array.from(b, Math.abs), 1e-30);
    for (let j = 0; j < a.length; j++) expect(Math.abs(a[j]! - b[j]!) / scale).toBeLessThan(1e-5);
  });
}

describe("jit", () => {
  const x = f32([4, 6], (i) => Math.sin(i));
  const w = f32([6, 3], (i) => Math.cos(i * 2));

  it("runs what the interpreter runs, with gradients", async () => {
    const loss = (w: Tensor, x: Tensor) => dot(x, w).tanh().mul(dot(x, w).exp()).sum();
    await bothWays((w: Tensor, x: Tensor) => valueAndGrad(loss)(w, x), w, x);
  });

  it("runs scans and their gradients, capturing from outside", async () => {
    const f = (w: Tensor, x: Tensor) => {
      const scale = w.sum();
      const square = dot(w, w, { contract: [[1], [1]] });
      const { carry, ys } = scan(
        (h: Tensor, row: Tensor) => {
          const next = dot(h, square).add(row).tanh().mul(scale);
          return { carry: next, y: next.sum() };
        },
        x.at(0, 0),
        x,
      );
      return carry.sum().add(ys.mul(ys).sum());
    };
    await bothWays(
      (w: Tensor, x: Tensor) => valueAndGrad((p: { w: Tensor; x: Tensor }) => f(p.w, p.x))({ w, x }),
      w,
      x,
    );
  });

  it("recomputes under remat and gives the same gradients", async () => {
    const block = (w: Tensor, x: Tensor) => dot(dot(x, w).tanh(), w, { contract: [[1], [1]] }).sin();
    const plain = (w: Tensor, x: Tensor) => grad((w: Tensor) => block(w, block(w, x)).sum())(w);
    const rematted = (w: Tensor, x: Tensor) => grad((w: Tensor) => remat(block)(w, remat(block)(w, x)).sum())(w);
    const inScan = (w: Tensor, x: Tensor) =>
      grad((w: Tensor) => {
        const step = remat((h: Tensor) => block(w, h));
        return scan((h: Tensor) => ({ carry: step(h), y: null }), x, null, { length: 2 }).carry.sum();
      })(w);
    await bothWays(plain, w, x);
    await bothWays((w: Tensor, x: Tensor) => rematted(w, x).sub(plain(w, x)).add(1), w, x);
    await bothWays((w: Tensor, x: Tensor) => inScan(w, x).sub(plain(w, x)).add(1), w, x);
  });

  it("gathers, scatters and selects", async () => {
    const ids = hostArray([5], "int32", Int32Array.of(0, 2, 2, 1, 0));
    const f = (table: Tensor, ids: Tensor) => {
      const rows = take(table, ids);
      return where(rows.gt(0), rows.mul(rows), rows).sum();
    };
    await bothWays((table: Tensor, ids: Tensor) => valueAndGrad((t: Tensor) => f(t, ids))(table), x, ids);
  });
});
