/** The cost curves: which steps are measured, along what, and by which unit of work neighbours are compared. */
import { flopsPerToken } from "../src/metrics/index.ts";
import { type RematPolicyName, rematPolicies } from "../src/models/rematPolicies.ts";
import type { PointCost } from "./curvePoint.ts";
import { configOf, type Sizes } from "./workload.ts";

/** A cost whose growth along the curve is judged. */
export interface Measure {
  readonly label: string;
  readonly of: (cost: PointCost) => number | undefined;
  /** The same in process CPU time, which other work on the machine disturbs less; parts that keep fewer cores busy don't show in it. */
  readonly cpuOf?: (cost: PointCost) => number | undefined;
  /** The work that the cost should be in proportion to, at most. */
  readonly unit: string;
  readonly work: (sizes: Sizes) => number;
}

export interface CurvePoint {
  readonly x: number;
  readonly sizes: Sizes;
  /** In place of x, where it is no number. */
  readonly name?: RematPolicyName;
}

export const labelOf = ({ name, x }: Pick<CurvePoint, "name" | "x">): string => name ?? String(x);

export interface Curve {
  readonly name: string;
  readonly title: string;
  readonly xLabel: string;
  readonly points: readonly CurvePoint[];
  /** Absent where neighbours are no more or less of the same work. */
  readonly measure?: Measure;
  /** What is measured: steps in time, resident memory, or compiling alone. */
  readonly time: boolean;
  readonly memory: boolean;
  /** Whether blocks are unrolled, scanned, or both are measured. */
  readonly scan: readonly boolean[];
}

/** A step's time by its model FLOPs. */
const stepTime: Measure = {
  label: "seconds a step",
  of: ({ seconds }) => seconds,
  cpuOf: ({ cpuSeconds }) => cpuSeconds,
  unit: "FLOP",
  work: (sizes) => sizes.batch * sizes.seq * flopsPerToken(configOf(sizes), sizes.seq),
};

const compileTime: Measure = {
  label: "CPU seconds to compile",
  of: ({ compileCpuSeconds }) => compileCpuSeconds,
  unit: "block",
  work: ({ layers }) => layers,
};

const memoryGrowth: Measure = {
  label: "bytes a step",
  of: ({ grownBytes }) => grownBytes,
  unit: "token",
  work: ({ batch, seq }) => batch * seq,
};

/** Blocks of workload L8. Sizes that are no multiple of any tile stand among the even ones. */
const base: Sizes = { layers: 2, hidden: 512, heads: 8, kv: 4, ffn: 1408, vocab: 8192, batch: 2, seq: 512 };
/** Small blocks, so that compiling outweighs the rest. */
const smallBlocks: Sizes = { layers: 8, hidden: 64, heads: 2, kv: 1, ffn: 160, vocab: 256, batch: 2, seq: 64 };
const rematModel: Sizes = { layers: 8, hidden: 256, heads: 4, kv: 2, ffn: 704, vocab: 2048, batch: 4, seq: 256 };

const along = (sizes: Sizes, xs: readonly number[], change: (x: number) => Partial<Sizes>): CurvePoint[] =>
  xs.map((x) => ({ x, sizes: { ...sizes, ...change(x) } }));

/** The same number of heads at every width, so that head_dim grows with it. */
const widthOf = (hidden: number): Partial<Sizes> => ({ hidden, heads: 4, kv: 2, ffn: Math.round(hidden * 2.75) });

const timed = { time: true, memory: false, scan: [false], measure: stepTime } as const;

export const curves: readonly Curve[] = [
  {
    ...timed,
    name: "batch",
    title: "A step by its batch",
    xLabel: "sequences of 512 tokens",
    points: along(base, [1, 2, 3, 4, 7, 8], (batch) => ({ batch })),
  },
  {
    ...timed,
    name: "seq",
    title: "A step by the length of its sequence",
    xLabel: "tokens in the sequence",
    points: along(base, [128, 256, 500, 512, 513, 1024, 2048, 4096], (seq) => ({ seq, batch: 1 })),
  },
  {
    ...timed,
    name: "depth",
    title: "A step by depth",
    xLabel: "blocks",
    points: along(base, [1, 2, 4, 8, 16], (layers) => ({ layers })),
  },
  {
    ...timed,
    name: "width",
    title: "A step by width",
    xLabel: "hidden size",
    points: along(base, [128, 256, 512, 520, 768, 1024], widthOf),
  },
  {
    ...timed,
    name: "vocab",
    title: "A step by vocabulary",
    xLabel: "words",
    points: along(base, [2048, 8192, 32000, 49152, 49153, 50257], (vocab) => ({ vocab })),
  },
  {
    name: "compile",
    title: "Compiling by depth",
    xLabel: "blocks",
    points: along(smallBlocks, [4, 8, 16, 32], (layers) => ({ layers })),
    measure: compileTime,
    ...{ time: false, memory: false, scan: [false, true] },
  },
  {
    name: "memory",
    title: "Memory of a step by the length of its sequence",
    xLabel: "tokens in the sequence",
    points: along(base, [256, 512, 1024, 2048, 4096], (seq) => ({ seq, batch: 1 })),
    measure: memoryGrowth,
    ...{ time: false, memory: true, scan: [false] },
  },
  {
    name: "remat",
    title: "Memory and time of a step by remat policy",
    xLabel: "policy",
    points: Object.keys(rematPolicies).map((name, x) => ({ x, name: name as RematPolicyName, sizes: rematModel })),
    ...{ time: true, memory: true, scan: [false] },
  },
];
