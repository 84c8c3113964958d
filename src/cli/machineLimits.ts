/** What a run asks of the machine, checked before anything is compiled. */
import { totalmem } from "node:os";
import { UserError } from "../base/errors.ts";
import type { Config } from "../config/index.ts";
import { defaultClient } from "../pjrt/index.ts";
import { countParameters, type RunPlan } from "../train/plan.ts";

/** What is wrong with a run on this machine. @throws UserError where `hardware` asks for a plugin and there is none */
export function machineMistakes({ run }: Config, { model }: RunPlan): UserError[] {
  const platform = run.hardware === "any" ? undefined : defaultClient().platformName;
  return [
    wrongHardware(run.hardware, platform),
    platform === undefined || platform === "cpu" ? tooLarge(model) : undefined,
  ].filter((mistake) => mistake !== undefined);
}

const gpuPlatforms = ["cuda", "rocm", "gpu"];

/** @param platform of the loaded PJRT plugin */
export function wrongHardware(
  hardware: Config["run"]["hardware"],
  platform: string | undefined,
): UserError | undefined {
  if (platform === undefined || hardware === "any") return undefined;
  if (hardware === "gpu" ? gpuPlatforms.includes(platform) : platform === hardware) return undefined;
  const fix =
    hardware === "gpu"
      ? "set HALFBYTE_PJRT_PLUGIN to the path of a CUDA plugin, or set hardware=cpu"
      : "unset HALFBYTE_PJRT_PLUGIN, or set hardware=gpu";
  return new UserError("E_HARDWARE", `hardware=${hardware}: the PJRT plugin runs on ${platform}; ${fix}`);
}

/** Where weights, gradients and moments alone take more memory than there is. */
function tooLarge(model: RunPlan["model"]): UserError | undefined {
  const parameters = countParameters(model);
  const gigabytes = (bytes: number) => `${(bytes / 2 ** 30).toFixed(bytes < 2 ** 37 ? 1 : 0)} GB`;
  const needed = parameters * 4 * 4;
  if (needed <= totalmem()) return undefined;
  return new UserError(
    "E_MEMORY",
    `${parameters} parameters need ${gigabytes(needed)} for weights, gradients and moments; this machine has ${gigabytes(totalmem())}: lower vocab_size, emb_dim, mlp_dim or num_decoder_layers`,
  );
}
