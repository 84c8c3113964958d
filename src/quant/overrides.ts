/**
 * Precision by the path of a GEMM: rules over a policy. A path is layers.N.MODULE.GEMM ("layers.3.attn.q.wgrad"); a pattern
 * has * for any name or part of one, 0-3 for a range of layers, and means all that lies below it.
 */
import { UserError } from "../base/errors.ts";
import { nearest } from "../base/nearest.ts";
import { type GemmName, gemmNames } from "./precision.ts";
import { type Recipe, recipeByName } from "./recipeNames.ts";

/** The GEMMs that a pattern names compute as those of a recipe. */
export interface PrecisionOverride {
  /** "layers.*.attn.*", "layers.0-1.mlp.down.wgrad" */
  readonly path: string;
  readonly recipe: Recipe;
}

/** "PATH=RECIPE,PATH=RECIPE" as rules; of none, an empty list. @throws UserError */
export function parseOverrides(text: string): PrecisionOverride[] {
  if (text.includes("{") || text.includes(".json")) {
    throw new UserError(
      "E_POLICY",
      `precision_overrides=${text}: a recipe of your own can't be named in a rule: set it as quantization and let rules name recipes where it shall not count`,
    );
  }
  const parts = text.split(",").map((part) => part.trim());
  if (parts.length === 1 && parts[0] === "") return [];
  return parts.map((part) => {
    const [, path, name] = part.match(/^([^=\s]+)\s*=\s*([^=\s]+)$/) ?? [];
    if (path === undefined || name === undefined) {
      throw new UserError(
        "E_POLICY",
        `precision_overrides: "${part}" must be PATH=RECIPE, such as layers.*.attn.*=bf16; commas stand between rules`,
      );
    }
    try {
      return { path, recipe: recipeByName(name) };
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      throw new UserError(error.code, `precision_overrides: ${part}: ${error.message}`);
    }
  });
}

export const showOverride = ({ path, recipe }: PrecisionOverride): string => `${path}=${recipe.name}`;

/** The override that decides a GEMM: the last whose pattern fits. */
export type OverrideLookup = (module: string, layer: number, gemm: GemmName) => PrecisionOverride | undefined;

/** @param modules "attn.q", … of every layer @throws UserError for a pattern that names nothing, with the nearest that does */
export function overrideLookup(
  overrides: readonly PrecisionOverride[],
  modules: readonly string[],
  numLayers: number,
): OverrideLookup {
  const patterns = overrides.map((override) => {
    refuseUnmatched(override, modules, numLayers);
    return { override, segments: override.path.split(".").map(segmentTest) };
  });
  return (module, layer, gemm) => {
    const path = ["layers", `${layer}`, ...module.split("."), gemm];
    const fits = ({ segments }: (typeof patterns)[number]) => segments.every((test, i) => test(path[i]!));
    return patterns.findLast(fits)?.override;
  };
}

/** Whether one part of a path is meant by the same part of a pattern. */
function segmentTest(pattern: string): (segment: string) => boolean {
  const [, low, high] = pattern.match(/^(\d+)-(\d+)$/) ?? [];
  if (low !== undefined) return (segment) => Number(segment) >= Number(low) && Number(segment) <= Number(high);
  const literal = pattern.split("*").map((part) => part.replace(/[^\w]/g, "\\$&"));
  const whole = new RegExp(`^${literal.join(".*")}$`);
  return (segment) => whole.test(segment);
}

function refuseUnmatched({ path, recipe }: PrecisionOverride, modules: readonly string[], numLayers: number): void {
  const layers = Array.from({ length: numLayers }, (_, layer) => `${layer}`);
  const below = modules.flatMap((module) => gemmNames.map((gemm) => [...module.split("."), gemm]));
  const segments = path.split(".");
  const fail = (why: string): never => {
    throw new UserError(
      "E_POLICY",
      `precision_overrides: ${path}=${recipe.name} matches nothing: ${why}; paths are layers.N.MODULE.GEMM`,
    );
  };
  const [root = "", number = "*", ...rest] = segments;
  if (!segmentTest(root)("layers")) {
    const near = nearestPath(segments, below);
    fail(near === undefined ? `it begins with "${root}"` : `did you mean ${near}?`);
  }
  if (!layers.some(segmentTest(number))) fail(`the layers are 0 to ${numLayers - 1}`);
  let paths = below;
  for (const [i, segment] of rest.entries()) {
    const fitting = paths.filter((names) => names[i] !== undefined && segmentTest(segment)(names[i]));
    if (fitting.length === 0) {
      const known = [...new Set(paths.flatMap((names) => names[i] ?? []))];
      const near = nearest(segment, known);
      const before = segments.slice(0, i + 2).join(".");
      if (known.length === 0) fail(`nothing lies below ${before}`);
      fail(
        near === undefined
          ? `${before} has ${known.join(", ")}`
          : `did you mean ${[before, near, ...rest.slice(i + 1)].join(".")}?`,
      );
    }
    paths = fitting;
  }
}

/** For a path without its beginning: "attn.q" → layers.*.attn.q. */
function nearestPath(segments: readonly string[], below: readonly (readonly string[])[]): string | undefined {
  const candidates = below.flatMap((names) => names.map((_, i) => ["layers.*", ...names.slice(0, i + 1)].join(".")));
  const whole = ["layers.*", ...segments].join(".");
  return nearest(whole, ["layers.*", ...new Set(candidates)]);
}
