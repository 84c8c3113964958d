/**
 * Programs and their StableHLO as text, compared with the files in `texts/` (`vitest -u` rewrites them), and compiled.
 * The common lowering: a platform's own, with library calls, depends on the plugin.
 */
import { expect, it } from "vitest";
import { remat, scan, valueAndGrad } from "../../src/autodiff/index.ts";
import { checkpointName, dot, showProgram, spec, type Tensor, take, takeAlong, trace } from "../../src/core/index.ts";
import { lowerToStableHlo } from "../../src/lower/index.ts";
import { defaultClient } from "../../src/pjrt/index.ts";

interface Mlp {
  readonly up: Tensor;
  readonly down: Tensor;
  readonly bias: Tensor;
}

/** One step of gradient descent on a two-layer network with bfloat16 products. */
function mlpStep(params: Mlp, batch: { x: Tensor; y: Tensor }) {
  const loss = ({ up, down, bias }: Mlp) => {
    const hidden = dot(batch.x.astype("bfloat16"), up.astype("bfloat16"), { out: "float32" }).add(bias);
    const out = dot(hidden.mul(hidden.sigmoid()).astype("bfloat16"), down.astype("bfloat16"), { out: "float32" });
    const error = out.sub(batch.y);
    return error.mul(error).mean();
  };
  const { value, grad } = valueAndGrad(loss)(params);
  const step = (p: Tensor, g: Tensor) => p.sub(g.mul(0.1));
  return {
    loss: value,
    params: { up: step(params.up, grad.up), down: step(params.down, grad.down), bias: step(params.bias, grad.bias) },
  };
}

/** A recurrent network's loss and gradient: the backward loop reads what the forward loop stacks. */
function recurrence(w: Tensor, xs: Tensor) {
  return valueAndGrad((w: Tensor) => {
    const step = (h: Tensor, x: Tensor) => {
      const next = dot(h, w).add(x).tanh();
      return { carry: next, y: next.sum() };
    };
    return scan(step, xs.at(0, 0), xs).ys.sum();
  })(w);
}

/** A block whose product is kept and whose other values are computed again. */
function rematBlock(w: Tensor, x: Tensor) {
  const block = (w: Tensor, x: Tensor) => checkpointName(dot(x, w), "product").exp().add(1).log();
  return valueAndGrad((w: Tensor) => remat(block, { names: ["product"] })(w, x.sin()).sum())(w);
}

/** Embedding, tied head, softmax cross-entropy of the next token. */
function embeddingLoss(table: Tensor, tokens: Tensor, targets: Tensor) {
  return valueAndGrad((table: Tensor) => {
    const logits = dot(take(table, tokens), table, { contract: [[1], [1]] });
    const shifted = logits.sub(logits.maxOver(1, { keepDims: true }));
    const logProbability = takeAlong(shifted, targets.expandDims(1), 1).sub(
      shifted.exp().sum(1, { keepDims: true }).log(),
    );
    return logProbability.mean().neg();
  })(table);
}

const f32 = (...shape: number[]) => spec(shape, "float32");
const i32 = (...shape: number[]) => spec(shape, "int32");

const programs = {
  mlpStep: trace(mlpStep, { up: f32(4, 8), down: f32(8, 2), bias: f32(8) }, { x: f32(16, 4), y: f32(16, 2) }),
  recurrence: trace(recurrence, f32(3, 3), f32(5, 3)),
  rematBlock: trace(rematBlock, f32(3, 3), f32(2, 3)),
  embeddingLoss: trace(embeddingLoss, f32(10, 4), i32(6), i32(6)),
};

it.each(Object.entries(programs))("%s", async (name, program) => {
  await expect(showProgram(program, name)).toMatchFileSnapshot(`texts/${name}.program.txt`);
  const stablehlo = lowerToStableHlo(program, { name });
  await expect(stablehlo).toMatchFileSnapshot(`texts/${name}.stablehlo.mlir`);
  const executable = await defaultClient().compile(stablehlo);
  expect(executable.outputs).toEqual(program.outputs.map(({ shape, dtype }) => ({ shape, dtype })));
  executable.dispose();
});

it("gives the same text for the same function", () => {
  const again = trace(recurrence, f32(3, 3), f32(5, 3));
  expect(showProgram(again)).toBe(showProgram(programs.recurrence));
  expect(lowerToStableHlo(again)).toBe(lowerToStableHlo(programs.recurrence));
});
