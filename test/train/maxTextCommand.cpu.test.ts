/** The command that NVIDIA's post on NVFP4 with MaxText gives, typed here. */
import { existsSync, readFileSync } from "node:fs";
import { totalmem } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { temporaryFolder } from "../data/temporaryFiles.ts";
import { ensureBuilt, halfbyte } from "./halfbyte.ts";

beforeAll(ensureBuilt);

/** With the devices of one machine, and the values as a shell or a Python user writes them. */
const command: Readonly<Record<string, string>> = {
  run_name: "logits_nvfp4",
  hardware: "cpu",
  dataset_type: "synthetic",
  model_name: "llama3-8b",
  remat_policy: "'minimal_with_context_and_quantization'",
  scan_layers: "False",
  attention: "'cudnn_flash_te'",
  steps: "50",
  dtype: "bfloat16",
  max_target_length: "8192",
  per_device_batch_size: "4",
  ici_data_parallelism: "1",
  dcn_data_parallelism: "1",
  ici_fsdp_parallelism: "1",
  dcn_fsdp_parallelism: "1",
  profiler: "''",
  enable_checkpointing: "false",
  override_model_config: "True",
  gradient_accumulation_steps: "1",
  quantization: "te_nvfp4",
};

const small = {
  base_num_decoder_layers: "2",
  base_emb_dim: "64",
  base_mlp_dim: "128",
  base_num_query_heads: "4",
  base_num_kv_heads: "2",
  head_dim: "16",
  vocab_size: "256",
  max_target_length: "64",
  steps: "3",
};

const train = (folder: string, changes: Readonly<Record<string, string>> = {}) => {
  const settings = { ...command, base_output_directory: folder, ...changes };
  return halfbyte(["train", ...Object.entries(settings).map(([key, value]) => `${key}=${value}`)]);
};

describe("MaxText's command", () => {
  it("trains, with every key honoured or known to ask for nothing", async () => {
    const folder = temporaryFolder();
    const { exitCode, stdout, stderr } = await train(folder, small);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
    expect(stdout).toContain("note: te_nvfp4: mlp_only and no BF16 blocks");
    expect(stdout).toMatch(
      /^note: accepted, for they ask for nothing else .*ici_data_parallelism=1, .*dcn_fsdp_parallelism=1/m,
    );
    expect(stdout).toMatch(/^note: attention=cudnn_flash_te: Halfbyte's tiled causal attention runs/m);
    expect(stdout).toMatch(/blocks 0–1, mlp\.gate up down: .*e2m1/);
    expect(stdout).toMatch(/^completed step: 3, .*total_weights: 256, loss: /m);
    const run = join(folder, "logits_nvfp4");
    expect(JSON.parse(readFileSync(join(run, "config.json"), "utf8"))).toMatchObject({
      model_name: "llama3-8b",
      emb_dim: 64,
      rope_theta: 500000,
      remat_policy: "minimal_with_context_and_quantization",
      quantization: "te_nvfp4",
      precision_policy: "mlp_only",
      scan_layers: false,
      enable_checkpointing: false,
    });
    expect(existsSync(join(run, "checkpoints"))).toBe(false);
  });

  it.skipIf(totalmem() > 8_030_261_248 * 16)("in its full size needs more memory than there is: exit 2", async () => {
    const folder = temporaryFolder();
    const { exitCode, stdout, stderr } = await train(folder);
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: "" });
    expect(stderr).toMatch(
      /^halfbyte: 8,030,261,248 parameters need 128\.5 GB for their state; [^\n]*The largest buffers:\n/,
    );
    const onGpu = await train(folder, { hardware: "gpu" });
    expect(onGpu.exitCode).toBe(2);
    expect(onGpu.stderr).toMatch(
      /^halfbyte: 2 things are wrong:\n {2}hardware=gpu: the PJRT plugin runs on cpu; set HALFBYTE_PJRT_PLUGIN to the path of a CUDA plugin, or set hardware=cpu\n {2}8,030,261,248 parameters need [^\n]*\n {4}64\.2 GB {2}optimizer moments/,
    );
  });

  it("is told all at once what it asks for that is not there", async () => {
    const { exitCode, stderr } = await train(temporaryFolder(), {
      ici_fsdp_parallelism: "8",
      profiler: "nsys",
      dcn_data_parallelism: "2",
      async_checkpointing: "false",
      dataset_type: "tfds",
      override_model_config: "false",
      base_emb_dim: "64",
      quantization: "te_nvfp4_no_rth",
    });
    expect(exitCode).toBe(2);
    expect(stderr.trimEnd().split("\n")).toEqual([
      "halfbyte: 7 things are wrong:",
      expect.stringMatching(/^ {2}dataset_type=tfds: must be one of text, completion, .*, synthetic \(data: /),
      "  dcn_data_parallelism=2: a run uses one device so far: set 1 or leave it out",
      "  ici_fsdp_parallelism=8: a run uses one device so far: set 1 or leave it out",
      expect.stringMatching(
        /^ {2}profiler=nsys: must be .*xplane and nsys look inside XLA and the driver, which is not built/,
      ),
      '  quantization=te_nvfp4_no_rth: unknown recipe "te_nvfp4_no_rth". Did you mean "te_nvfp4_no_rht"?',
      "  async_checkpointing=false: checkpoints are always written while training goes on: leave it out",
      expect.stringMatching(
        /^ {2}base_emb_dim=64: model_name=llama3-8b sets the model's sizes; add override_model_config=true/,
      ),
    ]);
  });
});
