/**
 * Names of the benchmarks' peers, and what each stands for: a program and its settings. A name is checked before anything
 * compiles.
 */
import { UserError } from "../src/base/errors.ts";
import { nearest } from "../src/base/nearest.ts";
import { type PolicyName, policyNames, recipeByName } from "../src/quant/index.ts";
import type { Workload } from "./workload.ts";

export interface HalfbyteChoice {
  readonly program: "halfbyte";
  /** The peer's full name. */
  readonly name: string;
  /** Its linear layers' recipe; "bf16" where they compute in the workload's type. */
  readonly recipe: string;
  readonly policy: PolicyName;
  /** Optional native kernels used, or left out; absent: as the environment says. */
  readonly kernels?: Kernels;
}

export interface PythonChoice {
  readonly program: "python";
  readonly name: string;
  /** In the folder peers. */
  readonly script: string;
  readonly args: readonly string[];
}

export type PeerChoice = HalfbyteChoice | PythonChoice;

const kernelChoices = ["native", "plain"] as const;
type Kernels = (typeof kernelChoices)[number];

/** What PyTorch's peer can quantize its linear layers with: the names of peers/quantized_linears.py. */
export const torchQuantizations = [
  "torchao-fp8",
  "torchao-fp8-rowwise",
  "torchao-mxfp8",
  "torchao-mxfp4",
  "microxcaling-mxfp8",
  "microxcaling-mxfp4",
  "microxcaling-mxfp4-sr",
  "fouroversix-nvfp4",
  "fouroversix-nvfp4-4over6",
] as const;

type Settings = Readonly<Record<string, readonly string[]>>;

const setting = (option: string, ...values: string[]): [string, string[]][] =>
  values.map((value) => [value, [`--${option}`, value]]);

const allocators = setting("allocator", "system", "glibc", "jemalloc", "tcmalloc");

interface Framework {
  readonly script: string;
  readonly args: readonly string[];
  /** Settings that a name may add, as in torch-compile:sdpa+jemalloc. */
  readonly settings: Settings;
  /** The best settings where the script's own are not, by workload; "" for all others. */
  readonly best: Readonly<Record<string, readonly string[]>>;
}

const torchSettings: Settings = Object.fromEntries([
  ...setting("attention", "softmax", "sdpa", "rows"),
  ...setting("mode", "blocks", "max-autotune"),
  ...allocators,
]);

/** bench/peers/README.md says what was tried. */
const frameworks: Readonly<Record<string, Framework>> = {
  "torch-eager": {
    script: "torch_llama.py",
    args: ["--mode", "eager"],
    settings: torchSettings,
    best: { "": ["sdpa"] },
  },
  "torch-compile": {
    script: "torch_llama.py",
    args: [],
    settings: torchSettings,
    best: { "L8-long": ["sdpa"], "L8-fp32": ["sdpa"] },
  },
  jax: {
    script: "jax_llama.py",
    args: [],
    settings: Object.fromEntries([
      ...setting("attention", "einsum", "library"),
      ...setting("blocks", "unrolled", "scan"),
      ...setting("products", "compute", "wide"),
      ...allocators,
    ]),
    // With memory kept by glibc its heap grew past 14 GB in ten steps.
    best: { "": ["system"] },
  },
};

/** The peers of a workload where none are named; the first is the one the others are measured against. */
export function defaultPeers({ dtype, forward }: Workload): string[] {
  const quantized = dtype === "bfloat16" && !forward ? ["halfbyte-nvfp4:mlp_only"] : [];
  return ["halfbyte", ...quantized, ...Object.keys(frameworks)];
}

/**
 * A peer by its name: halfbyte[-RECIPE[:POLICY]][@native|@plain], torch-eager, torch-compile or jax with [:SETTING+SETTING], or
 * torch-LIBRARY-RECIPE.
 *
 * @throws UserError (E_BENCH, or what the recipe's name throws) for a name that is none, or can't run the workload
 */
export function peerByName(name: string, workload: Workload): PeerChoice {
  if (/^halfbyte(?=$|[-@])/.test(name)) return halfbyteChoice(name, workload);
  const quantized = torchQuantizations.find((known) => name === `torch-${known}`);
  if (quantized !== undefined) {
    refuseUnlessTraining(name, workload);
    // Steps of emulated layers take long: one before the measured ones is enough to have compiled.
    const args = ["--quantized", quantized, "--warmup", "1"];
    return { program: "python", name, script: "torch_llama.py", args };
  }
  const [kind = "", chosen] = name.split(":");
  const framework = frameworks[kind];
  if (framework === undefined) {
    const known = ["halfbyte", ...Object.keys(frameworks), ...torchQuantizations.map((each) => `torch-${each}`)];
    const near = nearest(name, known);
    const fix = near ? `did you mean ${near}?` : `known: halfbyte-RECIPE[:POLICY], ${known.join(", ")}`;
    throw new UserError("E_BENCH", `unknown peer "${name}"; ${fix}`);
  }
  const { script, args, settings, best } = framework;
  const given = chosen?.split("+") ?? [];
  for (const each of given) {
    if (settings[each]) continue;
    throw new UserError("E_BENCH", `peer "${name}": unknown setting "${each}"; ${kind} has ${Object.keys(settings)}`);
  }
  // A setting that is given comes after the best one of the same option and wins.
  const all = [...(best[workload.name] ?? best[""] ?? []), ...given];
  return { program: "python", name, script, args: [...args, ...all.flatMap((each) => settings[each]!)] };
}

function halfbyteChoice(name: string, workload: Workload): HalfbyteChoice {
  const [plain = "", kernels] = name.split("@");
  if (kernels !== undefined && !kernelChoices.some((known) => known === kernels)) {
    throw new UserError(
      "E_BENCH",
      `peer "${name}": unknown kernels "@${kernels}"; known: @${kernelChoices.join(", @")}`,
    );
  }
  const computed = workload.dtype === "float32" ? "fp32" : "bf16";
  const [recipe = "", policy = "all_linear"] = plain.slice("halfbyte-".length).split(":");
  const choice = {
    program: "halfbyte",
    policy: policy as PolicyName,
    ...(kernels && { kernels: kernels as Kernels }),
  } as const;
  if (recipe === "" || recipe === computed) {
    const fullName = `halfbyte-${computed}${kernels ? `@${kernels}` : ""}`;
    return { ...choice, name: fullName, recipe: "bf16" };
  }
  recipeByName(recipe);
  if (!policyNames.some((known) => known === policy)) {
    throw new UserError("E_BENCH", `peer "${name}": unknown policy "${policy}"; known: ${policyNames.join(", ")}`);
  }
  if (recipe === "bf16" || computed === "fp32") {
    throw new UserError(
      "E_BENCH",
      `peer "${name}" computes in BF16, and workload ${workload.name} in FP32; write halfbyte`,
    );
  }
  return { ...choice, name, recipe };
}

function refuseUnlessTraining(name: string, { name: workload, dtype, forward }: Workload): void {
  if (dtype === "bfloat16" && !forward) return;
  throw new UserError("E_BENCH", `peer "${name}" trains from BF16, and workload ${workload} is none of that`);
}

/** Whether a peer's losses must be those of the unquantized step. */
export const isUnquantized = (choice: PeerChoice): boolean =>
  choice.program === "halfbyte" ? choice.recipe === "bf16" : !choice.args.includes("--quantized");
