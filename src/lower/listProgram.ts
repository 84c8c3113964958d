/** A Program's equations as a list of operations. Tensors are called by their paths where they are inputs, else %0, %1, … */
import { inputNames, type Program, programLines, type Tensor } from "../core/index.ts";
import { type DotParams, dotOp } from "../core/ops/dot.ts";
import type { ListedOperation } from "./listing.ts";

export function listProgram(program: Program): ListedOperation[] {
  const names = inputNames(program);
  const labels = new Map<Tensor, string>(program.inputs.map((t, i) => [t, names[i]!]));
  let next = 0;
  const label = (t: Tensor): string => {
    const known = labels.get(t) ?? `%${next++}`;
    labels.set(t, known);
    return known;
  };
  const outputs = new Map<Tensor, string>(program.outputs.map((t, i) => [t, program.outputPaths?.[i] ?? `${i}`]));
  return programLines(program, "program", label).flatMap(({ text, eqn, operands, repeats }) => {
    if (eqn === undefined) return [];
    const results = eqn.outputs.flatMap((t) => outputs.get(t) ?? []);
    const [left] = operands;
    return {
      text: results.length === 0 ? text : `${text} → ${results.join(", ")}`,
      op: eqn.op.name,
      scope: eqn.scope,
      repeats,
      operands,
      results: eqn.outputs,
      ...(eqn.op === dotOp && { contracted: sizeOfDims(left!, (eqn.params as DotParams).contract[0]) }),
      // A loop moves what its body moves.
      ...(eqn.op.programs && { free: true }),
    };
  });
}

const sizeOfDims = ({ shape }: Tensor, dims: readonly number[]): number =>
  dims.reduce((product, dim) => product * shape[dim]!, 1);
