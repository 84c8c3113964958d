/** `jit`: a function of Tensors becomes a function of device arrays, compiled once for each combination of shapes. */
import { HalfbyteError, UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import {
  type HostArray,
  isHostArray,
  type MapTree,
  type Mesh,
  type Program,
  type Spec,
  sameShape,
  showSpec,
  showTree,
  type Tensor,
  traceFunction,
  treeLeaves,
  treePaths,
  treeUnflatten,
} from "../core/index.ts";
import { type ListedOperation, lowerToStableHlo } from "../lower/index.ts";
import { type Client, type CompileOptions, DeviceArray, defaultClient, type Executable, put } from "../pjrt/index.ts";
import { meshSize, type PartitionTree, type Sharding, sameSharding } from "../sharding/index.ts";
import { compileCached } from "./compileCache.ts";
import { compileOptionsFor } from "./compileOptions.ts";
import { type Placed, placeArguments, placeResults } from "./placement.ts";
import { loweringFor } from "./platform.ts";

/** The same tree with a DeviceArray at each Tensor. */
export type OnDevice<T> = MapTree<T, Tensor, DeviceArray>;
/** Arguments of a compiled function: device arrays, or host arrays that are uploaded for the call and freed after it. */
export type Argument<T> = MapTree<T, Tensor, DeviceArray | HostArray>;

/** How a function is compiled and what its calls do with arguments. */
export interface JitOptions {
  /** Positions of arguments whose memory the call takes over or frees; their arrays can't be used afterwards. */
  readonly donate?: readonly number[];
  readonly name?: string;
  readonly client?: Client;
  readonly compileOptions?: CompileOptions;
  /** Collects the operations of what is lowered; the StableHLO then also holds their scopes and the inputs' names. */
  readonly listing?: ListedOperation[];
  /** Compiles for all devices of a mesh; XLA splits the program and inserts the collectives. */
  readonly mesh?: Mesh;
  /** How the arguments lie on the mesh: one entry an argument, a tree of Partitions or a prefix of it (default replicated). */
  readonly inShardings?: readonly PartitionTree[];
  /** The same for the result. */
  readonly outShardings?: PartitionTree;
}

/** A traced program and its text. */
export interface Lowered {
  readonly program: Program;
  readonly stablehlo: string;
}

/** A compiled function of device arrays. */
export interface Compiled<A extends readonly unknown[], R> {
  /**
   * Compiles where these shapes are new, dispatches, and resolves before the device is done; `toHost()` of a result
   * waits for it. At most 8 calls are in flight. On a CPU the plugin runs programs of fewer than 1,000 floating-point
   * operations, the body of a loop counted once, on the calling thread.
   */
  (...args: { [K in keyof A]: Argument<A[K]> }): Promise<OnDevice<R>>;
  /** The program and its StableHLO for trees of Specs (or of arrays). */
  lower(...specs: readonly unknown[]): Promise<Lowered>;
  /** Compiles for trees of Specs ahead of the first call. */
  compile(...specs: readonly unknown[]): Promise<Executable>;
  /** Frees the compiled programs. */
  dispose(): void;
}

interface Traced<R> extends Lowered {
  readonly result: R;
  readonly placed: Placed | undefined;
}

interface Entry<R> extends Traced<R> {
  readonly executable: Executable;
}

/**
 * Each donated input's output: the first free one of the same shape, dtype and sharding, which for a state is its
 * successor.
 */
function aliasesOf(
  { inputs, outputs }: Program,
  placed: Placed | undefined,
  donated: ReadonlySet<number>,
): (number | undefined)[] {
  const free = new Set(outputs.map((_, i) => i));
  return inputs.map((input, i) => {
    if (!donated.has(i)) return undefined;
    for (const j of free) {
      const output = outputs[j]!;
      if (output.dtype !== input.dtype || !sameShape(output.shape, input.shape)) continue;
      if (placed && !sameSharding(placed.inputs[i]!, placed.outputs[j]!)) continue;
      free.delete(j);
      return j;
    }
    return undefined;
  });
}

/** The compiled form of `f`, a function of trees of Tensors: compiled at the first call with new shapes, kept on disk. */
export function jit<A extends readonly unknown[], R>(f: (...args: A) => R, options: JitOptions = {}): Compiled<A, R> {
  const { donate = [], name = f.name || "main", compileOptions = {} } = options;
  checkOptions(options, name);
  const entries = new Map<string, Promise<Entry<R>>>();
  const client = () => options.client ?? defaultClient();
  const forMesh: CompileOptions = options.mesh
    ? { ...compileOptions, numPartitions: meshSize(options.mesh), useShardy: true }
    : compileOptions;

  const donatedLeaves = (args: readonly unknown[]): ReadonlySet<number> => {
    const flags = args.flatMap((arg, i) => treeLeaves(arg).map(() => donate.includes(i)));
    return new Set(flags.flatMap((flag, i) => (flag ? [i] : [])));
  };

  const lowerTraced = async (specs: readonly unknown[]): Promise<Traced<R>> => {
    const inputs = placeArguments(specs, { name, client: client(), options });
    const { program, result } = traceFunction(f, specs);
    const placed = inputs && { inputs, outputs: placeResults(result, { name, options }) };
    const aliases = aliasesOf(program, placed, donatedLeaves(specs));
    const platform = await loweringFor(client());
    const partitions = (list: readonly Sharding[]) => list.map(({ partition }) => partition);
    const placement = placed && {
      mesh: options.mesh!,
      inputs: partitions(placed.inputs),
      outputs: partitions(placed.outputs),
    };
    const stablehlo = lowerToStableHlo(program, {
      name,
      aliases,
      ...(platform && { platform }),
      ...(placement && { placement }),
      ...(options.listing && { listing: options.listing }),
    });
    return { program, result, placed, stablehlo };
  };

  const entryFor = (args: readonly unknown[]): Promise<Entry<R>> => {
    const key = showTree(args, (leaf) => showSpec(leaf as Spec));
    const known = entries.get(key);
    if (known !== undefined) return known;
    const entry = lowerTraced(args).then(async (lowered) => ({
      ...lowered,
      executable: await compileCached(client(), lowered.stablehlo, compileOptionsFor(client(), forMesh)),
    }));
    entries.set(key, entry);
    // A failed compilation is tried again at the next call.
    entry.catch(() => {
      if (entries.get(key) === entry) entries.delete(key);
    });
    return entry;
  };

  const checkArguments = (args: readonly unknown[], leaves: readonly { path: string; leaf: unknown }[]): void => {
    const beyond = donate.find((position) => !(position in args));
    if (beyond !== undefined)
      throw new UserError("E_DONATE", `${name}: donate names argument ${beyond}; the call has ${args.length}`);
    const donated = donatedLeaves(args);
    const seen = new Map<unknown, number>();
    leaves.forEach(({ path, leaf }, i) => {
      const first = seen.get(leaf) ?? i;
      seen.set(leaf, first);
      if (first === i || !(donated.has(i) || donated.has(first)) || !(leaf instanceof DeviceArray)) return;
      throw new UserError(
        "E_DONATE",
        `${name}: arguments ${leaves[first]!.path} and ${path} are the same array, which is donated; a donated array can be passed only once`,
      );
    });
    for (const { path, leaf } of leaves) {
      if (leaf instanceof DeviceArray) {
        if (leaf.isLive) continue;
        throw new HalfbyteError("E_DELETED", `${name}: argument ${path}: ${messageOf(() => leaf.buffers)}`);
      }
      if (isHostArray(leaf)) continue;
      throw new UserError(
        "E_ARGUMENT",
        `${name}: argument ${path} must be a DeviceArray or a HostArray; got ${typeof leaf}`,
      );
    }
  };

  const call = async (...args: readonly unknown[]): Promise<OnDevice<R>> => {
    const leaves = treePaths(args);
    checkArguments(args, leaves);
    const places = placeArguments(args, { name, client: client(), options });
    const uploads: DeviceArray[] = [];
    try {
      // Before anything is awaited: the caller may change a host array as soon as the call returns.
      const inputs = leaves.map(({ leaf }, i) => {
        if (leaf instanceof DeviceArray) return leaf;
        const uploaded = put(leaf as HostArray, client(), places?.[i]);
        uploads.push(uploaded);
        return uploaded;
      });
      const { executable, result, placed } = await entryFor(args);
      const { outputs } = await executable.execute(inputs, placed && { outputShardings: placed.outputs });
      // What no output took over is given up all the same.
      for (const i of donatedLeaves(args)) inputs[i]!.release(`donated to ${name}`);
      return treeUnflatten<OnDevice<R>>(result, outputs);
    } finally {
      for (const array of uploads) array.dispose();
    }
  };

  return Object.assign(call as Compiled<A, R>, {
    lower: async (...specs: readonly unknown[]): Promise<Lowered> => {
      const { program, stablehlo } = await lowerTraced(specs);
      return { program, stablehlo };
    },
    compile: async (...specs: readonly unknown[]): Promise<Executable> => (await entryFor(specs)).executable,
    dispose: (): void => {
      for (const entry of entries.values()) {
        // A compilation that fails has nothing to free.
        entry.then(
          ({ executable }) => executable.dispose(),
          () => {},
        );
      }
      entries.clear();
    },
  });
}

const optionNames: Readonly<Record<keyof JitOptions, true>> = {
  donate: true,
  name: true,
  client: true,
  compileOptions: true,
  listing: true,
  mesh: true,
  inShardings: true,
  outShardings: true,
};

/** What a caller without types may get wrong. @throws UserError */
function checkOptions(options: JitOptions, name: string): void {
  const unknown = Object.keys(options).find((key) => !Object.hasOwn(optionNames, key));
  if (unknown !== undefined) {
    const known = Object.keys(optionNames);
    const near = nearest(unknown, known);
    const fix = near === undefined ? `options are ${known.join(", ")}` : `did you mean ${near}?`;
    throw new UserError("E_OPTION", `jit(${name}): no option is called ${unknown}; ${fix}`);
  }
  for (const key of ["donate", "inShardings"] as const) {
    if (options[key] === undefined || Array.isArray(options[key])) continue;
    throw new UserError(
      "E_OPTION",
      `jit(${name}): ${key} is a list, one entry an argument: ${key === "donate" ? "{ donate: [0] }" : '{ inShardings: [partition("data")] }'}`,
    );
  }
}

function messageOf(f: () => unknown): string {
  try {
    f();
    return "";
  } catch (error) {
    return (error as Error).message;
  }
}
