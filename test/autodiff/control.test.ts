/** cond and whileLoop: what they refuse, what they compute, and where. */
import { describe, expect, it } from "vitest";
import { cond, grad, scan, whileLoop } from "../../src/autodiff/index.ts";
import { type HostArray, hostArray, interpret, showProgram, type Tensor, trace } from "../../src/core/index.ts";

const x = hostArray([3], "float32", Float32Array.of(1, 2, 3));
const flag = (value: boolean) => hostArray([], "bool", Uint8Array.of(Number(value)));
const here = /\(at .*control\.test\.ts:\d+:\d+\)/;

describe("cond", () => {
  it("refuses a predicate that is no bool scalar, and branches that differ, naming the line", () => {
    const traced = (f: (p: Tensor, x: Tensor) => unknown) => () => trace(f as never, flag(true), x);
    expect(
      traced((_, x) =>
        cond(
          x,
          () => x,
          () => x,
        ),
      ),
    ).toThrow(/must be a bool scalar Tensor; got float32\[3\]/);
    expect(
      traced((p, x) =>
        cond(
          p,
          () => ({ a: x }),
          () => ({ a: x.sum() }),
        ),
      ),
    ).toThrow(/onTrue gives float32\[3\] at "a" and onFalse float32\[\]; both must give the same/);
    expect(
      traced((p, x) =>
        cond(
          p,
          () => ({ a: x }),
          () => ({ b: x }) as never,
        ),
      ),
    ).toThrow(/"a" has no counterpart/);
    expect(
      traced((p, x) =>
        cond(
          p,
          () => x,
          () => x.astype("bfloat16"),
        ),
      ),
    ).toThrow(here);
    expect(
      traced((p, x) =>
        cond(
          p,
          () => x,
          () => 1 as never,
        ),
      ),
    ).toThrow(here);
  });

  it("matches results by name, and computes what a branch alone needs in that branch", () => {
    const f = (p: Tensor, x: Tensor) =>
      cond(
        p,
        () => ({ a: x.exp(), b: x }),
        () => ({ b: x.tanh(), a: x }),
      );
    const program = trace(f, flag(true), x);
    expect(program.eqns.map(({ op }) => op.name)).toEqual(["cond"]);
    expect(showProgram(program)).toBe(`program(a: bool[] "0", b: float32[3] "1") {
  c: float32[3], d: float32[3] = cond a b
    true(b: float32[3]) {
      e: float32[3] = exp b
      return e, b
    }
    false(b: float32[3]) {
      f: float32[3] = tanh b
      return b, f
    }
  return c "a", d "b"
}
`);
    const run = (p: boolean) => interpret(f, flag(p), x) as unknown as { a: HostArray; b: HostArray };
    expect(run(true).b.data).toEqual(x.data);
    expect(run(false).a.data).toEqual(x.data);
  });

  it("shares the room of what its branches keep for their reverse", () => {
    const f = (p: Tensor, x: Tensor) =>
      grad((x: Tensor) =>
        cond(
          p,
          (x: Tensor) => x.exp().mul(3),
          (x: Tensor) => x.tanh().mul(2),
          x,
        ).sum(),
      )(x);
    const [forward] = trace(f as never, flag(true), x).eqns.filter(({ op }) => op.name === "cond");
    expect(forward!.outputs.length).toBe(2);
  });
});

describe("whileLoop", () => {
  it("refuses a condition that is no bool scalar and a state that changes, naming the line", () => {
    const traced = (f: (x: Tensor) => unknown) => () => trace(f as never, x);
    const loop = (condition: (x: Tensor) => Tensor, body: (x: Tensor) => unknown) =>
      traced((x) => whileLoop(condition, body as never, x));
    expect(
      loop(
        (x) => x,
        (x) => x,
      ),
    ).toThrow(/must give a bool scalar; got Tensor\(float32\[3\]\)/);
    expect(
      loop(
        (x) => x.sum().lt(1),
        (x) => x.sum(),
      ),
    ).toThrow(/went in as float32\[3\] and came out as float32\[\]/);
    expect(
      loop(
        (x) => x.sum().lt(1),
        (x) => [x],
      ),
    ).toThrow(here);
  });

  it("runs as often as the condition holds, also never", () => {
    const doubled = (x: Tensor) =>
      whileLoop(
        (x: Tensor) => x.sum().lt(40),
        (x: Tensor) => x.mul(2),
        x,
      );
    expect(interpret(doubled, x).data).toEqual(Float32Array.of(8, 16, 24));
    const large = hostArray([3], "float32", Float32Array.of(50, 0, 0));
    expect(interpret(doubled, large).data).toEqual(large.data);
  });

  it("has no derivative, and says what to use", () => {
    const f = (x: Tensor) =>
      whileLoop(
        (x: Tensor) => x.sum().lt(40),
        (x: Tensor) => x.mul(2),
        x,
      ).sum();
    expect(() => trace((x: Tensor) => grad(f)(x), x)).toThrow(/whileLoop has no derivative.*use scan/);
  });
});

it("scan refuses an unroll that is no whole number", () => {
  const f = (x: Tensor) => scan((c: Tensor) => ({ carry: c, y: null }), x, null, { length: 2, unroll: 0 }).carry;
  expect(() => trace(f, x)).toThrow(/unroll must be a whole number ≥ 1; got 0/);
});
