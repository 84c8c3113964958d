/** What a run asks of the machine, checked before anything is compiled. */
import { UserError } from "../base/errors.ts";
import type { Config } from "../config/index.ts";
import { defaultClient } from "../pjrt/index.ts";
import { stateBeyondMemory } from "../train/outOfMemory.ts";
import type { RunPlan } from "../train/plan.ts";

/** What is wrong with a run on this machine. @throws UserError where `hardware` asks for a plugin and there is none */
export function machineMistakes({ run }: Config, plan: RunPlan): UserError[] {
  const platform = run.hardware === "any" ? undefined : defaultClient().platformName;
  return [
    wrongHardware(run.hardware, platform),
    platform === undefined || platform === "cpu" ? stateBeyondMemory(plan) : undefined,
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
