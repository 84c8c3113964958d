/**
 * What XLA makes of workload L8's training step, as text (`vitest -u` rewrites it): every contraction with the form it runs
 * by, and every large copy with its reason. No contraction is on a slow path, nothing is converted there and back.
 */
import { afterEach, describe, expect, it, vi } from "vitest";
import { mainPlugin } from "../../scripts/plugin.mjs";
import { sizedConfig } from "../../src/cli/settings.ts";
import { planOf } from "../../src/cli/trainingRun.ts";
import { Client, locatePlugin, probeOneDnn } from "../../src/pjrt/index.ts";
import { stepHlo } from "../../src/train/stepProgram.ts";
import { contractionLines, type LargeCopy, largeCopies, roundTrips, slowContractions } from "./hloWaste.ts";

const largeCopyBytes = 1_000_000;

/** Why the program copies at a place; a copy elsewhere fails. */
const copyReasons: Readonly<Record<string, string>> = {
  "layers.N.attnNorm": "XLA's fused norm takes its weight spread over all rows",
  "layers.N.mlpNorm": "XLA's fused norm takes its weight spread over all rows",
  norm: "XLA's fused norm takes its weight spread over all rows",
  "layers.N.attn": "heads of a row block side by side; their results in the order of tokens",
  "layers.N.attn:backward": "heads of a row block side by side; gradients of keys and values grow by row blocks",
  head: "the rows of each chunk of the loss",
  "embed:backward": "zeros that the scatter adds to, and its rows in its layout",
};

/** A dot is fast along the rows of its left operand alone (`src/lower/cpu.ts`). */
const reasonOf = (place: string, { oneDnn }: Case): string | undefined =>
  copyReasons[place] ?? (!oneDnn && place.endsWith(":wgrad") ? "the left operand's rows, moved in tiles" : undefined);

const sizes = {
  ...{ vocab_size: "8192", emb_dim: "512", mlp_dim: "1408", num_query_heads: "8", num_kv_heads: "4", head_dim: "64" },
  ...{ max_target_length: "512", per_device_batch_size: "8", dataset_type: "synthetic" },
};

const nvfp4 = { quantization: "nvfp4", precision_policy: "mlp_only" };

interface Case {
  readonly name: string;
  readonly layers: number;
  readonly oneDnn: boolean;
  readonly settings: Readonly<Record<string, string>>;
}

const cases: readonly Case[] = [
  { name: "bf16", layers: 8, oneDnn: true, settings: {} },
  { name: "nvfp4-mlp", layers: 8, oneDnn: true, settings: nvfp4 },
  { name: "bf16-without-onednn", layers: 1, oneDnn: false, settings: {} },
];

/** The plain lowering: native kernels take whole parts of the program out of XLA's hands. */
async function clientFor(oneDnn: boolean): Promise<Client> {
  if (!oneDnn) vi.stubEnv("HALFBYTE_ONEDNN", "0");
  const client = new Client({ nativeKernels: "off" });
  await probeOneDnn(client);
  return client;
}

const copyLine = ({ times, bytes, result, place }: LargeCopy, reason?: string) =>
  `${String(times).padStart(5)} × ${(bytes / 1e6).toFixed(1).padStart(4)} MB  ${result.padEnd(18)} ${place}: ${reason}`;

/** Undefined, or why the texts don't hold here. */
async function otherMachine(): Promise<string | undefined> {
  const installed = locatePlugin().record?.version;
  if (installed !== mainPlugin.version) return `the texts are of plugin ${mainPlugin.version}, not ${installed}`;
  const client = await clientFor(true);
  return (await probeOneDnn(client)).bfloat16 ? undefined : "this processor has no BF16 products by oneDNN";
}

afterEach(() => vi.unstubAllEnvs());

describe("the optimized step of L8", async () => {
  const reason = await otherMachine();
  it.skipIf(reason)(`holds for this plugin and processor${reason ? `: ${reason}` : ""}`, () => {});
  it.skipIf(reason).each(cases)("$name", { timeout: 120_000 }, async (choice) => {
    const { name, layers, oneDnn, settings } = choice;
    const config = await sizedConfig(undefined, { ...sizes, num_decoder_layers: String(layers), ...settings });
    const { hlo } = await stepHlo(planOf(config), await clientFor(oneDnn));
    expect(slowContractions(hlo)).toEqual([]);
    expect(roundTrips(hlo)).toEqual([]);
    const copies = largeCopies(hlo, largeCopyBytes);
    expect(copies.filter(({ place }) => reasonOf(place, choice) === undefined)).toEqual([]);
    const moved = copies.reduce((sum, { times, bytes }) => sum + times * bytes, 0);
    const text = [
      `Contractions of a step of L8, ${layers} blocks, ${name}: how often, form, operands (ᵀ transposed), result, place`,
      ...contractionLines(hlo),
      "",
      `Copies of ${largeCopyBytes / 1e6} MB or more, ${(moved / 1e6).toFixed(0)} MB in all: how often, each, place, why`,
      ...copies.map((copy) => copyLine(copy, reasonOf(copy.place, choice))),
      "",
    ];
    await expect(text.join("\n")).toMatchFileSnapshot(`texts/l8-${name}.hlo.txt`);
  });
});
