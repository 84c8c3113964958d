/** einsum against the sum it stands for, written as loops. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { einsum, hostArray, interpret, type Tensor } from "../../src/core/index.ts";

const sizes: Readonly<Record<string, number>> = { a: 2, b: 3, c: 1, d: 4, e: 2 };
const namesOf = (letters: readonly string[]) =>
  fc.shuffledSubarray([...letters], { maxLength: Math.min(4, letters.length) });

/** Σ over all names of the product of the operands, added up where the result's names agree. */
function bySummation(operands: readonly { names: readonly string[]; data: Float64Array }[], result: readonly string[]) {
  const all = Object.keys(sizes).filter((name) => operands.some(({ names }) => names.includes(name)));
  const at = (names: readonly string[], index: Readonly<Record<string, number>>) =>
    names.reduce((flat, name) => flat * sizes[name]! + index[name]!, 0);
  const total = new Float64Array(result.reduce((n, name) => n * sizes[name]!, 1));
  const visit = (depth: number, index: Record<string, number>): void => {
    const name = all[depth];
    if (name === undefined) {
      total[at(result, index)]! += operands.reduce((product, { names, data }) => product * data[at(names, index)]!, 1);
      return;
    }
    for (let i = 0; i < sizes[name]!; i++) visit(depth + 1, { ...index, [name]: i });
  };
  visit(0, {});
  return total;
}

it("is the sum of products over the names that the result has not", () => {
  const letters = Object.keys(sizes);
  const cases = fc
    .array(namesOf(letters), { minLength: 1, maxLength: 3 })
    .chain((lists) => fc.record({ lists: fc.constant(lists), result: namesOf([...new Set(lists.flat())]) }));
  fc.assert(
    fc.property(cases, ({ lists, result }) => {
      const operands = lists.map((names, k) => {
        const shape = names.map((name) => sizes[name]!);
        const data = Float64Array.from(
          { length: shape.reduce((n, size) => n * size, 1) },
          (_, i) => ((i * 7 + k) % 5) - 2,
        );
        return { names, host: hostArray(shape, "float64", data), data };
      });
      const equation = `${lists.map((names) => names.join("")).join(",")}->${result.join("")}`;
      const f = (...xs: Tensor[]) => einsum(equation, xs);
      expect(interpret(f, ...(operands.map(({ host }) => host) as never[])).data).toEqual(
        bySummation(operands, result),
      );
    }),
    { numRuns: 200, seed: 1 },
  );
});
