import { describe, expect, it } from "vitest";
import { defaultPeers, isUnquantized, peerByName } from "../../bench/peerNames.ts";
import { allWorkloads, configOf, workloadByName } from "../../bench/workload.ts";
import { UserError } from "../../src/base/errors.ts";

const l8 = workloadByName("L8");
const fp32 = workloadByName("L8-fp32");

describe("workloads by name", () => {
  it("have endings for true FP32, the forward pass alone and a tied head", () => {
    expect(fp32).toEqual({ ...l8, name: "L8-fp32", dtype: "float32" });
    expect(workloadByName("tiny-tied-eval")).toMatchObject({ tied: true, forward: true, dtype: "bfloat16", layers: 2 });
    expect(configOf(workloadByName("S135"))).toMatchObject({ headDim: 64, tieEmbeddings: true, numLayers: 30 });
    expect(configOf(fp32).dtype).toBe("float32");
  });

  it("exist for all that `all` stands for, each with peers", () => {
    for (const name of allWorkloads) {
      const workload = workloadByName(name);
      const [base, ...others] = defaultPeers(workload).map((peer) => peerByName(peer, workload));
      expect(base?.name).toBe(workload.dtype === "float32" ? "halfbyte-fp32" : "halfbyte-bf16");
      expect(others.map((peer) => peer.name)).toEqual(expect.arrayContaining(["torch-eager", "torch-compile", "jax"]));
    }
  });

  it("give the nearest for an unknown one", () => {
    expect(() => workloadByName("S135-evl")).toThrow(/did you mean S135-eval\?/);
    expect(() => workloadByName("fp32")).toThrow(UserError);
  });
});

describe("peers by name", () => {
  it("are Halfbyte with a recipe, a policy and native kernels or none", () => {
    expect(peerByName("halfbyte", l8)).toMatchObject({ name: "halfbyte-bf16", recipe: "bf16" });
    expect(peerByName("halfbyte", l8)).not.toHaveProperty("kernels");
    expect(peerByName("halfbyte-bf16@plain", l8)).toMatchObject({ name: "halfbyte-bf16@plain", kernels: "plain" });
    expect(peerByName("halfbyte-nvfp4:mlp_only@native", l8)).toMatchObject({
      name: "halfbyte-nvfp4:mlp_only@native",
      recipe: "nvfp4",
      policy: "mlp_only",
      kernels: "native",
    });
    expect(isUnquantized(peerByName("halfbyte@native", fp32))).toBe(true);
    expect(isUnquantized(peerByName("halfbyte-mxfp8", l8))).toBe(false);
    expect(isUnquantized(peerByName("torch-torchao-mxfp8", l8))).toBe(false);
  });

  it("are Python programs with settings, of which a given one comes last", () => {
    const jax = peerByName("jax:library+jemalloc", l8);
    expect("args" in jax && jax.args.slice(-4)).toEqual(["--attention", "library", "--allocator", "jemalloc"]);
    expect(peerByName("torch-eager", l8)).toMatchObject({ script: "torch_llama.py" });
  });

  it.each([
    ["halfbyt", /did you mean halfbyte\?/],
    ["torch", /unknown peer "torch"/],
    ["halfbyte-bf16@fast", /known: @native, @plain/],
    ["halfbyte-nvfp4:mlp", /unknown policy "mlp"/],
    ["halfbyte-nvfp5", /nvfp4/],
    ["torch-compile:spda", /unknown setting "spda"/],
  ])("refuse %s", (name, message) => {
    expect(() => peerByName(name, l8)).toThrow(message);
    expect(() => peerByName(name, l8)).toThrow(UserError);
  });

  it("refuse what computes in another type than the workload", () => {
    for (const name of ["halfbyte-bf16", "halfbyte-nvfp4", "torch-torchao-fp8"])
      expect(() => peerByName(name, fp32)).toThrow(/BF16/);
  });
});
