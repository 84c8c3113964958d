/** One use of an operation on given inputs, and running many of them compiled and interpreted. */
import fc from "fast-check";
import { ShapeError } from "../../../src/base/errors.ts";
import {
  type DType,
  dtypes,
  type HostArray,
  interpret,
  showSpec,
  type Tensor,
  toValues,
  trace,
} from "../../../src/core/index.ts";
import { disposeTree, fetchTree, type JitOptions, jit } from "../../../src/jit/index.ts";
import { mismatches, type Rule } from "./compare.ts";
import { withoutDenormals } from "./values.ts";

export interface OpCase {
  readonly label: string;
  readonly inputs: readonly HostArray[];
  readonly f: (...inputs: Tensor[]) => Tensor;
  readonly rule: Rule;
}

/** Another seed tries other inputs: HALFBYTE_TEST_SEED=7 npx vitest run test/core. */
const seed = Number(process.env.HALFBYTE_TEST_SEED ?? 1);

/** `count` draws of an arbitrary: the same for the same seed and label, others for another. */
export function draw<T>(label: string, arbitrary: fc.Arbitrary<T>, count = 1): T[] {
  const hash = [...label].reduce((h, c) => (Math.imul(h, 31) + c.charCodeAt(0)) | 0, 7);
  return fc.sample(arbitrary, { numRuns: count, seed: (hash + Math.imul(seed, 0x9e3779b1)) | 0 });
}

/** Whether f takes inputs of these dtypes: what it takes is what it does not refuse with a ShapeError at trace time. */
export function accepts({ f, inputs }: Pick<OpCase, "f" | "inputs">): boolean {
  try {
    trace(f, ...inputs);
    return true;
  } catch (error) {
    if (error instanceof ShapeError) return false;
    throw error;
  }
}

/** Cases whose labels differ in the dtype, for every dtype that f accepts. */
export function casesOf(
  label: string,
  f: (...inputs: Tensor[]) => Tensor,
  inputsOf: (dtype: DType) => readonly HostArray[],
  ruleOf: (dtype: DType) => Rule,
): OpCase[] {
  return dtypes
    .map((dtype): OpCase => ({ label: `${label} ${dtype}`, inputs: inputsOf(dtype), f, rule: ruleOf(dtype) }))
    .filter(accepts);
}

/** As `casesOf`, with `count` draws of an arbitrary for each dtype. */
export function drawnCasesOf(
  label: string,
  arbitrary: (dtype: DType) => fc.Arbitrary<Pick<OpCase, "f" | "inputs">>,
  ruleOf: (dtype: DType) => Rule,
  count: number,
): OpCase[] {
  return dtypes.flatMap((dtype) =>
    draw(`${label} ${dtype}`, arbitrary(dtype), count)
      .map((drawn): OpCase => ({ ...drawn, label: `${label} ${dtype}`, rule: ruleOf(dtype) }))
      .filter(accepts),
  );
}

function describeMismatch({ label, inputs, rule }: OpCase, got: HostArray, wanted: HostArray, at: number): string {
  const alike = inputs.every(({ data }) => data.length === got.data.length);
  const operands = alike
    ? inputs.map((host) => String(toValues(host).data[at])).join(", ")
    : inputs.map(showSpec).join(", ");
  const bound = rule.kind === "ulps" ? ` (bound ${rule.ulps} ulps)` : "";
  return `${label} of ${operands} at ${at}: compiled ${toValues(got).data[at]}, interpreted ${toValues(wanted).data[at]}${bound}`;
}

const numShown = 3;

/** Compiles all cases as one program (on a mesh: arguments and results whole), and lists where its results and the interpreter's differ. */
export async function differencesOf(
  cases: readonly OpCase[],
  options: Pick<JitOptions, "client" | "mesh"> = {},
): Promise<string[]> {
  const inputs = cases.map((c) => c.inputs);
  const run = (all: Tensor[][]) => cases.map((c, i) => c.f(...all[i]!));
  const compiled = jit(run, { name: "cases", ...options });
  const device = await compiled(inputs as never);
  const got: HostArray[] = await fetchTree(device);
  disposeTree(device);
  compiled.dispose();
  const wanted = interpret(run as never, inputs as never) as HostArray[];
  const flushed = inputs.map((list) => list.map(withoutDenormals));
  const alsoRight = interpret(run as never, flushed as never) as HostArray[];
  return cases.flatMap((c, i) => {
    const wrong = mismatches(c.rule, {
      got: got[i]!,
      accepted: [wanted[i]!, alsoRight[i]!],
      inputs: c.inputs,
    });
    if (typeof wrong === "string") return [`${c.label}: ${wrong}`];
    const more = wrong.length > numShown ? [`${c.label}: ${wrong.length} of ${got[i]!.data.length} differ`] : [];
    return [...wrong.slice(0, numShown).map((at) => describeMismatch(c, got[i]!, wanted[i]!, at)), ...more];
  });
}
