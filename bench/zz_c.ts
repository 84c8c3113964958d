import { jit } from "../src/jit/index.ts";
import { configOf, workloadByName } from "./workload.ts";
import { makeTrainStep } from "../src/train/step.ts";
import { llamaSpecs } from "../src/models/hfMapping.ts";
import { spec } from "../src/core/index.ts";
import { recipeByName, resolvePrecision } from "../src/quant/index.ts";
import { defaultClient } from "../src/pjrt/index.ts";
const w = workloadByName("L8"); const config = configOf(w);
const { precision } = resolvePrecision({ recipe: recipeByName(process.argv[3] ?? "bf16"), numLayers: 8, firstLayersBf16: 0, lastLayersBf16: 0 });
const params = llamaSpecs(config); const count = spec([], "int32"); const tokens = spec([w.batch, w.seq], "int32");
const specs = [{ params, optimizer: { count, mu: params, nu: params } }, { tokens, targets: tokens }, { learningRate: spec([], "float32"), step: spec([], "uint32") }];
defaultClient();
const t = async (n: string, f: () => Promise<unknown>) => { const t0=performance.now(), c0=process.cpuUsage(); await f(); const c=process.cpuUsage(c0); console.log(n.padEnd(60), "wall", ((performance.now()-t0)/1000).toFixed(2), "cpu", ((c.user+c.system)/1e6).toFixed(2)); };
const opts = JSON.parse(process.argv[2] ?? "[{}]");
for (const envOverrides of opts) {
const step = jit(makeTrainStep({ config, precision, optimizer: { b1: 0.9, b2: 0.95, eps: 1e-8, weightDecay: 0.1 }, clippingThreshold: 1, roundingSeed: 0 } as never), { donate: [0], name: "train_step", compileOptions: { envOverrides } });
await t("lower", () => step.lower(...specs)); 
await t("compile "+JSON.stringify(envOverrides), () => step.compile(...specs)); step.dispose(); }
process.exit(0);
