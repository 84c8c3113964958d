/** Scopes: which layer and pass an operation belongs to. */
import { describe, expect, it } from "vitest";
import { remat, valueAndGrad } from "../../src/autodiff/index.ts";
import {
  currentScope,
  dot,
  namedScope,
  type Program,
  parseScope,
  showScope,
  spec,
  type Tensor,
  trace,
} from "../../src/core/index.ts";
import { linear, nvfp4 } from "../../src/quant/index.ts";

/** The scopes of a program's operations of one name, in order. */
const scopesOf = ({ eqns }: Program, op: string) =>
  eqns.filter((eqn) => eqn.op.name === op).map((eqn) => showScope(eqn.scope));

const f32 = (...shape: number[]) => spec(shape, "float32");

describe("scopes", () => {
  it("nest, and end where their function ends, also by an error", () => {
    const program = trace((x: Tensor) => {
      const inner = namedScope("outer", () => namedScope("in.ner", () => x.exp()).exp());
      expect(() => namedScope("failing", () => x.add(Number.NaN as never).reshape([7]))).toThrow();
      return inner.exp();
    }, f32(2));
    expect(scopesOf(program, "exp")).toEqual(["outer.in.ner", "outer", ""]);
    expect(currentScope().path).toBe("");
  });

  it("of a derivative are those of the operation it is of", () => {
    const layers = (x: Tensor, w: Tensor) =>
      namedScope("b", () => dot(namedScope("a", () => dot(x, w)).tanh(), w)).sum();
    const program = trace((x: Tensor, w: Tensor) => valueAndGrad(layers)(x, w).grad, f32(2, 3), f32(3, 3));
    expect(scopesOf(program, "dot")).toEqual(["b.a", "b:backward", "b.a:backward"]);
    expect(scopesOf(program, "tanh")).toEqual(["b"]);
  });

  it("tell a recomputation from the first computation", () => {
    const block = remat((x: Tensor) => namedScope("block", () => x.exp().exp()));
    const program = trace((x: Tensor) => valueAndGrad((x: Tensor) => block(x).sum())(x), f32(2));
    expect(scopesOf(program, "exp").sort()).toEqual(["block", "block", "block:recompute", "block:recompute"]);
  });

  it("name the three GEMMs of a linear layer, and their format", () => {
    const loss = (x: Tensor, w: Tensor) =>
      linear(x, w, { module: "mlp.up", layer: 0, precision: nvfp4({ stochasticRounding: false }) }).sum();
    const program = trace(
      (x: Tensor, w: Tensor) => {
        const { value, grad } = valueAndGrad((p: { x: Tensor; w: Tensor }) => namedScope("l", () => loss(p.x, p.w)))({
          x,
          w,
        });
        return [value, grad];
      },
      f32(16, 16),
      f32(16, 16),
    );
    const gemms = program.eqns.filter((eqn) => eqn.op.name === "dot" && eqn.outputs[0]!.shape.length === 2);
    const scopes = new Set(gemms.map((eqn) => showScope(eqn.scope)));
    expect([...scopes].sort()).toEqual(["l.mlp.up:dgrad:nvfp4", "l.mlp.up:fprop:nvfp4", "l.mlp.up:wgrad:nvfp4"]);
  });

  it("are read back from their text", () => {
    for (const text of ["", "head", "layers.3.mlp.gate:wgrad:nvfp4", ":backward", "a::nvfp4"]) {
      expect(showScope(parseScope(text))).toBe(text);
    }
  });
});
