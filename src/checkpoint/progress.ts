/** What a checkpoint knows beside its arrays: state.json. */
import { z } from "zod";
import { UserError } from "../base/errors.ts";
import { readJson } from "./modelFiles.ts";

/** What computed a run. Earlier checkpoints lack some of it, and it has more that only people read. */
const provenanceSchema = z.looseObject({
  /** The recipe by its name, its switches as settings, and what each GEMM computes by it. */
  recipe: z.string(),
  switches: z.record(z.string(), z.union([z.string(), z.number()])).optional(),
  gemms: z.record(z.string(), z.unknown()).optional(),
  /** Where the recipe applies. */
  policy: z.string().optional(),
  firstLayersBf16: z.int().optional(),
  lastLayersBf16: z.int().optional(),
  /** "layers.*.attn.*=bf16", the last that fits counts. */
  overrides: z.array(z.string()).optional(),
  /** The precision of the steps from each phase's first on. */
  phases: z.array(z.object({ firstStep: z.int(), precision: z.string() })).optional(),
  seeds: z.record(z.string(), z.number()).optional(),
  /** The model's sizes by the keys of the settings. */
  model: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])).optional(),
  /** The native kernels in use: instruction set and hash, or "none". */
  nativeKernels: z.string().optional(),
});

const progressSchema = z.object({
  format: z.literal(1),
  /** Steps done; the next one is step + 1, and data and random draws follow from it. */
  step: z.int().nonnegative(),
  /** Steps that were skipped because something was not finite, overflows apart: since the last good one, and in all. */
  skippedInARow: z.int().nonnegative(),
  skippedSteps: z.int().nonnegative(),
  /** Steps that were skipped because a gradient overflowed float16, and the loss scale fell. */
  overflowSteps: z.int().nonnegative().default(0),
  /** Fingerprints of what the bits of the run depend on beside its settings. */
  data: z.record(z.string(), z.union([z.string(), z.number()])),
  /** Steps done in each precision, by its name, over all the times the run was resumed. */
  stepsByPrecision: z.record(z.string(), z.int().nonnegative()).optional(),
  provenance: provenanceSchema,
});

/**
 * Where the parameters' file says what it was computed with, for whoever has the file alone: it is an export as it is, under
 * Hugging Face's names, and what is made of it keeps these words.
 */
export const provenanceKey = "halfbyte.provenance";

/** Those words. */
export const exportedProvenance = ({ step, stepsByPrecision, provenance }: Progress) => ({
  step,
  ...(stepsByPrecision && { stepsByPrecision }),
  ...provenance,
});

/** What a checkpoint knows beside its arrays: state.json. */
export type Progress = Omit<z.infer<typeof progressSchema>, "format">;

/** @throws UserError where the file is not one */
export function readProgress(path: string): Progress {
  const parsed = progressSchema.safeParse(readJson(path));
  if (!parsed.success) {
    const issue = parsed.error.issues[0]!;
    throw new UserError("E_CHECKPOINT", `${path}: ${issue.path.join(".")}: ${issue.message}`);
  }
  const { format: _, ...progress } = parsed.data;
  return progress;
}
